"""Groups that change their protocol while they run: classic to consumer, and back.

A classic group becomes a consumer group when the first member of the consumer protocol joins it: each
classic member begins where its last assignment put it. It goes back when the last member of the consumer
protocol leaves. Which way is open says group.consumer.migration.policy; empty groups may always change.
Called by the handlers of this package.
"""

from __future__ import annotations

from collections.abc import Collection

from coterie.coordinator import rebalance as classic
from coterie.coordinator.config import GroupConfig
from coterie.coordinator.consumer.assignment import MemberState, Owned, Partitions
from coterie.coordinator.consumer.deadlines import Deadlines
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.consumer.progress import Progress
from coterie.coordinator.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    target_metadata_record,
    target_record,
)
from coterie.coordinator.consumer.subscriptions import Subscriptions
from coterie.coordinator.durable import DurableState, Group
from coterie.coordinator.group import ClassicGroup
from coterie.coordinator.outcome import Record, Refused, RequestContext, Step, TopicView
from coterie.coordinator.phases import Phases, group_record
from coterie.error_codes import ErrorCode
from coterie.protocol.group_records.classic import GroupMetadataKey
from coterie.protocol.group_records.consumer import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from coterie.protocol.group_state import GroupState
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from coterie.protocol.messages.membership import (
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupResponse,
)
from coterie.protocol.types import Uuid
from coterie.protocol.versioned import (
    Undecoded,
    decode_assignment,
    decode_subscription,
    encode_versioned,
    leading_number,
)

__all__ = ["Migration", "classic_metadata", "encoded_assignment"]


class Migration:
    """Turns groups of one protocol into groups of the other."""

    __slots__ = ("_config", "_deadlines", "_phases", "_progress", "_state")

    def __init__(
        self,
        state: DurableState,
        config: GroupConfig,
        phases: Phases,
        progress: Progress,
        deadlines: Deadlines,
    ) -> None:
        self._state = state
        self._config = config
        self._phases = phases
        self._progress = progress
        self._deadlines = deadlines

    # To the consumer protocol

    def upgrade(self, group: Group, context: RequestContext, step: Step) -> ConsumerGroup | None:
        """The consumer group that a group becomes with the records of this step; None if it cannot.

        It is a group to work with, not the one that replay will make of the same records.
        """
        if not isinstance(group, ClassicGroup):
            return None
        tombstone = Record(GroupMetadataKey(group.group_id))
        if group.state is GroupState.EMPTY:
            step.records.append(tombstone)
            return ConsumerGroup(group.group_id)
        rebalance = group.membership()
        self._check_upgrade(group, rebalance)
        records = _converted(group, rebalance, context.topics)
        upgraded = ConsumerGroup(group.group_id)
        for record in records:
            upgraded.apply(record.key, record.value)
        metadata_hash = Subscriptions(upgraded).metadata_hash(context.topics)
        epoch = epoch_record(group.group_id, rebalance.generation, metadata_hash)
        upgraded.apply(epoch.key, epoch.value)
        # The epoch stands behind the members, as in Kafka's createConsumerGroupRecords.
        step.records += [tombstone, *records[: len(rebalance.members)], epoch]
        step.records += records[len(rebalance.members) :]
        self._release(rebalance, step)
        for each in rebalance.members.values():
            self._progress.extend_session(
                group.group_id, each.member_id, context.monotonic, each.session_timeout_ms
            )
        return upgraded

    def _check_upgrade(self, group: ClassicGroup, rebalance: classic.Rebalance) -> None:
        size = len(rebalance.members)
        if not self._config.upgrade_enabled:
            why = "online upgrade is disabled"
        elif rebalance.protocol_type != "consumer":
            why = "the group does not use the consumer embedded protocol"
        elif size > self._config.consumer_max_size:
            why = "the group size exceeds the consumer group maximum size"
        else:
            return
        raise _cannot_upgrade(group.group_id, why)

    def _release(self, rebalance: classic.Rebalance, step: Step) -> None:
        """Whoever waits for the rebalance that will not end is asked to join again."""
        error = ErrorCode.REBALANCE_IN_PROGRESS
        for member in rebalance.members.values():
            if member.awaiting_join is not None:
                step.released[member.awaiting_join] = JoinGroupResponse(
                    error_code=error, member_id=member.member_id
                )
            if member.awaiting_sync is not None:
                step.released[member.awaiting_sync] = SyncGroupResponse(error_code=error)

    # To the classic protocol

    def downgrades(self, group: ConsumerGroup, leaving: Collection[Member]) -> bool:
        """Whether the group becomes a classic one without these members."""
        left = len(group.members) - len(leaving)
        classic_left = group.classic_members - sum([each.classic is not None for each in leaving])
        return (
            0 < left <= self._config.max_size
            and classic_left == left
            and self._config.downgrade_enabled
        )

    def downgrades_with(self, group: ConsumerGroup, replaced: Member) -> bool:
        """The same for a static member whose place a classic one takes."""
        return (
            replaced.classic is None
            and group.classic_members == len(group.members) - 1
            and len(group.members) <= self._config.max_size
            and self._config.downgrade_enabled
        )

    def downgrade(
        self,
        group: ConsumerGroup,
        leaving: Collection[Member],
        joining: tuple[Member, Member] | None,
        topics: TopicView,
        step: Step,
        *,
        rebalance: bool,
    ) -> None:
        """Make a classic group of the members that stay; `joining` is a static member and its former self."""
        gone = {each.member_id for each in leaving}
        members = [each for each in group.members.values() if each.member_id not in gone]
        targets = dict(group.target)
        renamed = None
        if joining is not None:
            former, member = joining
            renamed = (former.member_id, member.member_id)
            members = [each for each in members if each.member_id != former.member_id]
            members.append(member)
            targets[member.member_id] = targets.get(former.member_id, {})
        step.records += group.tombstones(renamed)
        converted = self._state.expect(group.group_id)
        converted.rebalance = _rebalance(group, members, targets, topics, step.now_ms)
        step.records.append(group_record(converted, converted.rebalance))
        for member_id in (*group.members, *(each.member_id for each in members)):
            self._deadlines.cancel_all(group.group_id, member_id)
        for each in converted.rebalance.members.values():
            self._phases.extend_session(converted, each, step.monotonic)
        if rebalance:
            self._phases.prepare(converted, converted.rebalance, step)


def _cannot_upgrade(group_id: str, why: str) -> Refused:
    return Refused(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group_id} to consumer group because {why}.",
    )


def _converted(
    group: ClassicGroup, rebalance: classic.Rebalance, topics: TopicView
) -> list[Record]:
    """Members, targets, the target's epoch and what each owns, all as the last generation had it."""
    group_id, generation = group.group_id, rebalance.generation
    members = [
        _converted_member(group_id, each, rebalance, topics) for each in rebalance.members.values()
    ]
    targets = [
        (each, {topic_id: frozenset(owned) for topic_id, owned in each.assigned.items()})
        for each in members
    ]
    return [
        *[member_record(group_id, each) for each in members],
        *[target_record(group_id, each.member_id, target) for each, target in targets],
        target_metadata_record(group_id, generation, 0),
        *[current_record(group_id, each) for each in members],
    ]


def _converted_member(
    group_id: str, member: classic.Member, rebalance: classic.Rebalance, topics: TopicView
) -> Member:
    assignment = decode_assignment(member.assignment)
    subscription = decode_subscription(member.metadata(rebalance.protocol_name))
    if isinstance(assignment, Undecoded) or isinstance(subscription, Undecoded):
        raise _cannot_upgrade(group_id, "the embedded consumer protocol is malformed")
    if assignment.user_data:
        raise _cannot_upgrade(
            group_id,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch "
            "to a default assignor before re-attempting the upgrade",
        )
    generation = rebalance.generation
    owned: Owned = {}
    for each in assignment.assigned_partitions:
        topic = topics.by_name(each.topic)
        if topic is not None:
            owned[topic.topic_id] = dict.fromkeys(each.partitions, generation)
    metadata = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic_member_metadata=classic_metadata(member.session_timeout_ms, member.protocols),
    )
    return Member(member.member_id, metadata, generation, generation, MemberState.STABLE, owned)


def classic_metadata(
    session_timeout_ms: int, protocols: tuple[JoinGroupRequestProtocol, ...]
) -> ClassicMemberMetadata:
    """What a classic member joined with, for its record."""
    supported = tuple(ClassicProtocol(each.name, each.metadata) for each in protocols)
    return ClassicMemberMetadata(session_timeout_ms, supported)


def _rebalance(
    group: ConsumerGroup,
    members: list[Member],
    targets: dict[str, Partitions],
    topics: TopicView,
    now_ms: int,
) -> classic.Rebalance:
    """The members as a Stable classic group, each with its target for an assignment."""
    rebalance = classic.Rebalance()
    rebalance.state, rebalance.state_timestamp = GroupState.STABLE, now_ms
    rebalance.generation, rebalance.protocol_type = group.epoch, "consumer"
    for each in members:
        told = each.classic or ClassicMemberMetadata()
        protocols = tuple(
            JoinGroupRequestProtocol(name=protocol.name, metadata=protocol.metadata)
            for protocol in told.supported_protocols
        )
        rebalance.enter(
            classic.Member(
                each.member_id,
                each.instance_id,
                client_id=each.metadata.client_id,
                client_host=each.metadata.client_host,
                rebalance_timeout_ms=each.metadata.rebalance_timeout_ms,
                session_timeout_ms=told.session_timeout_ms,
                protocols=protocols,
            )
        )
    rebalance.protocol_name = rebalance.selected_protocol()
    rebalance.note_subscriptions()
    for member in rebalance.members.values():
        metadata = member.metadata(rebalance.protocol_name)
        target = targets.get(member.member_id, {})
        member.assignment = encoded_assignment(target, metadata, topics)
    return rebalance


def encoded_assignment(
    partitions: Partitions | Owned, subscription: bytes, topics: TopicView
) -> bytes:
    """An assignment as a classic consumer reads it, in the version of its own subscription."""
    named: list[tuple[str, Uuid]] = []
    for topic_id in partitions:
        topic = topics.by_id(topic_id)
        if topic is not None:
            named.append((topic.name, topic_id))
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=tuple(
            TopicPartition(topic=name, partitions=tuple(sorted(partitions[topic_id])))
            for name, topic_id in named
        ),
        user_data=None,
    )
    lowest, highest = ConsumerProtocolAssignment.__versions__
    version = min(max(leading_number(subscription) or lowest, lowest), highest)
    return encode_versioned(assignment, version)
