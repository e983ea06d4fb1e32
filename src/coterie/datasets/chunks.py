"""A chunk: a piece of one partition's log, parsed into columns. What every decoder of log datasets takes.

A damaged batch does not end the reading: it is left out, and remembered with its place and the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from coterie.errors import RecordBatchError
from coterie.protocol.records.batch import batch_end
from coterie.protocol.records.columns import Bools, Int64s, RecordColumns, read_columns
from coterie.protocol.records.compression import Buffer

__all__ = ["Chunk", "Damage", "parse"]


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
    """The records from offset `start` on, up to `stop`, in the whole batches of some data.

    `places` are where these begin, if that is known.
    """
    damages: list[Damage] = []
    size = len(data)
    try:
        records = read_columns(data, places)
        consumed = size - records.trailing_bytes
    except RecordBatchError:
        good, damages, consumed = _salvage(data)
        records = read_columns(good)
    end = 2**63 - 1 if stop is None else stop
    return Chunk(
        partition,
        records,
        start,
        end,
        tuple(each for each in damages if start <= each.offset < end),
        consumed,
    )


def _salvage(data: Buffer) -> tuple[bytes, list[Damage], int]:
    """The batches that can be read, the others, and how far we came.

    Where not even the length of a batch can be believed, all that follows is lost with it.
    """
    view = memoryview(data)
    good: list[memoryview] = []
    damages: list[Damage] = []
    at = 0
    while True:
        try:
            end = batch_end(view, at)
        except RecordBatchError as error:
            lost = len(view) - at
            reason = f"{error}; {lost} bytes from here on cannot be read"
            damages.append(Damage(_base_offset(view, at), reason))
            return b"".join(good), damages, len(view)
        if end is None:
            return b"".join(good), damages, at
        try:
            read_columns(view[at:end])
        except RecordBatchError as error:
            damages.append(Damage(_base_offset(view, at), str(error)))
        else:
            good.append(view[at:end])
        at = end


def _base_offset(view: memoryview, at: int) -> int:
    return int.from_bytes(view[at : at + 8], "big", signed=True)
