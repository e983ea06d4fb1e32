"""Which transactional batches of a log were aborted, and how far its transactions are decided.

What this is: one pass over batch headers, as Kafka's transaction index and last stable offset would say it.
What this is not: producer state; nothing is fenced here. Called by coterie.storage.compaction.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from coterie.protocol.records import ControlRecordType, RecordBatch, decode_control_record

__all__ = ["Transactions", "marker_type"]


def marker_type(batch: RecordBatch) -> ControlRecordType:
    """COMMIT or ABORT for a transaction marker; other types for other control batches."""
    records = batch.records()
    return decode_control_record(records[0]).type if records else ControlRecordType.UNKNOWN


class Transactions:
    """The transactions of a log, from its batches in order, up to and including the active segment."""

    def __init__(self, batches: Iterable[RecordBatch]) -> None:
        self._open: dict[int, int] = {}  # producer id -> first offset
        self._aborted: dict[
            int, list[tuple[int, int]]
        ] = {}  # producer id -> first and marker's offset
        # For each producer, the base offsets of its last batch of records and of its last marker.
        self.last_batch: dict[int, int] = {}
        self.last_marker: dict[int, int] = {}
        for batch in batches:
            self._add(batch)

    def _add(self, batch: RecordBatch) -> None:
        producer = batch.producer_id
        if producer < 0:
            return
        if not batch.is_control:
            self.last_batch[producer] = batch.base_offset
            if batch.is_transactional:
                self._open.setdefault(producer, batch.base_offset)
            return
        self.last_marker[producer] = batch.base_offset
        first = self._open.pop(producer, None)
        if first is not None and marker_type(batch) is ControlRecordType.ABORT:
            self._aborted.setdefault(producer, []).append((first, batch.base_offset))

    def first_unstable_offset(self, end: int) -> int:
        """The first offset of a transaction that is still open, else `end` (the last stable offset)."""
        return min(self._open.values(), default=end)

    def is_aborted(self, batch: RecordBatch) -> bool:
        """Whether the records of this batch belong to an aborted transaction."""
        if not batch.is_transactional or batch.is_control:
            return False
        ranges = self._aborted.get(batch.producer_id, [])
        at = bisect_right(ranges, batch.base_offset, key=lambda aborted: aborted[0]) - 1
        return at >= 0 and batch.base_offset < ranges[at][1]
