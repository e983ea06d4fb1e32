"""What a fetch brings: raw record batches of a partition, cut to what was asked for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from coterie.client.results import TopicPartition
from coterie.protocol.batch_layout import LENGTH_END, MAGIC, MIN_LENGTH, find_places

if TYPE_CHECKING:
    from coterie.protocol.messages.data import AbortedTransaction
    from coterie.protocol.records.columns import RecordColumns
    from coterie.protocol.records.compression import Buffer

__all__ = ["Budget", "Cut", "FetchedRecords", "cut"]

#: Base offset, length, magic, last offset delta and number of records of a batch.
_BATCH: Final = Struct(">qi4xb6xi30xi")


class FetchedRecords(NamedTuple):
    """Whole batches of one partition, as they are stored.

    They hold the records from `start` on, up to `stop`, which is not included. The first batch may begin
    before `start` and the last may end after `stop`: batches are not cut. `columns()` leaves such out.
    """

    partition: TopicPartition
    start: int
    stop: int
    #: A view of the answer that brought them; `bytes(...)` of it is a copy.
    records: Buffer
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    #: Of transactions that were aborted, where reading committed records: producer and first offset.
    aborted: tuple[AbortedTransaction, ...] = ()
    #: Where in `records` each batch begins, if that is known: for read_columns.
    places: Sequence[int] = ()

    @property
    def base_offset(self) -> int:
        """The first offset of the first batch."""
        return int.from_bytes(self.records[:8], "big", signed=True)

    def columns(self) -> RecordColumns:
        """The records from `start` to `stop` as arrays; needs numpy."""
        from coterie.protocol.records.columns import read_columns

        return read_columns(self.records, self.places).between(self.start, self.stop)


class Budget:
    """How much may still be handed out; None is any amount. The batch that reaches it is the last."""

    def __init__(self, max_bytes: int | None, max_records: int | None) -> None:
        self._bytes = max_bytes
        self._records = max_records

    @property
    def unlimited(self) -> bool:
        return self._bytes is None and self._records is None

    @property
    def spent(self) -> bool:
        return self._bytes == 0 or self._records == 0

    def take(self, size: int, records: int) -> None:
        if self._bytes is not None:
            self._bytes = max(0, self._bytes - size)
        if self._records is not None:
            self._records = max(0, self._records - records)


class Cut(NamedTuple):
    """What of some records is wanted: so many bytes, up to this offset; and where the batches in it begin."""

    size: int
    stop: int
    places: Sequence[int] = ()


def cut(records: Buffer, position: int, end: int, budget: Budget) -> Cut:
    """The whole batches before `end` and within the budget.

    A broker may send half a batch last; that is left out. RecordBatchError if a batch cannot be one.
    """
    whole = _whole(records, position, end) if budget.unlimited else None
    if whole is not None:
        return whole
    at = 0
    last = len(records) - _BATCH.size
    while at <= last and position < end and not budget.spent:
        base, length, magic, delta, count = _BATCH.unpack_from(records, at)
        stop = at + LENGTH_END + length
        # A batch as it should be needs no closer look, and that look needs imports that take long.
        unusual = magic != MAGIC or length < MIN_LENGTH or stop > len(records)
        if unusual and _half(records, at):
            break
        if base >= end:
            return Cut(at, end)
        budget.take(stop - at, count)
        position = max(position, min(base + delta + 1, end))
        at = stop
    return Cut(at, position)


def _whole(records: Buffer, position: int, end: int) -> Cut | None:
    """The same where all that came is wanted, which is ordinary: only lengths are looked at.

    None if it is not so, or if anything is unusual.
    """
    places = find_places(records)
    if not places:
        return None
    base, length, magic, delta, _ = _BATCH.unpack_from(records, places[-1])
    at = places[-1] + LENGTH_END + length
    # Half a batch may follow, and nothing else.
    if at + _BATCH.size <= len(records):
        _, length, *_ = _BATCH.unpack_from(records, at)
        if length < MIN_LENGTH:
            return None
    after = base + delta + 1
    return Cut(at, after, places) if magic == MAGIC and position < after <= end else None


def _half(records: Buffer, at: int) -> bool:
    """Whether a batch is not all there; RecordBatchError says what else is wrong with it."""
    from coterie.protocol.records.batch import batch_end

    return batch_end(memoryview(records), at) is None
