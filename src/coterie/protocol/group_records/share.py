"""Records of share groups (KIP-932)."""

from __future__ import annotations

from coterie.protocol.schema import RecordKey, RecordValue, Struct, field
from coterie.protocol.types import Int8, Int32, Int64, Uuid

__all__ = [
    "ShareGroupCurrentMemberAssignmentKey",
    "ShareGroupCurrentMemberAssignmentValue",
    "ShareGroupMemberMetadataKey",
    "ShareGroupMemberMetadataValue",
    "ShareGroupMetadataKey",
    "ShareGroupMetadataValue",
    "ShareGroupStatePartitionMetadataKey",
    "ShareGroupStatePartitionMetadataValue",
    "ShareGroupTargetAssignmentMemberKey",
    "ShareGroupTargetAssignmentMemberValue",
    "ShareGroupTargetAssignmentMetadataKey",
    "ShareGroupTargetAssignmentMetadataValue",
    "TopicInfo",
    "TopicPartition",
    "TopicPartitions",
    "TopicPartitionsInfo",
]


class ShareGroupMemberMetadataKey(RecordKey, key=10, versions="0"):
    """Key of the record describing one share group member."""

    group_id: str = field("0", "Id of the group.", default="")
    member_id: str = field("0", "Id of the member within the group.", default="")


class ShareGroupMemberMetadataValue(RecordValue, key=10, versions="0", flexible="0+"):
    """Identity and subscription of a share group member."""

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


class ShareGroupMetadataKey(RecordKey, key=11, versions="0"):
    """Key of the record holding a share group's epoch."""

    group_id: str = field("0", "Id of the group.", default="")


class ShareGroupMetadataValue(RecordValue, key=11, versions="0", flexible="0+"):
    """Epoch of a share group; a tombstone removes the group."""

    epoch: Int32 = field("0+", "Epoch of the group; grows with every change to it.", default=0)
    metadata_hash: Int64 = field(
        "0+", "Hash of the subscribed topics' metadata; 0 if not computed.", default=0
    )


class ShareGroupTargetAssignmentMetadataKey(RecordKey, key=12, versions="0"):
    """Key of the record holding the epoch of a share group's target."""

    group_id: str = field("0", "Id of the group.", default="")


class ShareGroupTargetAssignmentMetadataValue(RecordValue, key=12, versions="0", flexible="0+"):
    """Group epoch for which a share group's target assignment was computed."""

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


class ShareGroupTargetAssignmentMemberKey(RecordKey, key=13, versions="0"):
    """Key of the record holding a share group member's target assignment."""

    group_id: str = field("0", "Id of the group.", default="")
    member_id: str = field("0", "Id of the member within the group.", default="")


class TopicPartition(Struct):
    """Target partitions of one topic."""

    topic_id: Uuid = field("0+", "Id of the topic.", default=Uuid.ZERO)
    partitions: tuple[Int32, ...] = field(
        "0+", "Partitions that the member should have.", default=()
    )


class ShareGroupTargetAssignmentMemberValue(RecordValue, key=13, versions="0", flexible="0+"):
    """Partitions that a share group member should end up with."""

    topic_partitions: tuple[TopicPartition, ...] = field(
        "0+", "Target partitions, by topic.", default=()
    )


class ShareGroupCurrentMemberAssignmentKey(RecordKey, key=14, versions="0"):
    """Key of the record holding what a share group member has now."""

    group_id: str = field("0", "Id of the group.", default="")
    member_id: str = field("0", "Id of the member within the group.", default="")


class TopicPartitions(Struct):
    """Partitions of one topic that the member has."""

    topic_id: Uuid = field("0+", "Id of the topic.", default=Uuid.ZERO)
    partitions: tuple[Int32, ...] = field("0+", "Partitions that the member has.", default=())


class ShareGroupCurrentMemberAssignmentValue(RecordValue, key=14, versions="0", flexible="0+"):
    """What a share group member has assigned now."""

    member_epoch: Int32 = field("0+", "Epoch that the member has reached.", default=0)
    previous_member_epoch: Int32 = field(
        "0+", "Epoch before the present one, accepted if an answer got lost.", default=0
    )
    state: Int8 = field(
        "0+", "State of the member; 0, stable, as nothing is revoked here.", default=0
    )
    assigned_partitions: tuple[TopicPartitions, ...] = field(
        "0+", "Partitions assigned to the member.", default=()
    )


class ShareGroupStatePartitionMetadataKey(RecordKey, key=15, versions="0"):
    """Key of the record tracking which share-partitions have state."""

    group_id: str = field("0", "Id of the group.", default="")


class TopicPartitionsInfo(Struct):
    """Topic and its partitions at one stage of share state."""

    topic_id: Uuid = field("0+", "Id of the topic.", default=Uuid.ZERO)
    topic_name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[Int32, ...] = field("0+", "Partitions at this stage.", default=())


class TopicInfo(Struct):
    """Topic whose share state is being deleted."""

    topic_id: Uuid = field("0+", "Id of the topic.", default=Uuid.ZERO)
    topic_name: str = field("0+", "Name of the topic.", default="")


class ShareGroupStatePartitionMetadataValue(RecordValue, key=15, versions="0", flexible="0+"):
    """Share-partitions by stage of their state: starting, ready or going."""

    initializing_topics: tuple[TopicPartitionsInfo, ...] = field(
        "0+", "Topics whose share state is being set up.", default=()
    )
    initialized_topics: tuple[TopicPartitionsInfo, ...] = field(
        "0+", "Topics whose share state is ready for use.", default=()
    )
    deleting_topics: tuple[TopicInfo, ...] = field(
        "0+", "Topics whose share state is being deleted.", default=()
    )
