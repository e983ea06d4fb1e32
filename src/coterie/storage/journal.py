"""The write-ahead journal of group commit: one file, one write and one fdatasync for a whole round.

Fifty offsets partitions would need up to fifty syncs a round; so a round goes into this file with one, and
the segments are synced at a checkpoint, after which the journal restarts. Layout, all big-endian:

    sector 0      magic, format, salt, checksum
    then rounds   each from a new sector on: salt, sequence, entries, payload length, checksum; payload
    an entry      name length, batch length, directory name of the partition, record batch

The file is filled with zeros once and overwritten ever after, because a sync that changes neither size nor
extents skips the file system's own journal (measured on ext4, 16 KiB a round, p50: growing file 0.35 to
0.66 ms, posix_fallocate 0.29 to 0.34 ms, overwriting 0.24 to 0.27 ms). Old rounds are told from new ones by
the salt, random for every restart as in SQLite's WAL, so that no content of a batch can pass for a round.

What this is not: a log; nothing reads it but recovery. Called by coterie.storage.data_directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import NamedTuple, Self

from crc32c import crc32c

from coterie.crash_points import crash_point, write_with_crash_point
from coterie.files import Buffer, File
from coterie.storage.errors import StorageDamaged
from coterie.storage.files import FileSystem

__all__ = ["JOURNAL_NAME", "SECTOR", "Journal", "JournalEntry", "payload_size"]

JOURNAL_NAME = "journal"
_CREATING_SUFFIX = ".new"

SECTOR = 512  # what a disk writes whole or not at all
_MAGIC = b"COTERIEJ"
_FORMAT = 1
_FILE_HEADER = Struct(">8sI8s")
_CHECKSUM = Struct(">I")
_ROUND_HEADER = Struct(">8sIII")  # salt, sequence, entries, payload length
_ROUND_OVERHEAD = _ROUND_HEADER.size + _CHECKSUM.size
_ENTRY_HEADER = Struct(">HI")  # name length, batch length
_FILL_CHUNK = 1024 * 1024
#: A new journal is this large, so that a new directory opens at once; the first restart lets it grow.
_FIRST_BYTES = 1024 * 1024


class JournalEntry(NamedTuple):
    """One batch, with its offsets in it, for the partition whose directory has this name."""

    name: bytes
    batch: Buffer


class _Round(NamedTuple):
    sequence: int
    entries: list[JournalEntry]
    end: int


class Journal:
    """An open journal. Everything but `create` and `open` is for the thread that does the I/O."""

    def __init__(self, path: Path, file: File, salt: bytes, size: int) -> None:
        self._path = path
        self._file = file
        self._size = file.size()
        self._wanted_size = size
        self._salt = salt
        self._sequence = 0
        self._end = SECTOR

    @classmethod
    def open(cls, fs: FileSystem, root: Path, size: int) -> tuple[Self, list[JournalEntry]]:
        """The journal of a data directory, made if there is none, and the entries to re-apply."""
        path = root / JOURNAL_NAME
        if not fs.exists(path):
            _create(fs, path, min(size, _FIRST_BYTES))
        file = fs.open(path)
        header = file.pread(SECTOR, 0)
        salt = _salt_of(header)
        if salt is None:
            file.close()
            raise StorageDamaged(path, 0, "the journal's header is not one", root=root)
        journal = cls(path, file, salt, size)
        return journal, journal._recover(root)

    def _recover(self, root: Path) -> list[JournalEntry]:
        """The entries of all whole rounds. A torn last round was never acknowledged and is ignored."""
        content = self._file.pread(self._size, 0)
        data = memoryview(content)
        entries: list[JournalEntry] = []
        while (
            found := _round_at(data, self._end, self._salt)
        ) and found.sequence == self._sequence:
            entries += found.entries
            self._sequence += 1
            self._end = found.end
        # A round is written after the one before it is synced: a later one behind a hole is damage.
        position = self._end
        while (position := content.find(self._salt, position)) >= 0:
            later = None if position % SECTOR else _round_at(data, position, self._salt)
            if later is not None and later.sequence > self._sequence:
                reason = f"round {self._sequence} is unreadable, but round {later.sequence} follows"
                self._file.close()
                raise StorageDamaged(self._path, self._end, reason, root=root)
            position += len(self._salt)
        return entries

    def fits(self, payload: int) -> bool:
        """Whether to go on without a checkpoint; an empty journal grows for a round larger than itself."""
        return self.is_empty or self._end + _ROUND_OVERHEAD + payload <= self._size

    @property
    def is_empty(self) -> bool:
        return self._sequence == 0

    def append(self, entries: Iterable[tuple[bytes, Buffer]]) -> None:
        """Write a round, which is durable after `sync`.

        After OSError the journal is as before: a round that is not whole does not count, and the next
        one is written over it.
        """
        parts: list[Buffer] = []
        count = 0
        for name, batch in entries:
            parts += (_ENTRY_HEADER.pack(len(name), len(batch)), name, batch)
            count += 1
        payload = b"".join(parts)
        header = _ROUND_HEADER.pack(self._salt, self._sequence, count, len(payload))
        checksum = crc32c(payload, crc32c(header))
        data = b"".join((header, _CHECKSUM.pack(checksum), payload))
        crash_point("journal.before_write")
        write_with_crash_point("journal.mid_write", self._file, data, self._end)
        crash_point("journal.after_write")
        self._sequence += 1
        self._end += -(-len(data) // SECTOR) * SECTOR

    def sync(self) -> None:
        self._file.sync()
        crash_point("journal.after_sync")

    def restart(self) -> None:
        """Begin anew at the front; all that was journaled must be durable elsewhere."""
        if self._size < self._wanted_size:
            self._grow()
        self._salt = os.urandom(len(self._salt))
        self._file.pwrite(_file_header(self._salt), 0)
        self._file.sync()
        self._sequence = 0
        self._end = SECTOR

    def _grow(self) -> None:
        """To the size that is wanted; where the disk has no room for that, a smaller one does too."""
        with suppress(OSError):
            _fill(self._file, self._size, self._wanted_size)
        self._size = self._file.size()

    def close(self) -> None:
        self._file.close()


def payload_size(name: bytes, batch: Buffer) -> int:
    """What an entry adds to its round."""
    return _ENTRY_HEADER.size + len(name) + len(batch)


def _create(fs: FileSystem, path: Path, size: int) -> None:
    creating = path.with_name(path.name + _CREATING_SUFFIX)
    file = fs.open(creating, create=True)
    try:
        file.truncate(0)
        _fill(file, 0, size)
        file.pwrite(_file_header(os.urandom(8)), 0)
        file.sync()
    finally:
        file.close()
    crash_point("journal.mid_create")
    fs.rename(creating, path)
    fs.sync_directory(path.parent)


def _fill(file: File, start: int, end: int) -> None:
    for position in range(start, end, _FILL_CHUNK):
        file.pwrite(bytes(min(_FILL_CHUNK, end - position)), position)


def _file_header(salt: bytes) -> bytes:
    header = _FILE_HEADER.pack(_MAGIC, _FORMAT, salt)
    return header + _CHECKSUM.pack(crc32c(header))


def _salt_of(header: bytes) -> bytes | None:
    if len(header) < _FILE_HEADER.size + _CHECKSUM.size:
        return None
    _, _, salt = _FILE_HEADER.unpack_from(header)
    expected = _file_header(salt)
    return salt if header.startswith(expected) else None


def _round_at(data: memoryview, position: int, salt: bytes) -> _Round | None:
    """The round at `position`, if a whole one of this salt is there."""
    payload_start = position + _ROUND_OVERHEAD
    if payload_start > len(data):
        return None
    found, sequence, count, length = _ROUND_HEADER.unpack_from(data, position)
    if found != salt or length > len(data) - payload_start:
        return None
    (stored,) = _CHECKSUM.unpack_from(data, position + _ROUND_HEADER.size)
    payload = data[payload_start : payload_start + length]
    header = data[position : position + _ROUND_HEADER.size]
    if crc32c(payload, crc32c(header)) != stored:
        return None
    size = _ROUND_OVERHEAD + length
    end = position + -(-size // SECTOR) * SECTOR
    return _Round(sequence, list(_entries(payload, count)), end)


def _entries(payload: memoryview, count: int) -> Iterator[JournalEntry]:
    at = 0
    for _ in range(count):
        name_length, batch_length = _ENTRY_HEADER.unpack_from(payload, at)
        at += _ENTRY_HEADER.size
        name = bytes(payload[at : at + name_length])
        at += name_length
        yield JournalEntry(name, payload[at : at + batch_length])
        at += batch_length
