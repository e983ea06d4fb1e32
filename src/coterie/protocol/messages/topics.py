"""Topics: create, delete, grow, describe."""

from __future__ import annotations

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Int8, Int16, Int32, Int64, Uuid

__all__ = [
    "CreatableReplicaAssignment",
    "CreatableTopic",
    "CreatableTopicConfig",
    "CreatableTopicConfigs",
    "CreatableTopicResult",
    "CreatePartitionsAssignment",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreatePartitionsTopic",
    "CreatePartitionsTopicResult",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "Cursor",
    "DeletableTopicResult",
    "DeleteRecordsPartition",
    "DeleteRecordsPartitionResult",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteRecordsTopic",
    "DeleteRecordsTopicResult",
    "DeleteTopicState",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsResponse",
    "DescribeTopicPartitionsResponsePartition",
    "DescribeTopicPartitionsResponseTopic",
    "TopicRequest",
]


class CreatableReplicaAssignment(Struct):
    """Replica placement of one partition."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    broker_ids: tuple[Int32, ...] = field(
        "0+", "Brokers to hold the replicas; the first is preferred leader.", default=()
    )


class CreatableTopicConfig(Struct):
    """Setting that the new topic starts with."""

    name: str = field("0+", "Name of the setting, such as cleanup.policy.", default="")
    value: str | None = field(
        "0+", "Value of the setting; null is refused.", default="", nullable="0+"
    )


class CreatableTopic(Struct):
    """One topic to create."""

    name: str = field("0+", "Name of the topic.", default="")
    num_partitions: Int32 = field(
        "0+", "Partitions to create; -1 for the default or with placements.", default=0
    )
    replication_factor: Int16 = field(
        "0+", "Replicas each; -1 for the default or with placements.", default=0
    )
    assignments: tuple[CreatableReplicaAssignment, ...] = field(
        "0+", "Placement per partition; empty lets Kafka choose.", default=()
    )
    configs: tuple[CreatableTopicConfig, ...] = field(
        "0+", "Settings that differ from the defaults.", default=()
    )


class CreateTopicsRequest(Request, key=19, versions="2-7", flexible="5+"):
    """Creates topics, or only validates that they could be created."""

    topics: tuple[CreatableTopic, ...] = field("0+", "Topics to create.", default=())
    timeout_ms: Int32 = field(
        "0+", "Milliseconds to wait for the topics to be created.", default=60000
    )
    validate_only: bool = field(
        "1+", "True only checks the request and creates nothing.", default=False
    )


class CreatableTopicConfigs(Struct):
    """Setting in effect for the new topic."""

    name: str = field("5+", "Name of the setting.", default="")
    value: str | None = field(
        "5+", "Value of the setting; null if it is secret.", default="", nullable="5+"
    )
    read_only: bool = field(
        "5+", "True if the entry cannot be changed while running.", default=False
    )
    config_source: Int8 = field(
        "5+",
        "Origin of the value: 1 topic, 4 server file, 5 default; -1 unset.",
        default=-1,
        ignorable=True,
    )
    is_sensitive: bool = field(
        "5+", "True if the value is secret and therefore sent as null.", default=False
    )


class CreatableTopicResult(Struct):
    """Result for one topic."""

    name: str = field("0+", "Name of the topic.", default="")
    topic_id: Uuid = field(
        "7+",
        "Id of the new topic; all zero if it was not created.",
        default=Uuid.ZERO,
        ignorable=True,
    )
    error_code: Int16 = field("0+", "TOPIC_ALREADY_EXISTS if taken; 0 when all is well.", default=0)
    error_message: str | None = field(
        "1+",
        "Text that explains the error; null if there is none.",
        default="",
        nullable="0+",
        ignorable=True,
    )
    topic_config_error_code: Int16 = field(
        "5+", "Why the settings are not shown; 0 if they are.", default=0, tag=0, ignorable=True
    )
    num_partitions: Int32 = field(
        "5+", "Partitions of the new topic; -1 if it may not be told.", default=-1, ignorable=True
    )
    replication_factor: Int16 = field(
        "5+", "Replicas per partition; -1 if it may not be told.", default=-1, ignorable=True
    )
    configs: tuple[CreatableTopicConfigs, ...] | None = field(
        "5+",
        "Settings of the new topic; null if they may not be told.",
        default=(),
        nullable="5+",
        ignorable=True,
    )


class CreateTopicsResponse(Response, key=19, versions="2-7", flexible="5+"):
    """Outcome per topic of creation, with the settings that took effect."""

    throttle_time_ms: Int32 = field(
        "2+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    topics: tuple[CreatableTopicResult, ...] = field("0+", "One entry per topic.", default=())


class DeleteTopicState(Struct):
    """Topic to delete, given by name or by id."""

    name: str | None = field(
        "6+", "Name of the topic; null if it is given by id.", default=None, nullable="6+"
    )
    topic_id: Uuid = field(
        "6+", "Id of the topic; all zero if it is given by name.", default=Uuid.ZERO
    )


class DeleteTopicsRequest(Request, key=20, versions="1-6", flexible="4+"):
    """Deletes topics by name, or by id from version 6 on."""

    topics: tuple[DeleteTopicState, ...] = field(
        "6+", "Topics to delete, from version 6 on.", default=()
    )
    topic_names: tuple[str, ...] = field(
        "0-5", "Names of the topics to delete, up to version 5.", default=(), ignorable=True
    )
    timeout_ms: Int32 = field("0+", "Milliseconds to wait for the topics to be gone.", default=0)


class DeletableTopicResult(Struct):
    """Result for one topic."""

    name: str | None = field(
        "0+", "Name of the topic; null if the id is unknown or hidden.", default="", nullable="6+"
    )
    topic_id: Uuid = field("6+", "Id of the topic.", default=Uuid.ZERO, ignorable=True)
    error_code: Int16 = field(
        "0+", "UNKNOWN_TOPIC_OR_PARTITION if missing; 0 when deleted.", default=0
    )
    error_message: str | None = field(
        "5+",
        "Text that explains the error; null if there is none.",
        default=None,
        nullable="5+",
        ignorable=True,
    )


class DeleteTopicsResponse(Response, key=20, versions="1-6", flexible="4+"):
    """Outcome per topic of a deletion."""

    throttle_time_ms: Int32 = field(
        "1+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    responses: tuple[DeletableTopicResult, ...] = field("0+", "One result per topic.", default=())


class CreatePartitionsAssignment(Struct):
    """Replica placement of one new partition."""

    broker_ids: tuple[Int32, ...] = field(
        "0+", "Brokers to hold the replicas; the first is preferred leader.", default=()
    )


class CreatePartitionsTopic(Struct):
    """Topic to grow and its new partition count."""

    name: str = field("0+", "Name of the topic.", default="")
    count: Int32 = field("0+", "Total partitions wanted, old ones included.", default=0)
    assignments: tuple[CreatePartitionsAssignment, ...] | None = field(
        "0+", "Placement of each new partition; null lets Kafka choose.", default=(), nullable="0+"
    )


class CreatePartitionsRequest(Request, key=37, versions="0-3", flexible="2+"):
    """Raises the partition count of topics."""

    topics: tuple[CreatePartitionsTopic, ...] = field("0+", "Topics to grow.", default=())
    timeout_ms: Int32 = field(
        "0+", "Milliseconds to wait for the partitions to be created.", default=0
    )
    validate_only: bool = field(
        "0+", "True only checks the request and changes nothing.", default=False
    )


class CreatePartitionsTopicResult(Struct):
    """Result for one topic."""

    name: str = field("0+", "Name of the topic.", default="")
    error_code: Int16 = field(
        "0+", "INVALID_PARTITIONS if not a rise; 0 when all is well.", default=0
    )
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default=None, nullable="0+"
    )


class CreatePartitionsResponse(Response, key=37, versions="0-3", flexible="2+"):
    """Outcome per topic of raising the partition count."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    results: tuple[CreatePartitionsTopicResult, ...] = field(
        "0+", "One result per topic.", default=()
    )


class DeleteRecordsPartition(Struct):
    """Partition and the offset its log should start at."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    offset: Int64 = field("0+", "Records below this go; -1 takes the high watermark.", default=0)


class DeleteRecordsTopic(Struct):
    """Topic to drop old records from."""

    name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[DeleteRecordsPartition, ...] = field(
        "0+", "New start of the log per partition.", default=()
    )


class DeleteRecordsRequest(Request, key=21, versions="0-2", flexible="2+"):
    """Drops the records that lie before given offsets."""

    topics: tuple[DeleteRecordsTopic, ...] = field(
        "0+", "Topics to drop old records from.", default=()
    )
    timeout_ms: Int32 = field("0+", "Milliseconds to wait for the replicas to follow.", default=0)


class DeleteRecordsPartitionResult(Struct):
    """Result for one partition."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    low_watermark: Int64 = field(
        "0+", "Lowest start offset among live replicas; -1 on error.", default=0
    )
    error_code: Int16 = field(
        "0+", "OFFSET_OUT_OF_RANGE if too high; 0 when all is well.", default=0
    )


class DeleteRecordsTopicResult(Struct):
    """Results for one topic."""

    name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[DeleteRecordsPartitionResult, ...] = field(
        "0+", "One result per partition.", default=()
    )


class DeleteRecordsResponse(Response, key=21, versions="0-2", flexible="2+"):
    """New low watermark, or the error, for each truncated partition."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    topics: tuple[DeleteRecordsTopicResult, ...] = field("0+", "One entry per topic.", default=())


class TopicRequest(Struct):
    """Topic to describe."""

    name: str = field("0+", "Name of the topic.", default="")


class Cursor(Struct):
    """Place at which the next page begins."""

    topic_name: str = field("0+", "Topic to begin with.", default="")
    partition_index: Int32 = field("0+", "Partition of that topic to begin with.", default=0)


class DescribeTopicPartitionsRequest(Request, key=75, versions="0", flexible="0+"):
    """Asks for topic details page by page."""

    topics: tuple[TopicRequest, ...] = field(
        "0+", "Topics to describe; empty asks for all.", default=()
    )
    response_partition_limit: Int32 = field(
        "0+", "Most partitions per page; the broker may lower it.", default=2000
    )
    cursor: Cursor | None = field(
        "0+", "Where to begin; null begins with the first topic.", default=None, nullable="0+"
    )


class DescribeTopicPartitionsResponsePartition(Struct):
    """Leader and replicas of one partition."""

    error_code: Int16 = field(
        "0+", "LEADER_NOT_AVAILABLE if leaderless; 0 when all is well.", default=0
    )
    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    leader_id: Int32 = field(
        "0+", "Broker that leads the partition; -1 if there is none.", default=0
    )
    leader_epoch: Int32 = field(
        "0+", "Epoch of the partition leader; -1 if unknown.", default=-1, ignorable=True
    )
    replica_nodes: tuple[Int32, ...] = field(
        "0+", "Brokers that hold a replica; the first is preferred leader.", default=()
    )
    isr_nodes: tuple[Int32, ...] = field("0+", "Brokers whose replicas are in sync.", default=())
    eligible_leader_replicas: tuple[Int32, ...] | None = field(
        "0+",
        "Replicas outside the ISR that may still lead; null if unknown.",
        default=None,
        nullable="0+",
    )
    last_known_elr: tuple[Int32, ...] | None = field(
        "0+",
        "Former eligible leaders, for a last resort; null if unknown.",
        default=None,
        nullable="0+",
    )
    offline_replicas: tuple[Int32, ...] = field(
        "0+", "Replicas that are down or on a failed disk.", default=(), ignorable=True
    )


class DescribeTopicPartitionsResponseTopic(Struct):
    """One topic, or the error for it."""

    error_code: Int16 = field(
        "0+", "UNKNOWN_TOPIC_OR_PARTITION if missing; 0 when all is well.", default=0
    )
    name: str | None = field("0+", "Name of the topic; null if unknown.", default="", nullable="0+")
    topic_id: Uuid = field("0+", "Id of the topic.", default=Uuid.ZERO, ignorable=True)
    is_internal: bool = field(
        "0+",
        "True for Kafka's own topics, such as __consumer_offsets.",
        default=False,
        ignorable=True,
    )
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = field(
        "0+", "Partitions that fit on this page.", default=()
    )
    topic_authorized_operations: Int32 = field(
        "0+", "Bit set of allowed operations; -2147483648 if not asked for.", default=-2147483648
    )


class DescribeTopicPartitionsResponse(Response, key=75, versions="0", flexible="0+"):
    """One page of topic details, with a cursor for the next page."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = field(
        "0+", "One entry per topic.", default=()
    )
    next_cursor: Cursor | None = field(
        "0+", "Where the next page begins; null after the last one.", default=None, nullable="0+"
    )
