"""A file system in memory that can lose power, run full and fail.

What this is: the FileSystem of coterie.storage with two images, what a process sees and what the disk
holds. A write is on the disk after the file's sync, a name after its directory's. `crash` gives one of the
disks that a power loss may leave: any part of what was not synced, in sectors, in any combination of names.
`fail` makes calls raise, and `cut_power_at` ends the process in the middle of whatever it is doing.
What this is not: a faster disk; use MemoryFileSystem for that.
Who calls it: tests of storage and of everything that keeps its promises through storage.
"""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coterie.files import Buffer, File
from coterie.storage.errors import StorageLocked
from coterie.storage.files import FileLock

SECTOR = 512


class PowerCut(BaseException):
    """The machine is off. No BaseException handler should take it for an ordinary failure."""


@dataclass(eq=False)
class _Inode:
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    # What happened since the last sync: (position, data), or (size, None) for a truncation.
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def apply(self, position: int, data: bytes | None) -> None:
        _apply(self.content, position, data)
        self.pending.append((position, data))

    def sync(self) -> None:
        self.durable = bytes(self.content)
        self.pending.clear()


@dataclass(eq=False)
class _Directory:
    entries: dict[str, _Node] = field(default_factory=dict)
    durable: dict[str, _Node] = field(default_factory=dict)
    # What happened since the last sync: (name, None, node) made, (old, new, None) renamed,
    # (name, None, None) removed.
    pending: list[tuple[str, str | None, _Node | None]] = field(default_factory=list)

    def apply(self, name: str, new: str | None, node: _Node | None) -> None:
        _apply_name(self.entries, name, new, node)
        self.pending.append((name, new, node))

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.pending.clear()


_Node = _Inode | _Directory


@dataclass
class _Failure:
    call: str
    code: int
    at: int  # counted from when it was asked for
    times: int


class FaultFS:
    """See the module. Calls are counted by name in `calls`: pwrite, truncate, sync, rename, ..."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._root = _Directory()
        self._locks: set[Path] = set()
        self._failures: list[_Failure] = []
        self._cut_in: int | None = None

    # Faults

    def fail(self, call: str, code: int, *, at: int = 1, times: int = 1_000_000) -> None:
        """From the at-th `call` from now on raise OSError(code), as many times; a write does half first."""
        self._failures.append(_Failure(call, code, at, times))

    def heal(self) -> None:
        self._failures.clear()

    def cut_power_at(self, change: int) -> None:
        """Raise PowerCut at the change-th call from now on that would change anything, and ever after."""
        self._cut_in = change

    def kill(self) -> FaultFS:
        """The process ends, the machine does not: nothing is lost, locks are free."""
        self._locks.clear()
        self._failures.clear()
        self._cut_in = None
        return self

    def crash(self, seed: int) -> FaultFS:
        """A disk that a power loss now may leave, started anew."""
        after = FaultFS()
        after._root = _survivor(self._root, _chooser(random.Random(seed)))
        return after

    def _count(self, call: str, *, changes: bool = True) -> OSError | None:
        self.calls[call] += 1
        if changes and self._cut_in is not None:
            self._cut_in -= 1
            if self._cut_in <= 0:
                self._cut_in = 0
                raise PowerCut
        for failure in self._failures:
            if failure.call == call:
                failure.at -= 1
                if failure.at <= 0 < failure.times:
                    failure.times -= 1
                    return OSError(failure.code, os.strerror(failure.code))
        return None

    def _change(self, call: str) -> None:
        if (error := self._count(call)) is not None:
            raise error

    # FileSystem

    def open(
        self,
        path: Path,
        *,
        create: bool = False,
        private: bool = False,  # noqa: ARG002 - nobody else can look into memory
    ) -> File:
        directory = self._directory(path.parent)
        node = directory.entries.get(path.name)
        if node is None:
            if not create:
                raise _missing(path)
            self._change("create")
            node = _Inode()
            directory.apply(path.name, None, node)
        assert isinstance(node, _Inode)
        return _FaultFile(self, node)

    def exists(self, path: Path) -> bool:
        try:
            return path == path.parent or path.name in self._directory(path.parent).entries
        except FileNotFoundError:
            return False

    def listdir(self, path: Path) -> list[str]:
        return sorted(self._directory(path).entries)

    def mkdir(self, path: Path) -> None:
        if path.parent != path and not self.exists(path.parent):
            self.mkdir(path.parent)
        if not self.exists(path):
            self._change("mkdir")
            self._directory(path.parent).apply(path.name, None, _Directory())

    def rename(self, source: Path, target: Path) -> None:
        assert source.parent == target.parent
        directory = self._directory(source.parent)
        if source.name not in directory.entries:
            raise _missing(source)
        self._change("rename")
        directory.apply(source.name, target.name, None)

    def unlink(self, path: Path) -> None:
        self._remove(path, "unlink")

    def rmdir(self, path: Path) -> None:
        if self.listdir(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
        self._remove(path, "rmdir")

    def _remove(self, path: Path, call: str) -> None:
        directory = self._directory(path.parent)
        if path.name not in directory.entries:
            raise _missing(path)
        self._change(call)
        directory.apply(path.name, None, None)

    def sync_files(self, files: Sequence[File]) -> None:
        for file in files:
            file.sync()

    def sync_directory(self, path: Path) -> None:
        self._change("sync_directory")
        self._directory(path).sync()

    def lock(self, path: Path) -> FileLock:
        if (error := self._count("lock", changes=False)) is not None:
            raise error
        if path in self._locks:
            raise StorageLocked(path, os.getpid())
        self._locks.add(path)
        return _FaultLock(self._locks, path)

    def _directory(self, path: Path) -> _Directory:
        directory = self._root
        for name in path.parts:
            if name != path.anchor:
                node = directory.entries.get(name)
                if not isinstance(node, _Directory):
                    raise _missing(path)
                directory = node
        return directory


class _FaultFile:
    def __init__(self, fs: FaultFS, inode: _Inode) -> None:
        self._fs = fs
        self._inode = inode

    def pread(self, size: int, position: int) -> bytes:
        return bytes(self._inode.content[position : position + size])

    def pwrite(self, data: Buffer, position: int) -> None:
        try:
            error = self._fs._count("pwrite")
        except PowerCut:
            self._inode.apply(position, bytes(data[: len(data) // 2]))
            raise
        if error is not None:
            self._inode.apply(position, bytes(data[: len(data) // 2]))
            raise error
        self._inode.apply(position, bytes(data))

    def truncate(self, size: int) -> None:
        self._fs._change("truncate")
        self._inode.apply(size, None)

    def size(self) -> int:
        return len(self._inode.content)

    def sync(self) -> None:
        self._fs._change("sync")
        self._inode.sync()

    def close(self) -> None:
        pass


class _FaultLock:
    def __init__(self, locks: set[Path], path: Path) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        self._locks.discard(self._path)


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        del content[position:]
        content.extend(bytes(position - len(content)))
    else:
        content.extend(bytes(max(0, position - len(content))))
        content[position : position + len(data)] = data


def _apply_name(entries: dict[str, _Node], name: str, new: str | None, node: _Node | None) -> None:
    if node is not None:
        entries[name] = node
    elif new is None:
        entries.pop(name, None)
    elif name in entries:
        entries[new] = entries.pop(name)


def _chooser(rng: random.Random) -> Callable[[], bool]:
    """Which changes reach the disk: none, all, the first few, or some."""
    kind = rng.choice(("none", "all", "first", "some", "most"))
    if kind == "first":
        left = rng.randrange(40)

        def first() -> bool:
            nonlocal left
            left -= 1
            return left >= 0

        return first
    share = {"none": 0.0, "all": 1.0, "some": 0.5, "most": 0.9}[kind]
    return lambda: rng.random() < share


def _survivor(directory: _Directory, reaches_disk: Callable[[], bool]) -> _Directory:
    entries = dict(directory.durable)
    for change in directory.pending:
        if reaches_disk():
            _apply_name(entries, *change)
    survivors: dict[str, _Node] = {}
    for name, node in entries.items():
        if isinstance(node, _Directory):
            survivors[name] = _survivor(node, reaches_disk)
        else:
            content = bytearray(node.durable)
            for position, data in node.pending:
                _apply_part(content, position, data, reaches_disk)
            survivors[name] = _Inode(content, bytes(content))
    return _Directory(survivors, dict(survivors))


def _apply_part(
    content: bytearray, position: int, data: bytes | None, reaches_disk: Callable[[], bool]
) -> None:
    if data is None:
        if reaches_disk():
            _apply(content, position, None)
        return
    at = 0
    while at < len(data):
        step = SECTOR - (position + at) % SECTOR
        if reaches_disk():
            _apply(content, position + at, data[at : at + step])
        at += step


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
