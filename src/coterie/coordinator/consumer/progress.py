"""From a member that changed to its next assignment: the steps that both protocols share.

    member record ─> group epoch, if subscriptions or topics changed ─> target, if older ─> reconciliation

Each step adds its records to those before. Called by coterie.coordinator.consumer.heartbeat and `classic`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from coterie.coordinator.config import GroupConfig
from coterie.coordinator.consumer.assignment import MemberState, Partitions
from coterie.coordinator.consumer.deadlines import Deadlines
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.consumer.reconciliation import Course, Reported, reconcile
from coterie.coordinator.consumer.records import current_record, epoch_record, member_record
from coterie.coordinator.consumer.regexes import Regexes
from coterie.coordinator.consumer.subscriptions import (
    Subscriptions,
    subscribed_names,
    subscribed_topics,
)
from coterie.coordinator.consumer.target import Change, may_assign, new_target
from coterie.coordinator.outcome import Record, RequestContext, Step, TopicView
from coterie.coordinator.timers import MemberSubject, Reason
from coterie.protocol.group_records.consumer import ConsumerGroupPartitionMetadataKey
from coterie.protocol.types import Uuid

__all__ = ["Progress", "Target"]


#: Different subscriptions that are remembered; most shards have fewer.
_KNOWN_SUBSCRIPTIONS: Final = 1_000


class Target(msgspec.Struct, frozen=True, gc=False):
    """Where a member is to go: an epoch, and the partitions of it."""

    epoch: int
    partitions: Partitions


class Progress:
    """Takes members of consumer groups one step further."""

    __slots__ = ("_config", "_deadlines", "_known", "_known_version", "_overrides", "regexes")

    def __init__(
        self,
        config: GroupConfig,
        deadlines: Deadlines,
        overrides: Mapping[str, GroupConfig] = MappingProxyType({}),
    ) -> None:
        self._config = config
        self._overrides = overrides
        self._deadlines = deadlines
        self.regexes = Regexes(config, deadlines)
        #: Names that members subscribe to, with those of the topics that exist in this version.
        self._known: dict[tuple[str, ...], tuple[Uuid, ...]] = {}
        self._known_version = -1

    def note_metadata(self, group: ConsumerGroup, change: Change, step: Step) -> bool:
        """Write down a member that is new or has changed; whether it subscribes to other names now."""
        old = change.old or change.replaced
        metadata = change.new.metadata
        if old is not None and (old.metadata is metadata or old.metadata == metadata):
            return False
        step.records.append(member_record(group.group_id, change.new))
        return change.new.topic_names != (old.topic_names if old is not None else ())

    def epoch(
        self, group: ConsumerGroup, change: Change, topics: TopicView, step: Step, *, bump: bool
    ) -> int:
        """The epoch of the group, a new one if subscriptions or topics are not what they were."""
        if not bump and group.seen_topics == topics.version:
            return group.epoch
        after = Subscriptions(group).change(change.old or change.replaced, change.new)
        metadata_hash = after.metadata_hash(topics)
        epoch = group.epoch
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            step.records.append(epoch_record(group.group_id, epoch, metadata_hash))
        group.seen_topics = topics.version
        if group.has_partition_metadata:
            # Brokers before 4.1 kept the topics themselves and not their hash.
            step.records.append(Record(ConsumerGroupPartitionMetadataKey(group.group_id)))
        return epoch

    def target(
        self, group: ConsumerGroup, change: Change, epoch: int, context: RequestContext, step: Step
    ) -> Target:
        """The target, made anew if it is older than the group, but not too often."""
        interval = self.config_of(group.group_id).consumer_assignment_interval_ms
        if epoch <= group.target_epoch or not may_assign(group, interval, context.now_ms):
            return Target(group.target_epoch, group.target_of(change.new))
        after = Subscriptions(group).change(change.old or change.replaced, change.new)
        records, partitions = new_target(
            group,
            change,
            epoch,
            homogeneous=after.is_homogeneous(),
            now_ms=context.now_ms,
            topics=context.topics,
        )
        step.records += records
        return Target(epoch, partitions)

    def reconcile(
        self,
        group: ConsumerGroup,
        member: Member,
        target: Target,
        context: RequestContext,
        step: Step,
        *,
        reported: Iterable[Reported] | None,
        subscription_changed: bool,
    ) -> Member:
        """One step towards the target; a member that has to give something up gets time for it."""
        if not subscription_changed and member.is_reconciled_to(target.epoch):
            return member
        course = Course(
            target.epoch,
            target.partitions,
            self._topics(subscribed_names(group, member), context.topics),
            group.owners,
            reported,
            subscription_changed,
        )
        after = reconcile(member, course)
        if after is member or (after.epoch == member.epoch and after == member):
            return member
        step.records.append(current_record(group.group_id, after))
        if after.classic is None:
            self.limit(group.group_id, after, context.monotonic)
        return after

    def _topics(self, names: tuple[str, ...], topics: TopicView) -> tuple[Uuid, ...]:
        """Those of the topics that exist; members of a group mostly subscribe to the same."""
        if self._known_version != topics.version or len(self._known) > _KNOWN_SUBSCRIPTIONS:
            self._known.clear()
            self._known_version = topics.version
        known = self._known.get(names)
        if known is None:
            known = self._known[names] = subscribed_topics(names, topics)
        return known

    def limit(self, group_id: str, member: Member, monotonic: float) -> None:
        """A member that has to let go of partitions has its rebalance timeout for it."""
        reason, member_id = Reason.CONSUMER_REBALANCE, member.member_id
        if member.state != MemberState.UNREVOKED_PARTITIONS:
            self._deadlines.cancel(reason, group_id, member_id)
            return
        wait = member.metadata.rebalance_timeout_ms / 1000
        subject = MemberSubject(reason, group_id, member_id, member.epoch)
        self._deadlines.schedule(subject, monotonic + wait)

    def config_of(self, group_id: str) -> GroupConfig:
        """The settings of a group: its own where it has some."""
        return self._overrides.get(group_id, self._config) if self._overrides else self._config

    def extend_session(
        self, group_id: str, member_id: str, monotonic: float, timeout_ms: int | None = None
    ) -> None:
        """A sign of life; classic members have a session timeout of their own."""
        if timeout_ms is None:
            timeout_ms = self.config_of(group_id).consumer_session_timeout_ms
        at = monotonic + timeout_ms / 1000
        self._deadlines.move(Reason.CONSUMER_SESSION, group_id, member_id, at)
