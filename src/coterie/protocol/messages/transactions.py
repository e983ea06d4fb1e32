"""Transactions: begin, extend, end, and what tools ask about them."""

from __future__ import annotations

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Int8, Int16, Int32, Int64

__all__ = [
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "AddPartitionsToTxnPartitionResult",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AddPartitionsToTxnResult",
    "AddPartitionsToTxnTopic",
    "AddPartitionsToTxnTopicResult",
    "AddPartitionsToTxnTransaction",
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "DescribeTransactionsRequest",
    "DescribeTransactionsResponse",
    "EndTxnRequest",
    "EndTxnResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "ListTransactionsRequest",
    "ListTransactionsResponse",
    "ListTransactionsTransactionState",
    "PartitionResponse",
    "ProducerState",
    "TopicData",
    "TopicRequest",
    "TopicResponse",
    "TransactionState",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitRequestPartition",
    "TxnOffsetCommitRequestTopic",
    "TxnOffsetCommitResponse",
    "TxnOffsetCommitResponsePartition",
    "TxnOffsetCommitResponseTopic",
    "WritableTxnMarker",
    "WritableTxnMarkerPartitionResult",
    "WritableTxnMarkerResult",
    "WritableTxnMarkerTopic",
    "WritableTxnMarkerTopicResult",
    "WriteTxnMarkersRequest",
    "WriteTxnMarkersResponse",
]


class InitProducerIdRequest(Request, key=22, versions="0-6", flexible="2+"):
    """Obtains a producer id and epoch, fencing older producers of the same id."""

    transactional_id: str | None = field(
        "0+", "Transactional id; null for a merely idempotent producer.", default="", nullable="0+"
    )
    transaction_timeout_ms: Int32 = field(
        "0+", "Milliseconds before the coordinator aborts the transaction.", default=0
    )
    producer_id: Int64 = field(
        "3+", "Producer id held so far, to raise its epoch; -1 for a new one.", default=-1
    )
    producer_epoch: Int16 = field(
        "3+", "Producer epoch held so far; -1 for a new producer.", default=-1
    )
    enable2_pc: bool = field(
        "6+", "True takes part in two-phase commit, without a timeout.", default=False
    )
    keep_prepared_txn: bool = field(
        "6+", "True keeps a prepared transaction instead of aborting it.", default=False
    )


class InitProducerIdResponse(Response, key=22, versions="0-6", flexible="2+"):
    """Producer id and epoch to use from now on."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    error_code: Int16 = field(
        "0+", "CONCURRENT_TRANSACTIONS asks to try again; 0 when all is well.", default=0
    )
    producer_id: Int64 = field("0+", "Producer id to use; -1 on error.", default=-1)
    producer_epoch: Int16 = field("0+", "Producer epoch to use.", default=0)
    ongoing_txn_producer_id: Int64 = field(
        "6+", "Producer id of the kept prepared transaction; -1 if none.", default=-1
    )
    ongoing_txn_producer_epoch: Int16 = field(
        "6+", "Epoch of the kept prepared transaction; -1 if none.", default=-1
    )


class AddPartitionsToTxnTopic(Struct):
    """Partitions of one topic to add to, or verify in, the transaction."""

    name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[Int32, ...] = field("0+", "Partitions to add or verify.", default=())


class AddPartitionsToTxnTransaction(Struct):
    """One transaction and the partitions to add or verify."""

    transactional_id: str = field("4+", "Transactional id of the producer.", default="")
    producer_id: Int64 = field("4+", "Id of the producer.", default=0)
    producer_epoch: Int16 = field("4+", "Epoch of the producer; an older one is fenced.", default=0)
    verify_only: bool = field(
        "4+", "True only checks that the transaction has the partitions.", default=False
    )
    topics: tuple[AddPartitionsToTxnTopic, ...] = field(
        "4+", "Partitions to add or verify, by topic.", default=()
    )


class AddPartitionsToTxnRequest(Request, key=24, versions="0-5", flexible="3+"):
    """Adds partitions to open transactions, or verifies that they are in them."""

    transactions: tuple[AddPartitionsToTxnTransaction, ...] = field(
        "4+", "Transactions to extend or verify, from version 4 on.", default=()
    )
    v3_and_below_transactional_id: str = field(
        "0-3", "Transactional id of the producer, up to version 3.", default=""
    )
    v3_and_below_producer_id: Int64 = field(
        "0-3", "Id of the producer, up to version 3.", default=0
    )
    v3_and_below_producer_epoch: Int16 = field(
        "0-3", "Epoch of the producer, up to version 3.", default=0
    )
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = field(
        "0-3", "Partitions to add, by topic, up to version 3.", default=()
    )


class AddPartitionsToTxnPartitionResult(Struct):
    """Result for one partition of a transaction."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    partition_error_code: Int16 = field(
        "0+", "Error code of the partition; 0 when all is well.", default=0
    )


class AddPartitionsToTxnTopicResult(Struct):
    """Results for one topic of a transaction."""

    name: str = field("0+", "Name of the topic.", default="")
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = field(
        "0+", "One result per partition.", default=()
    )


class AddPartitionsToTxnResult(Struct):
    """Results for one transactional id."""

    transactional_id: str = field("4+", "Transactional id of the producer.", default="")
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...] = field(
        "4+", "One result per topic.", default=()
    )


class AddPartitionsToTxnResponse(Response, key=24, versions="0-5", flexible="3+"):
    """Result per partition of adding to, or verifying, transactions."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field(
        "4+", "Error for the whole request; 0 when all is well.", default=0, ignorable=True
    )
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = field(
        "4+", "One result per transactional id, from version 4 on.", default=()
    )
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = field(
        "0-3", "One result per topic, up to version 3.", default=()
    )


class AddOffsetsToTxnRequest(Request, key=25, versions="0-4", flexible="3+"):
    """Tells the transaction coordinator that a group's offsets join a transaction."""

    transactional_id: str = field("0+", "Transactional id of the producer.", default="")
    producer_id: Int64 = field("0+", "Id of the producer.", default=0)
    producer_epoch: Int16 = field("0+", "Epoch of the producer; an older one is fenced.", default=0)
    group_id: str = field("0+", "Group whose offsets the transaction will commit.", default="")


class AddOffsetsToTxnResponse(Response, key=25, versions="0-4", flexible="3+"):
    """Says whether the group's offsets partition was added to the transaction."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field("0+", "Error code; 0 when all is well.", default=0)


class TxnOffsetCommitRequestPartition(Struct):
    """Offset to store for one partition."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    committed_offset: Int64 = field("0+", "Next offset that the group will read.", default=0)
    committed_leader_epoch: Int32 = field(
        "2+", "Leader epoch of the last record consumed; -1 if unknown.", default=-1, ignorable=True
    )
    committed_metadata: str | None = field(
        "0+", "Free text to keep with the offset; null if none.", default="", nullable="0+"
    )


class TxnOffsetCommitRequestTopic(Struct):
    """Offsets to store for one topic."""

    name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = field(
        "0+", "Offset to store per partition.", default=()
    )


class TxnOffsetCommitRequest(Request, key=28, versions="0-5", flexible="3+"):
    """Stores group offsets that count only once the transaction commits."""

    transactional_id: str = field("0+", "Transactional id of the producer.", default="")
    group_id: str = field("0+", "Group whose offsets are committed.", default="")
    producer_id: Int64 = field("0+", "Id of the producer.", default=0)
    producer_epoch: Int16 = field("0+", "Epoch of the producer; an older one is fenced.", default=0)
    generation_id: Int32 = field("3+", "Generation of the member; -1 skips the check.", default=-1)
    member_id: str = field("3+", "Id of the committing member; empty skips the check.", default="")
    group_instance_id: str | None = field(
        "3+", "Instance id of a static member; null for a dynamic one.", default=None, nullable="3+"
    )
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = field(
        "0+", "Offsets to store, by topic.", default=()
    )


class TxnOffsetCommitResponsePartition(Struct):
    """Result for one partition."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    error_code: Int16 = field(
        "0+", "ILLEGAL_GENERATION and so on; 0 when the offset was stored.", default=0
    )


class TxnOffsetCommitResponseTopic(Struct):
    """Results for one topic."""

    name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = field(
        "0+", "One result per partition.", default=()
    )


class TxnOffsetCommitResponse(Response, key=28, versions="0-5", flexible="3+"):
    """Outcome per partition of storing offsets in a transaction."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = field(
        "0+", "One entry per topic.", default=()
    )


class EndTxnRequest(Request, key=26, versions="0-5", flexible="3+"):
    """Commits or aborts the open transaction of a transactional id."""

    transactional_id: str = field("0+", "Transactional id of the producer.", default="")
    producer_id: Int64 = field("0+", "Id of the producer.", default=0)
    producer_epoch: Int16 = field("0+", "Epoch of the producer; an older one is fenced.", default=0)
    committed: bool = field("0+", "True commits the transaction, false aborts it.", default=False)


class EndTxnResponse(Response, key=26, versions="0-5", flexible="3+"):
    """Says whether the transaction is ending; v5 may hand out a new epoch."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field(
        "0+", "Error code, such as PRODUCER_FENCED; 0 when all is well.", default=0
    )
    producer_id: Int64 = field(
        "5+", "Producer id for the next transaction; -1 if unchanged.", default=-1, ignorable=True
    )
    producer_epoch: Int16 = field(
        "5+",
        "Producer epoch for the next transaction; -1 if unchanged.",
        default=-1,
        ignorable=True,
    )


class WritableTxnMarkerTopic(Struct):
    """Partitions of one topic that get the marker."""

    name: str = field("0+", "Name of the topic.", default="")
    partition_indexes: tuple[Int32, ...] = field(
        "0+", "Partitions that get the marker.", default=()
    )


class WritableTxnMarker(Struct):
    """Commit or abort marker of one producer."""

    producer_id: Int64 = field("0+", "Id of the producer.", default=0)
    producer_epoch: Int16 = field("0+", "Epoch of the producer; an older one is fenced.", default=0)
    transaction_result: bool = field(
        "0+", "True writes commit markers, false abort markers.", default=False
    )
    topics: tuple[WritableTxnMarkerTopic, ...] = field(
        "0+", "Partitions that get the marker, by topic.", default=()
    )
    coordinator_epoch: Int32 = field(
        "0+", "Epoch of the sending coordinator; an older one is fenced.", default=0
    )
    transaction_version: Int8 = field(
        "2+", "Transaction protocol level; 2 checks epochs strictly.", default=0, ignorable=True
    )


class WriteTxnMarkersRequest(Request, key=27, versions="1-2", flexible="1+"):
    """Makes partition leaders write commit or abort markers; broker to broker."""

    markers: tuple[WritableTxnMarker, ...] = field(
        "0+", "Markers to write, one per producer.", default=()
    )


class WritableTxnMarkerPartitionResult(Struct):
    """Result for one partition."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    error_code: Int16 = field(
        "0+", "Error code of the partition; 0 when the marker was written.", default=0
    )


class WritableTxnMarkerTopicResult(Struct):
    """Results for one topic."""

    name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = field(
        "0+", "One result per partition.", default=()
    )


class WritableTxnMarkerResult(Struct):
    """Results for one producer's marker."""

    producer_id: Int64 = field("0+", "Id of the producer.", default=0)
    topics: tuple[WritableTxnMarkerTopicResult, ...] = field(
        "0+", "One entry per topic.", default=()
    )


class WriteTxnMarkersResponse(Response, key=27, versions="1-2", flexible="1+"):
    """Outcome per partition of writing transaction markers."""

    markers: tuple[WritableTxnMarkerResult, ...] = field(
        "0+", "One entry per producer.", default=()
    )


class TopicRequest(Struct):
    """Topic and partitions whose producers are wanted."""

    name: str = field("0+", "Name of the topic.", default="")
    partition_indexes: tuple[Int32, ...] = field(
        "0+", "Partitions whose producers are wanted.", default=()
    )


class DescribeProducersRequest(Request, key=61, versions="0", flexible="0+"):
    """Asks partition leaders for their active producers."""

    topics: tuple[TopicRequest, ...] = field("0+", "Topics whose producers are wanted.", default=())


class ProducerState(Struct):
    """What the partition leader remembers of one producer."""

    producer_id: Int64 = field("0+", "Id of the producer.", default=0)
    producer_epoch: Int32 = field("0+", "Epoch of the producer's last append.", default=0)
    last_sequence: Int32 = field(
        "0+", "Sequence number of the last record appended; -1 if none.", default=-1
    )
    last_timestamp: Int64 = field(
        "0+", "Time of the producer's last append, in epoch ms; -1 if none.", default=-1
    )
    coordinator_epoch: Int32 = field(
        "0+", "Coordinator epoch of the last marker; -1 if there is none.", default=0
    )
    current_txn_start_offset: Int64 = field(
        "0+", "First offset of the open transaction; -1 if there is none.", default=-1
    )


class PartitionResponse(Struct):
    """Producers of one partition, or the error for it."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    error_code: Int16 = field(
        "0+", "NOT_LEADER_OR_FOLLOWER at the wrong broker; 0 if fine.", default=0
    )
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default=None, nullable="0+"
    )
    active_producers: tuple[ProducerState, ...] = field(
        "0+", "Producers with state on the partition.", default=()
    )


class TopicResponse(Struct):
    """Producers found for one topic."""

    name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[PartitionResponse, ...] = field("0+", "One entry per partition.", default=())


class DescribeProducersResponse(Response, key=61, versions="0", flexible="0+"):
    """Idempotent and transactional producers known for each partition."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    topics: tuple[TopicResponse, ...] = field("0+", "One entry per topic.", default=())


class DescribeTransactionsRequest(Request, key=65, versions="0", flexible="0+"):
    """Asks a transaction coordinator for the state of transactional ids."""

    transactional_ids: tuple[str, ...] = field("0+", "Transactional ids to describe.", default=())


class TopicData(Struct):
    """Partitions of one topic in the transaction."""

    topic: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[Int32, ...] = field("0+", "Partitions in the open transaction.", default=())


class TransactionState(Struct):
    """One transactional id and its transaction, or the error."""

    error_code: Int16 = field(
        "0+", "TRANSACTIONAL_ID_NOT_FOUND if unknown; 0 when all is well.", default=0
    )
    transactional_id: str = field("0+", "Transactional id of the producer.", default="")
    transaction_state: str = field(
        "0+", "State name, such as Ongoing, PrepareCommit or CompleteAbort.", default=""
    )
    transaction_timeout_ms: Int32 = field(
        "0+", "Milliseconds before the coordinator aborts the transaction.", default=0
    )
    transaction_start_time_ms: Int64 = field(
        "0+", "When the transaction began, in epoch ms; -1 if none is open.", default=0
    )
    producer_id: Int64 = field("0+", "Id of the producer.", default=0)
    producer_epoch: Int16 = field("0+", "Epoch of the producer; an older one is fenced.", default=0)
    topics: tuple[TopicData, ...] = field(
        "0+", "Partitions in the open transaction, by topic.", default=()
    )


class DescribeTransactionsResponse(Response, key=65, versions="0", flexible="0+"):
    """State, producer and partitions of each transactional id."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    transaction_states: tuple[TransactionState, ...] = field(
        "0+", "One entry per transactional id.", default=()
    )


class ListTransactionsRequest(Request, key=66, versions="0-2", flexible="0+"):
    """Lists the transactional ids that a broker coordinates."""

    state_filters: tuple[str, ...] = field(
        "0+", "Transaction states to list; empty lists every one.", default=()
    )
    producer_id_filters: tuple[Int64, ...] = field(
        "0+", "Producer ids to list; empty lists every one.", default=()
    )
    duration_filter: Int64 = field(
        "1+", "Only transactions open longer than this many ms; -1 for all.", default=-1
    )
    transactional_id_pattern: str | None = field(
        "2+",
        "Regex for the ids to list; null or empty lists every one.",
        default=None,
        nullable="2+",
    )


class ListTransactionsTransactionState(Struct):
    """One transactional id with its producer and state."""

    transactional_id: str = field("0+", "Transactional id of the producer.", default="")
    producer_id: Int64 = field("0+", "Id of the producer.", default=0)
    transaction_state: str = field(
        "0+", "State name, such as Ongoing, PrepareCommit or CompleteAbort.", default=""
    )


class ListTransactionsResponse(Response, key=66, versions="0-2", flexible="0+"):
    """Transactional ids with their producer and state."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field(
        "0+", "COORDINATOR_LOAD_IN_PROGRESS asks to retry; 0 when all is well.", default=0
    )
    unknown_state_filters: tuple[str, ...] = field(
        "0+", "State names in the request that the broker does not know.", default=()
    )
    transaction_states: tuple[ListTransactionsTransactionState, ...] = field(
        "0+", "One entry per transactional id.", default=()
    )
