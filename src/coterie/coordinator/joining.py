"""JoinGroup: who may join, under which member id, and what it starts.

Three kinds of callers: new dynamic members, which from version 4 on are given a member id first and have
to come back with it (KIP-394); static members, known by an instance id of their own, which take the
place of their former selves (KIP-345); and members that join again. Called by the shard. What follows
from a join is in coterie.coordinator.phases.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from coterie.coordinator.config import GroupConfig
from coterie.coordinator.consumer.classic import ClassicMembers
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.durable import DurableState, Group
from coterie.coordinator.foreign import ForeignGroup
from coterie.coordinator.group import ClassicGroup
from coterie.coordinator.outcome import Outcome, Record, RequestContext, Step
from coterie.coordinator.phases import (
    GROUP_METADATA_VERSION,
    Phases,
    group_record,
    joined,
)
from coterie.coordinator.rebalance import Member, Rebalance
from coterie.error_codes import ErrorCode
from coterie.protocol.group_records.classic import GroupMetadataKey, GroupMetadataValue
from coterie.protocol.group_state import GroupState, GroupType
from coterie.protocol.messages.membership import (
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupResponse,
)

__all__ = ["Joining"]

_MEMBER_ID_REQUIRED_FROM: Final = 4  # KIP-394
_SKIP_ASSIGNMENT_FROM: Final = 9  # KIP-814


class _Join(NamedTuple):
    """One JoinGroup under way: the request, and the group that it is about."""

    request: JoinGroupRequest
    context: RequestContext
    group: ClassicGroup
    rebalance: Rebalance
    step: Step


class Joining:
    """Answers JoinGroup, or parks it until the join phase ends."""

    __slots__ = ("_classic_members", "_config", "_phases", "_state")

    def __init__(
        self,
        state: DurableState,
        phases: Phases,
        config: GroupConfig,
        classic_members: ClassicMembers,
    ) -> None:
        self._state = state
        self._phases = phases
        self._config = config
        #: For groups that have become consumer groups.
        self._classic_members = classic_members

    def join(self, request: JoinGroupRequest, context: RequestContext) -> Outcome:
        step = Step(context.monotonic, context.now_ms)
        group = self._state.groups.get(request.group_id)
        refusal = self._refusal(request, group)
        if refusal is not None:
            return step.outcome(refusal)
        if isinstance(group, ConsumerGroup) and group.members:
            return self._classic_members.join(group, request, context)
        if not isinstance(group, ClassicGroup):
            group = self._new_group(request.group_id, group, step)
        rebalance = group.rebalance = group.membership()
        response = self._enter(_Join(request, context, group, rebalance, step))
        self._phases.let_go_if_idle(group)
        return step.outcome(response, context.token)

    def _refusal(self, request: JoinGroupRequest, group: Group | None) -> JoinGroupResponse | None:
        """What is wrong with a request before the group's members are looked at."""
        config = self._config
        error = ErrorCode.NONE
        timeout = request.session_timeout_ms
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif not config.min_session_timeout_ms <= timeout <= config.max_session_timeout_ms:
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        elif _metadata_size(request) > config.max_member_metadata_bytes:
            error = ErrorCode.INVALID_REQUEST
        elif isinstance(group, ForeignGroup) and not _makes_way(group):
            return _error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif isinstance(group, ConsumerGroup) and group.members:
            return None
        elif request.member_id and not isinstance(group, ClassicGroup):
            error = ErrorCode.UNKNOWN_MEMBER_ID
        return _error(error, request.member_id) if error else None

    def _new_group(
        self, group_id: str, empty: ConsumerGroup | ForeignGroup | None, step: Step
    ) -> ClassicGroup:
        """A group begins with a record that says no more than that it exists.

        An empty group of another type makes way for it (maybeDeleteEmptyConsumerGroup); its offsets stay.
        """
        if empty is not None:
            step.records += empty.tombstones()
        value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=step.now_ms)
        step.records.append(Record(GroupMetadataKey(group=group_id), value, GROUP_METADATA_VERSION))
        return self._state.expect(group_id)

    def _enter(self, join: _Join) -> JoinGroupResponse | None:
        request, rebalance = join.request, join.rebalance
        member_id = request.member_id
        if not self._has_room(request, rebalance):
            self._turn_away(join)
            return _error(ErrorCode.GROUP_MAX_SIZE_REACHED)
        error = ErrorCode.NONE
        if self._is_too_large(request, rebalance):
            error = ErrorCode.GROUP_MAX_SIZE_REACHED
        elif not rebalance.supports(request.protocol_type, request.protocols):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        elif not member_id:
            return self._enter_anew(join)
        elif member_id in rebalance.pending_joins and request.group_instance_id is None:
            return self._add(join, member_id)
        else:
            error = rebalance.check_member(member_id, request.group_instance_id)
        return _error(error, member_id) if error else self._enter_again(join)

    def _has_room(self, request: JoinGroupRequest, rebalance: Rebalance) -> bool:
        """Kafka's acceptJoiningMember, with member ids that were handed out counted in.

        While a rebalance is prepared, those who have joined count, so that a group that is too large
        loses the members that join last. A static member that comes back needs no room of its own
        (Kafka turns it away).
        """
        member = _present(request, rebalance)
        preparing = rebalance.state is GroupState.PREPARING_REBALANCE
        if member is not None and (not preparing or member.awaiting_join is not None):
            return True
        taken = rebalance.awaiting_joins if preparing else len(rebalance.members)
        if member is None and not request.member_id:
            taken += len(rebalance.pending_joins)
        return taken < self._config.max_size

    def _turn_away(self, join: _Join) -> None:
        """The group is full: whoever asks does not belong to it any more."""
        member_id, rebalance = join.request.member_id, join.rebalance
        if member_id in rebalance.pending_joins:
            self._phases.drop_member_id(rebalance, member_id)
        elif member_id in rebalance.members:
            self._phases.drop_member(rebalance, rebalance.members[member_id], join.step)
        self._phases.maybe_complete_join(join.group, rebalance, join.step)

    def _is_too_large(self, request: JoinGroupRequest, rebalance: Rebalance) -> bool:
        member = _present(request, rebalance)
        before = member.metadata_size() if member is not None else 0
        total = rebalance.metadata_bytes + _metadata_size(request) - before
        return total > self._config.max_group_metadata_bytes

    def _enter_anew(self, join: _Join) -> JoinGroupResponse | None:
        """Someone without a member id: a new member, or a static one that lost its memory."""
        request, context = join.request, join.context
        instance_id = request.group_instance_id
        if instance_id is not None:
            member_id = context.new_member_id(instance_id)
            former = join.rebalance.static_members.get(instance_id)
            if former is None:
                return self._add(join, member_id)
            member = join.rebalance.members[former]
            _fence(join.rebalance, member, join.step)
            return self._replace(join, member, instance_id, member_id)
        member_id = context.new_member_id(context.client_id)
        if context.api_version < _MEMBER_ID_REQUIRED_FROM:
            return self._add(join, member_id)
        until = context.monotonic + request.session_timeout_ms / 1000
        self._phases.hold_member_id(join.group, join.rebalance, member_id, until)
        return _error(ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _add(self, join: _Join, member_id: str) -> JoinGroupResponse | None:
        """Kafka's addMemberThenRebalanceOrCompleteJoin."""
        request, context, group, rebalance, step = join
        member = Member(
            member_id,
            request.group_instance_id,
            client_id=context.client_id,
            client_host=context.client_host,
            rebalance_timeout_ms=_rebalance_timeout(join),
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
        )
        member.is_new = True
        member.awaiting_join = context.token
        if (
            rebalance.state is GroupState.PREPARING_REBALANCE
            and rebalance.previous_state is GroupState.EMPTY
        ):
            rebalance.new_member_added = True
        if member_id in rebalance.pending_joins:
            self._phases.drop_member_id(rebalance, member_id)
        rebalance.add(member, request.protocol_type)
        # It cannot heartbeat before it has an answer, and a connection that it has given up does not
        # show while its request is parked: so the wait itself is bounded.
        wait = self._config.new_member_join_timeout_ms / 1000
        self._phases.expect_by(group, member, step.monotonic + wait)
        self._phases.prepare_or_complete(group, rebalance, step)
        return None

    def _enter_again(self, join: _Join) -> JoinGroupResponse | None:
        """A member joins again: because it was asked to, or to make the others do so."""
        rebalance = join.rebalance
        member = rebalance.members[join.request.member_id]
        settled = rebalance.state is GroupState.COMPLETING_REBALANCE or (
            rebalance.state is GroupState.STABLE and rebalance.leader != member.member_id
        )
        if settled and member.protocols == join.request.protocols:
            # It may have missed the answer. A leader in Stable, on the other hand, wants a rebalance:
            # for changes that do not show in its metadata, such as new partitions.
            return joined(rebalance, member)
        self._update(join, member)
        self._phases.prepare_or_complete(join.group, rebalance, join.step)
        return None

    def _update(self, join: _Join, member: Member) -> None:
        request, rebalance = join.request, join.rebalance
        if member.awaiting_join is not None:
            # A second JoinGroup while the first is parked: the client has given up on the first.
            join.step.released[member.awaiting_join] = _error(
                ErrorCode.REBALANCE_IN_PROGRESS, member.member_id
            )
        timeout = _rebalance_timeout(join)
        rebalance.update(member, request.protocols, timeout, request.session_timeout_ms)
        rebalance.await_join(member, join.context.token)

    def _replace(
        self, join: _Join, member: Member, instance_id: str, member_id: str
    ) -> JoinGroupResponse | None:
        """Kafka's updateStaticMemberThenRebalanceOrCompleteJoin.

        In a Stable group whose protocol stays the same nothing else changes: that is what static members
        are for. While an assignment is awaited it does not help to go on: it would be for the old id.
        """
        _, context, group, rebalance, step = join
        former_leader = rebalance.leader
        self._phases.end_session(member)
        rebalance.rename(member, instance_id, member_id)
        self._update(join, member)
        self._phases.extend_session(group, member, step.monotonic)
        if rebalance.state is GroupState.PREPARING_REBALANCE:
            self._phases.maybe_complete_join(group, rebalance, step)
            return None
        stable = rebalance.state is GroupState.STABLE
        if stable and rebalance.selected_protocol() == rebalance.protocol_name:
            rebalance.take_join(member)
            rebalance.note_subscriptions()
            step.records.append(group_record(group, rebalance))
            return _rejoined(rebalance, member, former_leader, context.api_version)
        self._phases.prepare(group, rebalance, step)
        return None


def _present(request: JoinGroupRequest, rebalance: Rebalance) -> Member | None:
    """The member that asks, or whose place it takes, if it is one already."""
    member_id = request.member_id
    if not member_id and request.group_instance_id is not None:
        member_id = rebalance.static_members.get(request.group_instance_id, "")
    return rebalance.members.get(member_id)


def _makes_way(group: ForeignGroup) -> bool:
    """Whether a group of another type can become a classic one: share groups never do."""
    return group.state is GroupState.EMPTY and group.type is not GroupType.SHARE


def _fence(rebalance: Rebalance, member: Member, step: Step) -> None:
    """Whoever is still connected under the former member id is told to go."""
    member.is_new = False
    token = rebalance.take_join(member)
    if token is not None:
        step.released[token] = _error(ErrorCode.FENCED_INSTANCE_ID, member.member_id)
    token, member.awaiting_sync = member.awaiting_sync, None
    if token is not None:
        step.released[token] = SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID)


def _rejoined(
    rebalance: Rebalance, member: Member, former_leader: str | None, version: int
) -> JoinGroupResponse:
    """The answer to a static member that came back to a Stable group.

    If it leads, it must not assign anew. Clients before KIP-814 cannot be told, so they are given the
    former leader's id, and take themselves for followers.
    """
    leads = rebalance.leader == member.member_id
    if version >= _SKIP_ASSIGNMENT_FROM:
        return joined(rebalance, member, skip_assignment=leads)
    return JoinGroupResponse(
        generation_id=rebalance.generation,
        protocol_type=rebalance.protocol_type,
        protocol_name=rebalance.protocol_name or "",
        leader=former_leader or "",
        member_id=member.member_id,
    )


def _metadata_size(request: JoinGroupRequest) -> int:
    return sum([len(each.metadata) for each in request.protocols])


def _rebalance_timeout(join: _Join) -> int:
    """Version 0 has none of its own."""
    request = join.request
    return request.rebalance_timeout_ms if join.context.api_version else request.session_timeout_ms


def _error(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id)
