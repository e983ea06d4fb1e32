"""What a shard knows for good, and the only code that changes it: `replay`.

The same method runs at load, over the whole log, and live, right after a batch was written. So a state
that was built by requests and one that was read back are the same by construction. Replay is total: any
record in any order leads somewhere (KAFKA-17306); what makes no sense is counted in `skipped`.

Handlers of requests read here and write nothing that is durable: `expect` only holds a new group until its
first record is replayed. The volatile part of a group is an attribute of it; replay drops that part only when
the log has all there is to know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, Protocol

from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.foreign import FOREIGN_TYPES, ForeignGroup
from coterie.coordinator.group import ClassicGroup
from coterie.coordinator.transactions import OpenTransactions
from coterie.protocol.group_records.classic import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.protocol.group_records.consumer import ConsumerGroupMetadataKey
from coterie.protocol.group_state import GroupState, GroupType
from coterie.protocol.schema import RecordKey, RecordValue
from coterie.protocol.versioned import Undecoded

__all__ = [
    "DurableState",
    "Group",
    "GroupIndex",
    "Indexed",
    "TopicOffsets",
]


class Indexed(Protocol):
    """What the index needs to know of a group, and the one thing that it keeps there."""

    group_id: str
    #: The ids that this group is listed among, or None.
    bucket: dict[str, None] | None

    @property
    def type(self) -> GroupType: ...

    @property
    def state(self) -> GroupState: ...


class GroupIndex:
    """Group ids by type and state, so that a filtered list costs what it returns.

    Kafka scans every group of a shard for each ListGroups. The index is updated whenever a group is created,
    removed or changes its state; it is derived from the groups and never written.
    """

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        # Dictionaries for their order: a list of groups comes out oldest first, and the same each time.
        self._buckets: dict[tuple[GroupType, GroupState], dict[str, None]] = {}

    def place(self, group: Indexed) -> None:
        """Put a group where it now belongs."""
        where = (group.type, group.state)
        bucket = self._buckets.get(where)
        if bucket is None:
            bucket = self._buckets[where] = {}
        if group.bucket is not bucket:
            if group.bucket is not None:
                del group.bucket[group.group_id]
            bucket[group.group_id] = None
            group.bucket = bucket

    def remove(self, group: Indexed) -> None:
        """Take a group out."""
        if group.bucket is not None:
            del group.bucket[group.group_id]
            group.bucket = None

    def find(
        self, states: Collection[GroupState], types: Collection[GroupType]
    ) -> Iterator[tuple[GroupType, GroupState, dict[str, None]]]:
        """The buckets of these states and types; an empty filter lets all pass."""
        for (kind, state), bucket in self._buckets.items():
            if bucket and (not states or state in states) and (not types or kind in types):
                yield kind, state, bucket


Group = ClassicGroup | ConsumerGroup | ForeignGroup
#: Topic to partition to what was committed.
TopicOffsets = dict[str, dict[int, OffsetCommitValue]]

#: The records whose tombstone removes the whole group.
_LIFE_RECORDS: Final = frozenset((11, 17))


class DurableState:
    """The groups of a shard, their committed offsets, and those that wait for a transaction to end."""

    __slots__ = ("_appliers", "_expected", "groups", "index", "offsets", "skipped", "transactions")

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.offsets: dict[str, TopicOffsets] = {}
        self.transactions = OpenTransactions()
        self.index = GroupIndex()
        #: Records that changed nothing because they could not be read or spoke of nothing we have.
        self.skipped = 0
        self._expected: ClassicGroup | None = None
        self._appliers: dict[type, Callable[[Any, Any], None]] = {
            OffsetCommitKey: self._apply_offset,
            GroupMetadataKey: self._apply_group,
            LegacyOffsetCommitKey: self._apply_legacy_offset,
            **dict.fromkeys(ConsumerGroup.appliers, self._apply_consumer),
        }

    def expect(self, group_id: str) -> ClassicGroup:
        """A new group that a record of this step will bring into being when it is replayed.

        It is no part of the state until then; it only gives its first member something to belong to.
        """
        self._expected = ClassicGroup(group_id)
        return self._expected

    def replay(self, key: RecordKey | Undecoded, value: RecordValue | Undecoded | None) -> None:
        """Apply one record that is in the log and in no transaction."""
        applier = self._appliers.get(type(key))
        if applier is not None and type(value) is not Undecoded:
            applier(key, value)
        elif isinstance(key, RecordKey) and not isinstance(value, Undecoded):
            self._apply_foreign(key, value)
        else:
            self.skipped += 1

    def replay_transactional(
        self, producer_id: int, key: RecordKey | Undecoded, value: RecordValue | Undecoded | None
    ) -> None:
        """Apply one record of a transaction, which waits for the transaction's end.

        Only commits are written in transactions; Kafka applies a tombstone there at once, and so do we.
        """
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            group = self._group_of_offset(key.group)
            if isinstance(group, ClassicGroup):
                group.transactional_commits = True
            self.transactions.add(producer_id, key, value)
        else:
            self.replay(key, value)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """A marker: pending offsets of the producer become visible, or vanish."""
        for key, value in self.transactions.end(producer_id, commit=commit):
            self.offsets.setdefault(key.group, {}).setdefault(key.topic, {})[key.partition] = value

    def _apply_offset(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        group_id = key.group
        if value is None:
            self._forget_offset(key)
            return
        group = self.groups.get(group_id)
        if group is None:
            group = self._group_of_offset(group_id)
        if type(group) is ClassicGroup:
            group.consumer_commits = True
        topics = self.offsets.get(group_id)
        if topics is None:
            topics = self.offsets[group_id] = {}
        partitions = topics.get(key.topic)
        if partitions is None:
            partitions = topics[key.topic] = {}
        partitions[key.partition] = value
        if self.transactions:
            self.transactions.supersede(key)

    def _apply_legacy_offset(
        self, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None
    ) -> None:
        """The oldest type of record, of which a log may still hold some (Kafka converts them too)."""
        modern = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
        if value is None:
            self._apply_offset(modern, None)
        else:
            self._apply_offset(
                modern,
                OffsetCommitValue(
                    offset=value.offset,
                    metadata=value.metadata,
                    commit_timestamp=value.commit_timestamp,
                ),
            )

    def _forget_offset(self, key: OffsetCommitKey) -> None:
        was_pending = self.transactions.forget(key)
        topics = self.offsets.get(key.group, {})
        partitions = topics.get(key.topic, {})
        if partitions.pop(key.partition, None) is None:
            self.skipped += not was_pending
            return
        if not partitions:
            del topics[key.topic]
            if not topics:
                del self.offsets[key.group]

    def _group_of_offset(self, group_id: str) -> Group:
        """An offset without a group makes a simple one, of which no other record tells."""
        group = self.groups.get(group_id)
        if group is None:
            group = ClassicGroup(group_id)
            self._put(group)
        return group

    def _apply_group(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        group = self.groups.get(key.group)
        if value is None:
            if isinstance(group, ClassicGroup):
                self._remove(group)
            else:
                self.skipped += 1
            return
        if not isinstance(group, ClassicGroup):
            expected, self._expected = self._expected, None
            if expected is None or expected.group_id != key.group:
                expected = ClassicGroup(key.group)
            group = expected
            self._put(group)
        group.value = value
        if group.rebalance is not None and group.rebalance.is_idle():
            group.rebalance = None
        self.index.place(group)

    def _apply_consumer(self, key: Any, value: RecordValue | None) -> None:
        group = self.groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                self.skipped += 1
                return
            group = ConsumerGroup(key.group_id)
            self._put(group)
        elif value is None and type(key) is ConsumerGroupMetadataKey:
            self._remove(group)
            return
        self.skipped += not group.apply(key, value)
        self.index.place(group)

    def _apply_foreign(self, key: Any, value: RecordValue | None) -> None:
        number = type(key).__key__
        kind = FOREIGN_TYPES[number]
        group = self.groups.get(key.group_id)
        foreign = group if isinstance(group, ForeignGroup) and group.type is kind else None
        if value is not None:
            if foreign is None:
                foreign = ForeignGroup(key.group_id, kind)
                self._put(foreign)
            foreign.records[key] = value
            self.index.place(foreign)
        elif foreign is not None and number in _LIFE_RECORDS:
            self._remove(foreign)
        elif foreign is not None and foreign.records.pop(key, None) is not None:
            self.index.place(foreign)
        else:
            self.skipped += 1

    def _put(self, group: Group) -> None:
        """A new group, in the place of one of another type if there was one."""
        previous = self.groups.get(group.group_id)
        if previous is not None:
            self.index.remove(previous)
        self.groups[group.group_id] = group
        self.index.place(group)

    def _remove(self, group: Group) -> None:
        self.index.remove(group)
        del self.groups[group.group_id]

    def snapshot(self) -> dict[str, Any]:
        """All of it as plain values, to be compared with that of another shard."""
        return {
            "groups": {group_id: group.snapshot() for group_id, group in self.groups.items()},
            "offsets": {
                group_id: {topic: dict(partitions) for topic, partitions in topics.items()}
                for group_id, topics in self.offsets.items()
            },
            "transactions": self.transactions.snapshot(),
        }
