"""One segment of a partition log: a file of record batches exactly as Kafka's, and where they are in it.

What this is: `NNNNNNNNNNNNNNNNNNNN.log` (Kafka's LogSegment), named by its base offset, with a sparse index
in memory. There are no index files: scanning a segment with its checksums runs at more than a gigabyte a
second, so an index on disk would save less time at start than its own recovery rules cost.
What this is not: safe against damage; coterie.storage.recovery has looked at the bytes before.
Called by coterie.storage.partition_log. A worker thread may `write` and `sync` while the owner reads what
is admitted; everything else is the owner's.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from coterie.crash_points import write_with_crash_point
from coterie.errors import RecordBatchError
from coterie.files import Buffer, File
from coterie.protocol.batch_layout import BATCH_OVERHEAD, LENGTH_END
from coterie.protocol.records import RecordBatch, decode_batches
from coterie.protocol.records.batch import batch_end
from coterie.storage.config import LogConfig
from coterie.storage.files import FileSystem

__all__ = ["LOG_SUFFIX", "Place", "Segment", "place_of", "scan_batches", "segment_name"]

LOG_SUFFIX = ".log"
_NO_TIMESTAMP = -1

# Of a batch header: base offset, length, last offset delta, max timestamp.
_HEADER = Struct(">qi11xi8xq")

_SCAN_CHUNK = 4 * 1024 * 1024
_HEADER_WINDOW = 8 * 1024  # twice index.interval.bytes: a look-up reads about once


class Place(NamedTuple):
    """A batch in its segment."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int

    @property
    def end(self) -> int:
        return self.position + self.size


def segment_name(base_offset: int) -> str:
    """Kafka's file name, twenty digits, without the suffix."""
    return f"{base_offset:020d}"


def place_of(batch: RecordBatch, position: int) -> Place:
    return Place(
        position, batch.size_in_bytes, batch.base_offset, batch.last_offset, batch.max_timestamp
    )


def scan_batches(file: File, position: int, end: int) -> Iterator[tuple[int, RecordBatch]]:
    """Position and batch, with checksums checked, up to `end`.

    RecordBatchError, with the position in the file as its offset, at the first that is cut or damaged.
    """
    want = _SCAN_CHUNK
    while position < end:
        view = memoryview(file.pread(min(want, end - position), position))
        want = _SCAN_CHUNK
        at = 0
        try:
            while (stop := batch_end(view, at)) is not None:
                yield position + at, decode_batches(view[at:stop]).batches[0]
                at = stop
        except RecordBatchError as error:
            raise RecordBatchError(
                error.reason, message="RecordBatch", field=error.field, offset=position + at
            ) from None
        if at == 0:
            want = _size_of_cut_batch(view)
            if position + want > end:
                raise RecordBatchError(
                    f"the file ends {position + want - end} bytes before the batch does",
                    message="RecordBatch",
                    offset=position,
                )
        position += at


def _size_of_cut_batch(view: memoryview) -> int:
    if len(view) < BATCH_OVERHEAD:
        return BATCH_OVERHEAD
    return LENGTH_END + int(_HEADER.unpack_from(view)[1])


class Segment:
    """A segment file; `size`, `next_offset` and the rest tell of admitted batches only."""

    __slots__ = (
        "_file",
        "_fs",
        "_index_interval",
        "_index_offsets",
        "_index_positions",
        "_index_timestamps",
        "_private",
        "base_offset",
        "first_timestamp",
        "max_timestamp",
        "next_offset",
        "path",
        "size",
    )

    def __init__(
        self, fs: FileSystem, directory: Path, base_offset: int, config: LogConfig
    ) -> None:
        self._fs = fs
        self._private = config.private
        self._file: File | None = None
        self._index_interval = config.index_interval_bytes
        # For each entry: a batch's base offset, its position, the largest timestamp before it.
        self._index_offsets = array("q")
        self._index_positions = array("q")
        self._index_timestamps = array("q")
        self.path = directory / (segment_name(base_offset) + LOG_SUFFIX)
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.first_timestamp = _NO_TIMESTAMP  # the largest of the first batch, as segment.ms counts
        self.max_timestamp = _NO_TIMESTAMP
        self.size = 0

    def file(self) -> File:
        """The open file; made at the first write, so that an empty partition costs no descriptor."""
        if self._file is None:
            self._file = self._fs.open(self.path, create=True, private=self._private)
        return self._file

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def write(self, data: Buffer, position: int) -> None:
        """Bytes into the file, not yet admitted and not yet durable."""
        write_with_crash_point("segment.mid_write", self.file(), data, position)

    def admit(self, place: Place) -> None:
        """Make a written batch part of the segment; batches come in order."""
        if not self.size:
            self.first_timestamp = place.max_timestamp
        if not self._index_positions or (
            place.position - self._index_positions[-1] >= self._index_interval
        ):
            self._index_offsets.append(place.base_offset)
            self._index_positions.append(place.position)
            self._index_timestamps.append(self.max_timestamp)
        self.max_timestamp = max(self.max_timestamp, place.max_timestamp)
        self.size = place.position + place.size
        self.next_offset = place.last_offset + 1

    def places(self, position: int = 0) -> Iterator[Place]:
        """The admitted batches from a position on, of their headers only."""
        window = b""
        start = position
        while position < self.size:
            if position + _HEADER.size > start + len(window):
                start = position
                window = self.file().pread(_HEADER_WINDOW, start)
            base, length, delta, timestamp = _HEADER.unpack_from(window, position - start)
            size = LENGTH_END + length
            yield Place(position, size, base, base + delta, timestamp)
            position += size

    def find(self, offset: int) -> Place | None:
        """The batch that holds `offset`, or the first behind it: compaction leaves gaps."""
        entry = bisect_right(self._index_offsets, offset) - 1
        start = self._index_positions[entry] if entry >= 0 else 0
        return next((place for place in self.places(start) if place.last_offset >= offset), None)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `offset` on: at least one, else up to `max_bytes`."""
        first = self.find(offset)
        if first is None:
            return b""
        wanted = max(first.size, min(max_bytes, self.size - first.position))
        data = self.file().pread(wanted, first.position)
        end = first.size
        while end + _HEADER.size <= wanted:
            size = LENGTH_END + int(_HEADER.unpack_from(data, end)[1])
            if end + size > wanted:
                break
            end += size
        return data if end == len(data) else data[:end]

    def find_timestamp(self, timestamp: int) -> Iterator[RecordBatch]:
        """The batches that may hold a record of `timestamp` or later, in order."""
        if not self.size or self.max_timestamp < timestamp:
            return
        entry = bisect_left(self._index_timestamps, timestamp) - 1
        start = self._index_positions[max(entry, 0)]
        for place in self.places(start):
            if place.max_timestamp >= timestamp:
                yield self.batch_at(place)

    def batch_at(self, place: Place) -> RecordBatch:
        return decode_batches(self.file().pread(place.size, place.position)).batches[0]
