"""Records of consumer groups (KIP-848)."""

from __future__ import annotations

from coterie.protocol.schema import RecordKey, RecordValue, Struct, field
from coterie.protocol.types import Int8, Int32, Int64, Uuid

__all__ = [
    "ClassicMemberMetadata",
    "ClassicProtocol",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "PartitionMetadata",
    "TopicMetadata",
    "TopicPartition",
    "TopicPartitions",
]


class ConsumerGroupMetadataKey(RecordKey, key=3, versions="0"):
    """Key of the record holding a consumer group's epoch."""

    group_id: str = field("0", "Id of the group.", default="")


class ConsumerGroupMetadataValue(RecordValue, key=3, versions="0", flexible="0+"):
    """Epoch of a consumer group; a tombstone removes the group."""

    epoch: Int32 = field("0+", "Epoch of the group; grows with every change to it.", default=0)
    metadata_hash: Int64 = field(
        "0+", "Hash of the subscribed topics' metadata; 0 if not computed.", default=0, tag=0
    )


class ConsumerGroupPartitionMetadataKey(RecordKey, key=4, versions="0"):
    """Key of the older record holding topic metadata seen by a consumer group."""

    group_id: str = field("0", "Id of the group.", default="")


class PartitionMetadata(Struct):
    """Racks of one partition's replicas."""

    partition: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    racks: tuple[str, ...] = field("0+", "Racks that hold replicas of the partition.", default=())


class TopicMetadata(Struct):
    """One topic as the group last saw it."""

    topic_id: Uuid = field("0+", "Id of the topic.", default=Uuid.ZERO)
    topic_name: str = field("0+", "Name of the topic.", default="")
    num_partitions: Int32 = field("0+", "Number of partitions of the topic.", default=0)
    partition_metadata: tuple[PartitionMetadata, ...] = field(
        "0+", "Racks per partition; may be empty.", default=()
    )


class ConsumerGroupPartitionMetadataValue(RecordValue, key=4, versions="0", flexible="0+"):
    """Topics as last seen by a consumer group; newer brokers keep a hash instead."""

    topics: tuple[TopicMetadata, ...] = field(
        "0+", "Topics that the group subscribes to.", default=()
    )


class ConsumerGroupMemberMetadataKey(RecordKey, key=5, versions="0"):
    """Key of the record describing one consumer group member."""

    group_id: str = field("0", "Id of the group.", default="")
    member_id: str = field("0", "Id of the member within the group.", default="")


class ClassicProtocol(Struct):
    """Assignment protocol that a classic member offered."""

    name: str = field("0+", "Name of the assignment protocol, such as range.", default="")
    metadata: bytes = field(
        "0+", "Subscription bytes that the member sent for the protocol.", default=b""
    )


class ClassicMemberMetadata(Struct):
    """Data of a member that still speaks the classic protocol."""

    session_timeout_ms: Int32 = field(
        "0+", "Milliseconds without a heartbeat before the member is dropped.", default=0
    )
    supported_protocols: tuple[ClassicProtocol, ...] = field(
        "0+", "Assignment protocols on offer, most preferred first.", default=()
    )


class ConsumerGroupMemberMetadataValue(RecordValue, key=5, versions="0", flexible="0+"):
    """Identity, subscription and timeouts of a consumer group member."""

    instance_id: str | None = field(
        "0+", "Instance id of a static member; null for a dynamic one.", default="", nullable="0+"
    )
    rack_id: str | None = field(
        "0+", "Rack of the member; null if it has none.", default="", nullable="0+"
    )
    client_id: str = field("0+", "Client id that the member's client gave itself.", default="")
    client_host: str = field(
        "0+", "Host that the member connects from, such as /10.0.0.7.", default=""
    )
    subscribed_topic_names: tuple[str, ...] = field(
        "0+", "Topics that the member subscribes to by name.", default=()
    )
    subscribed_topic_regex: str | None = field(
        "0+", "Regex of topics the member subscribes to; null if none.", default="", nullable="0+"
    )
    rebalance_timeout_ms: Int32 = field(
        "0+", "Milliseconds the member has to give up partitions; -1 if not set.", default=-1
    )
    server_assignor: str | None = field(
        "0+", "Server-side assignor the member prefers; null for any.", default="", nullable="0+"
    )
    classic_member_metadata: ClassicMemberMetadata | None = field(
        "0+",
        "Classic protocol data; null for a native member.",
        default=ClassicMemberMetadata(),
        nullable="0+",
        tag=0,
    )


class ConsumerGroupTargetAssignmentMetadataKey(RecordKey, key=6, versions="0"):
    """Key of the record holding the epoch of a consumer group's target."""

    group_id: str = field("0", "Id of the group.", default="")


class ConsumerGroupTargetAssignmentMetadataValue(RecordValue, key=6, versions="0", flexible="0+"):
    """Group epoch for which a consumer group's target assignment was computed."""

    assignment_epoch: Int32 = field(
        "0+", "Group epoch that the target assignment was computed for.", default=0
    )
    assignment_timestamp: Int64 = field(
        "0+",
        "When the target was computed, in epoch ms; 0 if unknown.",
        default=0,
        tag=0,
        ignorable=True,
    )


class ConsumerGroupTargetAssignmentMemberKey(RecordKey, key=7, versions="0"):
    """Key of the record holding a consumer group member's target assignment."""

    group_id: str = field("0", "Id of the group.", default="")
    member_id: str = field("0", "Id of the member within the group.", default="")


class TopicPartition(Struct):
    """Target partitions of one topic."""

    topic_id: Uuid = field("0+", "Id of the topic.", default=Uuid.ZERO)
    partitions: tuple[Int32, ...] = field(
        "0+", "Partitions that the member should own.", default=()
    )


class ConsumerGroupTargetAssignmentMemberValue(RecordValue, key=7, versions="0", flexible="0+"):
    """Partitions that a consumer group member should end up owning."""

    topic_partitions: tuple[TopicPartition, ...] = field(
        "0+", "Target partitions, by topic.", default=()
    )


class ConsumerGroupCurrentMemberAssignmentKey(RecordKey, key=8, versions="0"):
    """Key of the record holding what a consumer group member owns now."""

    group_id: str = field("0", "Id of the group.", default="")
    member_id: str = field("0", "Id of the member within the group.", default="")


class TopicPartitions(Struct):
    """Partitions of one topic held by the member."""

    topic_id: Uuid = field("0+", "Id of the topic.", default=Uuid.ZERO)
    partitions: tuple[Int32, ...] = field("0+", "Partitions that the member holds.", default=())
    assignment_epochs: tuple[Int32, ...] | None = field(
        "0+",
        "Epoch at which each partition was assigned; null if unknown.",
        default=(),
        nullable="0+",
        tag=0,
    )


class ConsumerGroupCurrentMemberAssignmentValue(RecordValue, key=8, versions="0", flexible="0+"):
    """What a consumer group member owns now and how far it has reconciled."""

    member_epoch: Int32 = field(
        "0+", "Epoch of the member; the target epoch once it is reconciled.", default=0
    )
    previous_member_epoch: Int32 = field(
        "0+", "Epoch before the present one, accepted if an answer got lost.", default=0
    )
    state: Int8 = field(
        "0+", "State: 0 stable, 1 must give partitions up, 2 waits for others.", default=0
    )
    assigned_partitions: tuple[TopicPartitions, ...] = field(
        "0+", "Partitions that the member owns.", default=()
    )
    partitions_pending_revocation: tuple[TopicPartitions, ...] = field(
        "0+", "Partitions that the member has yet to give up.", default=()
    )


class ConsumerGroupRegularExpressionKey(RecordKey, key=16, versions="0"):
    """Key of the record holding a resolved topic regex of a consumer group."""

    group_id: str = field("0", "Id of the group.", default="")
    regular_expression: str = field(
        "0", "Topic regex in RE2/J syntax, as subscribed to.", default=""
    )


class ConsumerGroupRegularExpressionValue(RecordValue, key=16, versions="0", flexible="0+"):
    """Topics that a subscribed regex matched, and when that was worked out."""

    topics: tuple[str, ...] = field("0+", "Names of the topics that matched.", default=())
    version: Int64 = field(
        "0+", "Version of the cluster metadata that the regex ran against.", default=0
    )
    timestamp: Int64 = field("0+", "When the regex was resolved, in epoch ms.", default=0)
