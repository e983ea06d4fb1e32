"""Live datasets: what brokers say of their groups now, asked by the admin client.

First a plan: which groups, and which coordinator has them, by as few requests as the selection allows. Then
each coordinator's groups are asked about, maybe each in another process. What could not be learned is in the
dataset `errors`, and fails the others unless `partial` allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from coterie.client import AdminClient
from coterie.client.blocking import BlockingAdminClient
from coterie.client.probing import OFFSETS_TOPIC, partition_of
from coterie.client.results import (
    GroupDescription,
    GroupLag,
    LogOffset,
    Member,
    Result,
    TopicPartition,
)
from coterie.datasets.schemas import LIVE, pruned
from coterie.datasets.selection import Selection
from coterie.error_codes import ErrorCode
from coterie.errors import (
    CoterieError,
    GroupIdNotFound,
    InvalidArgument,
    KafkaError,
    PartialAnswer,
)
from coterie.protocol.group_state import GroupState, GroupType

__all__ = ["LiveQuery", "LiveTask", "plan_live", "read_live", "read_task", "with_next_step"]

Row = dict[str, Any]
#: Groups by the address of their coordinator, which several may share, or which may not be known.
_ByAddress = dict[str | None, list[str]]

#: Groups of one task: a second of work, and answers of a few megabytes.
_GROUPS_PER_TASK: Final = 1000
#: Groups that `errors` asks about at once. It keeps little of the answers, so they may be larger; and each
#: time a broker that hangs is waited for.
_GROUPS_PER_LOOK: Final = 10_000
_ROWS_PER_BATCH: Final = 1 << 16
#: Committed offsets of topics that were deleted are ordinary; nothing of the answer is missing for them.
_NO_TOPIC: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name
#: A name that nobody has, or could have, is no error: it has no rows.
_NO_SUCH_TOPIC: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION}
)


class LiveQuery(msgspec.Struct, frozen=True):
    """A dataset, its columns, which groups, and whether an answer that is not whole will do."""

    dataset: str
    columns: tuple[str, ...] | None = None
    selection: Selection = Selection()
    partial: bool = False
    #: Whether `errors` also looks whether the log of groups can be read, as log datasets do.
    with_log: bool = True

    @property
    def schema(self) -> pa.Schema:
        if self.dataset not in LIVE:
            known = ", ".join(LIVE)
            raise InvalidArgument(f"{self.dataset!r} is no live dataset; there are {known}")
        return pruned(self.dataset, self.columns)

    @property
    def tolerant(self) -> bool:
        return self.partial or self.dataset == "errors"


class Trouble(msgspec.Struct, frozen=True):
    """A row of `errors`."""

    scope: str
    name: str
    address: str | None
    error: str


class LiveTask(msgspec.Struct, frozen=True):
    """Some groups of one coordinator, and what went wrong while they were looked for."""

    groups: tuple[str, ...] = ()
    coordinator: str | None = None
    troubles: tuple[Trouble, ...] = ()
    #: What it is made of: `errors` is one task, for groups share brokers and partitions, each told once.
    parts: tuple[LiveTask, ...] = ()


def read_live(properties: Mapping[str, Any], query: LiveQuery) -> Iterator[pa.RecordBatch]:
    """The rows of a live dataset, all asked from here."""
    with AdminClient.connect(dict(properties)) as admin:
        for task in plan_live(admin, query):
            yield from read_task(admin, query, task)


# -- the plan ---------------------------------------------------------------------------------------------


def plan_live(admin: BlockingAdminClient, query: LiveQuery) -> list[LiveTask]:
    """Which groups to ask which coordinators about."""
    query.schema  # noqa: B018 - raises for a dataset or a column that there is not
    selection = _known(query.selection)
    if selection.impossible:
        return []
    if query.dataset == "end_offsets":
        return [LiveTask()]
    found = _listed if selection.groups is None else _named
    by_address, troubles = found(admin, query, selection)
    tasks = list(_tasks(by_address))
    return [LiveTask(troubles=troubles, parts=tuple(tasks))] if query.dataset == "errors" else tasks


def _chooses(selection: Selection) -> bool:
    """Whether only some groups are asked about."""
    by_kind = selection.states is not None or selection.types is not None
    return by_kind or selection.chooses_groups


def _known(selection: Selection) -> Selection:
    """Names that can be asked for: with others nothing is found.

    What Kafka has no name for can be in an answer but not in a question, so all are asked for, and rows are
    chosen afterwards.
    """
    for field, kind in (("states", GroupState), ("types", GroupType)):
        wanted = getattr(selection, field)
        if wanted is not None and kind.UNKNOWN.value in wanted:
            selection = msgspec.structs.replace(selection, **{field: None})
        elif wanted is not None:
            selection = selection.narrowed(field, [each.value for each in kind])
    if selection.topics is not None:
        selection = selection.narrowed("topics", selection.topics - {""})
    return selection


def _listed(
    admin: BlockingAdminClient, query: LiveQuery, selection: Selection
) -> tuple[_ByAddress, tuple[Trouble, ...]]:
    """ListGroups, with the filters of KIP-518 and KIP-848."""
    listed = admin.list_groups(states=selection.states, types=selection.types, client_side=True)
    troubles = _troubles(listed, query)
    addresses = {node.node_id: node.address for node in admin.brokers()}
    by_address: _ByAddress = {}
    for each in listed:
        if selection.wants_group(each.group_id):
            by_address.setdefault(addresses.get(each.coordinator), []).append(each.group_id)
    return by_address, troubles


def _named(
    admin: BlockingAdminClient, query: LiveQuery, selection: Selection
) -> tuple[_ByAddress, tuple[Trouble, ...]]:
    """No list at all: coordinators by one FindCoordinator for all groups (KIP-699)."""
    names = sorted(filter(selection.wants_group, selection.groups or ()))
    # Kafka refuses an empty name, and a name that is not there has no rows.
    found = admin.find_coordinators([name for name in names if name])
    troubles = _troubles(found, query)
    by_address: _ByAddress = {}
    for name, node in found.items.items():
        by_address.setdefault(node.address, []).append(name)
    return by_address, troubles


def _tasks(by_address: _ByAddress) -> Iterator[LiveTask]:
    for address, groups in by_address.items():
        for first in range(0, len(groups), _GROUPS_PER_TASK):
            yield LiveTask(tuple(groups[first : first + _GROUPS_PER_TASK]), address)


# -- troubles ---------------------------------------------------------------------------------------------


def _troubles(
    result: Result[Any, Any], query: LiveQuery, scope: str | None = None
) -> tuple[Trouble, ...]:
    """What an answer lacks, as rows; an exception if the query does not tolerate it.

    The scope is what the keys are; they tell themselves, but for topics, which stand for their partitions.
    """
    errors = {
        key: error for key, error in result.errors.items() if not isinstance(error, GroupIdNotFound)
    }
    # Rows of lag have an error of their own, and a topic that is gone is none; see _partition_troubles.
    items = {key: item for key, item in result.items.items() if not isinstance(item, GroupLag)}
    lacking = Result(items, errors, result.broker_errors)
    if not query.tolerant:
        _insist(lacking)
    found = [Trouble("broker", str(e.node_id), e.address, e.cause) for e in result.broker_errors]
    found += [
        Trouble(scope or _scope(key), str(key), None, str(error)) for key, error in errors.items()
    ]
    return tuple(found)


def _insist(result: Result[Any, Any]) -> None:
    try:
        result.unwrap()
    except PartialAnswer as error:
        raise with_next_step(error) from None


def with_next_step(error: PartialAnswer) -> PartialAnswer:
    """The same, for those who may have less than the whole."""
    return PartialAnswer(
        f"{error} (option partial=allow gives what there is; the dataset 'errors' has the rest)"
    )


def _scope(key: object) -> str:
    return "partition" if isinstance(key, (TopicPartition, int)) else "group"


# -- rows -------------------------------------------------------------------------------------------------


def read_task(
    admin: BlockingAdminClient, query: LiveQuery, task: LiveTask
) -> Iterator[pa.RecordBatch]:
    """The rows of a task."""
    rows: Iterable[Row]
    if query.dataset == "end_offsets":
        rows = _end_offsets(admin, query)
    elif query.dataset == "errors":
        rows = _errors(admin, query, task)
    elif task.parts:
        for part in task.parts:
            yield from read_task(admin, query, part)
        return
    elif not task.groups:
        return
    elif query.dataset == "offsets":
        rows = _offsets(admin, query, task)
    else:
        rows = _described(admin, query, task)
    yield from _batches(query.schema, rows)


def _batches(schema: pa.Schema, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    found = list(rows)
    for first in range(0, len(found), _ROWS_PER_BATCH):
        part = found[first : first + _ROWS_PER_BATCH]
        arrays = [pa.array([row.get(f.name) for row in part], f.type) for f in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _described(admin: BlockingAdminClient, query: LiveQuery, task: LiveTask) -> Iterator[Row]:
    described = _describe(admin, query, task)
    for group in described:
        if not _wanted(group, query.selection):
            continue
        if query.dataset == "groups":
            yield _group(group, task.coordinator)
            continue
        for member in group.members:
            if query.dataset == "members":
                yield _member(group, member)
            else:
                yield from _assignments(group, member, query.selection)


def _describe(
    admin: BlockingAdminClient, query: LiveQuery, task: LiveTask
) -> Result[str, GroupDescription]:
    operations = query.dataset == "groups" and "authorized_operations" in query.schema.names
    described = admin.describe_groups(task.groups, authorized_operations=operations)
    _troubles(described, query)
    return described


def _wanted(group: GroupDescription | GroupLag, selection: Selection) -> bool:
    """Whether it still is what was asked for: a state may have changed since the list.

    Of a group that is not there, older brokers say that it is dead.
    """
    if group.state is GroupState.DEAD:
        return False
    return (selection.states is None or group.state.value in selection.states) and (
        selection.types is None or group.type.value in selection.types
    )


def _group(group: GroupDescription, coordinator: str | None) -> Row:
    operations = group.authorized_operations
    return {
        "group_id": group.group_id,
        "type": group.type.value,
        "state": group.state.value,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "assignor": group.assignor,
        "coordinator_id": group.coordinator,
        "coordinator": coordinator,
        "generation": group.generation if group.epoch is None else group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "leader_id": group.leader,
        "member_count": len(group.members),
        "is_simple": group.type is GroupType.CLASSIC and not group.protocol_type,
        "authorized_operations": None if operations is None else list(operations),
        "new_member_added": group.new_member_added,
        "received_consumer_offset_commits": group.received_consumer_offset_commits,
        "received_transactional_offset_commits": group.received_transactional_offset_commits,
        "source": "; ".join(dict.fromkeys(group.sources.values())) or "DescribeGroups",
    }


def _member(group: GroupDescription, member: Member) -> Row:
    leads = None if group.leader is None else member.member_id == group.leader
    return {
        "group_id": group.group_id,
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "rack_id": member.rack,
        "member_epoch": member.epoch,
        "subscription": None if member.subscription is None else list(member.subscription),
        "subscription_regex": member.subscription_regex,
        "supported_protocols": None
        if member.supported_protocols is None
        else list(member.supported_protocols),
        "assignment_count": len(member.assignment or ()),
        "is_leader": leads,
    }


def _assignments(group: GroupDescription, member: Member, selection: Selection) -> Iterator[Row]:
    for target, partitions in ((False, member.assignment), (True, member.target_assignment)):
        for each in partitions or ():
            if selection.wants_topic(each.topic):
                yield {
                    "group_id": group.group_id,
                    "member_id": member.member_id,
                    "topic": each.topic,
                    "partition": each.partition,
                    "target": target,
                }


def _lag(
    admin: BlockingAdminClient, query: LiveQuery, task: LiveTask, *, log_start: bool
) -> Result[str, GroupLag]:
    return admin.lag(task.groups, log_start=log_start, topics=_topics(query))


def _topics(query: LiveQuery) -> list[str] | None:
    """Topics to ask about. Kafka refuses an empty name, and there is no such topic."""
    topics = query.selection.topics
    return None if topics is None else sorted(filter(None, topics))


def _offsets(admin: BlockingAdminClient, query: LiveQuery, task: LiveTask) -> Iterator[Row]:
    result = _lag(admin, query, task, log_start="log_start" in query.schema.names)
    _troubles(result, query)
    if not query.tolerant and (missing := list(_partition_troubles(result))):
        lacking: dict[str, CoterieError] = {
            each.name: PartialAnswer(each.error) for each in missing
        }
        _insist(Result({}, lacking))
    for group in result:
        if not _wanted(group, query.selection):
            continue
        for each in group.partitions:
            yield {
                "group_id": group.group_id,
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "committed_offset": each.committed,
                "leader_epoch": each.leader_epoch,
                "metadata": each.metadata,
                "log_start": each.log_start,
                "log_end": each.log_end,
                "lag": each.lag,
                "member_id": each.member_id,
                "client_id": each.client_id,
                "host": each.host,
                "error": each.error,
            }


def _partition_troubles(result: Result[str, GroupLag]) -> Iterator[Trouble]:
    seen: set[TopicPartition] = set()
    for group in result:
        for each in group.partitions:
            if each.error is None or _NO_TOPIC in each.error or each.partition in seen:
                continue
            seen.add(each.partition)
            yield Trouble("partition", str(each.partition), None, each.error)


def _errors(admin: BlockingAdminClient, query: LiveQuery, task: LiveTask) -> Iterator[Row]:
    """Everything is asked for, and only what fails is told, each thing once."""
    found = list(task.troubles)
    groups = [group for part in task.parts for group in part.groups]
    for first in range(0, len(groups), _GROUPS_PER_LOOK):
        part = LiveTask(tuple(groups[first : first + _GROUPS_PER_LOOK]))
        result = _lag(admin, query, part, log_start=True)
        found += _troubles(result, query)
        found += _partition_troubles(result)
    found += _log_troubles(admin, query)
    once: dict[tuple[str, str], Trouble] = {}
    for each in found:
        once.setdefault((each.scope, each.name), each)
    yield from map(msgspec.structs.asdict, once.values())


def _log_troubles(admin: BlockingAdminClient, query: LiveQuery) -> tuple[Trouble, ...]:
    """Of all logs their ends, since no group may use one; of that of groups also its records.

    Those who ask about some groups are told of what these use.
    """
    log: list[TopicPartition] = []
    troubles: tuple[Trouble, ...] = ()
    if query.with_log:
        log, troubles = _partitions(admin, query, [OFFSETS_TOPIC], internal=True)
    if log and query.selection.groups is not None:
        names = filter(query.selection.wants_group, query.selection.groups)
        used = {partition_of(group, len(log)) for group in names}
        log = [each for each in log if each.partition in used]
    others: list[TopicPartition] = []
    if not _chooses(query.selection):
        others, more = _partitions(admin, query, _topics(query))
        troubles += more
    bounds = _bounds(admin, query, [*others, *log])
    # One record of each, or what comes with it: it is there, and may be read.
    spans = {
        each: (start, start + 1)
        for each in log
        if each in bounds.ends
        if (start := bounds.starts[each].offset) < bounds.ends[each].offset
    }
    with admin.fetch(spans, skip_deleted=True) as reading:
        try:
            for _ in reading:
                pass
        except CoterieError:
            if not reading.errors:
                raise
        unread = Result(reading.positions, reading.errors)
    return troubles + bounds.troubles + _troubles(unread, query)


def _end_offsets(admin: BlockingAdminClient, query: LiveQuery) -> list[Row]:
    """Starts and ends of logs; internal topics are left out."""
    partitions, _ = _partitions(admin, query, _topics(query))
    bounds = _bounds(admin, query, partitions)
    return [
        {
            "taken_at": bounds.taken_at,
            "topic": each.topic,
            "partition": each.partition,
            "log_start": bounds.starts[each].offset,
            "log_end": end.offset,
        }
        for each, end in bounds.ends.items.items()
    ]


class _Bounds(NamedTuple):
    """Where logs begin, and end at a time, and what could not be learned of it."""

    starts: Result[TopicPartition, LogOffset]
    taken_at: datetime
    ends: Result[TopicPartition, LogOffset]
    troubles: tuple[Trouble, ...]


def _bounds(
    admin: BlockingAdminClient, query: LiveQuery, partitions: list[TopicPartition]
) -> _Bounds:
    starts = admin.log_offsets(partitions, "earliest")
    troubles = _troubles(starts, query)
    taken_at = datetime.now(UTC)
    # What has no start is told, or has no row: no need to wait for its end.
    ends = admin.log_offsets(starts.items, "latest")
    return _Bounds(starts, taken_at, ends, troubles + _troubles(ends, query))


def _partitions(
    admin: BlockingAdminClient,
    query: LiveQuery,
    topics: list[str] | None,
    *,
    internal: bool = False,
) -> tuple[list[TopicPartition], tuple[Trouble, ...]]:
    """The partitions of all topics, or of those that are wanted and that there are."""
    described = admin.describe_topics(topics)
    errors = {
        topic: error
        for topic, error in described.errors.items()
        if not (isinstance(error, KafkaError) and error.code in _NO_SUCH_TOPIC)
    }
    lacking = Result(described.items, errors, described.broker_errors)
    found = [
        TopicPartition(topic.name, each.partition)
        for topic in described
        if topic.internal is internal
        for each in topic.partitions
    ]
    return found, _troubles(lacking, query, "partition")
