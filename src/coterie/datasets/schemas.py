"""The schemas of all datasets, in one place: names, types, and what each column means.

Columns are never renamed or retyped without a new SCHEMA_VERSION. Times are UTC, topic ids are spelled as
Kafka spells them, and what is not known is null: every column may be null for a reader, and `optional`
says of which of them it is ordinary.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from coterie.errors import InvalidArgument

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError("datasets need pyarrow: pip install 'coterie[arrow]'") from error

__all__ = [
    "DATASETS",
    "LIVE",
    "LOG",
    "SCHEMA_VERSION",
    "TIMESTAMP",
    "Column",
    "Dataset",
    "dataset",
    "pruned",
    "schema",
    "stored_schema",
]

#: Written beside stored tables; grows when a column changes its name, type or meaning.
SCHEMA_VERSION: Final = 1

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_STR: Final = pa.string()
_BOOL: Final = pa.bool_()
_I16: Final = pa.int16()
_I32: Final = pa.int32()
_I64: Final = pa.int64()


def _list(item: pa.DataType) -> pa.DataType:
    """A list whose items are named as Spark names them, so that it need not be rebuilt for Spark."""
    return pa.list_(pa.field("element", item))


_STRINGS: Final = _list(_STR)
_ASSIGNMENT: Final = _list(
    pa.struct([("topic", _STR), ("topic_id", _STR), ("partitions", _list(_I32))])
)
_MEMBERS: Final = _list(
    pa.struct(
        [
            ("member_id", _STR),
            ("instance_id", _STR),
            ("client_id", _STR),
            ("client_host", _STR),
            ("session_timeout_ms", _I32),
            ("rebalance_timeout_ms", _I32),
            ("subscription", _STRINGS),
            (
                "assignment",
                _list(pa.struct([("topic", _STR), ("partitions", _list(_I32))])),
            ),
        ]
    )
)


class Column(NamedTuple):
    """A column: its name, its Arrow type, what it means, and whether null is ordinary in it."""

    name: str
    type: pa.DataType
    meaning: str
    optional: bool = False


class Dataset(NamedTuple):
    """A dataset: `kind` is `log` (records of `__consumer_offsets`) or `live` (asked of brokers)."""

    name: str
    kind: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(column.name, column.type) for column in self.columns])


_PLACE: Final = (
    Column("partition", _I32, "Partition of `__consumer_offsets` that the record is in."),
    Column("offset", _I64, "Offset of the record in that partition."),
    Column("timestamp", TIMESTAMP, "When the record was written."),
)

_COMMITS: Final = Dataset(
    "commits",
    "log",
    "Every committed offset, and every removal of one, in the order of the log.",
    (
        *_PLACE,
        Column("group_id", _STR, "The group."),
        Column("topic", _STR, "The topic that the commit is about."),
        Column("topic_partition", _I32, "The topic's partition."),
        Column("committed_offset", _I64, "Next offset to read; null for a removal.", optional=True),
        Column("leader_epoch", _I32, "Leader epoch of the last record read.", optional=True),
        Column("metadata", _STR, "Free text of the committer; null for a removal.", optional=True),
        Column("commit_timestamp", TIMESTAMP, "When the group committed.", optional=True),
        Column("expire_timestamp", TIMESTAMP, "When it expires (value version 1).", optional=True),
        Column("topic_id", _STR, "Id of the topic (value version 4).", optional=True),
        Column("tombstone", _BOOL, "Whether the record removes the offset."),
        Column("key_version", _I16, "Type of the key: 0 or 1."),
        Column("value_version", _I16, "Version of the value; null for a removal.", optional=True),
        Column("producer_id", _I64, "The producer, if inside a transaction.", optional=True),
        Column(
            "outcome",
            _STR,
            "Of a transactional commit: `committed`, `aborted`, or `open` as far as was read.",
            optional=True,
        ),
    ),
)

_GROUP_EVENTS: Final = Dataset(
    "group_events",
    "log",
    "Every change of a group that is no commit: generations, epochs, members, assignments.",
    (
        *_PLACE,
        Column("group_id", _STR, "The group."),
        Column("group_type", _STR, "`classic`, `consumer`, `share` or `streams`."),
        Column("record", _STR, "Kafka's name of the record, such as `GroupMetadata`."),
        Column("tombstone", _BOOL, "Whether the record removes what an earlier one said."),
        Column("generation", _I32, "Generation of a classic group; else an epoch.", optional=True),
        Column("protocol_type", _STR, "Kind of protocol of a classic group.", optional=True),
        Column("protocol", _STR, "Assignor that the group or the member uses.", optional=True),
        Column("leader_id", _STR, "Member id of a classic group's leader.", optional=True),
        Column("state_timestamp", TIMESTAMP, "When the group came to this state.", optional=True),
        Column("member_id", _STR, "The member that the record is about.", optional=True),
        Column("instance_id", _STR, "Its instance id, if it is static.", optional=True),
        Column("client_id", _STR, "Its client id.", optional=True),
        Column("client_host", _STR, "Where it connects from.", optional=True),
        Column("rack_id", _STR, "Its rack.", optional=True),
        Column("member_epoch", _I32, "Its epoch.", optional=True),
        Column("previous_member_epoch", _I32, "Its epoch before.", optional=True),
        Column(
            "member_state",
            _STR,
            "`STABLE`, `UNREVOKED_PARTITIONS` and so on, as Kafka names them.",
            optional=True,
        ),
        Column("session_timeout_ms", _I32, "Its session timeout.", optional=True),
        Column("rebalance_timeout_ms", _I32, "Its rebalance timeout.", optional=True),
        Column("subscription", _STRINGS, "Topics subscribed to, or matched.", optional=True),
        Column("subscription_regex", _STR, "Pattern of topics subscribed to.", optional=True),
        Column(
            "assignment",
            _ASSIGNMENT,
            "Partitions by topic; of streams groups by subtopology, as the topic.",
            optional=True,
        ),
        Column("members", _MEMBERS, "Members of a classic group, in full.", optional=True),
    ),
)

_LOG_RECORDS: Final = Dataset(
    "log",
    "log",
    "Every record of `__consumer_offsets` as it is, markers of transactions included.",
    (
        *_PLACE,
        Column("key", pa.binary(), "The key's bytes.", optional=True),
        Column("value", pa.binary(), "The value's bytes; null for a tombstone.", optional=True),
        Column("record", _STR, "Kafka's name of the record.", optional=True),
        Column("key_version", _I16, "The number that the key begins with.", optional=True),
        Column("value_version", _I16, "The number that the value begins with.", optional=True),
        Column("group_id", _STR, "The group.", optional=True),
        Column("reason", _STR, "Why the record could not be read, if so.", optional=True),
    ),
)

_GROUPS: Final = Dataset(
    "groups",
    "live",
    "The groups of the cluster, one row each.",
    (
        Column("group_id", _STR, "The group."),
        Column("type", _STR, "`classic`, `consumer`, `share` or `streams`."),
        Column("state", _STR, "State, as Kafka spells it: `Stable`, `Empty` and so on."),
        Column("protocol_type", _STR, "Kind of protocol, such as `consumer`."),
        Column("protocol", _STR, "Protocol that the members agreed on.", optional=True),
        Column("assignor", _STR, "Assignor in use.", optional=True),
        Column("coordinator_id", _I32, "Node id of the coordinator."),
        Column("coordinator", _STR, "Its address, host:port.", optional=True),
        Column("generation", _I32, "Generation, or epoch of the group.", optional=True),
        Column("assignment_epoch", _I32, "Epoch of the target assignment.", optional=True),
        Column(
            "leader_id", _STR, "Member id of a classic group's leader (KIP-181).", optional=True
        ),
        Column("member_count", _I32, "How many members it has.", optional=True),
        Column("is_simple", _BOOL, "Whether it only keeps offsets and never had a protocol."),
        Column("authorized_operations", _STRINGS, "What the asker may do to it.", optional=True),
        Column("new_member_added", _BOOL, "KIP-181's field of that name.", optional=True),
        Column("received_consumer_offset_commits", _BOOL, "Likewise.", optional=True),
        Column("received_transactional_offset_commits", _BOOL, "Likewise.", optional=True),
        Column("source", _STR, "The API that described it.", optional=True),
    ),
)

_MEMBER_ROWS: Final = Dataset(
    "members",
    "live",
    "The members of groups, one row each.",
    (
        Column("group_id", _STR, "The group."),
        Column("member_id", _STR, "The member."),
        Column("instance_id", _STR, "Its instance id, if it is static.", optional=True),
        Column("client_id", _STR, "Its client id."),
        Column("host", _STR, "Where it connects from."),
        Column("rack_id", _STR, "Its rack.", optional=True),
        Column("member_epoch", _I32, "Its epoch.", optional=True),
        Column("subscription", _STRINGS, "Topics that it subscribes to.", optional=True),
        Column("subscription_regex", _STR, "Pattern that it subscribes to.", optional=True),
        Column("supported_protocols", _STRINGS, "Assignors that it offers.", optional=True),
        Column("assignment_count", _I32, "How many partitions it has."),
        Column("is_leader", _BOOL, "Whether it leads a classic group (KIP-181).", optional=True),
    ),
)

_ASSIGNMENTS: Final = Dataset(
    "assignments",
    "live",
    "Which member has which partition, or shall have it.",
    (
        Column("group_id", _STR, "The group."),
        Column("member_id", _STR, "The member."),
        Column("topic", _STR, "The topic."),
        Column("partition", _I32, "The topic's partition."),
        Column("target", _BOOL, "Whether it is what the member shall have (KIP-848), not has."),
    ),
)

_OFFSETS: Final = Dataset(
    "offsets",
    "live",
    "Committed offsets, ends of logs and lag: a row per group and partition.",
    (
        Column("group_id", _STR, "The group."),
        Column("topic", _STR, "The topic."),
        Column("partition", _I32, "The topic's partition."),
        Column("committed_offset", _I64, "Next offset to read.", optional=True),
        Column("leader_epoch", _I32, "Leader epoch of the last record read.", optional=True),
        Column("metadata", _STR, "Free text of the committer.", optional=True),
        Column("log_start", _I64, "First offset of the log.", optional=True),
        Column("log_end", _I64, "Offset of the next record.", optional=True),
        Column("lag", _I64, "log_end - committed_offset.", optional=True),
        Column("member_id", _STR, "The member that has the partition.", optional=True),
        Column("client_id", _STR, "Its client id.", optional=True),
        Column("host", _STR, "Where it connects from.", optional=True),
        Column("error", _STR, "Why a figure is missing.", optional=True),
    ),
)

_ERRORS: Final = Dataset(
    "errors",
    "live",
    "What could not be learned, and why; no rows if all went well.",
    (
        Column("scope", _STR, "`group`, `broker` or `partition`."),
        Column("name", _STR, "Which group, broker or partition."),
        Column("address", _STR, "A broker's address.", optional=True),
        Column("error", _STR, "The cause, in a sentence."),
    ),
)

_END_OFFSETS: Final = Dataset(
    "end_offsets",
    "live",
    "Where logs begin and end at this moment; kept, it is the history that lag in time needs.",
    (
        Column("taken_at", TIMESTAMP, "When it was asked."),
        Column("topic", _STR, "The topic."),
        Column("partition", _I32, "Its partition."),
        Column("log_start", _I64, "First offset of the log."),
        Column("log_end", _I64, "Offset of the next record."),
    ),
)

_ALL: Final = (
    _COMMITS, _GROUP_EVENTS, _LOG_RECORDS, _GROUPS, _MEMBER_ROWS, _ASSIGNMENTS, _OFFSETS, _ERRORS,
    _END_OFFSETS,
)  # fmt: skip

DATASETS: Final[Mapping[str, Dataset]] = MappingProxyType({each.name: each for each in _ALL})
LOG: Final = tuple(each.name for each in _ALL if each.kind == "log")
LIVE: Final = tuple(each.name for each in _ALL if each.kind == "live")


def dataset(name: str) -> Dataset:
    """A dataset by its name."""
    found = DATASETS.get(name)
    if found is None:
        near = difflib.get_close_matches(name, DATASETS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(DATASETS)}"
        raise InvalidArgument(f"there is no dataset {name!r}; {hint}")
    return found


def schema(name: str) -> pa.Schema:
    """The Arrow schema of a dataset."""
    return dataset(name).schema


def stored_schema(name: str) -> pa.Schema:
    """The Arrow schema of a dataset in a table of many snapshots: with the id and the time of each."""
    columns = schema(name)
    if dataset(name).kind == "log" or "taken_at" in columns.names:
        return columns
    return pa.schema([("snapshot_id", _STR), ("taken_at", TIMESTAMP), *columns])


def pruned(name: str, columns: Iterable[str] | None) -> pa.Schema:
    """The schema of some columns of a dataset, in the order asked for; of all without `columns`."""
    whole = schema(name)
    if columns is None:
        return whole
    wanted = list(columns)
    if not wanted:
        raise InvalidArgument(f"columns is empty; leave it out for all columns of {name!r}")
    for column in wanted:
        if column not in whole.names:
            near = difflib.get_close_matches(column, whole.names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(whole.names)}"
            raise InvalidArgument(f"dataset {name!r} has no column {column!r}; {hint}")
    return pa.schema([whole.field(column) for column in dict.fromkeys(wanted)])
