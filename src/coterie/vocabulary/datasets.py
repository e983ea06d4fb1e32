"""The columns of the datasets that Coterie reads from clusters, and of tables that the pipeline adds."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from coterie.vocabulary.columns import (
    ASSIGNMENT_COUNT,
    ASSIGNMENT_EPOCH,
    ASSIGNOR,
    AUTHORIZED_OPERATIONS,
    CLIENT_ID,
    COMMIT_TIMESTAMP,
    COMMITTED_OFFSET,
    COORDINATOR,
    COORDINATOR_ID,
    ERROR,
    GENERATION,
    GROUP_ID,
    HOST,
    INSTANCE_ID,
    LAG,
    LEADER_EPOCH,
    LEADER_ID,
    LOG_END,
    LOG_START,
    MEMBER_COUNT,
    MEMBER_EPOCH,
    MEMBER_ID,
    METADATA,
    PARTITION,
    PROTOCOL,
    PROTOCOL_TYPE,
    RACK_ID,
    STATE,
    SUBSCRIPTION,
    SUBSCRIPTION_REGEX,
    SUPPORTED_PROTOCOLS,
    TOPIC,
    TYPE,
    Column,
    Table,
)

__all__ = [
    "DATASETS",
    "GAPS",
    "LAST_BUILD",
    "LIVE",
    "LOG",
    "SNAPSHOTS",
    "SNAPSHOT_COLUMNS",
]

_ASSIGNMENT: Final = "array<struct<topic:string,topic_id:string,partitions:array<int>>>"
_MEMBERS: Final = (
    "array<struct<member_id:string,instance_id:string,client_id:string,client_host:string,"
    "session_timeout_ms:int,rebalance_timeout_ms:int,subscription:array<string>,assignment:array<struct<topic:string,partitions:array<int>>>>>"
)
_RECORD: Final = (
    Column("partition", "int", "Partition of `__consumer_offsets` that the record is in."),
    Column("offset", "bigint", "Offset of the record in that partition."),
    Column("timestamp", "timestamp", "When the record was written."),
)

_COMMITS: Final = Table(
    "commits",
    "Every committed offset, and every removal of one, in the order of the log.",
    (
        *_RECORD,
        GROUP_ID,
        TOPIC.here("The topic that the commit is about."),
        Column("topic_partition", "int", "The topic's partition."),
        COMMITTED_OFFSET.here("Next offset to read; null for a removal.", optional=True),
        LEADER_EPOCH.here(optional=True),
        METADATA.here("Free text of the committer; null for a removal.", optional=True),
        COMMIT_TIMESTAMP.here(optional=True),
        Column(
            "expire_timestamp", "timestamp", "When it expires (value version 1).", optional=True
        ),
        Column("topic_id", "string", "Id of the topic (value version 4).", optional=True),
        Column("tombstone", "boolean", "Whether the record removes the offset."),
        Column("key_version", "smallint", "Type of the key: 0 or 1."),
        Column(
            "value_version", "smallint", "Version of the value; null for a removal.", optional=True
        ),
        Column("producer_id", "bigint", "The producer, if inside a transaction.", optional=True),
        Column(
            "outcome",
            "string",
            "Of a transactional commit: `committed`, `aborted`, or `open` as far as was read.",
            optional=True,
        ),
    ),
)

_GROUP_EVENTS: Final = Table(
    "group_events",
    "Every change of a group that is no commit: generations, epochs, members, assignments.",
    (
        *_RECORD,
        GROUP_ID,
        Column("group_type", "string", "`classic`, `consumer`, `share` or `streams`."),
        Column("record", "string", "Kafka's name of the record, such as `GroupMetadata`."),
        Column("tombstone", "boolean", "Whether the record removes what an earlier one said."),
        GENERATION.here(optional=True),
        PROTOCOL_TYPE.here("Kind of protocol of a classic group.", optional=True),
        PROTOCOL.here("Assignor that the group or the member uses.", optional=True),
        LEADER_ID.here(optional=True),
        Column("state_timestamp", "timestamp", "When the group came to this state.", optional=True),
        MEMBER_ID.here("The member that the record is about.", optional=True),
        INSTANCE_ID.here(optional=True),
        CLIENT_ID.here(optional=True),
        Column("client_host", "string", "Where it connects from.", optional=True),
        RACK_ID.here(optional=True),
        MEMBER_EPOCH.here(optional=True),
        Column("previous_member_epoch", "int", "Its epoch before.", optional=True),
        Column(
            "member_state",
            "string",
            "`STABLE`, `UNREVOKED_PARTITIONS` and so on, as Kafka names them.",
            optional=True,
        ),
        Column("session_timeout_ms", "int", "Its session timeout.", optional=True),
        Column("rebalance_timeout_ms", "int", "Its rebalance timeout.", optional=True),
        SUBSCRIPTION.here("Topics subscribed to, or matched.", optional=True),
        SUBSCRIPTION_REGEX.here(optional=True),
        Column(
            "assignment",
            _ASSIGNMENT,
            "Partitions by topic; of streams groups by subtopology, as the topic.",
            optional=True,
        ),
        Column("members", _MEMBERS, "Members of a classic group, in full.", optional=True),
    ),
)

_LOG_RECORDS: Final = Table(
    "log",
    "Every record of `__consumer_offsets` as it is, markers of transactions included.",
    (
        *_RECORD,
        Column("key", "binary", "The key's bytes.", optional=True),
        Column("value", "binary", "The value's bytes; null for a tombstone.", optional=True),
        Column("record", "string", "Kafka's name of the record.", optional=True),
        Column("key_version", "smallint", "The number that the key begins with.", optional=True),
        Column(
            "value_version", "smallint", "The number that the value begins with.", optional=True
        ),
        GROUP_ID.here(optional=True),
        Column("reason", "string", "Why the record could not be read, if so.", optional=True),
    ),
)

_GROUPS: Final = Table(
    "groups",
    "The groups of the cluster, one row each.",
    (
        GROUP_ID,
        TYPE,
        STATE,
        PROTOCOL_TYPE,
        PROTOCOL.here(optional=True),
        ASSIGNOR.here(optional=True),
        COORDINATOR_ID,
        COORDINATOR.here(optional=True),
        GENERATION.here(optional=True),
        ASSIGNMENT_EPOCH.here(optional=True),
        LEADER_ID.here(optional=True),
        MEMBER_COUNT.here(optional=True),
        Column("is_simple", "boolean", "Whether it only keeps offsets and never had a protocol."),
        AUTHORIZED_OPERATIONS.here(optional=True),
        Column("new_member_added", "boolean", "KIP-181's field of that name.", optional=True),
        Column("received_consumer_offset_commits", "boolean", "Likewise.", optional=True),
        Column("received_transactional_offset_commits", "boolean", "Likewise.", optional=True),
        Column("source", "string", "The API that described it.", optional=True),
    ),
)

_MEMBER_ROWS: Final = Table(
    "members",
    "The members of groups, one row each.",
    (
        GROUP_ID,
        MEMBER_ID,
        INSTANCE_ID.here(optional=True),
        CLIENT_ID,
        HOST,
        RACK_ID.here(optional=True),
        MEMBER_EPOCH.here(optional=True),
        SUBSCRIPTION.here(optional=True),
        SUBSCRIPTION_REGEX.here(optional=True),
        SUPPORTED_PROTOCOLS.here(optional=True),
        ASSIGNMENT_COUNT,
        Column(
            "is_leader", "boolean", "Whether it leads a classic group (KIP-181).", optional=True
        ),
    ),
)

_ASSIGNMENTS: Final = Table(
    "assignments",
    "Which member has which partition, or shall have it.",
    (
        GROUP_ID,
        MEMBER_ID,
        TOPIC,
        PARTITION,
        Column("target", "boolean", "Whether it is what the member shall have (KIP-848), not has."),
    ),
)

_OFFSETS: Final = Table(
    "offsets",
    "Committed offsets, ends of logs and lag: a row per group and partition.",
    (
        GROUP_ID,
        TOPIC,
        PARTITION,
        COMMITTED_OFFSET.here(optional=True),
        LEADER_EPOCH.here(optional=True),
        METADATA.here(optional=True),
        LOG_START.here(optional=True),
        LOG_END.here(optional=True),
        LAG.here(optional=True),
        MEMBER_ID.here("The member that has the partition.", optional=True),
        CLIENT_ID.here(optional=True),
        HOST.here(optional=True),
        ERROR.here(optional=True),
    ),
)

_ERRORS: Final = Table(
    "errors",
    "What could not be learned, and why; no rows if all went well.",
    (
        Column("scope", "string", "`group`, `broker` or `partition`."),
        Column("name", "string", "Which group, broker or partition."),
        Column("address", "string", "A broker's address.", optional=True),
        ERROR.here("The cause, in a sentence."),
    ),
)

_END_OFFSETS: Final = Table(
    "end_offsets",
    "Where logs begin and end at this moment; kept, it is the history that lag in time needs.",
    (
        Column("taken_at", "timestamp", "When it was asked."),
        TOPIC,
        PARTITION,
        LOG_START,
        LOG_END,
    ),
)

#: Datasets of records of `__consumer_offsets`, and datasets that brokers are asked for.
_LOG: Final = (
    _COMMITS,
    _GROUP_EVENTS,
    _LOG_RECORDS,
)
_LIVE: Final = (
    _GROUPS,
    _MEMBER_ROWS,
    _ASSIGNMENTS,
    _OFFSETS,
    _ERRORS,
    _END_OFFSETS,
)

DATASETS: Final[Mapping[str, Table]] = MappingProxyType(
    {each.name: each for each in (*_LOG, *_LIVE)}
)
LOG: Final = tuple(each.name for each in _LOG)
LIVE: Final = tuple(each.name for each in _LIVE)

#: The first columns of every row of a snapshot.
SNAPSHOT_COLUMNS: Final = (
    Column("snapshot_id", "string", "The snapshot."),
    Column("taken_at", "timestamp", "Time at which the snapshot began."),
)

GAPS: Final = Table(
    "gaps",
    "Partitions of `__consumer_offsets` that are not completely in the tables.",
    (
        Column("partition", "int", "Partition of `__consumer_offsets`."),
        Column(
            "kind",
            "string",
            "`waiting` (for the end of a transaction), `failed` (could not be read), `lost` (deleted"
            " before it was read) or `open` (all of it was read, but a transaction has no end).",
        ),
        Column("read_to", "bigint", "First offset that is missing or open; null if none was read."),
        Column("read_until", "timestamp", "Time of the newest record that was read before it."),
        Column("reason", "string", "The cause."),
        Column("since", "timestamp", "Time of the ingest that first found the gap."),
    ),
)

SNAPSHOTS: Final = Table(
    "snapshots",
    "One row per snapshot: when it was taken, of which cluster, and how much it found.",
    (
        *SNAPSHOT_COLUMNS,
        Column("ended_at", "timestamp", "Time at which the snapshot ended."),
        Column("cluster", "string", "The cluster."),
        Column("group_count", "bigint", "Number of groups."),
        Column("error_count", "bigint", "Number of rows in `errors`."),
    ),
)

LAST_BUILD: Final = Table(
    "last_build",
    "One row for the newest build of the marts; no row before the first build.",
    (Column("as_of", "timestamp", "The moment that the marts describe."),),
)
