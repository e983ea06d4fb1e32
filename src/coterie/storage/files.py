"""The file system as an argument: what storage needs of one, the operating system's, and one in memory.

What this is: the only place in storage that calls the operating system. What this is not: anything about
logs. Paths are absolute or relative to the working directory, as their caller made them; every call
raises OSError as the system would. Tests use tests.kit.fault_fs, which has the same interface.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from coterie.files import Buffer, File, OsFile, sync
from coterie.storage.errors import StorageLocked

__all__ = ["FileLock", "FileSystem", "MemoryFileSystem", "OsFileSystem"]

_FILE_MODE = 0o640
_PRIVATE_MODE = 0o600
_DIRECTORY_MODE = 0o750
_SYNC_THREADS = 4


class FileLock(Protocol):
    """A held lock."""

    def release(self) -> None: ...


class FileSystem(Protocol):
    """Names become durable with `sync_directory` only: creations, renames and removals alike."""

    def open(self, path: Path, *, create: bool = False, private: bool = False) -> File:
        """For reading and writing; `create` makes the file where there is none. A `private` one has secrets
        in it: only its owner may read it from now on."""

    def exists(self, path: Path) -> bool: ...

    def listdir(self, path: Path) -> list[str]:
        """Sorted names."""

    def mkdir(self, path: Path) -> None:
        """With its parents; an existing directory is not an error."""

    def rename(self, source: Path, target: Path) -> None:
        """Atomic; replaces a target file."""

    def unlink(self, path: Path) -> None: ...

    def rmdir(self, path: Path) -> None: ...

    def sync_files(self, files: Sequence[File]) -> None:
        """`sync` each of them, in any order."""

    def sync_directory(self, path: Path) -> None: ...

    def lock(self, path: Path) -> FileLock:
        """Take the lock that the file at `path` represents, or raise StorageLocked."""


class OsFileSystem:
    """The operating system's files."""

    def open(self, path: Path, *, create: bool = False, private: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        descriptor = os.open(path, flags, _PRIVATE_MODE if private else _FILE_MODE)
        if private and os.fstat(descriptor).st_mode & 0o077:
            # It was there before, and open to others.
            try:
                os.fchmod(descriptor, _PRIVATE_MODE)
            except OSError:
                os.close(descriptor)
                raise
        return OsFile(descriptor)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def listdir(self, path: Path) -> list[str]:
        return sorted(child.name for child in path.iterdir())

    def mkdir(self, path: Path) -> None:
        path.mkdir(_DIRECTORY_MODE, parents=True, exist_ok=True)

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def rmdir(self, path: Path) -> None:
        path.rmdir()

    def sync_files(self, files: Sequence[File]) -> None:
        # Syncs that wait together share commits of the file system's journal (ext4, 50 files of 100 KB:
        # 48 to 190 ms one after another, 11 to 30 ms with four at a time, no less with sixteen).
        with ThreadPoolExecutor(_SYNC_THREADS) as threads:
            for done in [threads.submit(file.sync) for file in files]:
                done.result()

    def sync_directory(self, path: Path) -> None:
        sync(path)

    def lock(self, path: Path) -> FileLock:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).strip()
            os.close(descriptor)
            raise StorageLocked(path, int(holder) if holder.isdigit() else None) from None
        except OSError:
            os.close(descriptor)
            raise
        # The lock is the kernel's and ends with the process; the number is only for users to read.
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        return _OsLock(descriptor)


class _OsLock:
    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class MemoryFileSystem:
    """Files in memory, gone with the process: for a server without a disk, and for tests."""

    def __init__(self) -> None:
        self._files: dict[Path, bytearray] = {}
        self._directories: set[Path] = {Path("/"), Path()}
        self._locks: set[Path] = set()

    def open(
        self,
        path: Path,
        *,
        create: bool = False,
        private: bool = False,  # noqa: ARG002 - no other process can read this memory
    ) -> File:
        content = self._files.get(path)
        if content is None:
            if not create or path.parent not in self._directories:
                raise _missing(path)
            content = self._files[path] = bytearray()
        return _MemoryFile(content)

    def exists(self, path: Path) -> bool:
        return path in self._files or path in self._directories

    def listdir(self, path: Path) -> list[str]:
        if path not in self._directories:
            raise _missing(path)
        children = [*self._files, *self._directories]
        return sorted(child.name for child in children if child.parent == path and child != path)

    def mkdir(self, path: Path) -> None:
        self._directories.update((path, *path.parents))

    def rename(self, source: Path, target: Path) -> None:
        if source in self._directories:
            self._directories = {_moved(path, source, target) for path in self._directories}
            self._files = {_moved(path, source, target): c for path, c in self._files.items()}
        elif source in self._files:
            self._files[target] = self._files.pop(source)
        else:
            raise _missing(source)

    def unlink(self, path: Path) -> None:
        if self._files.pop(path, None) is None:
            raise _missing(path)

    def rmdir(self, path: Path) -> None:
        if self.listdir(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        self._directories.remove(path)

    def sync_files(self, files: Sequence[File]) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass

    def lock(self, path: Path) -> FileLock:
        if path in self._locks:
            raise StorageLocked(path, os.getpid())
        self._locks.add(path)
        return _MemoryLock(self._locks, path)


class _MemoryFile:
    __slots__ = ("_content",)

    def __init__(self, content: bytearray) -> None:
        self._content = content

    def pread(self, size: int, position: int) -> bytes:
        return bytes(self._content[position : position + size])

    def pwrite(self, data: Buffer, position: int) -> None:
        if position > len(self._content):
            self._content.extend(bytes(position - len(self._content)))
        self._content[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        del self._content[size:]
        self._content.extend(bytes(size - len(self._content)))

    def size(self) -> int:
        return len(self._content)

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass


class _MemoryLock:
    __slots__ = ("_locks", "_path")

    def __init__(self, locks: set[Path], path: Path) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        with contextlib.suppress(KeyError):
            self._locks.remove(self._path)


def _moved(path: Path, source: Path, target: Path) -> Path:
    return target / path.relative_to(source) if path.is_relative_to(source) else path


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
