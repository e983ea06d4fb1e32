"""Durable files of the operating system: an open file, and the replacement of a small file as a whole.

`replace_file` is for files that users or later runs read: plans, undo files, contexts, catalogs, reports.
coterie.storage does the same steps in its own directory, by its own file system (`write_durably`).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from coterie.crash_points import crash_point, write_with_crash_point

__all__ = ["UNFINISHED", "Buffer", "File", "OsFile", "replace_file", "sync", "write_durably"]

#: A regular expression: what a killed process leaves has this after the name of the file it was to replace.
UNFINISHED: Final = r"\.[0-9a-f]{16}\.new"

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file. Positions are given with every call, so that a failed write is simply done again."""

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def pwrite(self, data: Buffer, position: int) -> None:
        """All of `data`, or OSError with any part of it written."""

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def sync(self) -> None:
        """fdatasync: contents and size are durable when this returns."""

    def close(self) -> None: ...


class OsFile:
    """A file of the operating system, by its descriptor."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        # Short in the middle of a file: Linux stops at 2 GiB, and network file systems where they like.
        parts = [data]
        got = len(data)
        while got < size and (more := os.pread(self._descriptor, size - got, position + got)):
            parts.append(more)
            got += len(more)
        return b"".join(parts)

    def pwrite(self, data: Buffer, position: int) -> None:
        written = os.pwrite(self._descriptor, data, position)
        while written < len(data):
            # A disk that fills up takes a part first and says ENOSPC when asked for the rest.
            written += os.pwrite(self._descriptor, memoryview(data)[written:], position + written)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def replace_file(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Replace a file, atomically and durably: the old content or the new is there, also after a power loss.

    The content goes to a new file next to it, so no other file is touched; an error removes the new file.
    `mode` is the mode of the new file, less the umask: 0o600 for secrets.
    """
    new = path.with_name(f"{path.name}.{os.urandom(8).hex()}.new")
    file = OsFile(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))
    try:
        write_durably(file, content)
        new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise
    sync(path.parent)
    crash_point("file.after_rename")


def write_durably(file: File, content: bytes) -> None:
    """Write all of a new file and sync it: the steps before a file may get its name."""
    try:
        file.truncate(0)
        write_with_crash_point("file.mid_write", file, content, 0)
        file.sync()
    finally:
        file.close()
    crash_point("file.before_rename")


def sync(path: Path) -> None:
    """Make the content of a file, or the names in a directory, durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
