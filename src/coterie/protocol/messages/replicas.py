"""Replicas: where they are, who leads them, and moving them."""

from __future__ import annotations

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Int8, Int16, Int32, Int64

__all__ = [
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "AlterReplicaLogDir",
    "AlterReplicaLogDirPartitionResult",
    "AlterReplicaLogDirTopic",
    "AlterReplicaLogDirTopicResult",
    "AlterReplicaLogDirsRequest",
    "AlterReplicaLogDirsResponse",
    "DescribableLogDirTopic",
    "DescribeLogDirsPartition",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeLogDirsResult",
    "DescribeLogDirsTopic",
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "ElectLeadersTopicPartitions",
    "ListPartitionReassignmentsRequest",
    "ListPartitionReassignmentsResponse",
    "ListPartitionReassignmentsTopics",
    "OngoingPartitionReassignment",
    "OngoingTopicReassignment",
    "PartitionResult",
    "ReassignablePartition",
    "ReassignablePartitionResponse",
    "ReassignableTopic",
    "ReassignableTopicResponse",
    "ReplicaElectionResult",
]


class DescribableLogDirTopic(Struct):
    """Topic and partitions to look for on disk."""

    topic: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[Int32, ...] = field("0+", "Partitions to look for.", default=())


class DescribeLogDirsRequest(Request, key=35, versions="1-5", flexible="2+"):
    """Asks a broker which replicas sit in its log directories."""

    topics: tuple[DescribableLogDirTopic, ...] | None = field(
        "0+", "Topics to look for; null asks for all.", default=(), nullable="0+"
    )


class DescribeLogDirsPartition(Struct):
    """Replica of one partition in the directory."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    partition_size: Int64 = field(
        "0+", "Bytes that the replica's segments take on disk.", default=0
    )
    offset_lag: Int64 = field(
        "0+", "Offsets the replica is behind; for a move, behind the source.", default=0
    )
    is_future_key: bool = field(
        "0+", "True if the replica is still being moved into the directory.", default=False
    )


class DescribeLogDirsTopic(Struct):
    """Topic with replicas in the directory."""

    name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[DescribeLogDirsPartition, ...] = field(
        "0+", "One entry per replica.", default=()
    )


class DescribeLogDirsResult(Struct):
    """One log directory and what it holds."""

    error_code: Int16 = field(
        "0+", "KAFKA_STORAGE_ERROR if the disk failed; 0 when all is well.", default=0
    )
    log_dir: str = field("0+", "Absolute path of the log directory.", default="")
    topics: tuple[DescribeLogDirsTopic, ...] = field(
        "0+", "Topics with replicas in the directory.", default=()
    )
    total_bytes: Int64 = field(
        "4+", "Size in bytes of the directory's volume; -1 if unknown.", default=-1, ignorable=True
    )
    usable_bytes: Int64 = field(
        "4+", "Free bytes on the directory's volume; -1 if unknown.", default=-1, ignorable=True
    )
    is_cordoned: bool = field(
        "5+", "True if the directory takes no new replicas.", default=False, ignorable=True
    )


class DescribeLogDirsResponse(Response, key=35, versions="1-5", flexible="2+"):
    """Replicas and disk space in each log directory of the broker."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field(
        "3+", "CLUSTER_AUTHORIZATION_FAILED if not allowed; 0 if fine.", default=0, ignorable=True
    )
    results: tuple[DescribeLogDirsResult, ...] = field(
        "0+", "One entry per log directory.", default=()
    )


class ListPartitionReassignmentsTopics(Struct):
    """Topic and partitions to report on."""

    name: str = field("0+", "Name of the topic.", default="")
    partition_indexes: tuple[Int32, ...] = field("0+", "Partitions to report on.", default=())


class ListPartitionReassignmentsRequest(Request, key=46, versions="0", flexible="0+"):
    """Asks the controller for replica moves under way."""

    timeout_ms: Int32 = field(
        "0+", "Milliseconds to wait for the controller's answer.", default=60000
    )
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = field(
        "0+", "Topics to report on; null asks for all.", default=None, nullable="0+"
    )


class OngoingPartitionReassignment(Struct):
    """Replica move of one partition."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    replicas: tuple[Int32, ...] = field(
        "0+", "Brokers in the replica set while the move lasts.", default=()
    )
    adding_replicas: tuple[Int32, ...] = field(
        "0+", "Brokers that are gaining a replica.", default=()
    )
    removing_replicas: tuple[Int32, ...] = field(
        "0+", "Brokers that are losing their replica.", default=()
    )


class OngoingTopicReassignment(Struct):
    """Topic with replica moves under way."""

    name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[OngoingPartitionReassignment, ...] = field(
        "0+", "Partitions with replica moves under way.", default=()
    )


class ListPartitionReassignmentsResponse(Response, key=46, versions="0", flexible="0+"):
    """Replica moves under way, per partition."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field("0+", "Error code; 0 when all is well.", default=0)
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default="", nullable="0+"
    )
    topics: tuple[OngoingTopicReassignment, ...] = field(
        "0+", "Topics with replica moves under way.", default=()
    )


class AlterReplicaLogDirTopic(Struct):
    """Topic whose replicas to move."""

    name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[Int32, ...] = field("0+", "Partitions of the topic.", default=())


class AlterReplicaLogDir(Struct):
    """Directory and the replicas to move into it."""

    path: str = field("0+", "Absolute path of the directory.", default="")
    topics: tuple[AlterReplicaLogDirTopic, ...] = field(
        "0+", "Topics whose replicas to move.", default=()
    )


class AlterReplicaLogDirsRequest(Request, key=34, versions="1-2", flexible="2+"):
    """Moves replicas to other log directories of the broker."""

    dirs: tuple[AlterReplicaLogDir, ...] = field(
        "0+", "Directories and the replicas to move into them.", default=()
    )


class AlterReplicaLogDirPartitionResult(Struct):
    """Outcome for one partition."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    error_code: Int16 = field("0+", "0, or the error.", default=0)


class AlterReplicaLogDirTopicResult(Struct):
    """Outcome for one topic."""

    topic_name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = field(
        "0+", "Partitions of the topic.", default=()
    )


class AlterReplicaLogDirsResponse(Response, key=34, versions="1-2", flexible="2+"):
    """Outcome for each replica."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    results: tuple[AlterReplicaLogDirTopicResult, ...] = field(
        "0+", "One entry per topic.", default=()
    )


class ElectLeadersTopicPartitions(Struct):
    """Topic and partitions to elect leaders for."""

    topic: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[Int32, ...] = field("0+", "Partitions of the topic.", default=())


class ElectLeadersRequest(Request, key=43, versions="0-2", flexible="2+"):
    """Elects leaders of partitions."""

    election_type: Int8 = field(
        "1+", "0 elects the preferred replica, 1 any replica (unclean).", default=0
    )
    topic_partitions: tuple[ElectLeadersTopicPartitions, ...] | None = field(
        "0+", "Partitions to elect leaders for; null for all.", default=(), nullable="0+"
    )
    timeout_ms: Int32 = field(
        "0+", "Milliseconds to wait for the controller's answer.", default=60000
    )


class PartitionResult(Struct):
    """Outcome for one partition."""

    partition_id: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    error_code: Int16 = field("0+", "0, or the error.", default=0)
    error_message: str | None = field(
        "0+", "Explanation for people; null if there is no error.", default="", nullable="0+"
    )


class ReplicaElectionResult(Struct):
    """Outcome for one topic."""

    topic: str = field("0+", "Name of the topic.", default="")
    partition_result: tuple[PartitionResult, ...] = field(
        "0+", "One entry per partition.", default=()
    )


class ElectLeadersResponse(Response, key=43, versions="0-2", flexible="2+"):
    """Outcome for each partition."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field("1+", "0, or the error.", default=0)
    replica_election_results: tuple[ReplicaElectionResult, ...] = field(
        "0+", "One entry per topic.", default=()
    )


class ReassignablePartition(Struct):
    """Partition and its new replicas."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    replicas: tuple[Int32, ...] | None = field(
        "0+", "Brokers for the replicas; null cancels a reassignment.", default=None, nullable="0+"
    )


class ReassignableTopic(Struct):
    """Topic to reassign."""

    name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[ReassignablePartition, ...] = field(
        "0+", "Partitions of the topic.", default=()
    )


class AlterPartitionReassignmentsRequest(Request, key=45, versions="0-1", flexible="0+"):
    """Moves replicas to other brokers, or cancels a move."""

    timeout_ms: Int32 = field(
        "0+", "Milliseconds to wait for the controller's answer.", default=60000
    )
    allow_replication_factor_change: bool = field(
        "1+", "False refuses to change the replication factor.", default=True
    )
    topics: tuple[ReassignableTopic, ...] = field("0+", "Topics to reassign.", default=())


class ReassignablePartitionResponse(Struct):
    """Outcome for one partition."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    error_code: Int16 = field("0+", "0, or the error.", default=0)
    error_message: str | None = field(
        "0+", "Explanation for people; null if there is no error.", default="", nullable="0+"
    )


class ReassignableTopicResponse(Struct):
    """Outcome for one topic."""

    name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[ReassignablePartitionResponse, ...] = field(
        "0+", "Partitions of the topic.", default=()
    )


class AlterPartitionReassignmentsResponse(Response, key=45, versions="0-1", flexible="0+"):
    """Outcome for each partition."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    allow_replication_factor_change: bool = field(
        "1+", "False refuses to change the replication factor.", default=True, ignorable=True
    )
    error_code: Int16 = field("0+", "0, or the error.", default=0)
    error_message: str | None = field(
        "0+", "Explanation for people; null if there is no error.", default="", nullable="0+"
    )
    responses: tuple[ReassignableTopicResponse, ...] = field(
        "0+", "One entry per topic.", default=()
    )
