"""The uniform assignor for members that subscribe to different topics.

Kafka's UniformHeterogeneousAssignmentBuilder: free partitions go to the subscriber with the fewest, topic
after topic; then partitions move from the subscribers with most to those with fewest until no move makes
any topic's subscribers more even, or some rounds are over. Members keep what need not move.
"""

from __future__ import annotations

from typing import Final

from coterie.coordinator.consumer.assignment import GroupSpec, Partitions
from coterie.protocol.types import Uuid

__all__ = ["assign_unevenly"]

_MAX_ROUNDS: Final = 16
_NOBODY: Final = -1


def assign_unevenly(spec: GroupSpec) -> dict[str, Partitions]:
    """A target for members whose subscriptions differ."""
    work = _Work(spec)
    if not work.subscribers:
        return {}
    work.keep()
    work.give_out()
    work.balance()
    return work.target()


class _Work:
    """An assignment in the making; members are numbers, in the order of the group."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._members = list(spec.members.values())
        self.subscribers: dict[Uuid, list[int]] = {}
        for number, member in enumerate(self._members):
            for topic_id in member.topics:
                self.subscribers.setdefault(topic_id, []).append(number)
        self._owners = {
            topic_id: [_NOBODY] * spec.partitions[topic_id] for topic_id in self.subscribers
        }
        self._sizes = [0] * len(self._members)

    def keep(self) -> None:
        """Members begin with what they have, of topics that they still want."""
        for number, member in enumerate(self._members):
            wanted = frozenset(member.topics)
            for topic_id, partitions in member.assigned.items():
                if topic_id in wanted:
                    for partition in partitions:
                        self._owners[topic_id][partition] = number
                    self._sizes[number] += len(partitions)

    def give_out(self) -> None:
        """Free partitions go to whoever has the fewest."""
        for topic_id in self._hardest_first(self.subscribers):
            line = _Line(self.subscribers[topic_id], self._sizes)
            for partition, owner in enumerate(self._owners[topic_id]):
                if owner == _NOBODY:
                    self._move(topic_id, partition, line.next_least_loaded())

    def balance(self) -> None:
        """Move partitions from those with most to those with fewest, until nothing is gained by it."""
        shared = [each for each, readers in self.subscribers.items() if len(readers) > 1]
        ordered = self._hardest_first(shared)
        last_moved: int | None = None
        for _ in range(_MAX_ROUNDS):
            for position, topic_id in enumerate(ordered):
                if position == last_moved:
                    return  # once around without a move
                if self._balance_topic(topic_id) or last_moved is None:
                    last_moved = position

    def target(self) -> dict[str, Partitions]:
        found: list[dict[Uuid, set[int]]] = [{} for _ in self._members]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                found[owner].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(each) for topic_id, each in mine.items()}
            for member_id, mine in zip(self._spec.members, found, strict=True)
        }

    def _hardest_first(self, topics: list[Uuid] | dict[Uuid, list[int]]) -> list[Uuid]:
        """Topics with most partitions for each subscriber, then with fewest subscribers, then by id."""

        def rank(topic_id: Uuid) -> tuple[float, int, tuple[int, int]]:
            count = len(self.subscribers[topic_id])
            return -self._spec.partitions[topic_id] / count, count, _java_order(topic_id)

        return sorted(topics, key=rank)

    def _balance_topic(self, topic_id: Uuid) -> int:
        """Even out the subscribers of one topic; how many partitions had to move for it."""
        readers = self.subscribers[topic_id]
        line = _Line(readers, self._sizes)
        if line.imbalance <= 1:
            return 0
        to_give: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            to_give.setdefault(owner, []).append(partition)
        moved = 0
        while not line.is_balanced():
            giver = line.next_most_loaded()
            while giver is not None and not to_give.get(giver):
                line.exclude_most_loaded()
                giver = line.next_most_loaded()
            if giver is None:
                break
            taker = line.next_least_loaded()
            if line.is_balanced():
                break
            self._move(topic_id, to_give[giver].pop(), taker)
            moved += 1
        return moved

    def _move(self, topic_id: Uuid, partition: int, member: int) -> None:
        owner = self._owners[topic_id][partition]
        if owner != _NOBODY:
            self._sizes[owner] -= 1
        self._owners[topic_id][partition] = member
        self._sizes[member] += 1


class _Line:
    """The subscribers of a topic, lined up by how many partitions they have.

    Those with fewest stand left, in a range that grows to the right as its level rises; those with most
    stand right, in a range that grows to the left as its level sinks. A level moves on when each member
    of its range has had its turn. The caller moves one partition for each member that is named.
    """

    def __init__(self, members: list[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._line = sorted(members, key=lambda each: (sizes[each], each))
        least, most = sizes[self._line[0]], sizes[self._line[-1]]
        self.imbalance = most - least
        self._least_level, self._least_end, self._least_next = least - 1, 0, 0
        self._most_level = most + 1
        self._most_start = self._most_end = len(self._line)
        self._most_next = len(self._line) - 1

    def next_least_loaded(self) -> int:
        if self._least_next >= self._least_end:
            self._least_level += 1
            while (
                self._least_end < len(self._line)
                and self._sizes[self._line[self._least_end]] == self._least_level
            ):
                self._least_end += 1
            self._least_next = 0
        self._least_next += 1
        return self._line[self._least_next - 1]

    def next_most_loaded(self) -> int | None:
        if self._most_next < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                # All of the range were excluded: begin with the next level there is.
                self._most_level = self._sizes[self._line[self._most_start - 1]]
            else:
                self._most_level -= 1
            while (
                self._most_start > 0
                and self._sizes[self._line[self._most_start - 1]] == self._most_level
            ):
                self._most_start -= 1
            self._most_next = self._most_end - 1
        if self._most_next < 0:
            return None
        self._most_next -= 1
        return self._line[self._most_next + 1]

    def exclude_most_loaded(self) -> None:
        """The member that was named last has nothing to give: put it behind the range."""
        here, end = self._most_next + 1, self._most_end - 1
        self._line[here], self._line[end] = self._line[end], self._line[here]
        self._most_end -= 1

    def is_balanced(self) -> bool:
        return self._most_level - self._least_level <= 1


def _java_order(topic_id: Uuid) -> tuple[int, int]:
    """Kafka's Uuid.compareTo: two signed halves."""
    data = bytes(topic_id)
    return int.from_bytes(data[:8], signed=True), int.from_bytes(data[8:], signed=True)
