"""The phases of a rebalance, and what ends them: members, or time.

    Empty --first join--> join phase --all joined--> sync phase --leader synced--> Stable

A rebalance begins with `prepare`, ends its join phase in `complete_join` and its sync phase in
`complete_sync`. What happens at each kind of deadline of a classic group is here too. Called
by the request handlers (coterie.coordinator.joining, coterie.coordinator.membership) and, for deadlines,
by the shard. Follows Kafka's GroupMetadataManager, whose names are in the docstrings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from coterie.coordinator.config import GroupConfig
from coterie.coordinator.durable import DurableState
from coterie.coordinator.group import ClassicGroup
from coterie.coordinator.outcome import Record, Step
from coterie.coordinator.rebalance import Member, Rebalance
from coterie.coordinator.states import Event
from coterie.coordinator.timers import Deadline, MemberSubject, Reason, Timers
from coterie.error_codes import ErrorCode
from coterie.protocol.group_records.classic import GroupMetadataKey
from coterie.protocol.group_state import GroupState
from coterie.protocol.messages.membership import JoinGroupResponse, SyncGroupResponse

__all__ = [
    "GROUP_METADATA_VERSION",
    "Phases",
    "Subject",
    "group_record",
    "joined",
    "synced",
]

#: Kafka's GROUP_METADATA_VALUE_VERSION: the highest that is not flexible.
GROUP_METADATA_VERSION: Final = 3


class Subject(NamedTuple):
    """What a deadline is about; the group is None only for EXPIRATION."""

    reason: Reason
    group: ClassicGroup | None = None
    member_id: str = ""


class Phases:
    """Moves the groups of a shard through their rebalances."""

    __slots__ = ("_config", "_state", "timers")

    def __init__(self, state: DurableState, config: GroupConfig) -> None:
        self._state = state
        self._config = config
        self.timers: Timers[Subject | MemberSubject] = Timers()

    # The join phase

    def prepare(self, group: ClassicGroup, rebalance: Rebalance, step: Step) -> None:
        """Begin a rebalance (prepareRebalance)."""
        if rebalance.state is GroupState.COMPLETING_REBALANCE:
            self._reset_assignment(group, rebalance, step)
        self._end_sync_phase(rebalance)
        initial = rebalance.state is GroupState.EMPTY
        self._transition(group, rebalance, Event.REBALANCE, step)
        if initial:
            delay = self._config.initial_rebalance_delay_ms
            remaining = max(rebalance.rebalance_timeout_ms() - delay, 0)
            self._await_more_members(group, rebalance, delay, remaining, step)
        else:
            self._complete_join_or_wait(group, rebalance, step)

    def prepare_or_complete(self, group: ClassicGroup, rebalance: Rebalance, step: Step) -> None:
        """Membership changed: begin a rebalance, or see whether the one under way may go on.

        Kafka's maybePrepareRebalanceOrCompleteJoin.
        """
        if rebalance.state is GroupState.PREPARING_REBALANCE:
            self.maybe_complete_join(group, rebalance, step)
        else:
            self.prepare(group, rebalance, step)

    def maybe_complete_join(self, group: ClassicGroup, rebalance: Rebalance, step: Step) -> None:
        """End the join phase if nobody is missing, except for a first one, which has its delay."""
        if (
            rebalance.state is GroupState.PREPARING_REBALANCE
            and rebalance.previous_state is not GroupState.EMPTY
            and rebalance.all_joined()
        ):
            self.complete_join(group, rebalance, step)

    def complete_join(self, group: ClassicGroup, rebalance: Rebalance, step: Step) -> None:
        """End the join phase with those who have joined (completeClassicGroupJoin).

        Members that did not come are dropped, except static ones, whose place is kept until their
        session ends.
        """
        self._cancel(rebalance.join_deadline)
        missing = [each for each in rebalance.members.values() if each.awaiting_join is None]
        for member in missing:
            if member.instance_id is None:
                rebalance.remove(member)
                self._cancel(member.session)
        if not rebalance.elect_joined_leader() and rebalance.members:
            # Only static members are left and none of them came: wait for them, or for their sessions.
            self._complete_join_or_wait(group, rebalance, step)
            return
        rebalance.next_generation(step.now_ms)
        self._state.index.place(group)
        if rebalance.members:
            self._begin_sync_phase(group, rebalance, step)
        else:
            step.records.append(group_record(group, rebalance))

    def _begin_sync_phase(self, group: ClassicGroup, rebalance: Rebalance, step: Step) -> None:
        for member in rebalance.members.values():
            token = rebalance.take_join(member)
            if token is not None:
                step.released[token] = joined(rebalance, member)
            member.is_new = False
            self.extend_session(group, member, step.monotonic)
            rebalance.pending_syncs.add(member.member_id)
        if rebalance.sync_deadline is None:
            rebalance.sync_deadline = Deadline(Subject(Reason.SYNC, group))
        timeout = rebalance.rebalance_timeout_ms() / 1000
        self.timers.schedule(rebalance.sync_deadline, step.monotonic + timeout)

    def _complete_join_or_wait(self, group: ClassicGroup, rebalance: Rebalance, step: Step) -> None:
        if rebalance.all_joined():
            self.complete_join(group, rebalance, step)
        else:
            timeout = rebalance.rebalance_timeout_ms()
            self._await_joins(group, rebalance, Reason.JOIN, timeout, step)

    def _await_more_members(
        self, group: ClassicGroup, rebalance: Rebalance, delay: int, remaining: int, step: Step
    ) -> None:
        rebalance.delay_ms, rebalance.remaining_ms = delay, remaining
        self._await_joins(group, rebalance, Reason.INITIAL_DELAY, delay, step)

    def _await_joins(
        self, group: ClassicGroup, rebalance: Rebalance, reason: Reason, wait_ms: int, step: Step
    ) -> None:
        if rebalance.join_deadline is None:
            rebalance.join_deadline = Deadline(Subject(reason, group))
        rebalance.join_deadline.subject = Subject(reason, group)
        self.timers.schedule(rebalance.join_deadline, step.monotonic + wait_ms / 1000)

    # The sync phase

    def note_synced(self, rebalance: Rebalance, member: Member) -> None:
        """A member's SyncGroup has come."""
        rebalance.pending_syncs.discard(member.member_id)
        if not rebalance.pending_syncs:
            self._cancel(rebalance.sync_deadline)

    def complete_sync(
        self,
        group: ClassicGroup,
        rebalance: Rebalance,
        assignments: Mapping[str, bytes],
        step: Step,
    ) -> None:
        """The leader has decided: write it down, and tell everybody who asked (setAndPropagateAssignment).

        Members that the leader left out get no bytes; others that it made up are ignored.
        """
        for member in rebalance.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        step.records.append(group_record(group, rebalance))
        self._propagate(group, rebalance, ErrorCode.NONE, step)
        self._transition(group, rebalance, Event.ASSIGNED, step)

    def _reset_assignment(self, group: ClassicGroup, rebalance: Rebalance, step: Step) -> None:
        """The sync phase comes to nothing (resetAndPropagateAssignmentWithError)."""
        for member in rebalance.members.values():
            member.assignment = b""
        self._propagate(group, rebalance, ErrorCode.REBALANCE_IN_PROGRESS, step)

    def _propagate(
        self, group: ClassicGroup, rebalance: Rebalance, error: ErrorCode, step: Step
    ) -> None:
        for member in rebalance.members.values():
            token, member.awaiting_sync = member.awaiting_sync, None
            if token is not None:
                step.released[token] = (
                    SyncGroupResponse(error_code=error) if error else synced(rebalance, member)
                )
                # A session that ended while its member waited for us was let pass.
                self.extend_session(group, member, step.monotonic)

    def _end_sync_phase(self, rebalance: Rebalance) -> None:
        rebalance.pending_syncs.clear()
        self._cancel(rebalance.sync_deadline)

    # Members

    def extend_session(self, group: ClassicGroup, member: Member, monotonic: float) -> None:
        """A sign of life (rescheduleClassicGroupMemberHeartbeat)."""
        self.expect_by(group, member, monotonic + member.session_timeout_ms / 1000)

    def expect_by(self, group: ClassicGroup, member: Member, at: float) -> None:
        """Give a member time until `at`."""
        if member.session is None:
            member.session = Deadline(Subject(Reason.SESSION, group, member.member_id))
        self.timers.schedule(member.session, at)

    def hold_member_id(
        self, group: ClassicGroup, rebalance: Rebalance, member_id: str, at: float
    ) -> None:
        """Keep a place for a member id that its client has to come back with (KIP-394)."""
        subject = Subject(Reason.PENDING_MEMBER, group, member_id)
        deadline: Deadline[Subject | MemberSubject] = Deadline(subject)
        rebalance.pending_joins[member_id] = deadline
        self.timers.schedule(deadline, at)

    def drop_member_id(self, rebalance: Rebalance, member_id: str) -> None:
        """A member id is used now, or will not be used at all."""
        self._cancel(rebalance.pending_joins.pop(member_id))

    def drop_member(self, rebalance: Rebalance, member: Member, step: Step) -> None:
        """Take a member out and answer what it has parked: it may come back as a new one."""
        token = member.awaiting_join
        if token is not None:
            step.released[token] = JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        if member.awaiting_sync is not None:
            step.released[member.awaiting_sync] = SyncGroupResponse(
                error_code=ErrorCode.UNKNOWN_MEMBER_ID
            )
        self.end_session(member)
        rebalance.remove(member)

    def end_session(self, member: Member) -> None:
        """Expect no more signs of life from a member, under this member id."""
        self._cancel(member.session)
        member.session = None

    def let_go_if_idle(self, group: ClassicGroup) -> None:
        """Free what nobody needs: an empty group with nothing under way is all in the log."""
        if group.rebalance is not None and group.rebalance.is_idle():
            group.rebalance = None

    def _cancel(self, deadline: Deadline[Subject | MemberSubject] | None) -> None:
        if deadline is not None:
            self.timers.cancel(deadline)

    def _transition(
        self, group: ClassicGroup, rebalance: Rebalance, event: Event, step: Step
    ) -> None:
        rebalance.transition(event, step.now_ms)
        self._state.index.place(group)

    # Deadlines

    def fire(self, subject: Subject, step: Step) -> None:
        """A deadline of a group has come. A group that has gone meanwhile has none."""
        group = subject.group
        if group is None or self._state.groups.get(group.group_id) is not group:
            return
        rebalance = group.rebalance
        if rebalance is None:
            return
        if subject.reason is Reason.SESSION:
            self._session_expired(group, rebalance, subject.member_id, step)
        elif subject.reason is Reason.PENDING_MEMBER:
            self._member_id_expired(group, rebalance, subject.member_id, step)
        elif subject.reason is Reason.INITIAL_DELAY:
            self._initial_delay_over(group, rebalance, step)
        elif subject.reason is Reason.JOIN:
            self.complete_join(group, rebalance, step)
        else:
            self._sync_phase_over(group, rebalance, step)

    def _session_expired(
        self, group: ClassicGroup, rebalance: Rebalance, member_id: str, step: Step
    ) -> None:
        """Kafka's expireClassicGroupMemberHeartbeat."""
        member = rebalance.members.get(member_id)
        if member is None:
            return
        waits_for_us = member.awaiting_join is not None or member.awaiting_sync is not None
        if waits_for_us and not member.is_new:
            return  # its next deadline is set when it gets its answer
        self.drop_member(rebalance, member, step)
        if rebalance.state is not GroupState.PREPARING_REBALANCE:
            self.prepare(group, rebalance, step)
        elif rebalance.all_joined():
            self.complete_join(group, rebalance, step)

    def _member_id_expired(
        self, group: ClassicGroup, rebalance: Rebalance, member_id: str, step: Step
    ) -> None:
        """Kafka's removePendingMemberAndUpdateClassicGroup."""
        rebalance.pending_joins.pop(member_id, None)
        if rebalance.state is GroupState.PREPARING_REBALANCE and rebalance.all_joined():
            self.complete_join(group, rebalance, step)
        else:
            self.let_go_if_idle(group)

    def _initial_delay_over(self, group: ClassicGroup, rebalance: Rebalance, step: Step) -> None:
        """Kafka's tryCompleteInitialRebalanceElseSchedule."""
        if rebalance.new_member_added and rebalance.remaining_ms:
            rebalance.new_member_added = False
            delay = min(self._config.initial_rebalance_delay_ms, rebalance.remaining_ms)
            remaining = max(rebalance.remaining_ms - rebalance.delay_ms, 0)
            self._await_more_members(group, rebalance, delay, remaining, step)
        else:
            self.complete_join(group, rebalance, step)

    def _sync_phase_over(self, group: ClassicGroup, rebalance: Rebalance, step: Step) -> None:
        """Members that never came for their assignment are dropped (expirePendingSync)."""
        late = [rebalance.members[each] for each in rebalance.pending_syncs]
        for member in late:
            self._cancel(member.session)
            rebalance.remove(member)
        if late:
            self.prepare(group, rebalance, step)


def group_record(group: ClassicGroup, rebalance: Rebalance) -> Record:
    """The record that stores a group as it is now."""
    return Record(GroupMetadataKey(group=group.group_id), rebalance.value(), GROUP_METADATA_VERSION)


def joined(
    rebalance: Rebalance, member: Member, *, skip_assignment: bool = False
) -> JoinGroupResponse:
    """The answer to a member of the current generation; the leader learns of all."""
    leads = rebalance.leader == member.member_id
    return JoinGroupResponse(
        generation_id=rebalance.generation,
        protocol_type=rebalance.protocol_type,
        protocol_name=rebalance.protocol_name or "",
        leader=rebalance.leader or "",
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=rebalance.joined_members() if leads else (),
    )


def synced(rebalance: Rebalance, member: Member) -> SyncGroupResponse:
    """The assignment of a member."""
    return SyncGroupResponse(
        protocol_type=rebalance.protocol_type,
        protocol_name=rebalance.protocol_name,
        assignment=member.assignment,
    )
