"""From what the four describe APIs answer to one kind of description. Pure: messages in, values out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from coterie.client.results import GroupDescription, Member, TopicPartition
from coterie.protocol.group_state import GroupState, GroupType
from coterie.protocol.versioned import Undecoded, decode_assignment, decode_subscription

if TYPE_CHECKING:
    from coterie.protocol.messages import consumer_groups, groups, share_groups, streams_groups

__all__ = ["classic", "consumer", "operations", "share", "streams"]

_NOT_TOLD: Final = -2147483648
_OPERATIONS: Final = (
    "UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE",
    "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS",
    "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
)  # fmt: skip

#: ConsumerGroupDescribe's member type: 0 speaks the classic protocol, 1 the new one, -1 is unknown.
_UPGRADED: Final = 1

_TAGS: Final = "DescribeGroups, tagged fields of KIP-181"
_METADATA: Final = "DescribeGroups, member metadata"


def operations(bits: int) -> tuple[str, ...] | None:
    """The names of the operations in a bit set; None if the broker did not return them."""
    if bits == _NOT_TOLD:
        return None
    return tuple(name for code, name in enumerate(_OPERATIONS) if bits >> code & 1)


# -- classic ----------------------------------------------------------------------------------------------


def classic(group: groups.DescribedGroup, coordinator: int) -> GroupDescription:
    """A classic group; with more fields if the broker implements KIP-181."""
    tagged = group.generation_id >= 0
    if not tagged and not group.members:
        return _without_members(group, coordinator)
    decodes = group.protocol_type == "consumer"
    members = tuple(_classic_member(member, decodes=decodes) for member in group.members)
    sources = dict.fromkeys(("generation", "leader_id"), _TAGS) if tagged else {}
    if members:
        sources |= _member_sources(group.members, decodes=decodes)
    return GroupDescription(
        group_id=group.group_id,
        type=GroupType.CLASSIC,
        state=GroupState.parse(group.group_state),
        protocol_type=group.protocol_type,
        coordinator_id=coordinator,
        members=members,
        protocol=group.protocol_data or None,
        assignor=(group.protocol_data or None) if decodes else None,
        generation=group.generation_id if tagged else None,
        leader_id=group.leader_id,
        new_member_added=group.new_member_added if tagged else None,
        received_consumer_offset_commits=(
            group.received_consumer_offset_commits if tagged else None
        ),
        received_transactional_offset_commits=(
            group.received_transactional_offset_commits if tagged else None
        ),
        authorized_operations=operations(group.authorized_operations),
        sources=sources,
    )


def _without_members(group: groups.DescribedGroup, coordinator: int) -> GroupDescription:
    """Most groups of a large cluster, in few steps."""
    protocol = group.protocol_data or None
    return GroupDescription(
        group.group_id,
        GroupType.CLASSIC,
        GroupState.parse(group.group_state),
        group.protocol_type,
        coordinator,
        protocol=protocol,
        assignor=protocol if group.protocol_type == "consumer" else None,
        leader_id=group.leader_id,
        authorized_operations=operations(group.authorized_operations),
    )


def _member_sources(
    members: tuple[groups.DescribedGroupMember, ...], *, decodes: bool
) -> dict[str, str]:
    sources: dict[str, str] = {}
    if any(member.member_protocols is not None for member in members):
        sources["supported_protocols"] = _TAGS
    if decodes:
        tagged = any(member.member_subscription is not None for member in members)
        sources["subscription"] = _TAGS if tagged else _METADATA
        sources["assignment"] = "DescribeGroups, member assignment"
    return sources


def _classic_member(member: groups.DescribedGroupMember, *, decodes: bool) -> Member:
    subscription: tuple[str, ...] | None = None
    assignment: tuple[TopicPartition, ...] | None = None
    rack: str | None = None
    problems: list[str] = []
    metadata = member.member_metadata or member.member_subscription or b""
    if decodes and metadata:
        decoded = decode_subscription(metadata)
        if isinstance(decoded, Undecoded):
            problems.append(f"subscription: {decoded.reason}")
        else:
            subscription, rack = decoded.topics, decoded.rack_id
    if decodes:
        given = decode_assignment(member.member_assignment)
        if isinstance(given, Undecoded):
            problems.append(f"assignment: {given.reason}")
        else:
            assignment = _flat((each.topic, each.partitions) for each in given.assigned_partitions)
    return Member(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        instance_id=member.group_instance_id,
        rack_id=rack,
        subscription=subscription,
        supported_protocols=member.member_protocols,
        assignment=assignment,
        undecoded="; ".join(problems) or None,
        metadata=metadata,
        raw_assignment=member.member_assignment,
    )


def _flat(topics: Iterable[tuple[str, tuple[int, ...]]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, index) for topic, indexes in topics for index in indexes)


# -- KIP-848, share and streams groups --------------------------------------------------------------------


def _assigned(assignment: Any) -> tuple[TopicPartition, ...]:
    return _flat((each.topic_name, each.partitions) for each in assignment.topic_partitions)


def _server_side(
    group: Any, kind: GroupType, api: str, coordinator: int, members: tuple[Member, ...]
) -> GroupDescription:
    """What the three kinds of groups that the broker assigns have in common."""
    known = ("epoch", "assignment_epoch", "subscription", "assignment")
    return GroupDescription(
        group_id=group.group_id,
        type=kind,
        state=GroupState.parse(group.group_state),
        protocol_type=kind.value,
        coordinator_id=coordinator,
        members=members,
        assignor=getattr(group, "assignor_name", "") or None,
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        authorized_operations=operations(group.authorized_operations),
        sources=dict.fromkeys(known, api),
    )


def consumer(group: consumer_groups.DescribedGroup, coordinator: int) -> GroupDescription:
    """A group of KIP-848."""
    members = tuple(
        Member(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.client_host,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.member_epoch,
            subscription=member.subscribed_topic_names,
            subscription_regex=member.subscribed_topic_regex or None,
            assignment=_assigned(member.assignment),
            target_assignment=_assigned(member.target_assignment),
            upgraded=None if member.member_type < 0 else member.member_type == _UPGRADED,
        )
        for member in group.members
    )
    return _server_side(group, GroupType.CONSUMER, "ConsumerGroupDescribe", coordinator, members)


def share(group: share_groups.DescribedGroup, coordinator: int) -> GroupDescription:
    """A share group."""
    members = tuple(
        Member(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.client_host,
            rack_id=member.rack_id,
            member_epoch=member.member_epoch,
            subscription=member.subscribed_topic_names,
            assignment=_assigned(member.assignment),
        )
        for member in group.members
    )
    return _server_side(group, GroupType.SHARE, "ShareGroupDescribe", coordinator, members)


def streams(group: streams_groups.DescribedGroup, coordinator: int) -> GroupDescription:
    """A streams group. Its members own tasks; their partitions follow from the topology's sources."""
    topics = _source_topics(group.topology)
    subscription = tuple(dict.fromkeys(topic for each in topics.values() for topic in each))
    members = tuple(
        Member(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.client_host,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.member_epoch,
            subscription=subscription,
            assignment=_inputs(member.assignment, topics),
            target_assignment=_inputs(member.target_assignment, topics),
            tasks=_tasks(member.assignment),
        )
        for member in group.members
    )
    return _server_side(group, GroupType.STREAMS, "StreamsGroupDescribe", coordinator, members)


def _source_topics(
    topology: streams_groups.StreamsGroupDescribeTopology | None,
) -> dict[str, tuple[str, ...]]:
    parts = (topology.subtopologies if topology is not None else None) or ()
    return {
        part.subtopology_id: part.source_topics
        + tuple(each.name for each in part.repartition_source_topics)
        for part in parts
    }


def _inputs(
    assignment: streams_groups.Assignment, topics: dict[str, tuple[str, ...]]
) -> tuple[TopicPartition, ...]:
    return _flat(
        (topic, tasks.partitions)
        for tasks in assignment.active_tasks
        for topic in topics.get(tasks.subtopology_id, ())
    )


def _tasks(assignment: streams_groups.Assignment) -> tuple[str, ...]:
    roles = {
        "active": assignment.active_tasks,
        "standby": assignment.standby_tasks,
        "warmup": assignment.warmup_tasks,
    }
    return tuple(
        f"{role} {tasks.subtopology_id}_{index}"
        for role, owned in roles.items()
        for tasks in owned
        for index in tasks.partitions
    )
