"""A chunk: a piece of one partition's log, parsed into columns. What every decoder of log datasets takes.

A damaged batch does not end the reading: it is left out, and remembered with its place and the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
from crc32c import crc32c

from coterie.errors import RecordBatchError
from coterie.protocol.batch_layout import (
    BATCH_OVERHEAD,
    CHECKED_FROM,
    CRC_AT,
    LENGTH_AT,
    LENGTH_END,
    MAGIC,
    MAGIC_AT,
)
from coterie.protocol.records.batch import batch_end
from coterie.protocol.records.columns import (
    MAX_RECORDS,
    MAX_TOTAL_DECOMPRESSED,
    Bools,
    Int64s,
    RecordColumns,
    gather,
    read_columns,
)
from coterie.protocol.records.compression import Buffer

__all__ = ["Chunk", "Damage", "holds_batch", "parse", "read_batches"]

#: Offsets of one segment differ by less.
_OFFSET_SPAN: Final = 1 << 31


class Damage(NamedTuple):
    """A batch that cannot be read: the first offset it claims to have, and why."""

    offset: int
    reason: str


class Chunk(msgspec.Struct, frozen=True, eq=False):
    """Records of a partition of `__consumer_offsets`, in the order of the log.

    Of these, the records from offset `start` on up to `stop` are wanted; batches are not cut.
    """

    partition: int
    records: RecordColumns
    start: int
    stop: int
    damages: tuple[Damage, ...]
    #: How many bytes of the data were whole batches.
    consumed: int
    #: Why what follows them is none, not even half of one; empty if it is.
    broken: str = ""

    def with_damage(self, offset: int, reason: str) -> Chunk:
        """The same with one more damage, if its offset is wanted."""
        if not self.start <= offset < self.stop:
            return self
        return msgspec.structs.replace(self, damages=(*self.damages, Damage(offset, reason)))

    def batch_flags(self, name: str) -> Bools:
        """`is_control` or `is_transactional` of each record's batch."""
        of_batches: Bools = getattr(self.records.batches, name)
        if not of_batches.any():
            return np.zeros(len(self.records), np.bool_)
        flags: Bools = of_batches[self.records.batch]
        return flags

    def rows(self) -> Int64s:
        """The indexes of the records that are wanted."""
        if self.records.within(self.start, self.stop):
            return np.arange(len(self.records))
        offset = self.records.offset
        return np.flatnonzero((offset >= self.start) & (offset < self.stop))

    def data_rows(self) -> Int64s:
        """Those of them that are no markers of transactions."""
        rows = self.rows()
        if not self.records.batches.is_control.any():
            return rows
        return rows[~self.batch_flags("is_control")[rows]]

    def key(self, row: int) -> bytes | None:
        return self._bytes(int(self.records.key_start[row]), int(self.records.key_length[row]))

    def value(self, row: int) -> bytes | None:
        return self._bytes(int(self.records.value_start[row]), int(self.records.value_length[row]))

    def _bytes(self, start: int, length: int) -> bytes | None:
        return None if length < 0 else bytes(self.records.buffer[start : start + length])


def parse(
    partition: int, data: Buffer, start: int, stop: int | None, places: Sequence[int] = ()
) -> Chunk:
    """The records from offset `start` on, up to `stop`, in data that comes once.

    `places` are where its batches begin, if that is known.
    """
    chunk = read_batches(partition, data, start, stop, places)
    if chunk.consumed == len(data):
        return chunk
    view = memoryview(data)[chunk.consumed :]
    reason = chunk.broken
    if not reason and batch_end(view, 0) is not None:
        reason = "batches unpack to too much at once"
    if not reason:
        return chunk
    reason = f"{reason}; {len(view)} bytes from here on cannot be read"
    return chunk.with_damage(_base_offset(view, 0), reason)


def read_batches(
    partition: int, data: Buffer, start: int, stop: int | None, places: Sequence[int] = ()
) -> Chunk:
    """The same, for callers that can continue later: it may consume fewer batches than there are."""
    found = _Salvaged(b"", [], 0)
    try:
        records = read_columns(data, places)
        consumed = len(data) - records.trailing_bytes
    except RecordBatchError:
        found = _salvage(data)
        records = read_columns(found.good)
        consumed = found.consumed
    end = 2**63 - 1 if stop is None else stop
    wanted = tuple(each for each in found.damages if start <= each.offset < end)
    return Chunk(partition, records, start, end, wanted, consumed, found.broken)


class _Salvaged(NamedTuple):
    """The batches that can be read, the others, how far we came, and why not further."""

    good: bytes
    damages: list[Damage]
    consumed: int
    broken: str = ""


def _salvage(data: Buffer) -> _Salvaged:
    """Batch by batch, up to where not even a length can be believed, or all together would be too much."""
    view = memoryview(data)
    good: list[memoryview] = []
    damages: list[Damage] = []
    at = unpacked = records = 0
    broken = ""
    while True:
        try:
            end = batch_end(view, at)
        except RecordBatchError as error:
            broken = f"{error.message}.{error.field}: {error.reason}"
            break
        if end is None:
            break
        try:
            columns = read_columns(view[at:end])
        except RecordBatchError as error:
            damages.append(Damage(_base_offset(view, at), str(error)))
        else:
            unpacked += len(columns.buffer) - (end - at)
            records += len(columns)
            if good and (unpacked >= MAX_TOTAL_DECOMPRESSED or records > MAX_RECORDS):
                break
            good.append(view[at:end])
        at = end
    return _Salvaged(b"".join(good), damages, at, broken)


def _base_offset(view: memoryview, at: int) -> int:
    return int.from_bytes(view[at : at + 8], "big", signed=True)


def holds_batch(data: bytes, least: int) -> bool:
    """Whether somewhere in the data is a whole batch, with a first offset of `least` or not much later."""
    places = np.flatnonzero(np.frombuffer(data, np.uint8)[MAGIC_AT:] == MAGIC)
    offset = gather(data, ">i8", places).astype(np.int64)
    ends = places + LENGTH_END + gather(data, ">i4", places + LENGTH_AT).astype(np.int64)
    sizes = ends - places
    fits = (sizes >= BATCH_OVERHEAD) & (ends <= len(data))
    fits &= (offset >= least) & (offset < least + _OFFSET_SPAN)
    places, ends, sizes = places[fits], ends[fits], sizes[fits]
    # What only looks like one may be long, and there may be many: never read more than thrice the data.
    order = np.argsort(sizes, kind="stable")
    order = order[np.cumsum(sizes[order]) <= 3 * len(data)]
    view = memoryview(data)
    return any(
        crc32c(view[at + CHECKED_FROM : end])
        == int.from_bytes(view[at + CRC_AT : at + CHECKED_FROM], "big")
        for at, end in zip(places[order].tolist(), ends[order].tolist(), strict=True)
    )
