"""Taking members out of a consumer group: they leave, or their time is over.

The group gets a new epoch, and the next heartbeat of anybody a new target. If only members of the classic
protocol are left, the group becomes a classic one. Called by coterie.coordinator.consumer.heartbeat and
`classic`, and for deadlines by the shard.
"""

from __future__ import annotations

from collections.abc import Collection

from coterie.coordinator.consumer.deadlines import Deadlines
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import LEAVING_FOR_NOW, Member
from coterie.coordinator.consumer.migration import Migration
from coterie.coordinator.consumer.progress import Progress
from coterie.coordinator.consumer.records import current_record, epoch_record, member_tombstones
from coterie.coordinator.consumer.regexes import regex_tombstone
from coterie.coordinator.consumer.subscriptions import Subscriptions
from coterie.coordinator.durable import DurableState
from coterie.coordinator.outcome import Refused, RequestContext, Step, TopicView
from coterie.coordinator.timers import MemberSubject, Reason
from coterie.error_codes import ErrorCode
from coterie.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

__all__ = ["Fencing", "fenced_instance", "find_member", "unknown_member"]


class Fencing:
    """Removes members, on their wish or by time."""

    __slots__ = ("_deadlines", "_migration", "_progress", "_state")

    def __init__(
        self, state: DurableState, progress: Progress, migration: Migration, deadlines: Deadlines
    ) -> None:
        self._state = state
        self._progress = progress
        self._migration = migration
        self._deadlines = deadlines

    def leave(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, step: Step
    ) -> ConsumerGroupHeartbeatResponse:
        """A member says goodbye; a static one perhaps only for now (Kafka's consumerGroupLeave)."""
        group_id = request.group_id
        group = self._state.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            reason = "not found" if group is None else "is not a consumer group"
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")
        member = find_member(group, request.member_id, request.instance_id)
        if request.instance_id is not None and request.member_epoch == LEAVING_FOR_NOW:
            step.records.append(current_record(group_id, member.left_for_now()))
        else:
            self.fence(group, (member,), context.topics, step)
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )

    def fence(
        self, group: ConsumerGroup, members: Collection[Member], topics: TopicView, step: Step
    ) -> None:
        """Remove members; what they own is free with the records of this step."""
        if not members:
            return
        if self._migration.downgrades(group, members):
            self._migration.downgrade(group, members, None, topics, step, rebalance=True)
            return
        group_id = group.group_id
        for member in members:
            step.records += member_tombstones(group_id, member.member_id)
            self._deadlines.cancel_all(group_id, member.member_id)
        after = Subscriptions(group)
        for member in members:
            after.change(member, None)
        for pattern in group.regex_counts.keys() - after.regex_counts.keys():
            step.records.append(regex_tombstone(group_id, pattern))
        step.records.append(epoch_record(group_id, group.epoch + 1, after.metadata_hash(topics)))

    # Deadlines

    def fire(self, subject: MemberSubject, topics: TopicView, step: Step) -> None:
        """A deadline has come; for a member or a group that is gone it means nothing."""
        self._deadlines.has_come(subject)
        group = self._state.groups.get(subject.group_id)
        if not isinstance(group, ConsumerGroup):
            return
        if subject.reason is Reason.CONSUMER_REGEX:
            self._progress.regexes.run(group, topics, step)
            return
        member = group.members.get(subject.member_id)
        if member is None:
            return
        if subject.reason is Reason.CONSUMER_REBALANCE and member.epoch != subject.epoch:
            return  # it did in time what it was asked to
        self.fence(group, (member,), topics, step)

    def loaded(self, group: ConsumerGroup, monotonic: float) -> None:
        """The log was read: members have a session's time to report (Kafka's onLoaded)."""
        for member in group.members.values():
            self._progress.extend_session(group.group_id, member.member_id, monotonic)
            self._progress.limit(group.group_id, member, monotonic)


def find_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    """A member by its id, or by its instance id, under which it must be the one that we know."""
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise unknown_member(group, member_id)
        return member
    member = group.static_member(instance_id)
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise fenced_instance(member, member_id, instance_id)
    return member


def unknown_member(group: ConsumerGroup, member_id: str) -> Refused:
    return Refused(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )


def fenced_instance(known: Member, member_id: str, instance_id: str) -> Refused:
    return Refused(
        ErrorCode.FENCED_INSTANCE_ID,
        f"Static member {member_id} with instance id {instance_id} was fenced by member "
        f"{known.member_id}.",
    )
