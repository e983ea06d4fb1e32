"""Reconciliation: one step of a member from what it owns towards what it should own.

    Stable ── target changed, something to give up ──> UnrevokedPartitions ── it gave them up ──┐
      ▲                                                                                         │
      └───── nothing is missing ──── UnreleasedPartitions <── others still own some of it ──────┘

A partition is given to a member only when no other one owns it: that is the promise of the protocol.
Kafka's CurrentAssignmentBuilder. Pure; called by coterie.coordinator.consumer.heartbeat and `classic`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

import msgspec

from coterie.coordinator.consumer.assignment import MemberState, Owned, Partitions
from coterie.coordinator.consumer.member import Member, moved
from coterie.coordinator.outcome import Refused
from coterie.error_codes import ErrorCode
from coterie.protocol.types import Uuid

__all__ = ["Course", "Reported", "reconcile"]


class Reported(Protocol):
    """Partitions of a topic that a member says it owns."""

    @property
    def topic_id(self) -> Uuid: ...

    @property
    def partitions(self) -> Iterable[int]: ...


class Course(msgspec.Struct, frozen=True, gc=False):
    """Where a member is to go, and what stands in its way."""

    target_epoch: int
    target: Partitions
    #: Topics that the member subscribes to now.
    subscribed: Collection[Uuid]
    #: Who owns what, in the whole group.
    owners: Mapping[Uuid, Mapping[int, str]]
    #: What the member says it owns; None if it does not say.
    reported: Iterable[Reported] | None
    #: Whether its subscription changed just now, so that topics may have to go before there is a target.
    subscription_changed: bool = False


def reconcile(member: Member, course: Course) -> Member:
    """The member after this step; the same object if there is nothing to do, or to be done yet."""
    if member.state == MemberState.STABLE:
        if member.epoch != course.target_epoch:
            return _advance(member, course, member.epoch)
        return _drop_unsubscribed(member, course) if course.subscription_changed else member
    if member.state == MemberState.UNREVOKED_PARTITIONS:
        if _still_owns(course.reported, member.pending_revocation):
            return _drop_unsubscribed(member, course) if course.subscription_changed else member
        return _advance(member, course, member.epoch)
    if member.state == MemberState.UNRELEASED_PARTITIONS:
        return _advance(member, course, member.epoch)
    return _from_unknown_state(member, course)


def _from_unknown_state(member: Member, course: Course) -> Member:
    """A state that a newer coordinator wrote: only a member without partitions can begin anew."""
    if course.reported is None or any(True for _ in course.reported):
        raise Refused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. "
            "The member must abandon all its partitions and rejoin.",
        )
    return _advance(member, course, course.target_epoch)


def _still_owns(reported: Iterable[Reported] | None, partitions: Owned) -> bool:
    """Whether a member has any of these; one that does not say may have all."""
    if reported is None:
        return True
    return any(
        partition in partitions.get(each.topic_id, ())
        for each in reported
        for partition in each.partitions
    )


def _advance(member: Member, course: Course, epoch: int) -> Member:
    """Give up first; when that is done, take what is free, and wait for the rest."""
    if _is_there(member, course):
        return moved(member, MemberState.STABLE, course.target_epoch, member.assigned, {})
    assigned: Owned = {}
    to_revoke: Owned = {}
    to_assign: dict[Uuid, list[int]] = {}
    unreleased = False
    for topic_id in dict.fromkeys((*course.target, *member.assigned)):
        wanted = course.target.get(topic_id, frozenset())
        if topic_id not in course.subscribed:
            wanted = frozenset()
        have = member.assigned.get(topic_id, {})
        keep = {each: since for each, since in have.items() if each in wanted}
        give = {each: since for each, since in have.items() if each not in wanted}
        # What it has still to give up is its own, and free for nobody else.
        mine = member.pending_revocation.get(topic_id, {})
        owners = course.owners.get(topic_id, {})
        missing = wanted - keep.keys()
        free = [each for each in missing if each not in owners or each in mine]
        unreleased = unreleased or len(free) < len(missing)
        if keep:
            assigned[topic_id] = keep
        if give:
            to_revoke[topic_id] = give
        if free:
            to_assign[topic_id] = free
    if to_revoke and _still_owns(course.reported, to_revoke):
        return moved(member, MemberState.UNREVOKED_PARTITIONS, epoch, assigned, to_revoke)
    for topic_id, partitions in to_assign.items():
        assigned.setdefault(topic_id, {}).update(dict.fromkeys(partitions, course.target_epoch))
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return moved(member, state, course.target_epoch, assigned, {})


def _is_there(member: Member, course: Course) -> bool:
    """Whether it owns all of its target and nothing else: so it is for most, when others come and go."""
    assigned, target = member.assigned, course.target
    if len(assigned) != len(target):
        return False
    for topic_id, wanted in target.items():
        have = assigned.get(topic_id)
        if have is None or have.keys() != wanted or topic_id not in course.subscribed:
            return False
    return True


def _drop_unsubscribed(member: Member, course: Course) -> Member:
    """Topics that it no longer subscribes to go at once, even while the target is not yet made anew."""
    kept = {each: have for each, have in member.assigned.items() if each in course.subscribed}
    if len(kept) == len(member.assigned):
        return member
    to_revoke = {topic_id: dict(each) for topic_id, each in member.pending_revocation.items()}
    for topic_id, have in member.assigned.items():
        if topic_id not in kept:
            to_revoke.setdefault(topic_id, {}).update(have)
    if _still_owns(course.reported, to_revoke):
        return moved(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, kept, to_revoke)
    state = MemberState(member.state)
    return moved(member, state, member.epoch, kept, member.pending_revocation)
