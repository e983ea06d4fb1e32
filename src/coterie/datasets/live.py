"""Live datasets: the current state of groups, as brokers return it to the admin client.

First a plan: which groups, and which coordinators they have, by as few requests as the selection allows. Then
tasks ask about up to a thousand groups each, maybe in other processes, which take the coordinators from the
plan. What is missing is in the dataset `errors`, and fails the others unless `partial` allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import pyarrow as pa

from coterie.client import AdminClient
from coterie.client.blocking import BlockingAdminClient
from coterie.client.lag import lag_result, partitions_of, partitions_of_topics
from coterie.client.network import Node
from coterie.client.probing import OFFSETS_TOPIC
from coterie.client.results import (
    GroupDescription,
    GroupLag,
    GroupOffsets,
    LagResult,
    LogOffset,
    Result,
    TopicDescription,
    TopicPartition,
)
from coterie.datasets.live_rows import (
    Row,
    assignment_rows,
    end_offset_rows,
    group_row,
    member_row,
    offset_rows,
    record_batches,
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
from coterie.protocol.group_state import GroupState, GroupType, partition_for

__all__ = [
    "LiveQuery",
    "LiveTask",
    "Look",
    "Trouble",
    "look",
    "once",
    "plan_live",
    "read_live",
    "read_task",
    "with_next_step",
]

T = TypeVar("T")

#: Groups of one task: a second of work, and answers of a few megabytes.
_GROUPS_PER_TASK: Final = 1000
#: Groups that `errors` asks about at once. It keeps little of the answers, so they may be larger; and each
#: time a broker that hangs is waited for.
_GROUPS_PER_LOOK: Final = 10_000
#: Committed offsets of topics that were deleted are ordinary; nothing of the answer is missing for them.
_NO_TOPIC: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name
#: A name that does not exist, or cannot exist, is not an error: it has no rows.
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
            raise InvalidArgument(f"{self.dataset!r} is not a live dataset; there are {known}")
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
    """Some groups with what the plan has found of them, and what went wrong while it looked for groups."""

    #: Coordinators by group; a group may have moved since.
    coordinators: dict[str, Node] = {}
    #: Types of groups, as far as a list has returned them.
    types: dict[str, GroupType] = {}
    troubles: tuple[Trouble, ...] = ()

    @property
    def groups(self) -> list[str]:
        return [*self.coordinators]

    def part(self, groups: Iterable[str]) -> LiveTask:
        """The same for some of the groups."""
        coordinators = {group: self.coordinators[group] for group in groups}
        types = {group: self.types[group] for group in coordinators if group in self.types}
        return LiveTask(coordinators, types)


def read_live(properties: Mapping[str, Any], query: LiveQuery) -> Iterator[pa.RecordBatch]:
    """The rows of a live dataset, all asked from here."""
    with AdminClient.connect(dict(properties)) as admin:
        for task in plan_live(admin, query):
            yield from read_task(admin, query, task)


# -- the plan ---------------------------------------------------------------------------------------------


def plan_live(admin: BlockingAdminClient, query: LiveQuery) -> list[LiveTask]:
    """Which groups to ask which coordinators about."""
    query.schema  # noqa: B018 - raises for an unknown dataset or column
    selection = _known(query.selection)
    if selection.impossible:
        return []
    if query.dataset == "end_offsets":
        return [LiveTask()]
    found = _listed if selection.groups is None else _named
    everything = found(admin, query, selection)
    # One task for `errors`: groups share brokers and partitions, and each is a row once.
    return [everything] if query.dataset == "errors" else [*_split(everything)]


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


def _listed(admin: BlockingAdminClient, query: LiveQuery, selection: Selection) -> LiveTask:
    """ListGroups, with the filters of KIP-518 and KIP-848."""
    listed = admin.list_groups(states=selection.states, types=selection.types, client_side=True)
    nodes = {node.node_id: node for node in admin.nodes}
    wanted = [each for each in listed if selection.wants_group(each.group_id)]
    coordinators = {
        each.group_id: nodes.get(each.coordinator_id) or Node(each.coordinator_id, "", -1)
        for each in wanted
    }
    types = {each.group_id: each.type for each in wanted if each.type is not None}
    return LiveTask(coordinators, types, _troubles(listed, query))


def _named(admin: BlockingAdminClient, query: LiveQuery, selection: Selection) -> LiveTask:
    """No list at all: coordinators by one FindCoordinator for all groups (KIP-699)."""
    names = sorted(filter(selection.wants_group, selection.groups or ()))
    # Kafka refuses an empty name, and a name that does not exist has no rows.
    found = admin.find_coordinators([name for name in names if name])
    return LiveTask(found.items, troubles=_troubles(found, query))


def _split(task: LiveTask) -> Iterator[LiveTask]:
    """Tasks that ask few coordinators each."""
    groups = sorted(task.coordinators, key=lambda group: task.coordinators[group].node_id)
    for first in range(0, len(groups), _GROUPS_PER_TASK):
        yield task.part(groups[first : first + _GROUPS_PER_TASK])


# -- troubles ---------------------------------------------------------------------------------------------


def _troubles(
    result: Result[Any, Any], query: LiveQuery, scope: str | None = None
) -> tuple[Trouble, ...]:
    """What an answer lacks, as rows; an exception if the query does not tolerate it.

    The scope is the kind of the keys; it follows from them except for topics, which mean their partitions.
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
    admin.expect_coordinators(
        {group: node for group, node in task.coordinators.items() if node.host}, task.types
    )
    rows: Iterable[Row]
    if query.dataset == "end_offsets":
        rows = _end_offsets(admin, query)
    elif query.dataset == "errors":
        rows = _errors(admin, query, task)
    elif query.dataset == "offsets":
        rows = _offsets(admin, query, task)
    else:
        rows = _described(admin, query, task)
    # All of them first: what is missing fails the task before it has rows.
    yield from record_batches(query.schema, list(rows))


def _described(admin: BlockingAdminClient, query: LiveQuery, task: LiveTask) -> Iterator[Row]:
    described = _describe(admin, query, task)
    nodes = [*task.coordinators.values(), *admin.nodes]
    addresses = {node.node_id: node.address for node in nodes if node.host}
    for group in described:
        if not _wanted(group, query.selection):
            continue
        if query.dataset == "groups":
            yield group_row(group, addresses.get(group.coordinator_id))
            continue
        for member in group.members:
            if query.dataset == "members":
                yield member_row(group, member)
            else:
                yield from assignment_rows(group, member, query.selection)


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


def _topics(query: LiveQuery) -> list[str] | None:
    """Topics to ask about. Kafka refuses an empty name, and there is no such topic."""
    topics = query.selection.topics
    return None if topics is None else sorted(filter(None, topics))


def _offsets(admin: BlockingAdminClient, query: LiveQuery, task: LiveTask) -> Iterator[Row]:
    log_start = "log_start" in query.schema.names
    result = admin.lag(task.groups, log_start=log_start, topics=_topics(query))
    _troubles(result, query)
    if not query.tolerant and (missing := list(_partition_troubles(result))):
        lacking: dict[str, CoterieError] = {
            each.name: PartialAnswer(each.error) for each in missing
        }
        _insist(Result({}, lacking))
    for group in result:
        if _wanted(group, query.selection):
            yield from offset_rows(group)


def _partition_troubles(result: Result[str, GroupLag]) -> Iterator[Trouble]:
    seen: set[TopicPartition] = set()
    for group in result:
        for each in group.partitions:
            if each.error is None or _NO_TOPIC in each.error or each.partition in seen:
                continue
            seen.add(each.partition)
            yield Trouble("partition", str(each.partition), None, each.error)


def _errors(admin: BlockingAdminClient, query: LiveQuery, task: LiveTask) -> Iterator[Row]:
    """Everything is requested, and each failure is one row."""
    looked = look(admin, query, task.groups)
    found = [*task.troubles, *looked.troubles, *_unread(admin, query, looked)]
    yield from map(msgspec.structs.asdict, once(found))


def once(troubles: Iterable[Trouble]) -> list[Trouble]:
    """The first of those that are about the same thing."""
    found: dict[tuple[str, str], Trouble] = {}
    for each in troubles:
        found.setdefault((each.scope, each.name), each)
    return list(found.values())


class Look(NamedTuple):
    """All that one pass over a cluster has learned of some groups, and of logs."""

    lag: LagResult
    #: Partitions of ordinary topics, whether or not a group uses them.
    partitions: list[TopicPartition]
    #: Partitions of the log of groups that are to be read.
    log: list[TopicPartition]
    #: When ends of logs were asked for, after the offsets.
    taken_at: datetime
    starts: Result[TopicPartition, LogOffset]
    ends: Result[TopicPartition, LogOffset]
    troubles: tuple[Trouble, ...]


def look(
    admin: BlockingAdminClient,
    query: LiveQuery,
    groups: Sequence[str],
    known: Result[str, TopicDescription] | None = None,
) -> Look:
    """Ask each coordinator once about all of its groups, then each leader once about all of its logs.

    A query for all groups gets the ends of all logs, also of those that no group reads; a query for some
    groups gets the logs that they read. `known` are all topics, if the caller has them already.
    """
    others, log, troubles = _logs(admin, query, known)
    described, offsets = _described_with_offsets(admin, groups)
    topics = _topics(query)
    only = None
    if topics is not None:
        only = partitions_of_topics(frozenset(topics), described.items, offsets.items)
    used = partitions_of(described.items, offsets.items, only)
    taken_at = datetime.now(UTC)
    starts, ends = _bounds(admin, [*used, *others, *log])
    lag = lag_result(described, offsets, ends, starts, only)
    troubles += _troubles(lag, query)
    troubles += tuple(_partition_troubles(lag))
    there = {*others, *log}
    for each in (starts, ends):
        errors = {key: error for key, error in each.errors.items() if key in there}
        troubles += _troubles(Result(each.items, errors, each.broker_errors), query)
    return Look(lag, others, log, taken_at, starts, ends, troubles)


def _described_with_offsets(
    admin: BlockingAdminClient, groups: Sequence[str]
) -> tuple[Result[str, GroupDescription], Result[str, GroupOffsets]]:
    """By parts, each with the whole time of a call; one part unless there are very many groups."""
    described: Result[str, GroupDescription] = Result({})
    offsets: Result[str, GroupOffsets] = Result({})
    for first in range(0, len(groups), _GROUPS_PER_LOOK):
        part = groups[first : first + _GROUPS_PER_LOOK]
        more, theirs = admin.describe_with_offsets(part, authorized_operations=True)
        described, offsets = _joined(described, more), _joined(offsets, theirs)
    return described, offsets


def _joined(one: Result[str, T], other: Result[str, T]) -> Result[str, T]:
    failures = dict.fromkeys((*one.broker_errors, *other.broker_errors))
    return Result(one.items | other.items, one.errors | other.errors, tuple(failures))


def _logs(
    admin: BlockingAdminClient, query: LiveQuery, known: Result[str, TopicDescription] | None
) -> tuple[list[TopicPartition], list[TopicPartition], tuple[Trouble, ...]]:
    """Partitions to look at: those of ordinary topics, and those of the log of groups; by one request."""
    selection = query.selection
    all_topics = not _chooses(selection)
    topics = _topics(query) if all_topics else []
    if not all_topics and not query.with_log:
        return [], [], ()
    asked = None if topics is None else [*topics, *([OFFSETS_TOPIC] if query.with_log else [])]
    described = admin.describe_topics(asked) if known is None else known
    found, troubles = _partitions(described, query)
    others = [each for each, internal in found.items() if not internal]
    log = [each for each in found if query.with_log and each.topic == OFFSETS_TOPIC]
    if log and selection.groups is not None:
        names = filter(selection.wants_group, selection.groups)
        used = {partition_for(group, len(log)) for group in names}
        log = [each for each in log if each.partition in used]
    return others, log, troubles


def _unread(admin: BlockingAdminClient, query: LiveQuery, looked: Look) -> tuple[Trouble, ...]:
    """Partitions of the log of groups of which no record can be read."""
    # One record of each, or what comes with it: it is there, and may be read.
    spans = {
        each: (start, start + 1)
        for each in looked.log
        if each in looked.ends and each in looked.starts
        if (start := looked.starts[each].offset) < looked.ends[each].offset
    }
    with admin.fetch(spans, skip_deleted=True) as reading:
        try:
            for _ in reading:
                pass
        except CoterieError:
            if not reading.errors:
                raise
        return _troubles(Result(reading.positions, reading.errors), query)


def _end_offsets(admin: BlockingAdminClient, query: LiveQuery) -> Iterator[Row]:
    """Starts and ends of logs; internal topics are left out."""
    found, _ = _partitions(admin.describe_topics(_topics(query)), query)
    taken_at = datetime.now(UTC)
    starts, ends = _bounds(admin, [each for each, internal in found.items() if not internal])
    for each in (starts, ends):
        _troubles(each, query)
    yield from end_offset_rows(starts.items, ends.items, taken_at)


def _bounds(
    admin: BlockingAdminClient, partitions: Iterable[TopicPartition]
) -> tuple[Result[TopicPartition, LogOffset], Result[TopicPartition, LogOffset]]:
    """Where logs begin, and where they end."""
    starts, ends = admin.log_offsets_at(partitions, ("earliest", "latest"))
    return starts, ends


def _partitions(
    described: Result[str, TopicDescription], query: LiveQuery
) -> tuple[dict[TopicPartition, bool], tuple[Trouble, ...]]:
    """The partitions of topics that there are, and whether they are internal."""
    errors = {
        topic: error
        for topic, error in described.errors.items()
        if not (isinstance(error, KafkaError) and error.code in _NO_SUCH_TOPIC)
    }
    lacking = Result(described.items, errors, described.broker_errors)
    found = {
        TopicPartition(topic.name, each.partition): topic.internal
        for topic in described
        for each in topic.partitions
    }
    return found, _troubles(lacking, query, "partition")
