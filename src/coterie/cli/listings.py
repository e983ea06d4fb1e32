"""The listings about groups: every column of every output, declared once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from coterie.cli.output import Column, Listing, timestamp
from coterie.cli.selection import GroupRow

if TYPE_CHECKING:
    from coterie.client.results import Member, PartitionLag, PartitionOffset, TopicPartition
    from coterie.plans.execution import Outcome
    from coterie.plans.model import PlannedGroup, PlannedOffset

__all__ = [
    "DESCRIPTIONS",
    "GROUPS",
    "GROUP_LAG",
    "LAG",
    "MEMBERS",
    "OFFSETS",
    "PLANNED_GROUPS",
    "PLANNED_OFFSETS",
    "RESULTS",
    "TOPIC_LAG",
    "LagRow",
    "MemberRow",
    "OffsetRow",
    "lag_rows",
    "member_rows",
]

_STATES: Final = {"Stable": "green", "Empty": "dim", "Dead": "red"}


def state_style(state: Any) -> str | None:
    return _STATES.get(state, "yellow") if state is not None else None


def lag_style(lag: Any) -> str | None:
    return "yellow" if lag else None


def _result_style(result: Any) -> str | None:
    return {"done": "green", "unchanged": "dim", "refused": "yellow"}.get(result, "red")


# -- groups -----------------------------------------------------------------------------------------------

_GROUP: Final[Column[Any]] = Column("group", "string", "The group's id.", lambda each: each.group)
_STATE: Final[Column[Any]] = Column(
    "state",
    "string",
    "Where the group is in its life, in Kafka's words.",
    lambda each: each.state,
    nullable=True,
    style=state_style,
)
_TYPE: Final[Column[Any]] = Column(
    "type",
    "string",
    "Its protocol: classic, consumer (KIP-848), share or streams.",
    lambda each: each.type,
    nullable=True,
)
_COORDINATOR: Final[Column[GroupRow]] = Column(
    "coordinator",
    "integer",
    "The id of the broker that coordinates it.",
    lambda each: each.coordinator,
    nullable=True,
)
_PROTOCOL_TYPE: Final[Column[GroupRow]] = Column(
    "protocol_type",
    "string",
    "What kind of client runs it, such as consumer or connect; empty if none ever joined.",
    lambda each: each.protocol_type,
    show="wide",
    nullable=True,
)


def _lag(row: GroupRow) -> int | None:
    """The sum of what is known; a group that has committed nothing anywhere has no lag to tell."""
    partitions = row.lag.partitions if row.lag is not None else ()
    known = [each.lag for each in partitions if each.lag is not None]
    return sum(known) if known else None


GROUPS: Final[Listing[GroupRow]] = Listing(
    "groups",
    "Groups, one per row.",
    (
        _GROUP,
        _STATE,
        _TYPE,
        _COORDINATOR,
        _PROTOCOL_TYPE,
        Column(
            "members",
            "integer",
            "How many members it has.",
            lambda each: None if each.description is None else len(each.description.members),
            show="asked",
            nullable=True,
            needs="description",
        ),
        Column(
            "lag",
            "integer",
            "How many records it is behind, in all partitions together; null if none tells.",
            _lag,
            show="asked",
            nullable=True,
            style=lag_style,
            needs="lag",
        ),
        Column(
            "topics",
            "list",
            "What it has committed in, or reads.",
            lambda each: each.topics,
            show="asked",
            needs="topics",
        ),
        Column(
            "last_commit_at",
            "time",
            "When it last committed; null if the log knows of no commit.",
            lambda each: timestamp(each.last_commit),
            show="asked",
            nullable=True,
            needs="commits",
        ),
    ),
    sort=("group",),
)


# -- members ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemberRow:
    """A member of a group."""

    group: str
    member: Member


def member_rows(row: GroupRow, topics: set[str] | None = None) -> Iterator[MemberRow]:
    """The members; with topics, those that read one of them."""
    for member in row.description.members if row.description is not None else ():
        reads = set(member.subscription or ()) | {each.topic for each in member.assignment or ()}
        if not topics or reads & topics:
            yield MemberRow(row.group, member)


def _partitions(found: tuple[TopicPartition, ...] | None) -> list[str] | None:
    return None if found is None else [str(each) for each in found]


def _strategy(row: MemberRow) -> list[str] | None:
    return None if row.member.supported_protocols is None else list(row.member.supported_protocols)


def _subscription(row: MemberRow) -> list[str] | None:
    member = row.member
    if member.subscription_regex:
        return [*(member.subscription or ()), f"/{member.subscription_regex}/"]
    return None if member.subscription is None else list(member.subscription)


MEMBERS: Final[Listing[MemberRow]] = Listing(
    "members",
    "Members of groups, one per row.",
    (
        _GROUP,
        Column("member", "string", "The member's id.", lambda each: each.member.member_id),
        Column("client_id", "string", "The client's name.", lambda each: each.member.client_id),
        Column("host", "string", "Where it connects from.", lambda each: each.member.host),
        Column(
            "instance_id",
            "string",
            "The instance id of a static member.",
            lambda each: each.member.group_instance_id,
            show="wide",
            nullable=True,
        ),
        Column(
            "rack",
            "string",
            "Its rack, if it says.",
            lambda each: each.member.rack,
            show="wide",
            nullable=True,
        ),
        Column(
            "epoch",
            "integer",
            "The member's epoch (KIP-848).",
            lambda each: each.member.epoch,
            show="wide",
            nullable=True,
        ),
        Column(
            "assignment_strategy",
            "list",
            "The assignors that it offers (KIP-181); null if the broker does not tell.",
            _strategy,
            nullable=True,
        ),
        Column(
            "subscription",
            "list",
            "The topics that it subscribes to; a pattern is between slashes.",
            _subscription,
            nullable=True,
        ),
        Column(
            "partitions",
            "integer",
            "How many partitions it has.",
            lambda each: None if each.member.assignment is None else len(each.member.assignment),
            nullable=True,
        ),
        Column(
            "assignment",
            "list",
            "Its partitions.",
            lambda each: _partitions(each.member.assignment),
            nullable=True,
        ),
        Column(
            "target_assignment",
            "list",
            "The partitions that it shall have (KIP-848).",
            lambda each: _partitions(each.member.target_assignment),
            show="wide",
            nullable=True,
        ),
        Column(
            "tasks",
            "list",
            "Tasks by role (streams).",
            lambda each: None if each.member.tasks is None else list(each.member.tasks),
            show="wide",
            nullable=True,
        ),
        Column(
            "undecoded",
            "string",
            "Why subscription or assignment could not be read.",
            lambda each: each.member.undecoded,
            show="wide",
            nullable=True,
        ),
    ),
    sort=("group", "client_id", "member"),
)


# -- offsets and lag --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OffsetRow:
    """A committed offset."""

    group: str
    partition: TopicPartition
    offset: PartitionOffset
    committed_at: int | None


_TOPIC: Final[Column[Any]] = Column(
    "topic", "string", "The topic.", lambda each: each.partition.topic
)
_PARTITION: Final[Column[Any]] = Column(
    "partition", "integer", "The partition's number.", lambda each: each.partition.partition
)

OFFSETS: Final[Listing[OffsetRow]] = Listing(
    "offsets",
    "Committed offsets, one per row.",
    (
        _GROUP,
        _TOPIC,
        _PARTITION,
        Column("offset", "integer", "What the group reads next.", lambda each: each.offset.offset),
        Column(
            "leader_epoch",
            "integer",
            "The leader epoch of the last record that was read.",
            lambda each: each.offset.leader_epoch,
            show="wide",
            nullable=True,
        ),
        Column(
            "metadata",
            "string",
            "The text that was committed with it.",
            lambda each: each.offset.metadata,
            show="wide",
        ),
        Column(
            "committed_at",
            "time",
            "When it was committed.",
            lambda each: timestamp(each.committed_at),
            show="asked",
            nullable=True,
            needs="commits",
        ),
    ),
    sort=("group", "topic", "partition"),
)


@dataclass(frozen=True)
class LagRow:
    """How far a group is behind in a partition."""

    group: str
    state: str | None
    each: PartitionLag
    member: Member | None

    @property
    def partition(self) -> TopicPartition:
        return self.each.partition


def lag_rows(row: GroupRow) -> Iterator[LagRow]:
    members = {
        each.member_id: each for each in (row.description.members if row.description else ())
    }
    for each in row.lag.partitions if row.lag is not None else ():
        yield LagRow(row.group, row.state, each, members.get(each.member_id or ""))


LAG: Final[Listing[LagRow]] = Listing(
    "lag",
    "How far groups are behind, one partition per row.",
    (
        _GROUP,
        _TOPIC,
        _PARTITION,
        Column(
            "committed",
            "integer",
            "What the group reads next; null if it has committed nothing.",
            lambda row: row.each.committed,
            nullable=True,
        ),
        Column(
            "log_start",
            "integer",
            "The first offset that the log still has.",
            lambda row: row.each.log_start,
            show="wide",
            nullable=True,
            needs="log_start",
        ),
        Column(
            "log_end",
            "integer",
            "The end of the log.",
            lambda row: row.each.log_end,
            nullable=True,
        ),
        Column(
            "lag",
            "integer",
            "The records between; null if one of the two is not known.",
            lambda row: row.each.lag,
            nullable=True,
            style=lag_style,
        ),
        Column(
            "client_id",
            "string",
            "The client that has the partition now.",
            lambda row: None if row.member is None else row.member.client_id,
            nullable=True,
        ),
        Column(
            "host",
            "string",
            "Where that client connects from.",
            lambda row: None if row.member is None else row.member.host,
            nullable=True,
        ),
        Column(
            "member",
            "string",
            "That client's member id.",
            lambda row: row.each.member_id,
            show="wide",
            nullable=True,
        ),
        Column(
            "error",
            "string",
            "Why something is not known.",
            lambda row: row.each.error,
            show="wide",
            nullable=True,
        ),
    ),
    sort=("group", "topic", "partition"),
)


@dataclass(frozen=True)
class LagSum:
    """How far a group is behind in some partitions together."""

    group: str
    state: str | None
    topic: str
    rows: tuple[LagRow, ...]

    @property
    def known(self) -> list[int]:
        return [row.each.lag for row in self.rows if row.each.lag is not None]


def lag_sums(rows: Iterable[LagRow], *, by_topic: bool) -> list[LagSum]:
    found: dict[tuple[str, str], list[LagRow]] = defaultdict(list)
    for row in rows:
        found[row.group, row.partition.topic if by_topic else ""].append(row)
    return [
        LagSum(group, each[0].state, topic, tuple(each)) for (group, topic), each in found.items()
    ]


_SUMS: Final[tuple[Column[LagSum], ...]] = (
    Column(
        "lag",
        "integer",
        "The sum of what is known; null if nothing is.",
        lambda each: sum(each.known) if each.known else None,
        nullable=True,
        style=lag_style,
    ),
    Column(
        "max_lag",
        "integer",
        "That of the partition which is furthest behind.",
        lambda each: max(each.known, default=None),
        nullable=True,
    ),
    Column("partitions", "integer", "How many partitions.", lambda each: len(each.rows)),
    Column(
        "unknown",
        "integer",
        "Partitions whose lag is not known.",
        lambda each: len(each.rows) - len(each.known),
    ),
)
GROUP_LAG: Final[Listing[LagSum]] = Listing(
    "group-lag",
    "How far groups are behind, one group per row.",
    (_GROUP, _STATE, *_SUMS),
    ("group",),
)
TOPIC_LAG: Final[Listing[LagSum]] = Listing(
    "topic-lag",
    "How far groups are behind, one topic of a group per row.",
    (_GROUP, Column("topic", "string", "The topic.", lambda each: each.topic), *_SUMS),
    ("group", "topic"),
)


# -- descriptions -----------------------------------------------------------------------------------------


def _told(name: str) -> Any:
    return lambda row: getattr(row.description, name, None)


def _operations(row: GroupRow) -> list[str] | None:
    found = row.description.authorized_operations if row.description is not None else None
    return None if found is None else list(found)


DESCRIPTIONS: Final[Listing[GroupRow]] = Listing(
    "descriptions",
    "Groups in full, with their members and partitions.",
    (
        _GROUP,
        _STATE,
        _TYPE,
        _COORDINATOR,
        _PROTOCOL_TYPE,
        Column(
            "generation",
            "integer",
            "The generation of a classic group (KIP-181), or the epoch of another.",
            lambda row: (
                _told("generation")(row)
                if _told("generation")(row) is not None
                else _told("epoch")(row)
            ),
            nullable=True,
        ),
        Column(
            "assignment_epoch",
            "integer",
            "The epoch of the target assignment (KIP-848).",
            _told("assignment_epoch"),
            show="wide",
            nullable=True,
        ),
        Column(
            "leader",
            "string",
            "The member that assigns partitions in a classic group (KIP-181).",
            _told("leader"),
            nullable=True,
        ),
        Column(
            "assignment_strategy",
            "string",
            "The assignor in use.",
            _told("assignor"),
            nullable=True,
        ),
        Column(
            "subscription",
            "list",
            "The topics that its members subscribe to, all together.",
            lambda row: sorted(
                {each for one in member_rows(row) for each in _subscription(one) or ()}
            ),
        ),
        Column(
            "members_count",
            "integer",
            "How many members it has.",
            lambda row: len(row.description.members) if row.description is not None else 0,
        ),
        Column(
            "lag",
            "integer",
            "How many records it is behind, in all partitions together; null if none tells.",
            _lag,
            nullable=True,
            style=lag_style,
        ),
        Column(
            "authorized_operations",
            "list",
            "What you may do to it; null if the broker does not tell.",
            _operations,
            show="wide",
            nullable=True,
        ),
        Column(
            "not_read",
            "string",
            "Why a deep description does not know more.",
            _told("not_read"),
            show="wide",
            nullable=True,
        ),
        Column("members", "rows", "Its members.", member_rows, of=MEMBERS),
        Column("partitions", "rows", "Its partitions.", lag_rows, of=LAG),
    ),
    sort=("group",),
)


# -- plans and their results ------------------------------------------------------------------------------

PLANNED_GROUPS: Final[Listing[PlannedGroup]] = Listing(
    "planned-groups",
    "A plan to delete groups, one per row.",
    (
        _GROUP,
        _STATE,
        _TYPE,
        Column(
            "offsets",
            "integer",
            "How many committed offsets would go with it.",
            lambda each: None if each.offsets is None else len(each.offsets),
            nullable=True,
        ),
        Column("lag", "integer", "Its lag.", lambda each: each.lag, show="wide", nullable=True),
        Column(
            "last_commit_at",
            "time",
            "When it last committed, if that was asked for.",
            lambda each: (
                None
                if each.last_commit_at is None
                else timestamp(round(each.last_commit_at.timestamp() * 1000))
            ),
            nullable=True,
        ),
        Column(
            "note",
            "string",
            "What stands in the way.",
            lambda each: each.note or None,
            nullable=True,
            sparse=True,
        ),
    ),
)


@dataclass(frozen=True)
class PlannedOffsetRow:
    """A partition of a plan; none at all if the group cannot be planned for."""

    group: str
    state: str | None
    offset: PlannedOffset | None
    note: str


def planned_offset_rows(groups: Iterable[PlannedGroup]) -> Iterator[PlannedOffsetRow]:
    for group in groups:
        for each in group.offsets or ():
            yield PlannedOffsetRow(group.group, group.state, each, each.note)
        if not group.offsets:
            yield PlannedOffsetRow(group.group, group.state, None, group.note)


def _planned(name: str) -> Any:
    return lambda row: getattr(row.offset, name, None)


PLANNED_OFFSETS: Final[Listing[PlannedOffsetRow]] = Listing(
    "planned-offsets",
    "A plan to change offsets, one partition per row.",
    (
        _GROUP,
        Column("topic", "string", "The topic.", _planned("topic"), nullable=True),
        Column("partition", "integer", "The partition.", _planned("partition"), nullable=True),
        Column("current", "integer", "What is committed now.", _planned("current"), nullable=True),
        Column(
            "target",
            "integer",
            "What would be committed.",
            _planned("target"),
            nullable=True,
            sparse=True,
        ),
        Column(
            "note",
            "string",
            "What is odd about it.",
            lambda row: row.note or None,
            nullable=True,
            sparse=True,
        ),
    ),
)

RESULTS: Final[Listing[Outcome]] = Listing(
    "results",
    "What became of each item of a plan.",
    (
        _GROUP,
        Column(
            "topic", "string", "The topic.", lambda each: each.topic, nullable=True, sparse=True
        ),
        Column(
            "partition",
            "integer",
            "The partition.",
            lambda each: each.partition,
            nullable=True,
            sparse=True,
        ),
        Column(
            "before",
            "integer",
            "The offset before.",
            lambda each: each.before,
            nullable=True,
            sparse=True,
        ),
        Column(
            "after",
            "integer",
            "The offset now.",
            lambda each: each.after,
            nullable=True,
            sparse=True,
        ),
        Column(
            "result",
            "string",
            "done, unchanged, refused (it is not as the plan has it), or failed.",
            lambda each: each.result,
            style=_result_style,
        ),
        Column(
            "detail",
            "string",
            "Why, or what.",
            lambda each: each.detail or None,
            nullable=True,
            sparse=True,
        ),
    ),
)
