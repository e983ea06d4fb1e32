"""The data itself: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch."""

from __future__ import annotations

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Int8, Int16, Int32, Int64, Records, Uuid

__all__ = [
    "AbortedTransaction",
    "BatchIndexAndErrorMessage",
    "EpochEndOffset",
    "FetchLeaderIdAndEpoch",
    "FetchNodeEndpoint",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "FetchableTopicResponse",
    "ForgottenTopic",
    "LeaderIdAndEpoch",
    "ListOffsetsPartition",
    "ListOffsetsPartitionResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListOffsetsTopic",
    "ListOffsetsTopicResponse",
    "NodeEndpoint",
    "OffsetForLeaderEpochEpochEndOffset",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "OffsetForLeaderPartition",
    "OffsetForLeaderTopic",
    "OffsetForLeaderTopicResult",
    "PartitionData",
    "PartitionProduceData",
    "PartitionProduceResponse",
    "ProduceRequest",
    "ProduceResponse",
    "ReplicaState",
    "SnapshotId",
    "TopicProduceData",
    "TopicProduceResponse",
]


class PartitionProduceData(Struct):
    """Records for one partition."""

    index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    records: Records | None = field(
        "0+", "Record batches to append; null is refused.", default=b"", nullable="0+"
    )


class TopicProduceData(Struct):
    """Records for one topic."""

    name: str = field("0-12", "Name of the topic, up to version 12.", default="", ignorable=True)
    topic_id: Uuid = field(
        "13+", "Id of the topic, from version 13 on.", default=Uuid.ZERO, ignorable=True
    )
    partition_data: tuple[PartitionProduceData, ...] = field(
        "0+", "Records per partition.", default=()
    )


class ProduceRequest(Request, key=0, versions="3-13", flexible="9+"):
    """Appends record batches to partitions."""

    transactional_id: str | None = field(
        "3+", "Transactional id; null outside transactions.", default=None, nullable="3+"
    )
    acks: Int16 = field(
        "0+", "Wanted acknowledgement: 0 none, 1 leader, -1 all in sync.", default=0
    )
    timeout_ms: Int32 = field("0+", "Milliseconds to wait for the acknowledgements.", default=0)
    topic_data: tuple[TopicProduceData, ...] = field("0+", "Records per topic.", default=())


class BatchIndexAndErrorMessage(Struct):
    """Record that made the broker refuse the batch."""

    batch_index: Int32 = field("8+", "Position of the refused record in its batch.", default=0)
    batch_index_error_message: str | None = field(
        "8+", "Why the record was refused; null if not told.", default=None, nullable="8+"
    )


class LeaderIdAndEpoch(Struct):
    """Leader of the partition as the broker knows it."""

    leader_id: Int32 = field("10+", "Broker that leads the partition; -1 if unknown.", default=-1)
    leader_epoch: Int32 = field("10+", "Epoch of the partition leader; -1 if unknown.", default=-1)


class PartitionProduceResponse(Struct):
    """Result for one partition."""

    index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    error_code: Int16 = field("0+", "Error code of the partition; 0 when all is well.", default=0)
    base_offset: Int64 = field(
        "0+", "Offset given to the first record; -1 if the append failed.", default=0
    )
    log_append_time_ms: Int64 = field(
        "2+",
        "Broker time of the append in epoch ms; -1 for client time.",
        default=-1,
        ignorable=True,
    )
    log_start_offset: Int64 = field(
        "5+", "First offset still in the log; -1 if unknown.", default=-1, ignorable=True
    )
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = field(
        "8+", "Records that made the broker refuse the batch.", default=(), ignorable=True
    )
    error_message: str | None = field(
        "8+",
        "Text that explains the error; null if there is none.",
        default=None,
        nullable="8+",
        ignorable=True,
    )
    current_leader: LeaderIdAndEpoch = field(
        "10+",
        "Present leader, told after a NOT_LEADER_OR_FOLLOWER error.",
        default=LeaderIdAndEpoch(),
        tag=0,
    )


class TopicProduceResponse(Struct):
    """Results for one topic."""

    name: str = field("0-12", "Name of the topic, up to version 12.", default="", ignorable=True)
    topic_id: Uuid = field(
        "13+", "Id of the topic, from version 13 on.", default=Uuid.ZERO, ignorable=True
    )
    partition_responses: tuple[PartitionProduceResponse, ...] = field(
        "0+", "One result per partition.", default=()
    )


class NodeEndpoint(Struct):
    """Address of a leader named in the response."""

    node_id: Int32 = field("10+", "Node id of the broker.", default=0)
    host: str = field("10+", "Host name or address to connect to.", default="")
    port: Int32 = field("10+", "TCP port to connect to.", default=0)
    rack: str | None = field(
        "10+", "Rack of the broker; null if not set.", default=None, nullable="10+"
    )


class ProduceResponse(Response, key=0, versions="3-13", flexible="9+"):
    """Outcome per partition of appending records; none is sent for acks 0."""

    responses: tuple[TopicProduceResponse, ...] = field("0+", "One result per topic.", default=())
    throttle_time_ms: Int32 = field(
        "1+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    node_endpoints: tuple[NodeEndpoint, ...] = field(
        "10+", "Addresses of the present leaders named above.", default=(), tag=0
    )


class ReplicaState(Struct):
    """Identity of the follower that fetches."""

    replica_id: Int32 = field("15+", "Broker id of the follower; -1 for a consumer.", default=-1)
    replica_epoch: Int64 = field("15+", "Broker epoch of the follower; -1 if unknown.", default=-1)


class FetchPartition(Struct):
    """Partition to read, and where to begin."""

    partition: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    current_leader_epoch: Int32 = field(
        "9+",
        "Leader epoch the client knows, to fence stale ones; -1 none.",
        default=-1,
        ignorable=True,
    )
    fetch_offset: Int64 = field("0+", "Offset to read from.", default=0)
    last_fetched_epoch: Int32 = field(
        "12+", "Leader epoch of the last record fetched; -1 if none.", default=-1
    )
    log_start_offset: Int64 = field(
        "5+", "First offset in the follower's log; -1 for a consumer.", default=-1, ignorable=True
    )
    partition_max_bytes: Int32 = field(
        "0+", "Most bytes to return for the partition; soft limit.", default=0
    )
    replica_directory_id: Uuid = field(
        "17+",
        "Id of the log directory of the fetching follower.",
        default=Uuid.ZERO,
        tag=0,
        ignorable=True,
    )
    high_watermark: Int64 = field(
        "18+",
        "Follower's high watermark; -1 unknown, max int64 not told.",
        default=9223372036854775807,
        tag=1,
        ignorable=True,
    )


class FetchTopic(Struct):
    """Topic to read from."""

    topic: str = field("0-12", "Name of the topic, up to version 12.", default="", ignorable=True)
    topic_id: Uuid = field(
        "13+", "Id of the topic, from version 13 on.", default=Uuid.ZERO, ignorable=True
    )
    partitions: tuple[FetchPartition, ...] = field("0+", "Partitions to read.", default=())


class ForgottenTopic(Struct):
    """Partitions to drop from the fetch session."""

    topic: str = field("7-12", "Name of the topic, up to version 12.", default="", ignorable=True)
    topic_id: Uuid = field(
        "13+", "Id of the topic, from version 13 on.", default=Uuid.ZERO, ignorable=True
    )
    partitions: tuple[Int32, ...] = field(
        "7+", "Partitions to take out of the session.", default=()
    )


class FetchRequest(Request, key=1, versions="4-18", flexible="12+"):
    """Reads records from partitions; sent by consumers and by followers."""

    cluster_id: str | None = field(
        "12+",
        "Cluster the follower expects; null skips the check.",
        default=None,
        nullable="12+",
        tag=0,
        ignorable=True,
    )
    replica_id: Int32 = field(
        "0-14", "Broker id of the follower; -1 for a consumer; up to v14.", default=-1
    )
    replica_state: ReplicaState = field(
        "15+", "Who fetches; left at its default by consumers.", default=ReplicaState(), tag=1
    )
    max_wait_ms: Int32 = field("0+", "Milliseconds to wait for enough bytes to arrive.", default=0)
    min_bytes: Int32 = field(
        "0+", "Bytes to wait for before answering; 0 answers at once.", default=0
    )
    max_bytes: Int32 = field(
        "3+",
        "Most bytes to return; one big batch may exceed it.",
        default=2147483647,
        ignorable=True,
    )
    isolation_level: Int8 = field(
        "4+", "Isolation: 0 reads all records, 1 only committed ones.", default=0, ignorable=True
    )
    session_id: Int32 = field(
        "7+", "Id of the fetch session; 0 if there is none.", default=0, ignorable=True
    )
    session_epoch: Int32 = field(
        "7+", "Step of the fetch session; 0 opens one, -1 goes without.", default=-1, ignorable=True
    )
    topics: tuple[FetchTopic, ...] = field(
        "0+", "Topics to read; within a session, only what changed.", default=()
    )
    forgotten_topics_data: tuple[ForgottenTopic, ...] = field(
        "7+", "Partitions to take out of the fetch session.", default=()
    )
    rack_id: str = field(
        "11+", "Rack of the consumer; empty if it has none.", default="", ignorable=True
    )


class EpochEndOffset(Struct):
    """Point up to which follower and leader logs may agree."""

    epoch: Int32 = field(
        "12+", "Largest leader epoch that both logs share; -1 if unset.", default=-1
    )
    end_offset: Int64 = field(
        "12+", "Where that epoch ends on the leader; -1 if unset.", default=-1
    )


class FetchLeaderIdAndEpoch(Struct):
    """Leader of the partition as the broker knows it."""

    leader_id: Int32 = field("12+", "Broker that leads the partition; -1 if unknown.", default=-1)
    leader_epoch: Int32 = field("12+", "Epoch of the partition leader; -1 if unknown.", default=-1)


class SnapshotId(Struct):
    """Snapshot that the follower should load instead."""

    end_offset: Int64 = field("0+", "Offset just past the snapshot; -1 if unset.", default=-1)
    epoch: Int32 = field("0+", "Leader epoch of the snapshot's end; -1 if unset.", default=-1)


class AbortedTransaction(Struct):
    """Aborted transaction within the returned records."""

    producer_id: Int64 = field("4+", "Producer whose transaction was aborted.", default=0)
    first_offset: Int64 = field("4+", "Offset of the transaction's first record.", default=0)


class PartitionData(Struct):
    """Records and watermarks of one partition."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    error_code: Int16 = field("0+", "OFFSET_OUT_OF_RANGE and so on; 0 when all is well.", default=0)
    high_watermark: Int64 = field(
        "0+", "First offset not yet replicated to all in-sync replicas.", default=0
    )
    last_stable_offset: Int64 = field(
        "4+",
        "Transactions below this offset are decided; -1 if unknown.",
        default=-1,
        ignorable=True,
    )
    log_start_offset: Int64 = field(
        "5+", "First offset still in the log; -1 if unknown.", default=-1, ignorable=True
    )
    diverging_epoch: EpochEndOffset = field(
        "12+",
        "Set when the follower's log no longer matches the leader's.",
        default=EpochEndOffset(),
        tag=0,
    )
    current_leader: FetchLeaderIdAndEpoch = field(
        "12+",
        "Present leader, told after a NOT_LEADER_OR_FOLLOWER error.",
        default=FetchLeaderIdAndEpoch(),
        tag=1,
    )
    snapshot_id: SnapshotId = field(
        "12+",
        "Snapshot to load when the offset is no longer in the log.",
        default=SnapshotId(),
        tag=2,
    )
    aborted_transactions: tuple[AbortedTransaction, ...] | None = field(
        "4+",
        "Aborted transactions to skip; null unless reading committed.",
        default=(),
        nullable="4+",
        ignorable=True,
    )
    preferred_read_replica: Int32 = field(
        "11+", "Closer replica to read from next time; -1 for the leader.", default=-1
    )
    records: Records | None = field(
        "0+", "Record batches; null if there are none.", default=b"", nullable="0+"
    )


class FetchableTopicResponse(Struct):
    """Data of one topic."""

    topic: str = field("0-12", "Name of the topic, up to version 12.", default="", ignorable=True)
    topic_id: Uuid = field(
        "13+", "Id of the topic, from version 13 on.", default=Uuid.ZERO, ignorable=True
    )
    partitions: tuple[PartitionData, ...] = field("0+", "One entry per partition.", default=())


class FetchNodeEndpoint(Struct):
    """Address of a leader named in the response."""

    node_id: Int32 = field("16+", "Node id of the broker.", default=0)
    host: str = field("16+", "Host name or address to connect to.", default="")
    port: Int32 = field("16+", "TCP port to connect to.", default=0)
    rack: str | None = field(
        "16+", "Rack of the broker; null if not set.", default=None, nullable="16+"
    )


class FetchResponse(Response, key=1, versions="4-18", flexible="12+"):
    """Records and watermarks of the fetched partitions."""

    throttle_time_ms: Int32 = field(
        "1+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    error_code: Int16 = field(
        "7+",
        "Error of the fetch session as a whole; 0 when all is well.",
        default=0,
        ignorable=True,
    )
    session_id: Int32 = field("7+", "Id of the fetch session; 0 if there is none.", default=0)
    responses: tuple[FetchableTopicResponse, ...] = field("0+", "One entry per topic.", default=())
    node_endpoints: tuple[FetchNodeEndpoint, ...] = field(
        "16+", "Addresses of the present leaders named above.", default=(), tag=0
    )


class ListOffsetsPartition(Struct):
    """Partition and the timestamp to look for."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    current_leader_epoch: Int32 = field(
        "4+",
        "Leader epoch the client knows, to fence stale ones; -1 none.",
        default=-1,
        ignorable=True,
    )
    timestamp: Int64 = field(
        "0+", "Epoch ms; -1 latest, -2 earliest, -3 highest timestamp.", default=0
    )


class ListOffsetsTopic(Struct):
    """Topic to look up offsets in."""

    name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[ListOffsetsPartition, ...] = field("0+", "Partitions to look up.", default=())


class ListOffsetsRequest(Request, key=2, versions="1-11", flexible="6+"):
    """Looks up offsets by timestamp, or the ends of a log."""

    replica_id: Int32 = field("0+", "Broker id of the follower; -1 for a consumer.", default=0)
    isolation_level: Int8 = field(
        "2+", "Isolation: 0 reads all records, 1 only committed ones.", default=0
    )
    topics: tuple[ListOffsetsTopic, ...] = field("0+", "Topics to look up.", default=())
    timeout_ms: Int32 = field(
        "10+", "Milliseconds to wait for lookups in tiered storage.", default=0, ignorable=True
    )


class ListOffsetsPartitionResponse(Struct):
    """Offset found in one partition, or the error."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    error_code: Int16 = field("0+", "Error code of the partition; 0 when all is well.", default=0)
    timestamp: Int64 = field(
        "1+", "Timestamp of the record found, in epoch ms; -1 if none.", default=-1
    )
    offset: Int64 = field("1+", "Offset found; -1 if no record qualifies.", default=-1)
    leader_epoch: Int32 = field(
        "4+", "Leader epoch of the offset found; -1 if unknown.", default=-1
    )


class ListOffsetsTopicResponse(Struct):
    """Offsets found in one topic."""

    name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[ListOffsetsPartitionResponse, ...] = field(
        "0+", "One result per partition.", default=()
    )


class ListOffsetsResponse(Response, key=2, versions="1-11", flexible="6+"):
    """Offset and timestamp found for each partition."""

    throttle_time_ms: Int32 = field(
        "2+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    topics: tuple[ListOffsetsTopicResponse, ...] = field("0+", "One entry per topic.", default=())


class OffsetForLeaderPartition(Struct):
    """Partition and the leader epoch to look up."""

    partition: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    current_leader_epoch: Int32 = field(
        "2+",
        "Leader epoch the client knows, to fence stale ones; -1 none.",
        default=-1,
        ignorable=True,
    )
    leader_epoch: Int32 = field("0+", "Leader epoch whose end is wanted.", default=0)


class OffsetForLeaderTopic(Struct):
    """Topic to look up epochs in."""

    topic: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[OffsetForLeaderPartition, ...] = field(
        "0+", "Partitions to look up.", default=()
    )


class OffsetForLeaderEpochRequest(Request, key=23, versions="2-4", flexible="4+"):
    """Asks where a leader epoch ends, to detect log truncation."""

    replica_id: Int32 = field(
        "3+", "Broker id of the follower; -1 consumer, -2 debugging.", default=-2, ignorable=True
    )
    topics: tuple[OffsetForLeaderTopic, ...] = field("0+", "Topics to look up.", default=())


class OffsetForLeaderEpochEpochEndOffset(Struct):
    """Epoch end found in one partition, or the error."""

    error_code: Int16 = field("0+", "FENCED_LEADER_EPOCH and so on; 0 when all is well.", default=0)
    partition: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    leader_epoch: Int32 = field(
        "1+",
        "Largest known epoch not above the one asked for; -1 if none.",
        default=-1,
        ignorable=True,
    )
    end_offset: Int64 = field(
        "0+", "Offset just past the epoch's last record; -1 if unknown.", default=-1
    )


class OffsetForLeaderTopicResult(Struct):
    """Epoch ends found in one topic."""

    topic: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[OffsetForLeaderEpochEpochEndOffset, ...] = field(
        "0+", "One result per partition.", default=()
    )


class OffsetForLeaderEpochResponse(Response, key=23, versions="2-4", flexible="4+"):
    """End offset of the leader epoch asked about, per partition."""

    throttle_time_ms: Int32 = field(
        "2+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    topics: tuple[OffsetForLeaderTopicResult, ...] = field("0+", "One entry per topic.", default=())
