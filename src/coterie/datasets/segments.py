"""Segment files: the log of `__consumer_offsets` on a copied broker disk, read without a broker.

Any directory will do that has `__consumer_offsets-<n>` somewhere below it. If several brokers' disks lie
there, each partition is read from the copy that reaches furthest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np

from coterie.datasets.chunks import Chunk, Damage, parse
from coterie.errors import InvalidArgument, RecordBatchError
from coterie.protocol.records.batch import BATCH_OVERHEAD, batch_end

__all__ = ["PartitionFiles", "SegmentFile", "end_offset", "find_partitions", "read_files"]

TOPIC: Final = "__consumer_offsets"
_DIRECTORY: Final = re.compile(rf"{TOPIC}-(\d+)$")
_SEGMENT: Final = re.compile(r"(\d{20})\.log$")
#: Enough for batches of Arrow that are worth their cost, and little enough for the cache.
_CHUNK: Final = 8 << 20
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
    found: dict[int, PartitionFiles] = {}
    for directory in (top, *sorted(top.rglob(f"{TOPIC}-*"))):
        named = _DIRECTORY.match(directory.name)
        if named is None or not directory.is_dir():
            continue
        number = int(named.group(1))
        partition = PartitionFiles(number, _segments(directory))
        if number not in found or _reach(partition) > _reach(found[number]):
            found[number] = partition
    if not found:
        raise InvalidArgument(
            f"segments: {root!r} has no directory {TOPIC}-0 or the like below it;"
            " give a broker's log.dirs or a copy of it"
        )
    return dict(sorted(found.items()))


def _segments(directory: Path) -> tuple[SegmentFile, ...]:
    found = []
    for path in directory.iterdir():
        named = _SEGMENT.match(path.name)
        if named is not None:
            found.append(SegmentFile(int(named.group(1)), str(path), path.stat().st_size))
    return tuple(sorted(found))


def _reach(partition: PartitionFiles) -> tuple[int, int]:
    last = partition.files[-1] if partition.files else SegmentFile(-1, "", 0)
    return last.base_offset, last.size


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
        yield from _read_file(partition.partition, file, start, stop, is_last=following is None)


def _read_file(
    partition: int, file: SegmentFile, start: int, stop: int | None, *, is_last: bool
) -> Iterator[Chunk]:
    position = _place(file, start)
    want = _CHUNK
    with Path(file.path).open("rb", buffering=0) as source:
        while position < file.size:
            source.seek(position)
            data = source.read(min(want, file.size - position))
            if not data:
                return
            chunk = parse(partition, data, start, stop)
            at_end = position + len(data) >= file.size
            if not chunk.consumed and not at_end:
                want = _size_of_first(data, file.size - position)
                continue
            cut = len(data) - chunk.consumed
            if at_end and cut and not is_last:
                chunk = _with_cut_end(chunk, file, cut)
            if len(chunk.records.batches.header) or chunk.damages:
                yield chunk
            if at_end or _is_behind(chunk, stop):
                return
            want = _CHUNK
            position += chunk.consumed


def _is_behind(chunk: Chunk, stop: int | None) -> bool:
    batches = chunk.records.batches
    return (
        stop is not None and bool(len(batches.header)) and int(batches.last_offset[-1]) >= stop - 1
    )


def _size_of_first(data: bytes, left: int) -> int:
    """The size of a batch that is larger than what was read."""
    length = int.from_bytes(data[8:12], "big", signed=True)
    return min(left, 12 + length)


def _with_cut_end(chunk: Chunk, file: SegmentFile, cut: int) -> Chunk:
    """Only the newest segment may end in the middle of a batch."""
    batches = chunk.records.batches
    offset = int(batches.last_offset[-1]) + 1 if len(batches.header) else file.base_offset
    reason = f"{Path(file.path).name} ends with {cut} bytes that are no whole batch"
    return msgspec.structs.replace(chunk, damages=(*chunk.damages, Damage(offset, reason)))


def _place(file: SegmentFile, offset: int) -> int:
    """Where to begin to read for an offset: by the broker's index if it is there, else at the start."""
    index = Path(file.path).with_suffix(".index")
    if offset <= file.base_offset or not index.is_file():
        return 0
    raw = index.read_bytes()
    entries = np.frombuffer(raw[: len(raw) // _INDEX_ENTRY.itemsize * 8], _INDEX_ENTRY)
    # An index that is open has its full size, and zeros behind the entries.
    used = entries[entries["position"] > 0]
    below = used[used["offset"] <= offset - file.base_offset]
    position = int(below["position"][-1]) if len(below) else 0
    return position if _is_batch(file, position) else 0


def _is_batch(file: SegmentFile, position: int) -> bool:
    """Whether a batch begins there: an index may be older than its log, or damaged."""
    if not 0 <= position <= file.size - BATCH_OVERHEAD:
        return False
    with Path(file.path).open("rb") as source:
        source.seek(position)
        head = source.read(BATCH_OVERHEAD)
    base_offset = int.from_bytes(head[:8], "big", signed=True)
    try:
        batch_end(memoryview(head), 0)
    except RecordBatchError:
        return False
    return base_offset >= file.base_offset


def end_offset(partition: PartitionFiles) -> int:
    """The offset behind the last record; what is cut off at the end does not count."""
    for file in reversed(partition.files):
        last = file.base_offset
        # From the last entry of the index on: a segment may be large.
        for chunk in _read_file(partition.partition, file, 2**62, None, is_last=True):
            batches = chunk.records.batches
            if len(batches.header):
                last = int(batches.last_offset[-1]) + 1
        if last > file.base_offset or file is partition.files[0]:
            return last
    return 0
