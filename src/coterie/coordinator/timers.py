"""Deadlines on the monotonic clock, of which most move before they come.

A heartbeat or a commit moves a member's deadline further away, thousands of times for each time that one
comes. So a deadline is an object that its owner holds: moving it away is one assignment, and the heap
learns of it only when the old time comes. Nothing here knows what happens at a deadline.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

__all__ = ["Deadline", "Timers"]

S = TypeVar("S")


class Deadline(Generic[S]):
    """A time that may come. `subject` tells the owner of the timers what it is about."""

    __slots__ = ("at", "queued", "subject")

    def __init__(self, subject: S) -> None:
        self.subject = subject
        #: When it comes, in seconds of the monotonic clock; None while it is not set.
        self.at: float | None = None
        #: The time under which the heap holds it; None if the heap does not.
        self.queued: float | None = None


class Timers(Generic[S]):
    """All deadlines of a shard."""

    __slots__ = ("_heap", "_pushed")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Deadline[S]]] = []
        self._pushed = 0

    def schedule(self, deadline: Deadline[S], at: float) -> None:
        """Set a deadline, or move it."""
        deadline.at = at
        if deadline.queued is None or at < deadline.queued:
            self._push(deadline, at)

    def cancel(self, deadline: Deadline[S]) -> None:
        """Forget a deadline; the heap drops it when it comes across it."""
        deadline.at = None

    def next_deadline(self) -> float | None:
        """The next time to look at, which is never late and seldom early; None if nothing is set."""
        heap = self._heap
        while heap:
            when, _, deadline = heap[0]
            if self._settle(deadline, when):
                return when
        return None

    def has_one_before(self, time: float) -> bool:
        """Whether one may come before a time. Without a look at those that have moved, so it may not."""
        heap = self._heap
        return bool(heap) and heap[0][0] < time

    def pop_due(self, monotonic: float) -> Deadline[S] | None:
        """The earliest deadline that has come, taken out; None if none has."""
        when = self.next_deadline()
        if when is None or when > monotonic:
            return None
        _, _, deadline = heappop(self._heap)
        deadline.at = deadline.queued = None
        return deadline

    def clear(self) -> None:
        """Forget all."""
        for _, _, deadline in self._heap:
            deadline.at = deadline.queued = None
        self._heap.clear()

    def __len__(self) -> int:
        """How many entries the heap holds, forgotten ones included."""
        return len(self._heap)

    def _settle(self, deadline: Deadline[S], when: float) -> bool:
        """Whether the deadline on top of the heap stands; if not, it has been moved or dropped."""
        if deadline.queued == when and deadline.at == when:
            return True
        heappop(self._heap)
        if deadline.queued == when:
            deadline.queued = None
            if deadline.at is not None:
                self._push(deadline, deadline.at)
        return False

    def _push(self, deadline: Deadline[S], at: float) -> None:
        deadline.queued = at
        self._pushed += 1
        heappush(self._heap, (at, self._pushed, deadline))
