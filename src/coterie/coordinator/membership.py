"""SyncGroup, Heartbeat and LeaveGroup of classic members.

Called by the shard. JoinGroup is in coterie.coordinator.joining; what follows from these requests is in
coterie.coordinator.phases.
"""

from __future__ import annotations

from typing import Final

from coterie.coordinator.consumer.classic import ClassicMembers
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.durable import DurableState
from coterie.coordinator.group import ClassicGroup
from coterie.coordinator.outcome import Outcome, RequestContext, Step
from coterie.coordinator.phases import Phases, synced
from coterie.coordinator.rebalance import Rebalance
from coterie.error_codes import ErrorCode
from coterie.protocol.group_state import GroupState
from coterie.protocol.messages.membership import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

__all__ = ["Membership"]

_PROTOCOL_REQUIRED_FROM: Final = 5  # SyncGroup, KIP-559
_MEMBERS_FROM: Final = 3  # LeaveGroup, KIP-345

#: Heartbeats are frequent, and their answers few: one of each will do.
_HEARTBEAT_ANSWERS: Final = {
    error: Outcome(response=HeartbeatResponse(error_code=error), immediate=True)
    for error in (
        ErrorCode.NONE,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
    )
}
_HEARTBEAT_OK: Final = _HEARTBEAT_ANSWERS[ErrorCode.NONE]


class Membership:
    """Answers the requests of members that have joined."""

    __slots__ = ("_classic_members", "_phases", "_state")

    def __init__(
        self, state: DurableState, phases: Phases, classic_members: ClassicMembers
    ) -> None:
        self._state = state
        self._phases = phases
        #: For members of the classic protocol whose group has become a consumer group.
        self._classic_members = classic_members

    def _find(self, group_id: str) -> tuple[ClassicGroup, Rebalance] | None:
        """A classic group with members, or with some on their way."""
        group = self._state.groups.get(group_id)
        if not isinstance(group, ClassicGroup) or group.rebalance is None:
            return None
        return group, group.rebalance

    # Heartbeat

    def heartbeat(self, request: HeartbeatRequest, context: RequestContext) -> Outcome:
        group = self._state.groups.get(request.group_id)
        if type(group) is ClassicGroup and (rebalance := group.rebalance) is not None:
            error = rebalance.check_member(request.member_id, request.group_instance_id)
            if not error and request.generation_id != rebalance.generation:
                error = ErrorCode.ILLEGAL_GENERATION
            if error:
                return _HEARTBEAT_ANSWERS[error]
            member = rebalance.members[request.member_id]
            self._phases.extend_session(group, member, context.monotonic)
            if rebalance.state is GroupState.PREPARING_REBALANCE:
                return _HEARTBEAT_ANSWERS[ErrorCode.REBALANCE_IN_PROGRESS]
            return _HEARTBEAT_OK
        if isinstance(group, ConsumerGroup):
            return self._classic_members.heartbeat(group, request, context)
        if not request.group_id:
            return _HEARTBEAT_ANSWERS[ErrorCode.INVALID_GROUP_ID]
        return _HEARTBEAT_ANSWERS[ErrorCode.UNKNOWN_MEMBER_ID]

    # SyncGroup

    def sync(self, request: SyncGroupRequest, context: RequestContext) -> Outcome:
        step = Step(context.monotonic, context.now_ms)
        consumer = self._state.groups.get(request.group_id)
        error = _malformed(request, context.api_version)
        if not error and isinstance(consumer, ConsumerGroup):
            return self._classic_members.sync(consumer, request, context)
        found = self._find(request.group_id)
        if not error:
            error = ErrorCode.UNKNOWN_MEMBER_ID if found is None else _refused(request, found[1])
        if error or found is None:
            return step.outcome(SyncGroupResponse(error_code=error))
        group, rebalance = found
        member = rebalance.members[request.member_id]
        if rebalance.state is GroupState.STABLE:
            self._phases.note_synced(rebalance, member)
            return step.outcome(synced(rebalance, member))
        if member.awaiting_sync is not None:
            # A second SyncGroup while the first is parked: the client has given up on the first.
            step.released[member.awaiting_sync] = SyncGroupResponse(
                error_code=ErrorCode.REBALANCE_IN_PROGRESS
            )
        member.awaiting_sync = context.token
        self._phases.note_synced(rebalance, member)
        if rebalance.leader == member.member_id:
            assignments = {each.member_id: each.assignment for each in request.assignments}
            self._phases.complete_sync(group, rebalance, assignments, step)
        return step.outcome(None, context.token)

    # LeaveGroup

    def leave(self, request: LeaveGroupRequest, context: RequestContext) -> Outcome:
        step = Step(context.monotonic, context.now_ms)
        if not request.group_id:
            return step.outcome(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        consumer = self._state.groups.get(request.group_id)
        if isinstance(consumer, ConsumerGroup):
            return self._classic_members.leave(consumer, request, context)
        leaving = request.members
        if context.api_version < _MEMBERS_FROM:
            leaving = (MemberIdentity(member_id=request.member_id),)
        found = self._find(request.group_id)
        if found is None:
            errors = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        else:
            group, rebalance = found
            errors = [self._remove(rebalance, each, step) for each in leaving]
            if not all(errors):
                self._after_leaving(group, rebalance, step)
        if context.api_version < _MEMBERS_FROM:
            return step.outcome(LeaveGroupResponse(error_code=errors[0]))
        members = tuple(
            MemberResponse(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                error_code=error,
            )
            for each, error in zip(leaving, errors, strict=True)
        )
        return step.outcome(LeaveGroupResponse(members=members))

    def _remove(self, rebalance: Rebalance, leaving: MemberIdentity, step: Step) -> ErrorCode:
        member_id, instance_id = leaving.member_id, leaving.group_instance_id
        if not member_id and instance_id in rebalance.static_members:
            # An administrator removes a static member and does not know its member id.
            member_id = rebalance.static_members[instance_id]
        if member_id in rebalance.pending_joins:
            self._phases.drop_member_id(rebalance, member_id)
            return ErrorCode.NONE
        error = rebalance.check_member(member_id, instance_id)
        if not error:
            self._phases.drop_member(rebalance, rebalance.members[member_id], step)
        return error

    def _after_leaving(self, group: ClassicGroup, rebalance: Rebalance, step: Step) -> None:
        if rebalance.state is GroupState.EMPTY:
            self._phases.let_go_if_idle(group)
        else:
            self._phases.prepare_or_complete(group, rebalance, step)


def _malformed(request: SyncGroupRequest, version: int) -> ErrorCode:
    """What Kafka checks before it looks for the group, and in this order."""
    named = request.protocol_type is not None and request.protocol_name is not None
    if version >= _PROTOCOL_REQUIRED_FROM and not named:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def _refused(request: SyncGroupRequest, rebalance: Rebalance) -> ErrorCode:
    """Kafka's validateSyncGroup. An Empty group has no members, so nobody gets through."""
    error = rebalance.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != rebalance.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, rebalance.protocol_type) or _differs(
        request.protocol_name, rebalance.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if rebalance.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differs(said: str | None, known: str | None) -> bool:
    return said is not None and known is not None and said != known
