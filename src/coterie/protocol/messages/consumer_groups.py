"""Consumer groups of the new protocol (KIP-848): heartbeat and describe."""

from __future__ import annotations

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Int8, Int16, Int32, Uuid

__all__ = [
    "Assignment",
    "ConsumerGroupDescribeAssignment",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupDescribeTopicPartitions",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "DescribedGroup",
    "Member",
    "TopicPartitions",
]


class TopicPartitions(Struct):
    """Partitions of one topic that the member owns."""

    topic_id: Uuid = field("0+", "Id of the topic.", default=Uuid.ZERO)
    partitions: tuple[Int32, ...] = field("0+", "Partitions that the member owns.", default=())


class ConsumerGroupHeartbeatRequest(Request, key=68, versions="0-1", flexible="0+"):
    """Joins, keeps alive or leaves a group under the new consumer protocol."""

    group_id: str = field("0+", "Id of the group.", default="")
    member_id: str = field(
        "0+", "Id of the member; chosen by the client from version 1 on.", default=""
    )
    member_epoch: Int32 = field(
        "0+", "Member epoch; 0 joins, -1 leaves, -2 leaves a static seat warm.", default=0
    )
    instance_id: str | None = field(
        "0+",
        "Instance id of a static member; null if dynamic or unchanged.",
        default=None,
        nullable="0+",
    )
    rack_id: str | None = field(
        "0+", "Rack of the member; null if none or unchanged.", default=None, nullable="0+"
    )
    rebalance_timeout_ms: Int32 = field(
        "0+", "Milliseconds to give up partitions in; -1 if unchanged.", default=-1
    )
    subscribed_topic_names: tuple[str, ...] | None = field(
        "0+", "Topics subscribed to by name; null if unchanged.", default=None, nullable="0+"
    )
    subscribed_topic_regex: str | None = field(
        "1+", "Topic regex in RE2/J syntax; null if unchanged.", default=None, nullable="1+"
    )
    server_assignor: str | None = field(
        "0+",
        "Server-side assignor wanted; null for any, or if unchanged.",
        default=None,
        nullable="0+",
    )
    topic_partitions: tuple[TopicPartitions, ...] | None = field(
        "0+", "Partitions owned; empty to join, null if unchanged.", default=None, nullable="0+"
    )


class Assignment(Struct):
    """Partitions that the member should own now."""

    topic_partitions: tuple[TopicPartitions, ...] = field(
        "0+", "Assigned partitions, by topic.", default=()
    )


class ConsumerGroupHeartbeatResponse(Response, key=68, versions="0-1", flexible="0+"):
    """Answers a consumer heartbeat with the member epoch and any new assignment."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field(
        "0+", "Error code, such as FENCED_MEMBER_EPOCH; 0 when all is well.", default=0
    )
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default=None, nullable="0+"
    )
    member_id: str | None = field(
        "0+",
        "Id of the member, made by the broker in v0; null on error.",
        default=None,
        nullable="0+",
    )
    member_epoch: Int32 = field("0+", "Member epoch to send from now on.", default=0)
    heartbeat_interval_ms: Int32 = field(
        "0+", "Milliseconds to wait between heartbeats.", default=0
    )
    assignment: Assignment | None = field(
        "0+", "Partitions to own from now on; null if unchanged.", default=None, nullable="0+"
    )


class ConsumerGroupDescribeRequest(Request, key=69, versions="0-1", flexible="0+"):
    """Asks for the details of groups that use the new consumer protocol."""

    group_ids: tuple[str, ...] = field(
        "0+", "Consumer groups to describe; classic ones are not found.", default=()
    )
    include_authorized_operations: bool = field(
        "0+", "True asks which operations the caller may do on each group.", default=False
    )


class ConsumerGroupDescribeTopicPartitions(Struct):
    """Assigned partitions of one topic."""

    topic_id: Uuid = field("0+", "Id of the topic.", default=Uuid.ZERO)
    topic_name: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[Int32, ...] = field("0+", "Assigned partitions of the topic.", default=())


class ConsumerGroupDescribeAssignment(Struct):
    """Partitions of a member, by topic."""

    topic_partitions: tuple[ConsumerGroupDescribeTopicPartitions, ...] = field(
        "0+", "Partitions, grouped by topic.", default=()
    )


class Member(Struct):
    """One member of a consumer group."""

    member_id: str = field("0+", "Id of the member within the group.", default="")
    instance_id: str | None = field(
        "0+", "Instance id of a static member; null for a dynamic one.", default=None, nullable="0+"
    )
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
    subscribed_topic_regex: str | None = field(
        "0+", "Regex of topics the member subscribes to; null if none.", default=None, nullable="0+"
    )
    assignment: ConsumerGroupDescribeAssignment = field(
        "0+", "Partitions that the member owns now.", default=ConsumerGroupDescribeAssignment()
    )
    target_assignment: ConsumerGroupDescribeAssignment = field(
        "0+",
        "Partitions that the member should end up owning.",
        default=ConsumerGroupDescribeAssignment(),
    )
    member_type: Int8 = field(
        "1+",
        "Protocol of the member: 0 classic, 1 consumer, -1 unknown.",
        default=-1,
        ignorable=True,
    )


class DescribedGroup(Struct):
    """One consumer group, or the error for it."""

    error_code: Int16 = field(
        "0+", "GROUP_ID_NOT_FOUND for unknown or other groups; 0 if fine.", default=0
    )
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default=None, nullable="0+"
    )
    group_id: str = field("0+", "Id of the group.", default="")
    group_state: str = field("0+", "Empty, Assigning, Reconciling, Stable or Dead.", default="")
    group_epoch: Int32 = field(
        "0+", "Epoch of the group; grows when members or topics change.", default=0
    )
    assignment_epoch: Int32 = field(
        "0+", "Group epoch that the target assignment was computed for.", default=0
    )
    assignor_name: str = field(
        "0+", "Server-side assignor in use, such as uniform or range.", default=""
    )
    members: tuple[Member, ...] = field("0+", "Members of the group.", default=())
    authorized_operations: Int32 = field(
        "0+", "Bit set of allowed operations; -2147483648 if not asked for.", default=-2147483648
    )


class ConsumerGroupDescribeResponse(Response, key=69, versions="0-1", flexible="0+"):
    """Details of consumer groups: epochs, members and assignments."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    groups: tuple[DescribedGroup, ...] = field("0+", "One entry per group.", default=())
