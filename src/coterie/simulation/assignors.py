"""The assignors of simulated leaders: Kafka's range, and a sticky one.

Who gets which partition, from who is there and what they had. The sticky one keeps what it can and evens
out the rest: less thorough than Kafka's, with the same purpose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["Assignment", "assign_range", "assign_sticky"]

#: Partitions by topic.
Assignment = dict[str, tuple[int, ...]]


def assign_range(
    subscriptions: Mapping[str, Sequence[str]], counts: Mapping[str, int]
) -> dict[str, Assignment]:
    """Kafka's RangeAssignor: per topic, neighbours go together; the first members get one more."""
    given: dict[str, Assignment] = {member: {} for member in subscriptions}
    for topic, count in counts.items():
        takers = sorted(member for member, topics in subscriptions.items() if topic in topics)
        each, extra = divmod(count, len(takers)) if takers else (0, 0)
        first = 0
        for index, member in enumerate(takers):
            size = each + (index < extra)
            if size:
                given[member][topic] = tuple(range(first, first + size))
            first += size
    return given


def assign_sticky(
    subscriptions: Mapping[str, Sequence[str]],
    counts: Mapping[str, int],
    owned: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """Everyone keeps what they had, up to a fair share; the rest goes to whoever has least."""
    free = {(topic, index) for topic, count in counts.items() for index in range(count)}
    share = -(-len(free) // len(subscriptions)) if subscriptions else 0
    kept: dict[str, list[tuple[str, int]]] = {}
    for member, topics in subscriptions.items():
        had = [(t, i) for t, indexes in owned.get(member, {}).items() for i in indexes]
        kept[member] = [each for each in had if each in free and each[0] in topics][:share]
        free.difference_update(kept[member])
    for topic, index in sorted(free):
        takers = [member for member, topics in subscriptions.items() if topic in topics]
        if takers:
            kept[min(takers, key=lambda member: (len(kept[member]), member))].append((topic, index))
    return {member: _by_topic(partitions) for member, partitions in kept.items()}


def _by_topic(partitions: Sequence[tuple[str, int]]) -> Assignment:
    found: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, []).append(index)
    return {topic: tuple(indexes) for topic, indexes in found.items()}
