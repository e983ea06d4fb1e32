"""The target assignment of a group: made anew by an assignor when the group has changed.

Kafka's TargetAssignmentBuilder. Pure: the group as it is and the member that changed in, records out.
Called by coterie.coordinator.consumer.heartbeat and `classic`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from coterie.coordinator.consumer.assignment import GroupSpec, MemberSpec, Partitions
from coterie.coordinator.consumer.assignors import ASSIGNORS, DEFAULT_ASSIGNOR
from coterie.coordinator.consumer.group import ConsumerGroup, count
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.consumer.records import target_metadata_record, target_record
from coterie.coordinator.consumer.subscriptions import subscribed_names
from coterie.coordinator.outcome import Record, TopicView
from coterie.protocol.types import Uuid

__all__ = ["Change", "may_assign", "new_target", "preferred_assignor"]

_NOTHING: Final[Partitions] = {}


class Change(msgspec.Struct, frozen=True, gc=False):
    """A member as it was, if it was, and as it will be; `replaced` is whose place it takes."""

    old: Member | None
    new: Member
    replaced: Member | None = None


def may_assign(group: ConsumerGroup, interval_ms: int, now_ms: int) -> bool:
    """Whether the last target is old enough (group.consumer.assignment.interval.ms, KIP-1263)."""
    since = group.target_timestamp
    return since == 0 or interval_ms == 0 or now_ms >= since + interval_ms


def preferred_assignor(group: ConsumerGroup, change: Change | None = None) -> str:
    """The assignor that most members ask for; those who ask for none do not count."""
    counts = dict(group.assignors)
    if change is not None:
        for member, by in ((change.old or change.replaced, -1), (change.new, 1)):
            if member is not None and member.metadata.server_assignor is not None:
                count(counts, member.metadata.server_assignor, by)
    return max(counts, key=counts.__getitem__) if counts else DEFAULT_ASSIGNOR


def new_target(
    group: ConsumerGroup,
    change: Change,
    epoch: int,
    *,
    homogeneous: bool,
    now_ms: int,
    topics: TopicView,
) -> tuple[list[Record], Partitions]:
    """A target for an epoch: records of what is new in it, and the part of the member that changed."""
    spec = _spec(group, change, topics, homogeneous=homogeneous)
    assigned = ASSIGNORS[preferred_assignor(group, change)](spec)
    before = group.target
    records: list[Record] = []
    for member_id in spec.members:
        mine, former = assigned.get(member_id, _NOTHING), before.get(member_id)
        if mine is not former and mine != former:
            records.append(target_record(group.group_id, member_id, mine))
    records.append(target_metadata_record(group.group_id, epoch, now_ms))
    return records, assigned.get(change.new.member_id, _NOTHING)


def _spec(
    group: ConsumerGroup, change: Change, topics: TopicView, *, homogeneous: bool
) -> GroupSpec:
    members = dict(group.members)
    if change.replaced is not None:
        members.pop(change.replaced.member_id, None)
    members[change.new.member_id] = change.new
    resolved = _Resolver(topics)
    known = resolved.known
    specs: dict[str, MemberSpec] = {}
    for member_id, member in members.items():
        names = subscribed_names(group, member)
        ids = known[names] if names in known else resolved.ids(names)
        specs[member_id] = MemberSpec(member.metadata.instance_id, ids, group.target_of(member))
    return GroupSpec(specs, resolved.partitions, homogeneous)


class _Resolver:
    """From names to topics that exist; members of a group mostly subscribe to the same."""

    def __init__(self, topics: TopicView) -> None:
        self._topics = topics
        self.known: dict[tuple[str, ...], tuple[Uuid, ...]] = {}
        self.partitions: dict[Uuid, int] = {}

    def ids(self, names: tuple[str, ...]) -> tuple[Uuid, ...]:
        """Those of the names that exist; remembered in `known`."""
        found = self.known[names] = tuple(self._resolve(names))
        return found

    def _resolve(self, names: Iterable[str]) -> Iterable[Uuid]:
        for name in names:
            topic = self._topics.by_name(name)
            if topic is not None:
                self.partitions[topic.topic_id] = topic.partitions
                yield topic.topic_id
