"""Deadlines on the monotonic clock, of which most move before they come.

A heartbeat or a commit moves a member's deadline further away, thousands of times for each time that one
comes. So a deadline is an object that its owner holds: moving it away is one assignment, and the heap
learns of it only when the old time comes. What happens at a deadline is decided elsewhere, by its reason.
"""

from __future__ import annotations

from enum import StrEnum
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

__all__ = ["Deadline", "MemberSubject", "Reason", "Timers"]

S = TypeVar("S")


class Reason(StrEnum):
    """What a deadline ends."""

    #: A member's session, or the first JoinGroup of a new member.
    SESSION = "session"
    #: The life of a member id that was handed out and not used (KIP-394).
    PENDING_MEMBER = "pending member"
    #: The wait for more members in the first rebalance of an empty group (KIP-134).
    INITIAL_DELAY = "initial delay"
    #: The join phase: the rebalance timeout.
    JOIN = "join"
    #: The sync phase: the rebalance timeout once more.
    SYNC = "sync"
    #: The time until offsets are looked through for expired ones.
    EXPIRATION = "expiration"
    #: A consumer group's member: its session, the time to give up partitions, to join and to sync again.
    CONSUMER_SESSION = "consumer session"
    CONSUMER_REBALANCE = "consumer rebalance"
    CONSUMER_JOIN = "consumer join"
    CONSUMER_SYNC = "consumer sync"
    #: No end but a beginning: the patterns of a consumer group are to be run.
    CONSUMER_REGEX = "consumer regex"


class MemberSubject(NamedTuple):
    """The subject of a consumer group's deadline, which outlives the object that represents the group."""

    reason: Reason
    group_id: str
    member_id: str = ""
    #: For CONSUMER_REBALANCE: the epoch that the member is to leave by then.
    epoch: int = 0


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
