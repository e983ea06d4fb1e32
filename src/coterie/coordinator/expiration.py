"""Offsets that nobody has used for long, and empty groups: when they go, by Kafka's rules.

An offset goes a retention time after its base: for a group that has become empty, that moment; for a
simple group, and for topics that a consumer group (KIP-848, or classic and Stable) no longer subscribes
to, its commit. Nothing
goes while a group rebalances (KAFKA-13636) or a transaction is open. An empty group goes with its last
offset. Called by the shard, every offsets.retention.check.interval.ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from coterie.coordinator.config import GroupConfig
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.durable import DurableState, Group
from coterie.coordinator.foreign import ForeignGroup
from coterie.coordinator.group import ClassicGroup
from coterie.coordinator.offsets import tombstone
from coterie.coordinator.outcome import Record
from coterie.protocol.group_records.classic import GroupMetadataKey, OffsetCommitValue
from coterie.protocol.group_state import GroupState, GroupType

__all__ = ["Expiration", "RetentionClock", "group_tombstones"]

#: Tombstones of one batch, about: a million of them at once would hold up everybody.
_BATCH: Final = 1_000

_BaseTime = Callable[[OffsetCommitValue], int]


class RetentionClock:
    """The wall clock, as far as it can be believed.

    Offsets carry the wall clock's time, so it must decide when they go. But if someone sets it ten years
    ahead, everything would go at once. So between two looks this clock moves by no more than the
    monotonic clock did. It follows the wall clock back at once, which only makes offsets live longer. A
    jump ahead is believed after a restart, when there is nothing to compare with.
    """

    __slots__ = ("_monotonic", "_now_ms")

    def __init__(self, monotonic: float, now_ms: int) -> None:
        self._monotonic = monotonic
        self._now_ms = now_ms

    def advance(self, monotonic: float, now_ms: int) -> int:
        """The time to expire by."""
        passed = max(int((monotonic - self._monotonic) * 1000), 0)
        self._now_ms = min(now_ms, self._now_ms + passed)
        self._monotonic = monotonic
        return self._now_ms


class Expiration:
    """Finds what has expired; the tombstones are for the caller to write."""

    __slots__ = ("_config", "_state")

    def __init__(self, state: DurableState, config: GroupConfig) -> None:
        self._state = state
        self._config = config

    def batches(self, now_ms: int) -> Iterator[tuple[Record, ...]]:
        """Tombstones, a group's never torn apart (cleanupGroupMetadata)."""
        batch: list[Record] = []
        for group_id in list(self._state.groups):
            group = self._state.groups.get(group_id)
            if group is not None and group.type is not GroupType.SHARE:
                batch += self._expired(group, now_ms)
            if len(batch) >= _BATCH:
                yield tuple(batch)
                batch = []
        if batch:
            yield tuple(batch)

    def _expired(self, group: Group, now_ms: int) -> list[Record]:
        group_id = group.group_id
        topics = self._state.offsets.get(group_id, {})
        pending = self._state.transactions.topics_of(group_id)
        base = _base_time(group) if topics else None
        records: list[Record] = []
        kept = bool(pending)
        for topic, partitions in topics.items():
            if base is None or _is_subscribed(group, topic):
                kept = True
                continue
            for index, value in partitions.items():
                expired = self._is_expired(value, base, now_ms)
                if expired and index not in pending.get(topic, {}):
                    records.append(tombstone(group_id, topic, index))
                else:
                    kept = True
        if not kept and group.state is GroupState.EMPTY:
            records += group_tombstones(group)
        return records

    def _is_expired(self, value: OffsetCommitValue, base: _BaseTime, now_ms: int) -> bool:
        if value.expire_timestamp != -1:  # the client chose it, in OffsetCommit 2 to 4
            return now_ms >= value.expire_timestamp
        return now_ms - base(value) >= self._config.offsets_retention_ms


def group_tombstones(group: Group) -> list[Record]:
    """What deletes a group, apart from its offsets."""
    if isinstance(group, ClassicGroup):
        return [Record(GroupMetadataKey(group=group.group_id))]
    return group.tombstones()


def _is_subscribed(group: Group, topic: str) -> bool:
    return not isinstance(group, ForeignGroup) and group.is_subscribed_to(topic)


def _base_time(group: Group) -> _BaseTime | None:
    """From when an offset's retention counts (offsetExpirationCondition); None if none may expire."""
    state = group.state
    if isinstance(group, ConsumerGroup):
        return _commit_time
    if isinstance(group, ForeignGroup):
        return _commit_time if state is GroupState.EMPTY else None
    if not group.protocol_type:
        return _commit_time
    if state is GroupState.EMPTY:
        since = group.value.current_state_timestamp if group.value is not None else -1
        return _commit_time if since == -1 else lambda _: since
    if state is GroupState.STABLE and group.protocol_type == "consumer":
        return _commit_time
    return None


def _commit_time(value: OffsetCommitValue) -> int:
    return value.commit_timestamp
