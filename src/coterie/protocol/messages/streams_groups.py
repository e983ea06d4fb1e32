"""Streams groups (KIP-1071): heartbeat and describe."""

from __future__ import annotations

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Int8, Int16, Int32, Int64, UInt16

__all__ = [
    "Assignment",
    "CopartitionGroup",
    "DescribedGroup",
    "Endpoint",
    "EndpointToPartitions",
    "KeyValue",
    "Member",
    "Status",
    "StreamsGroupDescribeRequest",
    "StreamsGroupDescribeResponse",
    "StreamsGroupDescribeSubtopology",
    "StreamsGroupDescribeTopology",
    "StreamsGroupHeartbeatRequest",
    "StreamsGroupHeartbeatResponse",
    "Subtopology",
    "TaskIds",
    "TaskOffset",
    "TopicInfo",
    "TopicPartition",
    "Topology",
]


class KeyValue(Struct):
    """A name and its value."""

    key: str = field("0+", "Name of the tag or setting.", default="")
    value: str = field("0+", "Value of the tag or setting.", default="")


class TopicInfo(Struct):
    """Internal topic with the layout and settings it needs."""

    name: str = field("0+", "Name of the internal topic.", default="")
    partitions: Int32 = field("0+", "Number of partitions; 0 lets the broker derive it.", default=0)
    replication_factor: Int16 = field(
        "0+", "Replicas per partition; 0 for the broker's default.", default=0
    )
    topic_configs: tuple[KeyValue, ...] = field("0+", "Settings of the internal topic.", default=())


class CopartitionGroup(Struct):
    """Topics that must have equally many partitions."""

    source_topics: tuple[Int16, ...] = field(
        "0+", "Positions in the subtopology's source topics.", default=()
    )
    source_topic_regex: tuple[Int16, ...] = field(
        "0+", "Positions in the subtopology's source topic regexes.", default=()
    )
    repartition_source_topics: tuple[Int16, ...] = field(
        "0+", "Positions in the subtopology's repartition source topics.", default=()
    )


class Subtopology(Struct):
    """Connected part of the topology; one task per partition."""

    subtopology_id: str = field(
        "0+", "Id of the subtopology; with a partition it names a task.", default=""
    )
    source_topics: tuple[str, ...] = field(
        "0+", "Topics from outside that the subtopology reads.", default=()
    )
    source_topic_regex: tuple[str, ...] = field(
        "0+", "Regexes for topics that the subtopology reads.", default=()
    )
    state_changelog_topics: tuple[TopicInfo, ...] = field(
        "0+", "Changelog topics that back the state stores.", default=()
    )
    repartition_sink_topics: tuple[str, ...] = field(
        "0+", "Repartition topics that the subtopology writes to.", default=()
    )
    repartition_source_topics: tuple[TopicInfo, ...] = field(
        "0+", "Repartition topics that the subtopology reads.", default=()
    )
    copartition_groups: tuple[CopartitionGroup, ...] = field(
        "0+", "Sets of topics that must have equally many partitions.", default=()
    )


class Topology(Struct):
    """Topology that the member's application runs."""

    epoch: Int32 = field(
        "0+", "Epoch of the topology; grows when the application changes.", default=0
    )
    subtopologies: tuple[Subtopology, ...] = field(
        "0+", "Connected parts of the topology.", default=()
    )


class TaskIds(Struct):
    """Tasks of one subtopology that the member holds."""

    subtopology_id: str = field(
        "0+", "Id of the subtopology; with a partition it names a task.", default=""
    )
    partitions: tuple[Int32, ...] = field(
        "0+", "Partitions of the subtopology, one task each.", default=()
    )


class Endpoint(Struct):
    """Address at which the application can be queried."""

    host: str = field("0+", "Host of the endpoint.", default="")
    port: UInt16 = field("0+", "Port of the endpoint.", default=0)


class TaskOffset(Struct):
    """Offset that a task has reached."""

    subtopology_id: str = field(
        "0+", "Id of the subtopology; with a partition it names a task.", default=""
    )
    partition: Int32 = field("0+", "Partition of the task.", default=0)
    offset: Int64 = field("0+", "Changelog offset of the task.", default=0)


class StreamsGroupHeartbeatRequest(Request, key=88, versions="0", flexible="0+"):
    """Joins, keeps alive or leaves a streams group."""

    group_id: str = field("0+", "Id of the group.", default="")
    member_id: str = field("0+", "Id of the member, chosen by the client.", default="")
    member_epoch: Int32 = field(
        "0+", "Member epoch; 0 joins, -1 leaves, -2 leaves a static seat warm.", default=0
    )
    endpoint_information_epoch: Int32 = field(
        "0+", "Epoch of the endpoint information the member has.", default=0
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
        "0+", "Milliseconds to give up tasks in; -1 if unchanged.", default=-1
    )
    topology: Topology | None = field(
        "0+",
        "Topology of the application, sent on joining; null otherwise.",
        default=None,
        nullable="0+",
    )
    active_tasks: tuple[TaskIds, ...] | None = field(
        "0+", "Active tasks owned; null if unchanged.", default=None, nullable="0+"
    )
    standby_tasks: tuple[TaskIds, ...] | None = field(
        "0+", "Standby tasks owned; null if unchanged.", default=None, nullable="0+"
    )
    warmup_tasks: tuple[TaskIds, ...] | None = field(
        "0+", "Warm-up tasks owned; null if unchanged.", default=None, nullable="0+"
    )
    process_id: str | None = field(
        "0+",
        "Id of the process the member runs in; null if unchanged.",
        default=None,
        nullable="0+",
    )
    user_endpoint: Endpoint | None = field(
        "0+",
        "Address for interactive queries; null if none or unchanged.",
        default=None,
        nullable="0+",
    )
    client_tags: tuple[KeyValue, ...] | None = field(
        "0+", "Tags for spreading standby tasks; null if unchanged.", default=None, nullable="0+"
    )
    task_offsets: tuple[TaskOffset, ...] | None = field(
        "0+",
        "Changelog offsets reached, summed per task; null if unchanged.",
        default=None,
        nullable="0+",
    )
    task_end_offsets: tuple[TaskOffset, ...] | None = field(
        "0+", "Changelog ends, summed per task; null if unchanged.", default=None, nullable="0+"
    )
    shutdown_application: bool = field(
        "0+", "True asks every member of the application to shut down.", default=False
    )


class Status(Struct):
    """Condition of the group that the member should know of."""

    status_code: Int8 = field(
        "0+", "Condition, such as 1 missing source topics, 4 shutdown asked.", default=0
    )
    status_detail: str = field("0+", "Text that explains the condition.", default="")


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[Int32, ...] = field("0+", "Numbers of the partitions.", default=())


class EndpointToPartitions(Struct):
    """Partitions that are served at one endpoint."""

    user_endpoint: Endpoint = field(
        "0+", "Address of the application instance.", default=Endpoint()
    )
    active_partitions: tuple[TopicPartition, ...] = field(
        "0+", "Input partitions of the active tasks at the endpoint.", default=()
    )
    standby_partitions: tuple[TopicPartition, ...] = field(
        "0+", "Input partitions of the standby tasks at the endpoint.", default=()
    )


class StreamsGroupHeartbeatResponse(Response, key=88, versions="0", flexible="0+"):
    """Answers a streams heartbeat with epoch, tasks and group status."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    error_code: Int16 = field(
        "0+", "Error code, such as FENCED_MEMBER_EPOCH; 0 when all is well.", default=0
    )
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default=None, nullable="0+"
    )
    member_id: str = field("0+", "Id of the member, as the client chose it.", default="")
    member_epoch: Int32 = field("0+", "Member epoch to send from now on.", default=0)
    heartbeat_interval_ms: Int32 = field(
        "0+", "Milliseconds to wait between heartbeats.", default=0
    )
    acceptable_recovery_lag: Int32 = field(
        "0+", "Offsets a warm-up task may lag and still count as caught up.", default=0
    )
    task_offset_interval_ms: Int32 = field(
        "0+", "Milliseconds between reports of task offsets.", default=0
    )
    status: tuple[Status, ...] | None = field(
        "0+",
        "Conditions of the group; null if there is nothing to tell.",
        default=(),
        nullable="0+",
    )
    active_tasks: tuple[TaskIds, ...] | None = field(
        "0+", "Active tasks to own from now on; null if unchanged.", default=None, nullable="0+"
    )
    standby_tasks: tuple[TaskIds, ...] | None = field(
        "0+", "Standby tasks to own from now on; null if unchanged.", default=None, nullable="0+"
    )
    warmup_tasks: tuple[TaskIds, ...] | None = field(
        "0+", "Warm-up tasks to own from now on; null if unchanged.", default=None, nullable="0+"
    )
    endpoint_information_epoch: Int32 = field(
        "0+", "Epoch of the endpoint information on the broker.", default=0
    )
    partitions_by_user_endpoint: tuple[EndpointToPartitions, ...] | None = field(
        "0+", "Partitions per endpoint; null if nothing changed.", default=None, nullable="0+"
    )


class StreamsGroupDescribeRequest(Request, key=89, versions="0", flexible="0+"):
    """Asks for the details of streams groups."""

    group_ids: tuple[str, ...] = field("0+", "Streams groups to describe.", default=())
    include_authorized_operations: bool = field(
        "0+", "True asks which operations the caller may do on each group.", default=False
    )


class StreamsGroupDescribeSubtopology(Struct):
    """Connected part of the topology; one task per partition."""

    subtopology_id: str = field(
        "0+", "Id of the subtopology; with a partition it names a task.", default=""
    )
    source_topics: tuple[str, ...] = field(
        "0+", "Topics from outside that the subtopology reads.", default=()
    )
    repartition_sink_topics: tuple[str, ...] = field(
        "0+", "Repartition topics that the subtopology writes to.", default=()
    )
    state_changelog_topics: tuple[TopicInfo, ...] = field(
        "0+", "Changelog topics that back the state stores.", default=()
    )
    repartition_source_topics: tuple[TopicInfo, ...] = field(
        "0+", "Repartition topics that the subtopology reads.", default=()
    )


class StreamsGroupDescribeTopology(Struct):
    """Topology that the group runs."""

    epoch: Int32 = field("0+", "Epoch of the topology.", default=0)
    subtopologies: tuple[StreamsGroupDescribeSubtopology, ...] | None = field(
        "0+",
        "Connected parts of the topology; null if not set up yet.",
        default=None,
        nullable="0+",
    )


class Assignment(Struct):
    """Tasks of a member, by role."""

    active_tasks: tuple[TaskIds, ...] = field("0+", "Tasks that process input.", default=())
    standby_tasks: tuple[TaskIds, ...] = field(
        "0+", "Tasks that keep a spare copy of state.", default=()
    )
    warmup_tasks: tuple[TaskIds, ...] = field(
        "0+", "Tasks that restore state to become active later.", default=()
    )


class Member(Struct):
    """One member of a streams group."""

    member_id: str = field("0+", "Id of the member within the group.", default="")
    member_epoch: Int32 = field("0+", "Epoch that the member has reached.", default=0)
    instance_id: str | None = field(
        "0+", "Instance id of a static member; null for a dynamic one.", default=None, nullable="0+"
    )
    rack_id: str | None = field(
        "0+", "Rack of the member; null if it has none.", default=None, nullable="0+"
    )
    client_id: str = field("0+", "Client id that the member's client gave itself.", default="")
    client_host: str = field(
        "0+", "Host that the member connects from, such as /10.0.0.7.", default=""
    )
    topology_epoch: Int32 = field("0+", "Epoch of the topology that the member runs.", default=0)
    process_id: str = field("0+", "Id of the process; members of one process share it.", default="")
    user_endpoint: Endpoint | None = field(
        "0+", "Address for interactive queries; null if not set.", default=None, nullable="0+"
    )
    client_tags: tuple[KeyValue, ...] = field(
        "0+", "Tags of the client, used to spread standby tasks.", default=()
    )
    task_offsets: tuple[TaskOffset, ...] = field(
        "0+", "Changelog offsets reached, summed per task.", default=()
    )
    task_end_offsets: tuple[TaskOffset, ...] = field(
        "0+", "End offsets of the changelogs, summed per task.", default=()
    )
    assignment: Assignment = field("0+", "Tasks that the member owns now.", default=Assignment())
    target_assignment: Assignment = field(
        "0+", "Tasks that the member should end up owning.", default=Assignment()
    )
    is_classic: bool = field(
        "0+", "True if the member still speaks the classic protocol.", default=False
    )


class DescribedGroup(Struct):
    """One streams group, or the error for it."""

    error_code: Int16 = field(
        "0+", "GROUP_ID_NOT_FOUND for unknown or other groups; 0 if fine.", default=0
    )
    error_message: str | None = field(
        "0+", "Text that explains the error; null if there is none.", default=None, nullable="0+"
    )
    group_id: str = field("0+", "Id of the group.", default="")
    group_state: str = field(
        "0+", "Empty, NotReady, Assigning, Reconciling, Stable or Dead.", default=""
    )
    group_epoch: Int32 = field(
        "0+", "Epoch of the group; grows when members or topics change.", default=0
    )
    assignment_epoch: Int32 = field(
        "0+", "Group epoch that the target assignment was computed for.", default=0
    )
    topology: StreamsGroupDescribeTopology | None = field(
        "0+", "Topology of the group; null if it has none yet.", default=None, nullable="0+"
    )
    members: tuple[Member, ...] = field("0+", "Members of the group.", default=())
    authorized_operations: Int32 = field(
        "0+", "Bit set of allowed operations; -2147483648 if not asked for.", default=-2147483648
    )


class StreamsGroupDescribeResponse(Response, key=89, versions="0", flexible="0+"):
    """Details of streams groups: topology, members and tasks."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    groups: tuple[DescribedGroup, ...] = field("0+", "One entry per group.", default=())
