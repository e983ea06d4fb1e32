"""Share groups (KIP-932): heartbeat, describe, and their offsets."""

from __future__ import annotations

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Int16, Int32, Int64, Uuid

__all__ = [
    "AlterShareGroupOffsetsRequest",
    "AlterShareGroupOffsetsRequestPartition",
    "AlterShareGroupOffsetsRequestTopic",
    "AlterShareGroupOffsetsResponse",
    "AlterShareGroupOffsetsResponsePartition",
    "AlterShareGroupOffsetsResponseTopic",
    "Assignment",
    "DeleteShareGroupOffsetsRequest",
    "DeleteShareGroupOffsetsRequestTopic",
    "DeleteShareGroupOffsetsResponse",
    "DeleteShareGroupOffsetsResponseTopic",
    "DescribeShareGroupOffsetsRequest",
    "DescribeShareGroupOffsetsRequestGroup",
    "DescribeShareGroupOffsetsRequestTopic",
    "DescribeShareGroupOffsetsResponse",
    "DescribeShareGroupOffsetsResponseGroup",
    "DescribeShareGroupOffsetsResponsePartition",
    "DescribeShareGroupOffsetsResponseTopic",
    "DescribedGroup",
    "Member",
    "ShareGroupDescribeAssignment",
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
    "ShareGroupDescribeTopicPartitions",
    "ShareGroupHeartbeatRequest",
    "ShareGroupHeartbeatResponse",
    "TopicPartitions",
]


class ShareGroupHeartbeatRequest(Request, key=76, versions="1", flexible="0+"):
    """Joins, keeps alive or leaves a share group."""

    group_id: str = field("0+", "Id of the group.", default="")
    member_id: str = field("0+", "Id of the member, chosen by the client.", default="")
    member_epoch: Int32 = field("0+", "Member epoch; 0 joins, -1 leaves.", default=0)
    rack_id: str | None = field(
        "0+", "Rack of the member; null if none or unchanged.", default=None, nullable="0+"
    )
    subscribed_topic_names: tuple[str, ...] | None = field(
        "0+", "Topics subscribed to; null if unchanged.", default=None, nullable="0+"
    )


class TopicPartitions(Struct):
    """Assigned partitions of one topic."""

    topic_id: Uuid = field("0+", "Id of the topic.", default=Uuid.ZERO)
    partitions: tuple[Int32, ...] = field("0+", "Assigned partitions of the topic.", default=())


class Assignment(Struct):
    """Partitions that the member should fetch from now."""

    topic_partitions: tuple[TopicPartitions, ...] = field(
        "0+", "Assigned partitions, by topic.", default=()
    )


class ShareGroupHeartbeatResponse(Response, key=76, versions="1", flexible="0+"):
    """Answers a share group heartbeat with epoch and any new assignment."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field(
        "0+", "Error code, such as UNKNOWN_MEMBER_ID; 0 when all is well.", default=0
    )
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default=None, nullable="0+"
    )
    member_id: str | None = field(
        "0+",
        "Id of the member, as the client chose it; null on error.",
        default=None,
        nullable="0+",
    )
    member_epoch: Int32 = field("0+", "Member epoch to send from now on.", default=0)
    heartbeat_interval_ms: Int32 = field(
        "0+", "Milliseconds to wait between heartbeats.", default=0
    )
    assignment: Assignment | None = field(
        "0+", "Partitions to read from now on; null if unchanged.", default=None, nullable="0+"
    )


class ShareGroupDescribeRequest(Request, key=77, versions="1", flexible="0+"):
    """Asks for the details of share groups."""

    group_ids: tuple[str, ...] = field("0+", "Share groups to describe.", default=())
    include_authorized_operations: bool = field(
        "0+", "True asks which operations the caller may do on each group.", default=False
    )


class ShareGroupDescribeTopicPartitions(Struct):
    """Assigned partitions of one topic."""

    topic_id: Uuid = field("0+", "Id of the topic.", default=Uuid.ZERO)
    topic_name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[Int32, ...] = field("0+", "Assigned partitions of the topic.", default=())


class ShareGroupDescribeAssignment(Struct):
    """Partitions of a member, by topic."""

    topic_partitions: tuple[ShareGroupDescribeTopicPartitions, ...] = field(
        "0+", "Partitions, grouped by topic.", default=()
    )


class Member(Struct):
    """One member of a share group."""

    member_id: str = field("0+", "Id of the member within the group.", default="")
    rack_id: str | None = field(
        "0+", "Rack of the member; null if it has none.", default=None, nullable="0+"
    )
    member_epoch: Int32 = field("0+", "Epoch that the member has reached.", default=0)
    client_id: str = field("0+", "Client id that the member's client gave itself.", default="")
    client_host: str = field(
        "0+", "Host that the member connects from, such as /10.0.0.7.", default=""
    )
    subscribed_topic_names: tuple[str, ...] = field(
        "0+", "Topics that the member subscribes to by name.", default=()
    )
    assignment: ShareGroupDescribeAssignment = field(
        "0+",
        "Partitions that the member reads; others may share them.",
        default=ShareGroupDescribeAssignment(),
    )


class DescribedGroup(Struct):
    """One share group, or the error for it."""

    error_code: Int16 = field(
        "0+", "GROUP_ID_NOT_FOUND for unknown or other groups; 0 if fine.", default=0
    )
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default=None, nullable="0+"
    )
    group_id: str = field("0+", "Id of the group.", default="")
    group_state: str = field("0+", "Empty, Stable or Dead.", default="")
    group_epoch: Int32 = field(
        "0+", "Epoch of the group; grows when members or topics change.", default=0
    )
    assignment_epoch: Int32 = field(
        "0+", "Group epoch that the target assignment was computed for.", default=0
    )
    assignor_name: str = field("0+", "Server-side assignor in use.", default="")
    members: tuple[Member, ...] = field("0+", "Members of the group.", default=())
    authorized_operations: Int32 = field(
        "0+", "Bit set of allowed operations; -2147483648 if not asked for.", default=-2147483648
    )


class ShareGroupDescribeResponse(Response, key=77, versions="1", flexible="0+"):
    """Details of share groups: epochs, members and assignments."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    groups: tuple[DescribedGroup, ...] = field("0+", "One entry per group.", default=())


class DescribeShareGroupOffsetsRequestTopic(Struct):
    """Topic and partitions to read start offsets of."""

    topic_name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[Int32, ...] = field("0+", "Partitions to read.", default=())


class DescribeShareGroupOffsetsRequestGroup(Struct):
    """Share group to read start offsets of."""

    group_id: str = field("0+", "Id of the group.", default="")
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None = field(
        "0+", "Topics to read; null asks for all of the group.", default=(), nullable="0+"
    )


class DescribeShareGroupOffsetsRequest(Request, key=90, versions="0-1", flexible="0+"):
    """Asks for the start offsets of share groups."""

    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...] = field(
        "0+", "Share groups to read.", default=()
    )


class DescribeShareGroupOffsetsResponsePartition(Struct):
    """Start offset and lag of one share-partition."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    start_offset: Int64 = field(
        "0+", "First offset not finished with; -1 if the group has none.", default=0
    )
    leader_epoch: Int32 = field("0+", "Leader epoch stored with the start offset.", default=0)
    lag: Int64 = field(
        "1+",
        "Records still to be delivered or acknowledged; -1 if unknown.",
        default=-1,
        ignorable=True,
    )
    error_code: Int16 = field("0+", "Error code of the partition; 0 when all is well.", default=0)
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default=None, nullable="0+"
    )


class DescribeShareGroupOffsetsResponseTopic(Struct):
    """Start offsets within one topic."""

    topic_name: str = field("0+", "Name of the topic.", default="")
    topic_id: Uuid = field("0+", "Id of the topic.", default=Uuid.ZERO)
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...] = field(
        "0+", "One entry per partition.", default=()
    )


class DescribeShareGroupOffsetsResponseGroup(Struct):
    """Start offsets of one share group, or the error for it."""

    group_id: str = field("0+", "Id of the group.", default="")
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...] = field(
        "0+", "One entry per topic.", default=()
    )
    error_code: Int16 = field("0+", "Error for the whole group; 0 when all is well.", default=0)
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default=None, nullable="0+"
    )


class DescribeShareGroupOffsetsResponse(Response, key=90, versions="0-1", flexible="0+"):
    """Start offset and lag of each share-partition."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...] = field(
        "0+", "One entry per group.", default=()
    )


class AlterShareGroupOffsetsRequestPartition(Struct):
    """New start offset of one share-partition."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    start_offset: Int64 = field("0+", "Offset from which the share group reads on.", default=0)


class AlterShareGroupOffsetsRequestTopic(Struct):
    """Topic whose share-partition start offsets move."""

    topic_name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...] = field(
        "0+", "New start offset per partition.", default=()
    )


class AlterShareGroupOffsetsRequest(Request, key=91, versions="0", flexible="0+"):
    """Moves the start offsets of an empty share group."""

    group_id: str = field("0+", "Id of the share group; it must have no members.", default="")
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...] = field(
        "0+", "Topics whose start offsets move.", default=()
    )


class AlterShareGroupOffsetsResponsePartition(Struct):
    """Result for one share-partition."""

    partition_index: Int32 = field("0+", "Number of the partition within the topic.", default=0)
    error_code: Int16 = field("0+", "Error code of the partition; 0 when it was moved.", default=0)
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default=None, nullable="0+"
    )


class AlterShareGroupOffsetsResponseTopic(Struct):
    """Results for one topic of the share group."""

    topic_name: str = field("0+", "Name of the topic.", default="")
    topic_id: Uuid = field("0+", "Id of the topic.", default=Uuid.ZERO)
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...] = field(
        "0+", "One result per partition.", default=()
    )


class AlterShareGroupOffsetsResponse(Response, key=91, versions="0", flexible="0+"):
    """Outcome per partition of moving a share group's start offsets."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field(
        "0+", "Error for the whole group, such as NON_EMPTY_GROUP; 0 if none.", default=0
    )
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default=None, nullable="0+"
    )
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...] = field(
        "0+", "One result per topic.", default=()
    )


class DeleteShareGroupOffsetsRequestTopic(Struct):
    """Topic for which the share group forgets its offsets."""

    topic_name: str = field("0+", "Name of the topic.", default="")


class DeleteShareGroupOffsetsRequest(Request, key=92, versions="0", flexible="0+"):
    """Forgets a share group's offsets for whole topics."""

    group_id: str = field("0+", "Id of the share group; it must have no members.", default="")
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...] = field(
        "0+", "Topics for which the group forgets its offsets.", default=()
    )


class DeleteShareGroupOffsetsResponseTopic(Struct):
    """Result for one topic."""

    topic_name: str = field("0+", "Name of the topic.", default="")
    topic_id: Uuid = field("0+", "Id of the topic.", default=Uuid.ZERO)
    error_code: Int16 = field("0+", "Error code of the topic; 0 when all is well.", default=0)
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default=None, nullable="0+"
    )


class DeleteShareGroupOffsetsResponse(Response, key=92, versions="0", flexible="0+"):
    """Outcome per topic of forgetting a share group's offsets."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field(
        "0+", "Error for the whole group, such as NON_EMPTY_GROUP; 0 if none.", default=0
    )
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default=None, nullable="0+"
    )
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...] = field(
        "0+", "One result per topic.", default=()
    )
