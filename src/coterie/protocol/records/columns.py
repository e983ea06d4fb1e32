"""The columnar reader: a fetched buffer of record batches as numpy arrays, no Python object per record.

Batches are found by a loop over their lengths. From there on all is vectors: the checksums of all batches
are one; step i takes the i-th record of every batch at once and reads its length, and when all records are
found, each field is read for all of them. Record headers are measured but not read. Called by readers
in bulk (the Spark source, lag reports); one record at a time is coterie.protocol.records.batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import msgspec

from coterie import compiled
from coterie.errors import RecordBatchError
from coterie.protocol.batch_layout import BATCH_OVERHEAD, LENGTH_END, MAGIC, find_places
from coterie.protocol.records.batch import (
    COMPRESSION_CODEC_MASK,
    CONTROL_FLAG_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_FLAG_MASK,
    batch_end,
)
from coterie.protocol.records.checksums import first_wrong
from coterie.protocol.records.compression import (
    MAX_DECOMPRESSED,
    Buffer,
    CompressionType,
    decompress,
)
from coterie.protocol.records.record import MIN_RECORD_SIZE, check_records_count
from coterie.protocol.records.varint import read_varint

try:
    import numpy as np
    from numpy.typing import DTypeLike, NDArray
except ImportError as error:
    raise ImportError("the columnar reader needs numpy: pip install 'coterie[columns]'") from error

__all__ = [
    "MAX_RECORDS",
    "MAX_TOTAL_DECOMPRESSED",
    "BatchColumns",
    "RecordColumns",
    "gather",
    "read_columns",
]

# One fetch response (fetch.max.bytes, 50 MiB) at a compression ratio of ten.
MAX_TOTAL_DECOMPRESSED = 8 * MAX_DECOMPRESSED
# Bytes alone are no bound: seven of them can be a record, and its columns take a hundred. One batch within
# MAX_DECOMPRESSED never has so many.
MAX_RECORDS = 10_000_000

_HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("partition_leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("records_count", ">i4"),
    ]
)
_FIELDS = {name: index for index, name in enumerate(_HEADER.names or ())}

# Below this many batches at once, a loop in Python over their records is quicker than vector steps.
_FEW = 128

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


def _short_varints() -> Int64s:
    """For two bytes, little-endian: value * 4 + width of the varint they begin with; 0 if it is longer."""
    pair = np.arange(1 << 16, dtype=np.int64)
    width = 1 + (pair >> 7 & 1)
    raw = pair & 0x7F | np.where(width == 2, pair >> 1 & 0x3F80, 0)
    value = raw >> 1 ^ -(raw & 1)
    return np.where(pair & 0x8080 == 0x8080, 0, value * 4 + width)


_SHORT_VARINTS = _short_varints()


class BatchColumns(msgspec.Struct, frozen=True, eq=False):
    """One item per batch, in the order of the buffer; `header` has a row for each field."""

    header: Int64s

    def __len__(self) -> int:
        return len(self.header[0])

    def column(self, name: str) -> Int64s:
        """A field of the header by its name in RecordBatch."""
        values: Int64s = self.header[_FIELDS[name]]
        return values

    @property
    def base_offset(self) -> Int64s:
        return self.column("base_offset")

    @property
    def last_offset(self) -> Int64s:
        return self.base_offset + self.column("last_offset_delta")

    @property
    def partition_leader_epoch(self) -> Int64s:
        return self.column("partition_leader_epoch")

    @property
    def attributes(self) -> Int64s:
        return self.column("attributes")

    @property
    def producer_id(self) -> Int64s:
        return self.column("producer_id")

    @property
    def producer_epoch(self) -> Int64s:
        return self.column("producer_epoch")

    @property
    def is_transactional(self) -> Bools:
        return self._flag(TRANSACTIONAL_FLAG_MASK)

    @property
    def is_control(self) -> Bools:
        return self._flag(CONTROL_FLAG_MASK)

    @property
    def is_append_time(self) -> Bools:
        """Whether the broker stamped the batch, and its records with it (message.timestamp.type)."""
        return self._flag(TIMESTAMP_TYPE_MASK)

    def _flag(self, mask: int) -> Bools:
        flags: Bools = (self.attributes & mask) != 0
        return flags


class RecordColumns(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One item per record. `buffer[start : start + length]` is a key or value; length -1 is null.

    `buffer` is the fetched buffer itself, followed by what its compressed batches unpacked to if there
    are any. `counts` are how many of the records are in each of the `batches`; `trailing_bytes` of an
    incomplete batch were left.
    """

    buffer: Buffer
    timestamp: Int64s
    offset: Int64s
    key_start: Int64s
    key_length: Int64s
    value_start: Int64s
    value_length: Int64s
    counts: Int64s
    batches: BatchColumns
    trailing_bytes: int

    def __len__(self) -> int:
        return len(self.key_start)

    @cached_property
    def batch(self) -> Int64s:
        """The record's index into `batches`."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def within(self, start: int, stop: int) -> bool:
        """Whether all batches are from offset `start` to `stop`, which is not included."""
        batches = self.batches
        return not len(batches) or bool(
            batches.base_offset.min() >= start and batches.last_offset.max() < stop
        )

    def between(self, start: int, stop: int) -> RecordColumns:
        """The records from offset `start` to `stop`, which is not included; the same if that is all."""
        if self.within(start, stop):
            return self
        wanted: Bools = (self.offset >= start) & (self.offset < stop)
        columns = {name: getattr(self, name)[wanted] for name in _PER_RECORD}
        counts = np.bincount(self.batch[wanted], minlength=len(self.counts))
        return msgspec.structs.replace(self, counts=counts, **columns)


_PER_RECORD = ("timestamp", "offset", "key_start", "key_length", "value_start", "value_length")


def gather(buffer: Buffer, dtype: DTypeLike, positions: Int64s) -> NDArray[Any]:
    """The item of `dtype` that begins at each position; bytes behind the buffer's end read as zero."""
    kind = np.dtype(dtype)
    # numpy copies a structured item field by field, and an opaque one of the same size at once.
    moved = kind if kind.fields is None else np.dtype((np.void, kind.itemsize))
    # A view with one unaligned item at every byte. Indexing it copies just the items asked for;
    # `take` would align the whole view first.
    count = max(len(buffer) - kind.itemsize + 1, 0)
    every_byte: NDArray[Any] = np.ndarray((count,), moved, buffer, 0, (1,))
    if not len(positions) or positions.max() < count:
        return every_byte[positions].view(kind)
    within = positions < count
    items = np.zeros(len(positions), kind)
    items[within] = every_byte[positions[within]].view(kind)
    tail = bytes(buffer[count:]) + bytes(2 * kind.itemsize)
    behind = np.minimum(positions[~within], len(buffer)) - count
    items[~within] = gather(tail, kind, behind)
    return items


def read_columns(
    buffer: Buffer,
    places: Sequence[int] = (),
    *,
    check_crc: bool = True,
    limit: int = MAX_DECOMPRESSED,
    total_limit: int = MAX_TOTAL_DECOMPRESSED,
    most_records: int = MAX_RECORDS,
) -> RecordColumns:
    """Read every whole batch of a fetched buffer; RecordBatchError if one of them is damaged.

    `places` are where its batches begin, if somebody has followed their lengths already. One compressed batch
    may unpack to `limit` bytes and all of them to `total_limit`, and there may be `most_records`. Byte
    positions in errors are those of the result's `buffer`.
    """
    view = memoryview(buffer)
    positions = np.array(places or find_places(buffer), np.int64)
    batches = BatchColumns(_headers(view, positions))
    end = _check_batches(view, positions, batches, check_crc=check_crc)
    counts = batches.column("records_count")
    starts = positions + BATCH_OVERHEAD
    ends = np.where(counts == 0, starts, positions + LENGTH_END + batches.column("length"))
    codecs = np.where(counts == 0, 0, batches.attributes & COMPRESSION_CODEC_MASK)
    unpacked = _unpack(view, codecs, starts, ends, (limit, total_limit)) if codecs.any() else []
    data = b"".join((view, *unpacked)) if unpacked else buffer
    _check_counts(starts, ends, counts, most_records)
    fields = dict(zip(_PER_RECORD, _fields(data, starts, ends, batches), strict=True))
    if (stamped := batches.is_append_time).any():
        times = np.repeat(batches.column("max_timestamp"), counts)
        fields["timestamp"] = np.where(np.repeat(stamped, counts), times, fields["timestamp"])
    return RecordColumns(
        buffer=data, counts=counts, batches=batches, trailing_bytes=len(view) - end, **fields
    )


def _headers(view: memoryview, positions: Int64s) -> Int64s:
    header = np.empty((len(_FIELDS), len(positions)), np.int64)
    native = compiled.native
    if native is None or not native.read_headers(view, positions, header):
        found = gather(view, _HEADER, positions)
        for name, index in _FIELDS.items():
            header[index] = found[name]
    return header


def _check_batches(
    view: memoryview, positions: Int64s, batches: BatchColumns, *, check_crc: bool
) -> int:
    """Where the last batch ends; RecordBatchError for the first that is none, or is not as it was written."""
    ends = positions + LENGTH_END + batches.column("length")
    for position in positions[batches.column("magic") != MAGIC][:1].tolist():
        batch_end(view, position)  # raises, for its magic
    stored = batches.column("crc")
    wrong = first_wrong(view, positions, ends, stored) if check_crc else None
    if wrong is not None:
        raise RecordBatchError(
            f"not the stored checksum {stored[wrong]}",
            message="RecordBatch",
            field="crc",
            offset=int(positions[wrong]),
        )
    end = int(ends[-1]) if len(ends) else 0
    batch_end(view, end)  # what follows may be half a batch, but nothing else
    return end


def _unpack(
    view: memoryview, codecs: Int64s, starts: Int64s, ends: Int64s, limits: tuple[int, int]
) -> list[bytes]:
    """Decompress; moves `starts` and `ends` to where the plain records will lie behind the buffer."""
    limit, left = limits
    unpacked: list[bytes] = []
    where = len(view)
    for index in np.flatnonzero(codecs).tolist():
        payload = view[starts[index] : ends[index]]
        codec = CompressionType.of(int(codecs[index]))
        plain = decompress(payload, codec, limit=min(limit, left))
        unpacked.append(plain)
        starts[index] = where
        where += len(plain)
        ends[index] = where
        left -= len(plain)
    return unpacked


def _check_counts(starts: Int64s, ends: Int64s, counts: Int64s, most: int) -> None:
    """Refuse more records than bytes have room for, or than anybody wants at once."""
    sizes = ends - starts
    for index in np.flatnonzero((counts < 0) | (counts * MIN_RECORD_SIZE > sizes))[:1].tolist():
        check_records_count(int(counts[index]), int(sizes[index]), int(starts[index]))
    if (total := int(counts.sum())) > most:
        raise RecordBatchError(
            f"{total} records at once, more than {most}",
            message="RecordBatch",
            field="records_count",
        )


def _fields(data: Buffer, starts: Int64s, ends: Int64s, batches: BatchColumns) -> Iterable[Int64s]:
    """What _PER_RECORD names, by compiled code if there is some and no record is damaged."""
    counts, base_offset = batches.column("records_count"), batches.base_offset
    base_timestamp = batches.column("base_timestamp")
    if compiled.native is not None:
        fields = np.empty((len(_PER_RECORD), int(counts.sum())), np.int64)
        of_batches = (starts, ends, counts, base_offset, base_timestamp)
        if compiled.native.find_records(data, *of_batches, fields):
            return fields
    timestamp, offset, *places = _read_fields(data, _find_records(data, starts, ends, counts))
    timestamp += np.repeat(base_timestamp, counts)
    offset += np.repeat(base_offset, counts)
    return timestamp, offset, *places


def _find_records(data: Buffer, starts: Int64s, ends: Int64s, counts: Int64s) -> Int64s:
    """Where each record begins, all records of a batch being within its bytes and filling them."""
    records = np.empty(int(counts.sum()), np.int64)
    # The batches with most records first: those that have an i-th record are a prefix then.
    order = np.argsort(-counts, kind="stable")
    ranks = -counts[order]
    slots = (np.cumsum(counts) - counts)[order]
    cursors = starts[order]
    limits = ends[order]
    step = 0
    while (live := int(np.searchsorted(ranks, -step))) >= _FEW:
        records[slots[:live] + step] = cursors[:live]
        lengths, bodies = _varints(data, cursors[:live], 5, "length")
        behind = bodies + lengths
        _refuse((lengths < 0) | (behind > limits[:live]), cursors, "length")
        cursors[:live] = behind
        step += 1
    for index in range(live):
        slot = int(slots[index])
        rest = records[slot + step : slot - int(ranks[index])]
        cursors[index] = _walk(data, int(cursors[index]), int(limits[index]), rest)
    _refuse(cursors != limits, cursors, "length")
    return records


def _walk(data: Buffer, position: int, limit: int, records: Int64s) -> int:
    """The same for the records of one batch, in Python; gives the position behind the last."""
    found: list[int] = []
    for _ in range(len(records)):
        if position >= limit:
            raise _damaged("length", position)
        found.append(position)
        low = data[position]
        if low < 0x80:
            position += 1 + (low >> 1)
        elif position + 1 < limit and (high := data[position + 1]) < 0x80:
            position += 2 + ((low & 0x7F | high << 7) >> 1)
        else:
            length, body = read_varint(data, position)
            position = body + abs(length)  # the sign is for _read_fields to find
    records[:] = found
    return position


def _read_fields(data: Buffer, records: Int64s) -> tuple[Int64s, ...]:
    """Timestamp delta, offset delta, key start and length, value start and length of each record."""
    # All before the key is mostly within eight bytes, and to go for bytes is what takes time.
    word = gather(data, "<u8", records).view(np.int64)
    lengths, bodies = _varints(data, records, 5, "length", word & 0xFFFF)
    _refuse(lengths < MIN_RECORD_SIZE - 1, records, "length")
    stops = bodies + lengths
    bodies += 1  # the attributes byte, of which Kafka uses no bit
    time_delta, at = _varints(data, bodies, 10, "timestamp", _pairs(word, bodies - records))
    offset_delta, at = _varints(data, at, 5, "offset", _pairs(word, at - records))
    key_length, key_start = _varints(data, at, 5, "key", _pairs(word, at - records))
    np.maximum(key_length, -1, out=key_length)  # any negative length is null, as Kafka reads it
    at = key_start + np.maximum(key_length, 0)
    _refuse(at >= stops, key_start, "key")
    value_length, value_start = _varints(data, at, 5, "value")
    np.maximum(value_length, -1, out=value_length)
    at = value_start + np.maximum(value_length, 0)
    _refuse(at >= stops, value_start, "value")
    if gather(data, np.uint8, at).any() or (at + 1 != stops).any():  # else there are no headers
        headers, end = _varints(data, at, 5, "headers")
        left = stops - end
        fits = np.where(headers == 0, left == 0, (headers > 0) & (headers * 2 <= left))
        _refuse(~fits, at, "headers")
    return time_delta, offset_delta, key_start, key_length, value_start, value_length


def _pairs(word: Int64s, skipped: Int64s) -> Int64s | None:
    """Two bytes of each word, behind those that are skipped; None if not all words have them."""
    if skipped.max(initial=0) > word.itemsize - 2:
        return None
    pairs: Int64s = word >> (skipped << 3) & 0xFFFF
    return pairs


def _varints(
    data: Buffer, positions: Int64s, most: int, field: str, pairs: NDArray[Any] | None = None
) -> tuple[Int64s, Int64s]:
    """The zigzag varint of at most `most` bytes at each position, and the positions behind them.

    `pairs` are the first two bytes of each, if they are known.
    """
    values = _SHORT_VARINTS[gather(data, "<u2", positions) if pairs is None else pairs]
    behind = values & 3
    longer = None if behind.all() else np.flatnonzero(behind == 0)
    values >>= 2
    behind += positions
    if longer is not None:
        values[longer], behind[longer] = _long_varints(data, positions[longer], most, field)
    return values, behind


def _long_varints(data: Buffer, positions: Int64s, most: int, field: str) -> tuple[Int64s, Int64s]:
    raw = np.zeros(len(positions), np.uint64)
    behind = positions.copy()
    going = np.ones(len(positions), np.bool_)
    for index in range(most):
        octet = gather(data, np.uint8, positions + index)
        # The last byte has room for the top 4 bits of an int32, or the top bit of an int64.
        last = octet > (0x0F if most == 5 else 0x01)
        if index == most - 1:
            _refuse(going & last, positions, field)
        bits = (octet & 0x7F).astype(np.uint64) << np.uint64(7 * index)
        raw |= np.where(going, bits, np.uint64(0))
        behind += going
        going &= octet > 0x7F
    values = (raw >> np.uint64(1)).astype(np.int64) ^ -(raw & np.uint64(1)).astype(np.int64)
    return values, behind


def _refuse(wrong: Bools, positions: Int64s, field: str) -> None:
    if wrong.any():
        raise _damaged(field, int(positions[wrong.argmax()]))


def _damaged(field: str, position: int) -> RecordBatchError:
    return RecordBatchError(
        "does not fit in its batch or record", message="Record", field=field, offset=position
    )
