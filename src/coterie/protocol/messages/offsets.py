"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Int16, Int32, Int64, Uuid

__all__ = [
    "OffsetCommitRequest",
    "OffsetCommitRequestPartition",
    "OffsetCommitRequestTopic",
    "OffsetCommitResponse",
    "OffsetCommitResponsePartition",
    "OffsetCommitResponseTopic",
    "OffsetDeleteRequest",
    "OffsetDeleteRequestPartition",
    "OffsetDeleteRequestTopic",
    "OffsetDeleteResponse",
    "OffsetDeleteResponsePartition",
    "OffsetDeleteResponseTopic",
    "OffsetFetchRequest",
    "OffsetFetchRequestGroup",
    "OffsetFetchRequestTopic",
    "OffsetFetchRequestTopics",
    "OffsetFetchResponse",
    "OffsetFetchResponseGroup",
    "OffsetFetchResponsePartition",
    "OffsetFetchResponsePartitions",
    "OffsetFetchResponseTopic",
    "OffsetFetchResponseTopics",
]


class OffsetCommitRequestPartition(Struct):
    """Offset to store for one partition."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    committed_offset: Int64 = field("0+", "Next offset that the group will read.", default=0)
    committed_leader_epoch: Int32 = field(
        "6+", "Leader epoch of the last record consumed; -1 if unknown.", default=-1, ignorable=True
    )
    committed_metadata: str | None = field(
        "0+", "Free text to keep with the offset; null if none.", default="", nullable="0+"
    )


class OffsetCommitRequestTopic(Struct):
    """Offsets to store for one topic."""

    name: str = field("0-9", "Name of the topic, up to version 9.", default="", ignorable=True)
    topic_id: Uuid = field(
        "10+", "Id of the topic, from version 10 on.", default=Uuid.ZERO, ignorable=True
    )
    partitions: tuple[OffsetCommitRequestPartition, ...] = field(
        "0+", "Offset to store per partition.", default=()
    )


class OffsetCommitRequest(Request, key=8, versions="2-10", flexible="8+"):
    """Stores the offsets that a group has consumed up to."""

    group_id: str = field("0+", "Id of the group.", default="")
    generation_id_or_member_epoch: Int32 = field(
        "1+",
        "Generation (classic) or member epoch; -1 if not a member.",
        default=-1,
        ignorable=True,
    )
    member_id: str = field(
        "1+", "Id of the committing member; empty if not a member.", default="", ignorable=True
    )
    group_instance_id: str | None = field(
        "7+", "Instance id of a static member; null for a dynamic one.", default=None, nullable="7+"
    )
    retention_time_ms: Int64 = field(
        "2-4",
        "Milliseconds to keep the offset; -1 uses the broker's setting.",
        default=-1,
        ignorable=True,
    )
    topics: tuple[OffsetCommitRequestTopic, ...] = field(
        "0+", "Offsets to store, by topic.", default=()
    )


class OffsetCommitResponsePartition(Struct):
    """Result for one partition."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    error_code: Int16 = field(
        "0+", "ILLEGAL_GENERATION and so on; 0 when the offset was stored.", default=0
    )


class OffsetCommitResponseTopic(Struct):
    """Results for one topic."""

    name: str = field("0-9", "Name of the topic, up to version 9.", default="", ignorable=True)
    topic_id: Uuid = field(
        "10+", "Id of the topic, from version 10 on.", default=Uuid.ZERO, ignorable=True
    )
    partitions: tuple[OffsetCommitResponsePartition, ...] = field(
        "0+", "One result per partition.", default=()
    )


class OffsetCommitResponse(Response, key=8, versions="2-10", flexible="8+"):
    """Outcome per partition of storing offsets."""

    throttle_time_ms: Int32 = field(
        "3+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    topics: tuple[OffsetCommitResponseTopic, ...] = field("0+", "One entry per topic.", default=())


class OffsetFetchRequestTopic(Struct):
    """Topic and partitions to read, up to version 7."""

    name: str = field("0-7", "Name of the topic.", default="")
    partition_indexes: tuple[Int32, ...] = field(
        "0-7", "Numbers of the partitions wanted.", default=()
    )


class OffsetFetchRequestTopics(Struct):
    """Topic and partitions to read for a group."""

    name: str = field("8-9", "Name of the topic, up to version 9.", default="", ignorable=True)
    topic_id: Uuid = field(
        "10+", "Id of the topic, from version 10 on.", default=Uuid.ZERO, ignorable=True
    )
    partition_indexes: tuple[Int32, ...] = field(
        "8+", "Numbers of the partitions wanted.", default=()
    )


class OffsetFetchRequestGroup(Struct):
    """One group to read offsets of, from version 8 on."""

    group_id: str = field("8+", "Id of the group.", default="")
    member_id: str | None = field(
        "9+",
        "Member that asks; null if it is not a member.",
        default=None,
        nullable="9+",
        ignorable=True,
    )
    member_epoch: Int32 = field(
        "9+", "Epoch of the member that asks; -1 skips the check.", default=-1, ignorable=True
    )
    topics: tuple[OffsetFetchRequestTopics, ...] | None = field(
        "8+", "Topics to read; null asks for all of the group.", default=(), nullable="8+"
    )


class OffsetFetchRequest(Request, key=9, versions="1-10", flexible="6+"):
    """Reads the committed offsets of groups."""

    group_id: str = field("0-7", "Group to read offsets of, up to version 7.", default="")
    topics: tuple[OffsetFetchRequestTopic, ...] | None = field(
        "0-7", "Topics to read, up to version 7; null asks for all.", default=(), nullable="2-7"
    )
    groups: tuple[OffsetFetchRequestGroup, ...] = field(
        "8+", "Groups to read offsets of, from version 8 on.", default=()
    )
    require_stable: bool = field(
        "7+", "True refuses offsets that an open transaction may change.", default=False
    )


class OffsetFetchResponsePartition(Struct):
    """Committed offset of one partition, up to version 7."""

    partition_index: Int32 = field("0-7", "Number of the partition within the topic.", default=0)
    committed_offset: Int64 = field(
        "0-7", "Next offset that the group will read; -1 if none is stored.", default=0
    )
    committed_leader_epoch: Int32 = field(
        "5-7",
        "Leader epoch of the last record consumed; -1 if unknown.",
        default=-1,
        ignorable=True,
    )
    metadata: str | None = field(
        "0-7", "Free text kept with the offset; empty or null if none.", default="", nullable="0-7"
    )
    error_code: Int16 = field(
        "0-7", "UNSTABLE_OFFSET_COMMIT asks to retry; 0 when all is well.", default=0
    )


class OffsetFetchResponseTopic(Struct):
    """Offsets of one topic, up to version 7."""

    name: str = field("0-7", "Name of the topic.", default="")
    partitions: tuple[OffsetFetchResponsePartition, ...] = field(
        "0-7", "One entry per partition.", default=()
    )


class OffsetFetchResponsePartitions(Struct):
    """Committed offset of one partition of a group."""

    partition_index: Int32 = field("8+", "Number of the partition within the topic.", default=0)
    committed_offset: Int64 = field(
        "8+", "Next offset that the group will read; -1 if none is stored.", default=0
    )
    committed_leader_epoch: Int32 = field(
        "8+", "Leader epoch of the last record consumed; -1 if unknown.", default=-1, ignorable=True
    )
    metadata: str | None = field(
        "8+", "Free text kept with the offset; empty or null if none.", default="", nullable="8+"
    )
    error_code: Int16 = field(
        "8+", "UNSTABLE_OFFSET_COMMIT asks to retry; 0 when all is well.", default=0
    )


class OffsetFetchResponseTopics(Struct):
    """Offsets of one topic of a group."""

    name: str = field("8-9", "Name of the topic, up to version 9.", default="", ignorable=True)
    topic_id: Uuid = field(
        "10+", "Id of the topic, from version 10 on.", default=Uuid.ZERO, ignorable=True
    )
    partitions: tuple[OffsetFetchResponsePartitions, ...] = field(
        "8+", "One entry per partition.", default=()
    )


class OffsetFetchResponseGroup(Struct):
    """Offsets of one group, or the error for it."""

    group_id: str = field("8+", "Id of the group.", default="")
    topics: tuple[OffsetFetchResponseTopics, ...] = field("8+", "Offsets by topic.", default=())
    error_code: Int16 = field(
        "8+", "Error for the whole group; 0 even if the group is unknown.", default=0
    )


class OffsetFetchResponse(Response, key=9, versions="1-10", flexible="6+"):
    """Committed offsets; partitions without one answer -1."""

    throttle_time_ms: Int32 = field(
        "3+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    topics: tuple[OffsetFetchResponseTopic, ...] = field(
        "0-7", "Offsets by topic, up to version 7.", default=()
    )
    error_code: Int16 = field(
        "2-7", "Error for the whole group, up to version 7; 0 if none.", default=0, ignorable=True
    )
    groups: tuple[OffsetFetchResponseGroup, ...] = field(
        "8+", "Offsets by group, from version 8 on.", default=()
    )


class OffsetDeleteRequestPartition(Struct):
    """Partition whose committed offset goes."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)


class OffsetDeleteRequestTopic(Struct):
    """Topic whose committed offsets go."""

    name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[OffsetDeleteRequestPartition, ...] = field(
        "0+", "Partitions whose committed offsets go.", default=()
    )


class OffsetDeleteRequest(Request, key=47, versions="0"):
    """Deletes committed offsets of topics that the group no longer subscribes to."""

    group_id: str = field("0+", "Id of the group.", default="")
    topics: tuple[OffsetDeleteRequestTopic, ...] = field(
        "0+", "Topics whose committed offsets go.", default=()
    )


class OffsetDeleteResponsePartition(Struct):
    """Result for one partition."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    error_code: Int16 = field(
        "0+", "GROUP_SUBSCRIBED_TO_TOPIC if in use; 0 when deleted.", default=0
    )


class OffsetDeleteResponseTopic(Struct):
    """Results for one topic."""

    name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[OffsetDeleteResponsePartition, ...] = field(
        "0+", "One result per partition.", default=()
    )


class OffsetDeleteResponse(Response, key=47, versions="0"):
    """Outcome per partition of deleting committed offsets."""

    error_code: Int16 = field(
        "0+", "Error for the whole group, such as NON_EMPTY_GROUP; 0 if none.", default=0
    )
    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    topics: tuple[OffsetDeleteResponseTopic, ...] = field("0+", "One entry per topic.", default=())
