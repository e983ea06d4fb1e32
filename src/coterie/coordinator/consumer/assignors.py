"""The assignors of the server: who should own which partition. Pure: a group's wishes in, a target out.

`uniform` spreads partitions evenly and moves as few as it can; `range` gives each member the same range of
every topic, so that topics with as many partitions are read side by side. Called by
coterie.coordinator.consumer.target. The harder half of `uniform`, for members that subscribe to different
topics, is in coterie.coordinator.consumer.uneven.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coterie.coordinator.consumer.assignment import Assignor, GroupSpec, Partitions
from coterie.coordinator.consumer.uneven import assign_unevenly
from coterie.protocol.types import Uuid

__all__ = ["ASSIGNORS", "DEFAULT_ASSIGNOR", "assign_range", "assign_uniformly"]


def assign_uniformly(spec: GroupSpec) -> dict[str, Partitions]:
    """Kafka's UniformAssignor: a difference of one partition at most, and members keep what they have."""
    if not spec.homogeneous:
        return assign_unevenly(spec)
    topics = next(iter(spec.members.values())).topics if spec.members else ()
    if not topics:
        return {}
    free = [(topic_id, partition) for topic_id in topics for partition in _free(topic_id, spec)]
    quota, extra = divmod(sum(spec.partitions[each] for each in topics), len(spec.members))
    wanted = frozenset(topics)
    target: dict[str, Partitions] = {}
    room: dict[str, int] = {}
    for position, (member_id, member) in enumerate(spec.members.items()):
        limit = quota + (position < extra)
        kept = member.assigned
        size = sum(map(len, kept.values()))
        if size > limit or not kept.keys() <= wanted:
            kept, given_up = _keep(kept, wanted, limit)
            size = sum(map(len, kept.values()))
            free += given_up
        target[member_id] = kept
        if size < limit:
            room[member_id] = limit - size
    rest = iter(free)
    for member_id, count in room.items():
        added = [each for _, each in zip(range(count), rest, strict=False)]
        target[member_id] = _with(target[member_id], added)
    return target


def _free(topic_id: Uuid, spec: GroupSpec) -> list[int]:
    """Partitions of a topic that nobody has."""
    taken: set[int] = set()
    for member in spec.members.values():
        taken.update(member.assigned.get(topic_id, ()))
    return [each for each in range(spec.partitions[topic_id]) if each not in taken]


def _with(assigned: Partitions, added: list[tuple[Uuid, int]]) -> Partitions:
    """An assignment with more in it; the old one may be somebody's target, and stays as it is."""
    target = dict(assigned)
    for topic_id, partition in added:
        target[topic_id] = target.get(topic_id, frozenset()) | {partition}
    return target


def _keep(
    assigned: Partitions, wanted: frozenset[Uuid], limit: int
) -> tuple[Partitions, list[tuple[Uuid, int]]]:
    """What a member keeps of what it has, up to its limit, and what others may have."""
    kept: Partitions = {}
    given_up: list[tuple[Uuid, int]] = []
    for topic_id, partitions in assigned.items():
        if topic_id not in wanted:
            continue
        ordered = sorted(partitions)
        if limit:
            kept[topic_id] = frozenset(ordered[:limit])
        given_up += [(topic_id, partition) for partition in ordered[limit:]]
        limit = max(limit - len(ordered), 0)
    return kept, given_up


def assign_range(spec: GroupSpec) -> dict[str, Partitions]:
    """Kafka's RangeAssignor: by topic, in the order of instance ids, then member ids."""
    ordered = sorted(spec.members, key=lambda each: _rank(spec.members[each].instance_id, each))
    readers: dict[Uuid, int] = {}
    for member in spec.members.values():
        for topic_id in member.topics:
            readers[topic_id] = readers.get(topic_id, 0) + 1
    next_reader = dict.fromkeys(readers, 0)
    target: dict[str, Partitions] = {}
    for member_id in ordered:
        mine: Partitions = {}
        for topic_id in spec.members[member_id].topics:
            quota, extra = divmod(spec.partitions[topic_id], readers[topic_id])
            position = next_reader[topic_id]
            next_reader[topic_id] += 1
            start = position * quota + min(position, extra)
            end = start + quota + (position < extra)
            if start < end:
                mine[topic_id] = frozenset(range(start, end))
        target[member_id] = mine
    return target


def _rank(instance_id: str | None, member_id: str) -> tuple[bool, bytes]:
    """Static members first; strings in Java's order, which compares UTF-16 units."""
    name = member_id if instance_id is None else instance_id
    return instance_id is None, name.encode("utf-16-be", "surrogatepass")


#: Kafka's built-in assignors (group.consumer.assignors).
ASSIGNORS: Final[dict[str, Callable[[GroupSpec], dict[str, Partitions]]]] = {
    Assignor.UNIFORM: assign_uniformly,
    Assignor.RANGE: assign_range,
}
DEFAULT_ASSIGNOR: Final = Assignor.UNIFORM.value
