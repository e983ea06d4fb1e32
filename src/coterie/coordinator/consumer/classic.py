"""Members of the classic protocol in a consumer group: a group on its way from one protocol to the other.

They join, sync and heartbeat as ever, and do not notice: what JoinGroup answers is an epoch for a
generation, SyncGroup brings what reconciliation has given them, and Heartbeat says REBALANCE_IN_PROGRESS
when there is more to come. Called by coterie.coordinator.joining and coterie.coordinator.membership.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from coterie.coordinator.config import GroupConfig
from coterie.coordinator.consumer.assignment import MemberState
from coterie.coordinator.consumer.deadlines import Deadlines
from coterie.coordinator.consumer.fencing import Fencing, find_member, unknown_member
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.heartbeat import check_room, replace_static
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.consumer.migration import (
    Migration,
    classic_metadata,
    encoded_assignment,
)
from coterie.coordinator.consumer.progress import Progress, Target
from coterie.coordinator.consumer.regexes import RegexChange
from coterie.coordinator.consumer.target import Change
from coterie.coordinator.outcome import Outcome, Refused, RequestContext, Step, TopicView
from coterie.coordinator.timers import MemberSubject, Reason
from coterie.error_codes import ErrorCode
from coterie.protocol.group_records.consumer import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from coterie.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from coterie.protocol.messages.membership import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coterie.protocol.types import Uuid
from coterie.protocol.versioned import Undecoded, decode_subscription

__all__ = ["ClassicMembers"]

_MEMBER_ID_REQUIRED_FROM: Final = 4  # KIP-394
_MEMBERS_FROM: Final = 3  # LeaveGroup, KIP-345


class _Owned(NamedTuple):
    """Partitions of a topic that a classic consumer says it owns."""

    topic_id: Uuid
    partitions: tuple[int, ...]


class ClassicMembers:
    """Answers members of the classic protocol whose group is a consumer group."""

    __slots__ = ("_config", "_deadlines", "_fencing", "_migration", "_progress")

    def __init__(
        self,
        config: GroupConfig,
        progress: Progress,
        fencing: Fencing,
        migration: Migration,
        deadlines: Deadlines,
    ) -> None:
        self._config = config
        self._progress = progress
        self._fencing = fencing
        self._migration = migration
        self._deadlines = deadlines

    # JoinGroup

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, context: RequestContext
    ) -> Outcome:
        step = Step(context.monotonic, context.now_ms)
        try:
            return step.outcome(self._join(group, request, context, step))
        except Refused as refused:
            answer = JoinGroupResponse(error_code=refused.error, member_id=request.member_id)
            return Outcome(response=answer)

    def _join(
        self, group: ConsumerGroup, request: JoinGroupRequest, context: RequestContext, step: Step
    ) -> JoinGroupResponse:
        """Kafka's classicGroupJoinToConsumerGroup."""
        static = request.group_instance_id is not None
        member_id = request.member_id or context.new_member_id(
            request.group_instance_id or context.client_id
        )
        check_room(group, member_id, self._config)
        subscription = _check_protocols(group, request)
        needs_id = context.api_version >= _MEMBER_ID_REQUIRED_FROM and not static
        if needs_id and not request.member_id:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        change = _change(group, member_id, request, subscription, context)
        downgrades = change.replaced is not None and self._migration.downgrades_with(
            group, change.replaced
        )
        if change.replaced is not None:
            replace_static(group, change.replaced, member_id, step)
        member = self._advance(group, change, subscription, context, step, downgrades=downgrades)
        if not downgrades:
            self._expect(group, member, request, context.monotonic)
        return JoinGroupResponse(
            generation_id=member.epoch,
            protocol_type="consumer",
            protocol_name=request.protocols[0].name,
            member_id=member_id,
        )

    def _advance(
        self,
        group: ConsumerGroup,
        change: Change,
        subscription: ConsumerProtocolSubscription,
        context: RequestContext,
        step: Step,
        *,
        downgrades: bool,
    ) -> Member:
        progress = self._progress
        before = change.old or change.replaced
        new_names = progress.note_metadata(group, change, step)
        regex = progress.regexes.note(group, before, change.new, context, step)
        bump = new_names or regex is not RegexChange.NONE
        epoch = progress.epoch(group, change, context.topics, step, bump=bump)
        stale = epoch > group.target_epoch
        if downgrades:
            target = Target(group.target_epoch, group.target_of(change.new))
        else:
            target = progress.target(group, change, epoch, context, step)
        member = change.new
        if not (downgrades and stale):
            member = progress.reconcile(
                group,
                member,
                target,
                context,
                step,
                reported=_reported(subscription, context.topics),
                subscription_changed=bump,
            )
        if downgrades and change.replaced is not None:
            joining = (change.replaced, member)
            self._migration.downgrade(group, (), joining, context.topics, step, rebalance=stale)
        return member

    def _expect(
        self, group: ConsumerGroup, member: Member, request: JoinGroupRequest, monotonic: float
    ) -> None:
        """It has joined; now it must sync, and live."""
        group_id, member_id = group.group_id, member.member_id
        self._deadlines.cancel(Reason.CONSUMER_JOIN, group_id, member_id)
        timeout = request.session_timeout_ms
        self._progress.extend_session(group_id, member_id, monotonic, timeout)
        sync = MemberSubject(Reason.CONSUMER_SYNC, group_id, member_id)
        wait = member.metadata.rebalance_timeout_ms / 1000
        self._deadlines.schedule(sync, monotonic + wait)

    # SyncGroup

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, context: RequestContext
    ) -> Outcome:
        try:
            member, told = self._find(
                group, request.member_id, request.group_instance_id, request.generation_id
            )
            protocol = told.supported_protocols[0]
            _check_matches(request, protocol.name)
            self._check_settled(group, member, context.monotonic)
        except Refused as refused:
            return Outcome(response=SyncGroupResponse(error_code=refused.error))
        self._deadlines.cancel(Reason.CONSUMER_SYNC, group.group_id, member.member_id)
        self._extend(group, member, told, context.monotonic)
        answer = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=encoded_assignment(member.assigned, protocol.metadata, context.topics),
        )
        return Outcome(response=answer)

    def _check_settled(self, group: ConsumerGroup, member: Member, monotonic: float) -> None:
        """A member that the group has left behind must join again before it can have anything."""
        if group.epoch > member.epoch and member.state != MemberState.UNREVOKED_PARTITIONS:
            self._expect_join(group, member, monotonic)
            raise Refused(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"A new rebalance is triggered in group {group.group_id} and member "
                f"{member.member_id} should rejoin to catch up.",
            )

    # Heartbeat

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, context: RequestContext
    ) -> Outcome:
        try:
            member, told = self._find(
                group, request.member_id, request.group_instance_id, request.generation_id
            )
        except Refused as refused:
            return Outcome(response=HeartbeatResponse(error_code=refused.error), immediate=True)
        self._extend(group, member, told, context.monotonic)
        error = ErrorCode.NONE
        if (
            member.epoch < group.epoch
            or member.state == MemberState.UNREVOKED_PARTITIONS
            or (
                member.state == MemberState.UNRELEASED_PARTITIONS
                and not _waits_for_others(group, member)
            )
        ):
            self._expect_join(group, member, context.monotonic)
            error = ErrorCode.REBALANCE_IN_PROGRESS
        return Outcome(response=HeartbeatResponse(error_code=error), immediate=True)

    # LeaveGroup

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, context: RequestContext
    ) -> Outcome:
        """Members of either protocol: an administrator may remove those of the new one by it too."""
        step = Step(context.monotonic, context.now_ms)
        alone = context.api_version < _MEMBERS_FROM
        leaving = (MemberIdentity(member_id=request.member_id),) if alone else request.members
        found: dict[str, Member] = {}
        answers: list[MemberResponse] = []
        for each in leaving:
            error = ErrorCode.NONE
            try:
                member = _leaving(group, each)
                found[member.member_id] = member
            except Refused as refused:
                error = refused.error
            answers.append(
                MemberResponse(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    error_code=error,
                )
            )
        self._fencing.fence(group, tuple(found.values()), context.topics, step)
        if alone:
            return step.outcome(LeaveGroupResponse(error_code=answers[0].error_code))
        return step.outcome(LeaveGroupResponse(members=tuple(answers)))

    # Common

    def _find(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[Member, ClassicMemberMetadata]:
        member = find_member(group, member_id, instance_id)
        told = member.classic
        if told is None:
            raise Refused(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} does not use the classic protocol.",
            )
        if generation != member.epoch:
            raise Refused(
                ErrorCode.ILLEGAL_GENERATION,
                f"The request generation id {generation} is not equal to the member epoch "
                f"{member.epoch} of member {member_id}.",
            )
        return member, told

    def _extend(
        self, group: ConsumerGroup, member: Member, told: ClassicMemberMetadata, monotonic: float
    ) -> None:
        self._progress.extend_session(
            group.group_id, member.member_id, monotonic, told.session_timeout_ms
        )

    def _expect_join(self, group: ConsumerGroup, member: Member, monotonic: float) -> None:
        """It was told to join again: from the first time on it has the rebalance timeout for that."""
        subject = MemberSubject(Reason.CONSUMER_JOIN, group.group_id, member.member_id)
        if not self._deadlines.is_set(subject):
            wait = member.metadata.rebalance_timeout_ms / 1000
            self._deadlines.schedule(subject, monotonic + wait)


def _check_protocols(
    group: ConsumerGroup, request: JoinGroupRequest
) -> ConsumerProtocolSubscription:
    """A consumer, with a protocol that all classic members have, and a subscription to read."""
    supported = group.classic_protocols
    fits = request.protocol_type == "consumer" and any(
        supported.get(each.name, 0) == group.classic_members for each in request.protocols
    )
    subscription = decode_subscription(request.protocols[0].metadata) if fits else None
    if subscription is None or isinstance(subscription, Undecoded):
        raise Refused(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Member {request.member_id}'s protocols are not supported.",
        )
    return subscription


def _change(
    group: ConsumerGroup,
    member_id: str,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    context: RequestContext,
) -> Change:
    """Who joins, as it was and as it wants to be; a static one may take its former self's place."""
    old, replaced = group.members.get(member_id), None
    if request.group_instance_id is not None:
        known = group.static_member(request.group_instance_id)
        if not request.member_id:
            old, replaced = None, known
        else:
            old = find_member(group, member_id, request.group_instance_id)
    base = replaced.replaced_by(member_id) if replaced is not None else old
    base = base or Member(member_id)
    timeout = request.rebalance_timeout_ms if context.api_version else request.session_timeout_ms
    metadata: ConsumerGroupMemberMetadataValue = msgspec.structs.replace(
        base.metadata,
        instance_id=request.group_instance_id or base.instance_id,
        rack_id=subscription.rack_id or base.metadata.rack_id,
        rebalance_timeout_ms=timeout if timeout != -1 else base.metadata.rebalance_timeout_ms,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        client_id=context.client_id,
        client_host=context.client_host,
        classic_member_metadata=classic_metadata(request.session_timeout_ms, request.protocols),
    )
    return Change(old, base.with_metadata(metadata), replaced)


def _reported(subscription: ConsumerProtocolSubscription, topics: TopicView) -> tuple[_Owned, ...]:
    found = []
    for each in subscription.owned_partitions:
        topic = topics.by_name(each.topic)
        if topic is not None:
            found.append(_Owned(topic.topic_id, each.partitions))
    return tuple(found)


def _check_matches(request: SyncGroupRequest, protocol_name: str) -> None:
    kind, name = request.protocol_type, request.protocol_name
    if (kind is not None and kind != "consumer") or (name is not None and name != protocol_name):
        raise Refused(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocol {kind}, {name} of member {request.member_id} is not the one of its join.",
        )


def _waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    """Whether any partition of its target still belongs to another member."""
    return any(
        partition not in member.assigned.get(topic_id, ())
        and partition in group.owners.get(topic_id, ())
        for topic_id, partitions in group.target_of(member).items()
        for partition in partitions
    )


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> Member:
    instance_id = identity.group_instance_id
    if instance_id is not None and not identity.member_id:
        # An administrator removes a static member and does not know its member id.
        member = group.static_member(instance_id)
        if member is None:
            raise unknown_member(group, instance_id)
        return member
    return find_member(group, identity.member_id, instance_id)
