"""Offsets that were committed inside transactions which have not ended.

Part of the durable state, changed only by its replay. Whether a producer may commit, and when its
transaction ends, is the business of the transaction coordinator and the server.
"""

from __future__ import annotations

from collections.abc import Iterator

from coterie.protocol.group_records.classic import OffsetCommitKey, OffsetCommitValue

__all__ = ["OpenTransactions"]

_Pending = tuple[int, OffsetCommitValue | None]


class OpenTransactions:
    """Pending offsets by producer, each with the number under which it came.

    Among commits to one partition, transactional or not, the one written last wins, no matter when its
    transaction ends: compaction keeps only that one, so anything else would change in a restart (Kafka
    compares record offsets, KAFKA-14505). An offset that a later one has overtaken stays pending, without
    a value: the partition is still unstable.
    """

    __slots__ = ("_by_producer", "_by_topic", "_count")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetCommitKey, _Pending]] = {}
        #: Group to topic to partition to the producers that have offsets pending there.
        self._by_topic: dict[str, dict[str, dict[int, set[int]]]] = {}
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def add(self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        """An offset was committed in a transaction."""
        self._count += 1
        self._by_producer.setdefault(producer_id, {})[key] = (self._count, value)
        topics = self._by_topic.setdefault(key.group, {})
        topics.setdefault(key.topic, {}).setdefault(key.partition, set()).add(producer_id)

    def supersede(self, key: OffsetCommitKey, before: int | None = None) -> None:
        """An offset became visible: those that were written before it (all, if not told) no longer can."""
        for producer_id in self._producers(key):
            pending = self._by_producer[producer_id]
            number, _ = pending[key]
            if before is None or number < before:
                pending[key] = (number, None)

    def forget(self, key: OffsetCommitKey) -> bool:
        """A tombstone: nothing is pending for this partition any more. Whether something was."""
        producers = list(self._producers(key))
        for producer_id in producers:
            pending = self._by_producer[producer_id]
            del pending[key]
            if not pending:
                del self._by_producer[producer_id]
            self._unlink(key, producer_id)
        return bool(producers)

    def end(
        self, producer_id: int, *, commit: bool
    ) -> Iterator[tuple[OffsetCommitKey, OffsetCommitValue]]:
        """Close a producer's transaction; yields what becomes visible."""
        for key, (number, value) in self._by_producer.pop(producer_id, {}).items():
            self._unlink(key, producer_id)
            if commit and value is not None:
                self.supersede(key, before=number)
                yield key, value

    def topics_of(self, group_id: str) -> dict[str, dict[int, set[int]]]:
        """Topic to partition to producers: where a group has offsets pending."""
        return self._by_topic.get(group_id, {})

    def has_pending(self, group_id: str, topic: str, partition: int) -> bool:
        return partition in self.topics_of(group_id).get(topic, {})

    def pending_of_topic(
        self, topic: str
    ) -> Iterator[tuple[OffsetCommitKey, OffsetCommitValue | None]]:
        """All pending offsets of a topic, in all groups."""
        for pending in self._by_producer.values():
            for key, (_, value) in pending.items():
                if key.topic == topic:
                    yield key, value

    def snapshot(self) -> dict[int, dict[OffsetCommitKey, OffsetCommitValue | None]]:
        """Pending offsets by producer, as plain values."""
        return {
            producer_id: {key: value for key, (_, value) in pending.items()}
            for producer_id, pending in self._by_producer.items()
        }

    def _producers(self, key: OffsetCommitKey) -> set[int]:
        return self.topics_of(key.group).get(key.topic, {}).get(key.partition, set())

    def _unlink(self, key: OffsetCommitKey, producer_id: int) -> None:
        topics = self._by_topic[key.group]
        partitions = topics[key.topic]
        producers = partitions[key.partition]
        producers.discard(producer_id)
        if not producers:
            del partitions[key.partition]
            if not partitions:
                del topics[key.topic]
                if not topics:
                    del self._by_topic[key.group]
