"""Partitions of topics, which are keys of results and of requests."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

__all__ = ["TopicPartition", "by_topic"]


class TopicPartition(msgspec.Struct, frozen=True, order=True, gc=False):
    """A topic's partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, as requests have them."""
    found: dict[str, list[int]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each.partition)
    return found
