"""Records of streams groups (KIP-1071)."""

from __future__ import annotations

from coterie.protocol.schema import RecordKey, RecordValue, Struct, field
from coterie.protocol.types import Int8, Int16, Int32, Int64, UInt16

__all__ = [
    "CopartitionGroup",
    "Endpoint",
    "KeyValue",
    "LastAssignmentConfig",
    "StreamsGroupCurrentMemberAssignmentKey",
    "StreamsGroupCurrentMemberAssignmentTaskIds",
    "StreamsGroupCurrentMemberAssignmentValue",
    "StreamsGroupMemberMetadataKey",
    "StreamsGroupMemberMetadataValue",
    "StreamsGroupMetadataKey",
    "StreamsGroupMetadataValue",
    "StreamsGroupTargetAssignmentMemberKey",
    "StreamsGroupTargetAssignmentMemberValue",
    "StreamsGroupTargetAssignmentMetadataKey",
    "StreamsGroupTargetAssignmentMetadataValue",
    "StreamsGroupTopologyKey",
    "StreamsGroupTopologyValue",
    "Subtopology",
    "TaskIds",
    "TopicConfig",
    "TopicInfo",
]


class StreamsGroupMetadataKey(RecordKey, key=17, versions="0"):
    """Key of the record holding a streams group's epoch."""

    group_id: str = field("0", "Id of the group.", default="")


class LastAssignmentConfig(Struct):
    """Assignment setting and its value."""

    key: str = field("0+", "Name of the setting.", default="")
    value: str = field("0+", "Value that the assignor worked with.", default="")


class StreamsGroupMetadataValue(RecordValue, key=17, versions="0", flexible="0+"):
    """Epoch and validation state of a streams group; a tombstone removes it."""

    epoch: Int32 = field("0+", "Epoch of the group; grows with every change to it.", default=0)
    metadata_hash: Int64 = field(
        "0+", "Hash of the subscribed topics' metadata; 0 if not computed.", default=0
    )
    validated_topology_epoch: Int32 = field(
        "0+", "Topology epoch whose topics were found valid; -1 if none.", default=-1, tag=0
    )
    last_assignment_configs: tuple[LastAssignmentConfig, ...] | None = field(
        "0+",
        "Settings behind the last assignment; null if not kept.",
        default=(),
        nullable="0+",
        tag=1,
    )


class StreamsGroupMemberMetadataKey(RecordKey, key=19, versions="0"):
    """Key of the record describing one streams group member."""

    group_id: str = field("0", "Id of the group.", default="")
    member_id: str = field("0", "Id of the member within the group.", default="")


class Endpoint(Struct):
    """Address at which the application can be queried."""

    host: str = field("0+", "Host of the endpoint.", default="")
    port: UInt16 = field("0+", "Port of the endpoint.", default=0)


class KeyValue(Struct):
    """A client tag and its value."""

    key: str = field("0+", "Name of the tag.", default="")
    value: str = field("0+", "Value of the tag.", default="")


class StreamsGroupMemberMetadataValue(RecordValue, key=19, versions="0", flexible="0+"):
    """Identity, process and endpoint of a streams group member."""

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
    rebalance_timeout_ms: Int32 = field(
        "0+", "Milliseconds the member has to give up tasks; -1 if not set.", default=-1
    )
    topology_epoch: Int32 = field("0+", "Epoch of the topology that the member runs.", default=0)
    process_id: str = field("0+", "Id of the process; members of one process share it.", default="")
    user_endpoint: Endpoint | None = field(
        "0+", "Address for interactive queries; null if not set.", default=None, nullable="0+"
    )
    client_tags: tuple[KeyValue, ...] = field(
        "0+", "Tags of the client, used to spread standby tasks.", default=()
    )


class StreamsGroupTargetAssignmentMetadataKey(RecordKey, key=20, versions="0"):
    """Key of the record holding the epoch of a streams group's target."""

    group_id: str = field("0", "Id of the group.", default="")


class StreamsGroupTargetAssignmentMetadataValue(RecordValue, key=20, versions="0", flexible="0+"):
    """Group epoch for which a streams group's target assignment was computed."""

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


class StreamsGroupTargetAssignmentMemberKey(RecordKey, key=21, versions="0"):
    """Key of the record holding a streams group member's target tasks."""

    group_id: str = field("0", "Id of the group.", default="")
    member_id: str = field("0", "Id of the member within the group.", default="")


class TaskIds(Struct):
    """Target tasks of one subtopology."""

    subtopology_id: str = field(
        "0+", "Id of the subtopology; with a partition it names a task.", default=""
    )
    partitions: tuple[Int32, ...] = field(
        "0+", "Partitions of the subtopology, one task each.", default=()
    )


class StreamsGroupTargetAssignmentMemberValue(RecordValue, key=21, versions="0", flexible="0+"):
    """Tasks that a streams group member should end up owning."""

    active_tasks: tuple[TaskIds, ...] = field(
        "0+", "Active tasks that the member should own.", default=()
    )
    standby_tasks: tuple[TaskIds, ...] = field(
        "0+", "Standby tasks that the member should own.", default=()
    )
    warmup_tasks: tuple[TaskIds, ...] = field(
        "0+", "Warm-up tasks that the member should own.", default=()
    )


class StreamsGroupCurrentMemberAssignmentKey(RecordKey, key=22, versions="0"):
    """Key of the record holding the tasks a streams group member owns now."""

    group_id: str = field("0", "Id of the group.", default="")
    member_id: str = field("0", "Id of the member within the group.", default="")


class StreamsGroupCurrentMemberAssignmentTaskIds(Struct):
    """Tasks of one subtopology that the member holds."""

    subtopology_id: str = field(
        "0+", "Id of the subtopology; with a partition it names a task.", default=""
    )
    partitions: tuple[Int32, ...] = field(
        "0+", "Partitions of the subtopology, one task each.", default=()
    )
    assignment_epochs: tuple[Int32, ...] | None = field(
        "0+",
        "Epoch at which each task was assigned; null if unknown.",
        default=(),
        nullable="0+",
        tag=0,
    )


class StreamsGroupCurrentMemberAssignmentValue(RecordValue, key=22, versions="0", flexible="0+"):
    """Tasks that a streams group member owns now, and those it must give up."""

    member_epoch: Int32 = field("0+", "Epoch that the member has reached.", default=0)
    previous_member_epoch: Int32 = field(
        "0+", "Epoch before the present one, accepted if an answer got lost.", default=0
    )
    state: Int8 = field(
        "0+", "State: 1 stable, 2 must give tasks up, 3 waits for others.", default=0
    )
    active_tasks: tuple[StreamsGroupCurrentMemberAssignmentTaskIds, ...] = field(
        "0+", "Active tasks that the member owns.", default=()
    )
    standby_tasks: tuple[StreamsGroupCurrentMemberAssignmentTaskIds, ...] = field(
        "0+", "Standby tasks that the member owns.", default=()
    )
    warmup_tasks: tuple[StreamsGroupCurrentMemberAssignmentTaskIds, ...] = field(
        "0+", "Warm-up tasks that the member owns.", default=()
    )
    active_tasks_pending_revocation: tuple[StreamsGroupCurrentMemberAssignmentTaskIds, ...] = field(
        "0+", "Active tasks that the member has yet to give up.", default=()
    )
    standby_tasks_pending_revocation: tuple[StreamsGroupCurrentMemberAssignmentTaskIds, ...] = (
        field("0+", "Standby tasks that the member has yet to give up.", default=())
    )
    warmup_tasks_pending_revocation: tuple[StreamsGroupCurrentMemberAssignmentTaskIds, ...] = field(
        "0+", "Warm-up tasks that the member has yet to give up.", default=()
    )


class StreamsGroupTopologyKey(RecordKey, key=23, versions="0"):
    """Key of the record holding a streams group's topology."""

    group_id: str = field("0", "Id of the group.", default="")


class TopicConfig(Struct):
    """Setting of an internal topic."""

    key: str = field("0+", "Name of the topic setting.", default="")
    value: str = field("0+", "Value of the topic setting.", default="")


class TopicInfo(Struct):
    """Internal topic with the layout and settings it needs."""

    name: str = field("0+", "Name of the internal topic.", default="")
    partitions: Int32 = field("0+", "Number of partitions; 0 lets the broker derive it.", default=0)
    replication_factor: Int16 = field(
        "0+", "Replicas per partition; 0 for the broker's default.", default=0
    )
    topic_configs: tuple[TopicConfig, ...] = field(
        "0+", "Settings of the internal topic.", default=()
    )


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


class StreamsGroupTopologyValue(RecordValue, key=23, versions="0", flexible="0+"):
    """Topology of a streams group: subtopologies and their topics."""

    epoch: Int32 = field(
        "0+", "Epoch of the topology; grows when the application changes.", default=0
    )
    subtopologies: tuple[Subtopology, ...] = field(
        "0+", "Connected parts of the topology.", default=()
    )
