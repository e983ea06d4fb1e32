"""Named places where a test may end the process as kill -9 would, to prove that recovery copes.

A no-op unless the environment says COTERIE_CRASH_AT=name or name:n (the n-th time it is reached). Called by
coterie.files and all over coterie.storage; the names are listed here so that a test can try every one.
"""

from __future__ import annotations

import os
from typing import Protocol

__all__ = ["CRASH_POINTS", "crash_point", "write_with_crash_point"]

CRASH_POINTS = (
    "partition.after_mkdir",
    "partition.after_delete_rename",
    "segment.before_write",
    "segment.mid_write",
    "segment.after_write",
    "journal.mid_create",
    "journal.before_write",
    "journal.mid_write",
    "journal.after_write",
    "journal.after_sync",
    "checkpoint.before_sync",
    "checkpoint.after_sync",
    "checkpoint.after_recovery_points",
    "checkpoint.after_restart",
    "file.mid_write",
    "file.before_rename",
    "file.after_rename",
    "retention.before_unlink",
    "retention.after_unlink",
    "compaction.mid_write",
    "compaction.after_cleaned",
    "compaction.after_swap",
    "compaction.after_unlink",
    "compaction.after_rename",
    "recovery.before_replay",
    "recovery.after_replay",
    "close.before_unlock",
)

_EXIT_STATUS = 137  # what a shell reports for a process ended by SIGKILL


class _Writable(Protocol):
    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None: ...


class _Countdown:
    """How often the chosen point may still be passed."""

    def __init__(self, setting: str) -> None:
        name, _, number = setting.partition(":")
        if name and name not in CRASH_POINTS:
            raise ValueError(
                f"COTERIE_CRASH_AT names {name!r}; known are {', '.join(CRASH_POINTS)}"
            )
        self.name = name
        self.left = int(number or 1)

    def reached(self, name: str) -> bool:
        if name != self.name:
            return False
        self.left -= 1
        return self.left == 0


_countdown = _Countdown(os.environ.get("COTERIE_CRASH_AT", ""))


def crash_point(name: str) -> None:
    """End the process here if the environment asks for it."""
    if _countdown.reached(name):
        os._exit(_EXIT_STATUS)


def write_with_crash_point(
    name: str, file: _Writable, data: bytes | bytearray | memoryview, position: int
) -> None:
    """file.pwrite, or a crash with only its first half written."""
    if _countdown.reached(name):
        file.pwrite(memoryview(data)[: len(data) // 2], position)
        os._exit(_EXIT_STATUS)
    file.pwrite(data, position)
