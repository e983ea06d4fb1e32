"""What producers do: how far the log of every partition has come at any moment.

A topic's traffic follows the day, as a sine wave around its rate, so that an end offset is a formula and
not a history. Old records go after the topic's retention, which is where logs start.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from coterie.coordinator.outcome import Topic
from coterie.protocol.types import Uuid

__all__ = ["DAY_MS", "SWING", "TURN", "TopicPlan", "TopicsAt"]

DAY_MS = 24 * 60 * 60 * 1000
#: How far the rate swings over a day.
SWING = 0.5
#: The angle by which a day turns in a second.
TURN = 2 * math.pi / (DAY_MS / 1000)
#: How much more a hot partition gets than its neighbours.
_HOT = 12.0


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic: how many partitions it has and when it gets more, and how fast it is written to."""

    name: str
    topic_id: Uuid
    partitions: int
    #: When the topic began, in epoch ms.
    since_ms: int
    #: Records per second and partition, on average.
    rate: float
    #: Where in its day the topic is when it begins, as an angle.
    phase: float
    retention_ms: int
    #: When it gets more partitions, and how many it has then; None if never.
    grows_at_ms: int | None = None
    grows_to: int = 0
    #: One partition that gets a multiple of the rate; -1 for none.
    hot_partition: int = -1

    def count(self, at_ms: int) -> int:
        """How many partitions there are."""
        grown = self.grows_at_ms is not None and at_ms >= self.grows_at_ms
        return self.grows_to if grown else self.partitions

    def begin_of(self, partition: int) -> int:
        """When a partition began, in epoch ms."""
        late = partition >= self.partitions and self.grows_at_ms is not None
        return self.grows_at_ms or 0 if late else self.since_ms

    def rate_of(self, partition: int) -> float:
        return self.rate * (_HOT if partition == self.hot_partition else 1.0)

    def end(self, partition: int, at_ms: int) -> int:
        """The end offset of a partition."""
        begin = self.begin_of(partition)
        seconds = (at_ms - begin) / 1000
        if seconds <= 0:
            return 0
        wave = math.cos(self.phase) - math.cos(TURN * seconds + self.phase)
        return int(self.rate_of(partition) * (seconds + SWING * wave / TURN))

    def start(self, partition: int, at_ms: int) -> int:
        """The offset of the oldest record that retention has left."""
        return self.end(partition, at_ms - self.retention_ms)


class TopicsAt:
    """The topics as the coordinator sees them at a moment (coterie.coordinator.TopicView)."""

    __slots__ = ("_by_id", "_plans", "now_ms")

    def __init__(self, plans: dict[str, TopicPlan]) -> None:
        self._plans = plans
        self._by_id = {plan.topic_id: plan for plan in plans.values()}
        self.now_ms = 0

    @property
    def version(self) -> int:
        """How many times a topic has got more partitions."""
        return sum(
            plan.grows_at_ms is not None and plan.grows_at_ms <= self.now_ms
            for plan in self._plans.values()
        )

    def names(self) -> Iterable[str]:
        return self._plans

    def by_name(self, name: str, /) -> Topic | None:
        return self._topic(self._plans.get(name))

    def by_id(self, topic_id: Uuid, /) -> Topic | None:
        return self._topic(self._by_id.get(topic_id))

    def _topic(self, plan: TopicPlan | None) -> Topic | None:
        if plan is None:
            return None
        return Topic(plan.name, plan.topic_id, plan.count(self.now_ms))
