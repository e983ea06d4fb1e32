"""What can go wrong with durable bytes, as exceptions and as warnings.

    CoterieError
    └── StorageError
        ├── StorageLocked       another process holds the data directory
        ├── StorageUnwritable   the directory cannot be made, read or written at start
        ├── UnsupportedFormat   the directory was written by a newer version
        ├── StorageDamaged      bytes in the middle of a log are not what was written
        ├── StorageFull         no space: this round failed, a later one may succeed
        ├── StorageBroken       the disk failed: nothing is acknowledged ever again
        ├── UnknownPartition    no such topic-partition in the data directory
        └── OffsetOutOfRange    the log has no such offset

A torn tail is no exception: it is what a crash leaves. It is cut off and told as a `TornTail`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coterie.errors import CoterieError

__all__ = [
    "OffsetOutOfRange",
    "StorageBroken",
    "StorageDamaged",
    "StorageError",
    "StorageFull",
    "StorageLocked",
    "StorageUnwritable",
    "TornTail",
    "UnknownPartition",
    "UnsupportedFormat",
]


class StorageError(CoterieError):
    """Base of all errors of the storage layer."""


class StorageLocked(StorageError):
    """The data directory is in use; `pid` is its holder, or None if that could not be read."""

    def __init__(self, path: Path, pid: int | None) -> None:
        self.path = path
        self.pid = pid
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(
            f"{path.parent} is in use by {holder}; stop it or choose another directory"
        )


class StorageUnwritable(StorageError):
    """The data directory cannot be used at all: read-only, of another owner, not a directory."""


class UnsupportedFormat(StorageError):
    """The data directory is of a format that this version does not know."""


class StorageDamaged(StorageError):
    """Damage that no crash explains. Nothing was changed; only `repair` goes on from here."""

    def __init__(self, path: Path, position: int, reason: str, *, root: Path | None = None) -> None:
        self.path = path
        self.position = position
        self.reason = reason
        self.root = root
        super().__init__(
            f"{path} is damaged at byte {position}: {reason}; no record behind it can be trusted to"
            f" follow. To cut the log there and keep the rest in a side file, run:"
            f" coterie server --repair {root or path.parent}"
        )


class StorageFull(StorageError):
    """No space left: every batch that was staged is gone, the log is as before and usable."""


class StorageBroken(StorageError):
    """A sync failed, so what the disk holds is unknown. Only a restart, with recovery, helps."""


class UnknownPartition(StorageError):
    """No such partition here."""


class OffsetOutOfRange(StorageError):
    """The asked-for offset is before the log start or behind the high watermark."""

    def __init__(self, offset: int, start: int, end: int) -> None:
        self.offset = offset
        self.start = start
        self.end = end
        super().__init__(f"offset {offset} is not in the log, which holds {start} to {end}")


@dataclass(frozen=True, slots=True)
class TornTail:
    """A tail that recovery cut off: which file, from which byte and offset on, and why.

    `acknowledged` says that the cut bytes had been made durable once: then it was no crash that tore
    them, and records that were acknowledged are lost. `kept_in` is the side file of a repair.
    """

    path: Path
    position: int
    offset: int
    bytes_cut: int
    reason: str
    acknowledged: bool
    kept_in: Path | None = None

    def __str__(self) -> str:
        kept = "" if self.kept_in is None else f", kept in {self.kept_in}"
        loss = (
            "acknowledged records are lost" if self.acknowledged else "nothing acknowledged is lost"
        )
        return (
            f"{self.path}: cut {self.bytes_cut} bytes from byte {self.position} on (offset"
            f" {self.offset}){kept}: {self.reason}; {loss}"
        )
