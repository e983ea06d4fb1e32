"""Answers in the order of their questions.

Each request gets a slot when it arrives; answers fill slots in any order and leave in the order of the
slots. Kafka promises that order, and clients match answers to questions by it.
"""

from __future__ import annotations

from collections import deque

__all__ = ["Slot", "Slots"]


class Slot:
    """The place of one answer; empty until it is there. A request without an answer fills it with b""."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data: bytes | None = None


class Slots:
    """The slots of one connection, oldest first."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[Slot] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def open(self) -> Slot:
        slot = Slot()
        self._waiting.append(slot)
        return slot

    def take_ready(self) -> bytes:
        """The bytes that may leave now, joined."""
        waiting = self._waiting
        ready: list[bytes] = []
        while waiting and (data := waiting[0].data) is not None:
            ready.append(data)
            waiting.popleft()
        return ready[0] if len(ready) == 1 else b"".join(ready)
