"""Segment files: the log of `__consumer_offsets` on a copied broker disk, read without a broker.

Any directory will do that has `__consumer_offsets-<n>` somewhere below it. If several brokers' disks lie
there, each partition is read from the copy that reaches furthest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np

from coterie.datasets.chunks import Chunk, holds_batch, read_batches
from coterie.errors import CoterieError, InvalidArgument, RecordBatchError
from coterie.protocol.batch_layout import BATCH_OVERHEAD, LENGTH_AT, LENGTH_END
from coterie.protocol.records.batch import decode_batches

__all__ = ["PartitionFiles", "SegmentFile", "end_offset", "find_partitions", "read_files"]

TOPIC: Final = "__consumer_offsets"
_DIRECTORY: Final = re.compile(rf"{TOPIC}-(\d+)$")
_SEGMENT: Final = re.compile(r"(\d{20})\.log$")
#: Enough for batches of Arrow that are worth their cost, and little enough for the cache.
_CHUNK: Final = 8 << 20
#: No coordinator writes a larger batch: a cut end that is longer is more than one.
_LARGEST_BATCH: Final = 16 << 20
#: An offset that no log has.
_FAR: Final = 1 << 62
#: An entry of Kafka's offset index: offset, relative to the segment's first, and position.
_INDEX_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])


class SegmentFile(NamedTuple):
    """A segment: its first offset, its path, and its size when it was found."""

    base_offset: int
    path: str
    size: int


class PartitionFiles(msgspec.Struct, frozen=True):
    """The segments of one partition, in order, as they were when they were found."""

    partition: int
    files: tuple[SegmentFile, ...]

    @property
    def size(self) -> int:
        return sum(each.size for each in self.files)


def find_partitions(root: str) -> dict[int, PartitionFiles]:
    """The partitions whose segments are below a directory."""
    top = Path(root)
    if not top.is_dir():
        raise InvalidArgument(f"segments: there is no directory {root!r}")
    copies: dict[int, list[PartitionFiles]] = {}
    with _named(root):
        for directory in (top, *sorted(top.rglob(f"{TOPIC}-*"))):
            named = _DIRECTORY.match(directory.name)
            if named is not None and directory.is_dir():
                number = int(named.group(1))
                copies.setdefault(number, []).append(PartitionFiles(number, _segments(directory)))
    if not copies:
        raise InvalidArgument(
            f"segments: {root!r} has no directory {TOPIC}-0 or the like below it;"
            " give a broker's log.dirs or a copy of it"
        )
    # Where there is no choice, nothing has to be read yet.
    return {
        number: max(each, key=_reach) if len(each) > 1 else each[0]
        for number, each in sorted(copies.items())
    }


def _segments(directory: Path) -> tuple[SegmentFile, ...]:
    found = []
    for path in directory.iterdir():
        named = _SEGMENT.match(path.name)
        if named is not None:
            found.append(SegmentFile(int(named.group(1)), str(path), path.stat().st_size))
    return tuple(sorted(found))


def _reach(partition: PartitionFiles) -> tuple[int, int, int]:
    """How far a copy goes: replicas begin their segments at different offsets."""
    last = partition.files[-1] if partition.files else SegmentFile(-1, "", 0)
    return end_offset(partition), last.base_offset, last.size


@contextmanager
def _named(path: str) -> Iterator[None]:
    """What the system has against reading a file, as a sentence with its name."""
    try:
        yield
    except OSError as error:
        name = error.filename or path
        raise CoterieError(f"segments: {name} cannot be read: {error.strerror or error}") from error


def read_files(
    partition: PartitionFiles, start: int = 0, stop: int | None = None
) -> Iterator[Chunk]:
    """The records of a partition from an offset on; up to `stop`, which is not included."""
    files = partition.files
    for index, file in enumerate(files):
        following = files[index + 1].base_offset if index + 1 < len(files) else None
        if following is not None and following <= start:
            continue
        if stop is not None and file.base_offset >= stop:
            return
        with _named(file.path), Path(file.path).open("rb", buffering=0) as source:
            reading = _Reading(partition.partition, file, following, source)
            yield from reading.chunks(start, stop)


class _Reading:
    """One reading of a segment. `following` is where the next begins; the newest has none."""

    def __init__(
        self, partition: int, file: SegmentFile, following: int | None, source: RawIOBase
    ) -> None:
        self._partition = partition
        self._file = file
        self._following = following
        self._source = source
        self._size = file.size
        #: The offset after the last record that was read.
        self._behind = file.base_offset

    def chunks(self, start: int, stop: int | None) -> Iterator[Chunk]:
        """A caller that wants all offsets of the file gets its end, too."""
        is_part = stop is not None and (self._following is None or stop < self._following)
        position = self._place(start)
        want = _CHUNK
        while position < self._size:
            data = self._read(position, want)
            chunk = read_batches(self._partition, data, start, stop)
            if chunk.consumed:
                position += chunk.consumed
                want = _CHUNK
                if len(chunk.records.batches) or chunk.damages:
                    self._behind = _behind(chunk, self._behind)
                    yield chunk
                if is_part and self._behind >= chunk.stop:
                    return
            elif not chunk.broken and len(data) < _size_of_first(data) <= self._size - position:
                want = _size_of_first(data)
            else:
                yield from self._end(chunk, position)
                return

    def _read(self, position: int, want: int) -> bytes:
        asked = min(want, self._size - position)
        self._source.seek(position)
        data = self._source.read(asked) or b""
        if len(data) < asked:
            # It was cut since it was found.
            self._size = position + len(data)
        return data

    def _end(self, chunk: Chunk, position: int) -> Iterator[Chunk]:
        """What follows the last batch that can be found, if it is more than an ordinary cut end."""
        left = self._size - position
        name = Path(self._file.path).name
        if chunk.broken:
            place = f"at byte {position} of {name}"
            reason = f"{chunk.broken}, {place}; {left} bytes from here on cannot be read"
        elif self._following is not None:
            reason = f"{name} ends with {left} bytes that are no whole batch"
        elif left > _LARGEST_BATCH or holds_batch(self._read(position + 1, left), self._behind):
            reason = (
                f"a batch that claims to end behind {name} is not its last;"
                f" {left} bytes from here on cannot be read"
            )
        else:
            return
        # A reader of this file gets an error also if no offset is missing.
        last = self._behind if self._following is None else self._following - 1
        chunk = chunk.with_damage(min(self._behind, last), reason)
        if chunk.damages:
            yield chunk

    def _place(self, offset: int) -> int:
        """Where to begin to read: by the broker's index if it is there, else at the start."""
        file = self._file
        if offset <= file.base_offset:
            return 0
        try:
            raw = Path(file.path).with_suffix(".index").read_bytes()
        except OSError:
            return 0
        entries = np.frombuffer(raw[: len(raw) // _INDEX_ENTRY.itemsize * 8], _INDEX_ENTRY)
        # An index that is open has its full size, and zeros after the entries.
        used = entries[entries["position"] > 0]
        below = used[used["offset"] <= offset - file.base_offset]
        position = int(below["position"][-1]) if len(below) else 0
        return position if self._is_batch(position, offset) else 0

    def _is_batch(self, position: int, offset: int) -> bool:
        """Whether a batch that is not after the offset begins there.

        An index may be damaged, or older than its log: compaction moves batches.
        """
        if not 0 <= position <= self._size - BATCH_OVERHEAD:
            return False
        size = _size_of_first(self._read(position, BATCH_OVERHEAD))
        if not BATCH_OVERHEAD <= size <= min(_LARGEST_BATCH, self._size - position):
            return False
        try:
            found = decode_batches(self._read(position, size)).batches
        except RecordBatchError:
            return False
        return bool(found) and self._file.base_offset <= found[0].base_offset <= offset


def _size_of_first(data: bytes) -> int:
    """The size of the batch that data begins with, as it claims."""
    return LENGTH_END + int.from_bytes(data[LENGTH_AT:LENGTH_END], "big", signed=True)


def _behind(chunk: Chunk, known: int) -> int:
    """The offset after a chunk, or the known one if the chunk has no batch."""
    last = chunk.records.batches.last_offset[-1:].tolist()
    return last[0] + 1 if last else known


def end_offset(partition: PartitionFiles) -> int:
    """The offset after the last record; what is cut off at the end does not count."""
    # A segment that has nothing yet begins where the log ends.
    end = partition.files[-1].base_offset if partition.files else 0
    # From the last entry of the index on: a segment may be large.
    for chunk in read_files(partition, _FAR):
        end = max(end, _behind(chunk, end))
    return end
