"""ConsumerGroupHeartbeat: the one request by which a member of the consumer protocol joins, lives and leaves.

Called by the shard. Leaving is in coterie.coordinator.consumer.fencing, a classic group that becomes a
consumer group in `migration`. Answers and texts are Kafka's.
"""

from __future__ import annotations

from typing import Final

import msgspec

from coterie.coordinator.config import GroupConfig
from coterie.coordinator.consumer.assignment import Owned, told
from coterie.coordinator.consumer.assignors import ASSIGNORS
from coterie.coordinator.consumer.fencing import Fencing, fenced_instance, unknown_member
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import (
    JOINING,
    LEAVING,
    LEAVING_FOR_NOW,
    Member,
)
from coterie.coordinator.consumer.migration import Migration
from coterie.coordinator.consumer.progress import Progress, Target
from coterie.coordinator.consumer.records import (
    current_record,
    member_record,
    member_tombstones,
    target_record,
)
from coterie.coordinator.consumer.regexes import RegexChange
from coterie.coordinator.consumer.target import Change
from coterie.coordinator.durable import DurableState
from coterie.coordinator.outcome import Outcome, Refused, RequestContext, Step
from coterie.error_codes import ErrorCode
from coterie.protocol.group_records.consumer import ConsumerGroupMemberMetadataValue
from coterie.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

__all__ = ["Heartbeats", "check_room", "replace_static"]

_CLIENT_CHOOSES_ID_FROM: Final = 1  # KIP-1082

_Request = ConsumerGroupHeartbeatRequest
_Response = ConsumerGroupHeartbeatResponse


class Heartbeats:
    """Answers members of the consumer protocol."""

    __slots__ = ("_config", "_fencing", "_migration", "_progress", "_state")

    def __init__(
        self,
        state: DurableState,
        config: GroupConfig,
        progress: Progress,
        fencing: Fencing,
        migration: Migration,
    ) -> None:
        self._state = state
        self._config = config
        self._progress = progress
        self._fencing = fencing
        self._migration = migration

    def handle(self, request: _Request, context: RequestContext) -> Outcome:
        step = Step(context.monotonic, context.now_ms)
        try:
            _check(request, context.api_version)
            if request.member_epoch in (LEAVING, LEAVING_FOR_NOW):
                return step.outcome(self._fencing.leave(request, context, step))
            return step.outcome(self._live(request, context, step))
        except Refused as refused:
            answer = _Response(error_code=refused.error, error_message=refused.message)
            return Outcome(response=answer)

    def _live(self, request: _Request, context: RequestContext, step: Step) -> _Response:
        """Join, or go on: Kafka's consumerGroupHeartbeat."""
        joins = request.member_epoch == JOINING
        group = self._group(request.group_id, context, step, joins=joins)
        check_room(group, request.member_id, self._config)
        member_id = request.member_id or context.new_member_id(context.client_id)
        change = self._change(group, member_id, request, context, step)
        before = change.new
        progress = self._progress
        if before is change.old and group.is_up_to_date(context.topics):
            # Nearly all heartbeats, and in a rebalance all but the one that caused it.
            target = Target(group.target_epoch, group.target_of(before))
            subscription_changed = False
        else:
            target, subscription_changed = self._aim(group, change, context, step)
        member = progress.reconcile(
            group,
            before,
            target,
            context,
            step,
            reported=request.topic_partitions,
            subscription_changed=subscription_changed,
        )
        progress.extend_session(group.group_id, member_id, context.monotonic)
        changed = member.assigned is not before.assigned and member.assigned != before.assigned
        tell = joins or changed or _is_full(request)
        # Fields in their order: this is most of what a server says.
        interval_ms = progress.config_of(group.group_id).consumer_heartbeat_interval_ms
        assignment = told(member.assigned) if tell else None
        return _Response(0, 0, None, member_id, member.epoch, interval_ms, assignment)

    def _aim(
        self, group: ConsumerGroup, change: Change, context: RequestContext, step: Step
    ) -> tuple[Target, bool]:
        """The member's target, a new one if anything has changed, and whether its own subscription has."""
        progress = self._progress
        new_names = progress.note_metadata(group, change, step)
        before = change.old or change.replaced
        regex = progress.regexes.note(group, before, change.new, context, step)
        bump = new_names or regex is RegexChange.RESOLVED
        epoch = progress.epoch(group, change, context.topics, step, bump=bump)
        target = progress.target(group, change, epoch, context, step)
        return target, new_names or regex is not RegexChange.NONE

    def _group(
        self, group_id: str, context: RequestContext, step: Step, *, joins: bool
    ) -> ConsumerGroup:
        """The group; whoever joins may make one, or make one of a classic group."""
        group = self._state.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None and not joins:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if group is None:
            return ConsumerGroup(group_id)
        if joins and (upgraded := self._migration.upgrade(group, context, step)) is not None:
            return upgraded
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")

    def _change(
        self,
        group: ConsumerGroup,
        member_id: str,
        request: _Request,
        context: RequestContext,
        step: Step,
    ) -> Change:
        """Who asks, checked, as it was and as it wants to be."""
        replaced: Member | None = None
        old = group.members.get(member_id)
        if request.instance_id is not None:
            old, replaced = _find_static(group, member_id, request, request.instance_id)
            if replaced is not None:
                replace_static(group, replaced, member_id, step)
        elif old is None and request.member_epoch != JOINING:
            raise unknown_member(group, member_id)
        elif old is not None:
            _check_epoch(old, request)
        base = replaced.replaced_by(member_id) if replaced is not None else old
        base = base or Member(member_id)
        metadata = _metadata(base.metadata, request, context)
        new = base if metadata is base.metadata else base.with_metadata(metadata)
        return Change(old, new, replaced)


def _find_static(
    group: ConsumerGroup, member_id: str, request: _Request, instance_id: str
) -> tuple[Member | None, Member | None]:
    """The static member as it is, and whose place it takes if it comes under another member id."""
    known = group.static_member(instance_id)
    if request.member_epoch == JOINING:
        if known is None:
            return group.members.get(member_id), None
        if known.classic is None and known.epoch != LEAVING_FOR_NOW:
            raise Refused(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group "
                f"because the instance id is owned by {known.member_id} member.",
            )
        return None, known
    if known is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if known.member_id != member_id:
        raise fenced_instance(known, member_id, instance_id)
    _check_epoch(known, request)
    return known, None


def replace_static(group: ConsumerGroup, former: Member, member_id: str, step: Step) -> None:
    """A static member comes back under a new member id: it keeps its target and what it owns."""
    group_id = group.group_id
    after = former.replaced_by(member_id)
    step.records += member_tombstones(group_id, former.member_id)
    step.records.append(member_record(group_id, after))
    target = group.target.get(former.member_id, {})
    step.records.append(target_record(group_id, member_id, target))
    step.records.append(current_record(group_id, after))


def check_room(group: ConsumerGroup, member_id: str, config: GroupConfig) -> None:
    size = config.consumer_max_size
    if len(group.members) >= size and member_id not in group.members:
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size} members.",
        )


def _check_epoch(member: Member, request: _Request) -> None:
    """Fence whoever is not where the group is; one step behind is fine, an answer may have got lost."""
    epoch = request.member_epoch
    if epoch in (JOINING, member.epoch):
        return
    if epoch == member.previous_epoch and epoch < member.epoch:
        reported = request.topic_partitions
        if reported is not None and _is_subset(request, member.assigned):
            return
    word = "greater" if epoch > member.epoch else "smaller"
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {word} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _is_subset(request: _Request, assigned: Owned) -> bool:
    return all(
        each.topic_id in assigned and all(p in assigned[each.topic_id] for p in each.partitions)
        for each in request.topic_partitions or ()
    )


def _is_full(request: _Request) -> bool:
    """A request with everything in it: its client may have missed answers."""
    subscribes = (
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    )
    return (
        request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None
    )


def _metadata(
    before: ConsumerGroupMemberMetadataValue, request: _Request, context: RequestContext
) -> ConsumerGroupMemberMetadataValue:
    """A member's record with what the request changes; null means as before."""
    names = request.subscribed_topic_names
    if (
        names is None
        and request.rebalance_timeout_ms == -1
        and request.instance_id in (None, before.instance_id)
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rack_id is None
        and context.client_id == before.client_id
        and context.client_host == before.client_host
        and before.classic_member_metadata is None
    ):
        return before  # nearly all heartbeats
    wanted: dict[str, object] = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "rebalance_timeout_ms": None
        if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        "server_assignor": request.server_assignor,
        "subscribed_topic_names": None if names is None else tuple(sorted(set(names))),
        "subscribed_topic_regex": request.subscribed_topic_regex,
        "client_id": context.client_id,
        "client_host": context.client_host,
    }
    changed = {
        name: value
        for name, value in wanted.items()
        if value is not None and value != getattr(before, name)
    }
    if before.classic_member_metadata is not None:
        changed["classic_member_metadata"] = None
    return msgspec.structs.replace(before, **changed) if changed else before


def _check(request: _Request, version: int) -> None:
    """What is wrong with a request before the group is looked at, in Kafka's order and words."""
    epoch = request.member_epoch
    if not request.member_id.strip() and (
        version >= _CLIENT_CHOOSES_ID_FROM or epoch > 0 or epoch == LEAVING
    ):
        raise _empty("MemberId")
    if not request.group_id.strip():
        raise _empty("GroupId")
    if request.instance_id is not None and not request.instance_id.strip():
        raise _empty("InstanceId")
    if request.rack_id is not None and not request.rack_id.strip():
        raise _empty("RackId")
    if epoch == JOINING:
        _check_first(request)
    elif epoch == LEAVING_FOR_NOW and request.instance_id is None:
        raise Refused(ErrorCode.INVALID_REQUEST, "InstanceId can't be null.")
    elif epoch < LEAVING_FOR_NOW:
        raise Refused(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in ASSIGNORS:
        raise Refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. "
            f"Supported assignors: {', '.join(ASSIGNORS)}.",
        )


def _empty(name: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")


def _check_first(request: _Request) -> None:
    if request.rebalance_timeout_ms == -1:
        wrong = "RebalanceTimeoutMs must be provided in first request."
    elif request.topic_partitions is None or request.topic_partitions:
        wrong = "TopicPartitions must be empty when (re-)joining."
    elif request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        wrong = (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null "
            "when (re-)joining."
        )
    else:
        return
    raise Refused(ErrorCode.INVALID_REQUEST, wrong)
