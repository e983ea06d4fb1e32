"""The hash of the topics that a group subscribes to, as Kafka computes it since 4.1.

A group stores it in its record. When the hash changes, a topic was created, deleted or got more partitions,
and the group needs a new assignment. The hashed bytes are Kafka's own, so a log that moves between Kafka and
Coterie causes no rebalance. Called by coterie.coordinator.consumer.subscriptions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

from xxhash import xxh3_64_digest

from coterie.coordinator.outcome import Topic, TopicView

__all__ = ["group_hash", "xxh3_64"]


def group_hash(names: Iterable[str], topics: TopicView) -> int:
    """The hash of all subscribed topics that exist, sorted by name; 0 if none exists."""
    found = [topic for name in names if (topic := topics.by_name(name)) is not None]
    if not found:
        return 0
    found.sort(key=lambda topic: topic.name)
    return xxh3_64(b"".join(struct.pack("<q", _topic_hash(each)) for each in found))


@lru_cache(maxsize=4096)
def _topic_hash(topic: Topic) -> int:
    """Kafka's Utils.computeTopicHash: a magic byte, id, name and its length, partitions. No racks here."""
    name = topic.name.encode("utf-16-le")
    most, least = struct.unpack(">qq", topic.topic_id)
    head = struct.pack("<bqq", 0, most, least) + name + struct.pack("<i", len(name) // 2)
    numbers = (topic.partitions, *range(topic.partitions))
    return xxh3_64(head + struct.pack(f"<{len(numbers)}i", *numbers))


def xxh3_64(data: bytes) -> int:
    """XXH3, 64 bits, seed 0, as a signed number."""
    return int.from_bytes(xxh3_64_digest(data), "big", signed=True)
