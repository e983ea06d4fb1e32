"""What the admin client answers: frozen values that print well and say what is missing.

An answer that is not whole is still an answer. `complete` says whether it is whole, `errors` and
`broker_errors` say what is missing and why, and `unwrap()` insists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

import msgspec

from coterie.client.partitions import TopicPartition
from coterie.errors import CoterieError, PartialAnswer
from coterie.protocol.group_state import GroupState, GroupType

__all__ = [
    "BrokerFailure",
    "Done",
    "GroupChange",
    "GroupDescription",
    "GroupLag",
    "GroupListing",
    "GroupOffsets",
    "LagResult",
    "LogOffset",
    "Member",
    "PartitionInfo",
    "PartitionLag",
    "PartitionOffset",
    "Result",
    "ScramUser",
    "TopicDescription",
    "TopicPartition",
]

#: How many causes a sentence has, and how many names of things that have one.
_MOST_CAUSES: Final = 5
_MOST_NAMES: Final = 3

K = TypeVar("K")
T = TypeVar("T")


class BrokerFailure(msgspec.Struct, frozen=True):
    """A broker that did not answer, and why."""

    node_id: int
    address: str
    cause: str

    def __str__(self) -> str:
        return f"broker {self.node_id} ({self.address}): {self.cause}"


class Result(msgspec.Struct, Generic[K, T], frozen=True):
    """Items by key, errors by key, and the brokers that failed."""

    items: dict[K, T]
    errors: dict[K, CoterieError] = {}
    broker_errors: tuple[BrokerFailure, ...] = ()
    #: The type of the items: an empty table has columns too.
    kind: type | None = None

    def of(self, kind: type) -> Result[K, T]:
        """The same, with the type of its items."""
        return msgspec.structs.replace(self, kind=kind)

    @property
    def complete(self) -> bool:
        """Whether nothing is missing, in the items neither."""
        return not self.errors and not self.broker_errors and next(self._gaps(), None) is None

    def unwrap(self) -> dict[K, T]:
        """The items, if nothing is missing; else one exception that says what is, and why."""
        if self.complete:
            return self.items
        gaps = list(self._gaps())
        if len(self.errors) == 1 and not self.broker_errors and not gaps:
            raise next(iter(self.errors.values()))
        missing = [*self.broker_errors, *self.errors.values(), *gaps]
        raise PartialAnswer("the answer is not complete: " + _by_cause(missing))

    def _gaps(self) -> Iterator[str]:
        """Partitions that an item says nothing of but an error."""
        if not isinstance(next(iter(self.items.values()), None), _WITH_PARTITIONS):
            return  # a list has a hundred thousand items, and none of them has parts
        for key, item in self.items.items():
            for partition, error in _errors_in(item).items():
                cause = error.removeprefix(f"partition {partition}: ")
                yield f"group {key!r}, partition {partition}: {cause}"

    def __iter__(self) -> Iterator[T]:
        return iter(self.items.values())

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, key: K) -> T:
        if key in self.errors:
            raise self.errors[key]
        return self.items[key]

    def __contains__(self, key: object) -> bool:
        return key in self.items

    def __repr__(self) -> str:
        missing = len(self.errors) + len(self.broker_errors) + sum(1 for _ in self._gaps())
        return f"<{len(self.items)} items, {'complete' if self.complete else f'{missing} errors'}>"

    def to_dicts(self) -> list[dict[str, Any]]:
        """The items as plain dicts."""
        from coterie.client.tables import row_of

        rows = []
        for key, item in self.items.items():
            row = row_of(item)
            if isinstance(key, TopicPartition):
                row = {"topic": key.topic, "partition": key.partition} | row
            elif hasattr(item, "node_id"):
                row = {"group_id": key} | row
            rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """The whole answer as a plain dict: also what is missing, and why."""
        return {
            "complete": self.complete,
            "items": self.to_dicts(),
            "errors": {str(key): str(error) for key, error in self.errors.items()},
            "broker_errors": [msgspec.structs.asdict(each) for each in self.broker_errors],
        }

    def to_json(self) -> bytes:
        """The whole answer as JSON; bytes are in base64."""
        return msgspec.json.encode(self.to_dict())

    def to_arrow(self) -> Any:
        """The items as an Arrow table, with what is missing in its schema's metadata; needs pyarrow."""
        from coterie.client import tables

        item = next(iter(self.items.values()), None)
        kind = self.kind or type(item)
        by: type | None = None
        if kind is LogOffset:
            by = TopicPartition
        elif "node_id" in getattr(kind, "_fields", ()):
            by = str
        whole = self.to_dict()
        notes = {
            f"coterie.{name}": msgspec.json.encode(whole[name]).decode()
            for name in ("complete", "errors", "broker_errors")
        }
        return tables.arrow_table(whole["items"], tables.arrow_schema(kind, by=by), notes)


def _by_cause(missing: Iterable[object]) -> str:
    """What is missing in a sentence: things with the same cause together, and not all of them by name."""
    # Some have one error for all of them, which names none.
    by_cause: dict[str, list[str]] = {}
    for text in dict.fromkeys(map(str, missing)):
        subject, colon, cause = text.partition(": ")
        # A cause of the cause names the thing again.
        by_cause.setdefault(colon + cause.replace(f"{subject}: ", ""), []).append(subject)
    parts = []
    for cause, names in list(by_cause.items())[:_MOST_CAUSES]:
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        parts.append(f"{', '.join(names[:_MOST_NAMES])}{more}{cause}")
    rest = sum(map(len, list(by_cause.values())[_MOST_CAUSES:]))
    return "; ".join([*parts, f"and {rest} more"] if rest else parts)


# Items have texts, numbers and containers of such, so they cannot form cycles. Without `gc=False` the garbage
# collector would run a dozen times for 10,000 groups.


class Done(msgspec.Struct, frozen=True, gc=False):
    """Something that was done to a thing of this name: deleted, created, removed."""

    name: str


class ScramUser(msgspec.Struct, frozen=True, gc=False):
    """A user that can log in by SCRAM: iterations by mechanism."""

    name: str
    mechanisms: dict[str, int]


class GroupListing(msgspec.Struct, frozen=True, gc=False):
    """A group in a list. What a broker is too old to return is None."""

    group_id: str
    protocol_type: str
    state: GroupState | None
    type: GroupType | None
    coordinator_id: int


class Member(msgspec.Struct, frozen=True, gc=False):
    """A member of a group. What is not known is None."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int | None = None
    subscription: tuple[str, ...] | None = None
    subscription_regex: str | None = None
    supported_protocols: tuple[str, ...] | None = None
    assignment: tuple[TopicPartition, ...] | None = None
    target_assignment: tuple[TopicPartition, ...] | None = None
    #: Streams: tasks by role, such as "active 0_1".
    tasks: tuple[str, ...] | None = None
    #: In a group of KIP-848: whether the member speaks the new protocol, or still the classic one.
    upgraded: bool | None = None
    #: Why subscription or assignment could not be read, with the bytes as they are.
    undecoded: str | None = None
    metadata: bytes = b""
    raw_assignment: bytes = b""


class GroupDescription(msgspec.Struct, frozen=True, gc=False):
    """A group in full, whatever protocol it runs. `sources` says where a field's value came from."""

    group_id: str
    type: GroupType
    state: GroupState
    protocol_type: str
    coordinator_id: int
    members: tuple[Member, ...] = ()
    protocol: str | None = None
    assignor: str | None = None
    generation: int | None = None
    epoch: int | None = None
    assignment_epoch: int | None = None
    leader_id: str | None = None
    new_member_added: bool | None = None
    received_consumer_offset_commits: bool | None = None
    received_transactional_offset_commits: bool | None = None
    authorized_operations: tuple[str, ...] | None = None
    sources: dict[str, str] = {}
    #: Why what `deep=True` looks for in the group's records is not known, if it is not.
    not_read: str | None = None


class PartitionOffset(msgspec.Struct, frozen=True, gc=False):
    """A committed offset."""

    offset: int = msgspec.field(name="committed_offset")
    leader_epoch: int | None = None
    metadata: str = ""


class GroupOffsets(msgspec.Struct, frozen=True, gc=False):
    """What a group has committed, and partitions whose offset could not be read."""

    group_id: str
    offsets: dict[TopicPartition, PartitionOffset]
    errors: dict[TopicPartition, str] = {}


class GroupChange(msgspec.Struct, frozen=True, gc=False):
    """What became of a change to a group's offsets, partition by partition."""

    group_id: str
    done: tuple[TopicPartition, ...]
    errors: dict[TopicPartition, str] = {}


class PartitionLag(msgspec.Struct, frozen=True, gc=False):
    """Lag of a group in one partition; a field is None where it is not known."""

    partition: TopicPartition
    committed_offset: int | None
    log_start: int | None
    log_end: int | None
    lag: int | None
    member_id: str | None = None
    error: str | None = None
    #: What was committed with the offset.
    leader_epoch: int | None = None
    metadata: str | None = None
    #: Of the member that has the partition.
    client_id: str | None = None
    host: str | None = None


class GroupLag(msgspec.Struct, frozen=True, gc=False):
    """Lag of a group by partition."""

    group_id: str
    type: GroupType
    state: GroupState
    partitions: tuple[PartitionLag, ...]

    @property
    def total(self) -> int:
        return sum(each.lag or 0 for each in self.partitions)

    @property
    def complete(self) -> bool:
        """Whether no partition has an error."""
        return all(each.error is None for each in self.partitions)


class LagResult(Result[str, GroupLag], frozen=True):
    """Lag by group, with the descriptions and the committed offsets that it was computed from."""

    descriptions: Result[str, GroupDescription] = Result({})
    offsets: Result[str, GroupOffsets] = Result({})


_WITH_PARTITIONS = (GroupOffsets, GroupChange, GroupLag)


def _errors_in(item: object) -> dict[TopicPartition, str]:
    if isinstance(item, GroupLag):
        return {each.partition: each.error for each in item.partitions if each.error is not None}
    return item.errors if isinstance(item, (GroupOffsets, GroupChange)) else {}


class LogOffset(msgspec.Struct, frozen=True, gc=False):
    """A place in a partition's log: offset and, where one was looked for, the record's timestamp."""

    offset: int
    timestamp: int | None = None
    leader_epoch: int | None = None


class PartitionInfo(msgspec.Struct, frozen=True, gc=False):
    """Leader and replicas of a partition; the leader is None while there is none."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class TopicDescription(msgspec.Struct, frozen=True, gc=False):
    """A topic and its partitions."""

    name: str
    internal: bool
    partitions: tuple[PartitionInfo, ...]
    #: A recreated topic has another one; None from brokers before 2.8 (KIP-516).
    topic_id: str | None = None
