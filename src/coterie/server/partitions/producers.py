"""The producers of one partition: their sequences, their epochs, and their transactions.

What this is: Kafka's ProducerStateManager and its transaction index, in memory, from batch headers.
What this is not: durable; it is made again from the log. Nothing here reads or writes: called by
coterie.server.partitions.state, which feeds it every batch in the order of the log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from coterie.error_codes import ErrorCode
from coterie.protocol.records import ControlRecordType, RecordBatch
from coterie.protocol.records.control import decode_control_record

__all__ = ["AbortedRange", "AppendedBatch", "Producer", "Producers"]

#: How many batches of a producer are remembered for duplicates: clients keep at most five in flight.
_REMEMBERED: Final = 5
#: Kafka's producer.id.expiration.ms: a producer that was silent for so long is forgotten.
_EXPIRATION_MS: Final = 86_400_000
#: New producers between two looks for expired ones.
_SWEEP_EVERY: Final = 1_000
_MAX_SEQUENCE: Final = 2**31 - 1
_NONE: Final = -1


class AppendedBatch(NamedTuple):
    """A batch that a producer has appended, for the answer if it sends it again."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    timestamp: int


class AbortedRange(NamedTuple):
    """An aborted transaction, from its first record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class Producer:
    """What the partition knows of one producer id."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "first_offset", "last_timestamp")

    def __init__(self) -> None:
        self.epoch = _NONE
        self.batches: deque[AppendedBatch] = deque(maxlen=_REMEMBERED)
        self.coordinator_epoch = _NONE
        self.last_timestamp = _NONE
        #: Where its open transaction begins; -1 if none is open.
        self.first_offset = _NONE

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else _NONE

    def duplicate_of(self, batch: RecordBatch) -> AppendedBatch | None:
        """The batch that this one repeats, if it is among the last."""
        if batch.producer_epoch != self.epoch:
            return None
        asked = (batch.base_sequence, batch.last_sequence)
        return next((each for each in self.batches if each[:2] == asked), None)

    def enter_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


class Producers:
    """All producers of a partition, and which offsets their transactions leave undecided."""

    def __init__(self) -> None:
        self._by_id: dict[int, Producer] = {}
        #: Producer id to first offset; in the order of the offsets, since later ones begin later.
        self._open: dict[int, int] = {}
        #: Ended transactions as (first offset, marker's offset), until readers see the marker.
        self._ended: deque[tuple[int, int]] = deque()
        self._aborted: list[AbortedRange] = []
        self._new = 0

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        return iter(self._by_id.items())

    def get(self, producer_id: int) -> Producer | None:
        return self._by_id.get(producer_id)

    # -- before a batch is appended -------------------------------------------------------------------

    def why_refused(self, batch: RecordBatch) -> ErrorCode:
        """Why a producer may not append this batch, or NONE (Kafka's ProducerAppendInfo).

        A producer that is not known may begin with any sequence: what was known of it may have gone
        with its records (KIP-360).
        """
        known = self._by_id.get(batch.producer_id)
        if known is None:
            return ErrorCode.NONE
        if batch.producer_epoch < known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if batch.producer_epoch > known.epoch:
            in_order = batch.base_sequence == 0
        else:
            in_order = _follows(known.last_sequence, batch.base_sequence)
        if not in_order:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if known.first_offset >= 0 and not batch.is_transactional:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE

    # -- after it -------------------------------------------------------------------------------------

    def observe(self, batch: RecordBatch, base_offset: int) -> None:
        """A batch is in the log, at this offset."""
        if batch.producer_id < 0:
            return
        if batch.is_control:
            self._end(batch, base_offset)
            return
        producer = self._producer(batch.producer_id, batch.max_timestamp)
        producer.enter_epoch(batch.producer_epoch)
        producer.last_timestamp = batch.max_timestamp
        if batch.base_sequence >= 0:
            producer.batches.append(
                AppendedBatch(
                    batch.base_sequence, batch.last_sequence, base_offset, batch.max_timestamp
                )
            )
        if batch.is_transactional and producer.first_offset < 0:
            producer.first_offset = base_offset
            self._open[batch.producer_id] = base_offset

    def _end(self, batch: RecordBatch, offset: int) -> None:
        """A marker ends the producer's transaction; without an open one it only tells the epoch."""
        records = batch.records()
        if not records:
            return  # compaction took the marker with all that it ended
        marker = decode_control_record(records[0])
        if marker.type not in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
            return
        producer = self._producer(batch.producer_id, batch.max_timestamp)
        producer.enter_epoch(batch.producer_epoch)
        producer.coordinator_epoch = marker.coordinator_epoch or 0
        producer.last_timestamp = batch.max_timestamp
        producer.first_offset = _NONE
        first = self._open.pop(batch.producer_id, None)
        if first is None:
            return
        self._ended.append((first, offset))
        if marker.type is ControlRecordType.ABORT:
            self._aborted.append(AbortedRange(batch.producer_id, first, offset))

    def _producer(self, producer_id: int, now_ms: int) -> Producer:
        producer = self._by_id.get(producer_id)
        if producer is None:
            self._new += 1
            if self._new % _SWEEP_EVERY == 0:
                self._forget_silent(now_ms - _EXPIRATION_MS)
            producer = self._by_id[producer_id] = Producer()
        return producer

    def _forget_silent(self, since_ms: int) -> None:
        for producer_id, producer in list(self._by_id.items()):
            if producer.last_timestamp < since_ms and producer.first_offset < 0:
                del self._by_id[producer_id]

    # -- what readers of committed records want to know -----------------------------------------------

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where all transactions are decided, as far as readers see.

        A marker that is not yet durable has decided nothing (Kafka's unreplicated transactions).
        """
        ended = self._ended
        while ended and ended[0][1] < high_watermark:
            ended.popleft()
        first = next(iter(self._open.values()), high_watermark)
        return min(high_watermark, first, *(each[0] for each in ended))

    def aborted_in(self, first_offset: int, end_offset: int) -> list[AbortedRange]:
        """Aborted transactions that touch the offsets from the first up to the end."""
        at = bisect_left(self._aborted, first_offset, key=lambda each: each.last_offset)
        return [each for each in self._aborted[at:] if each.first_offset < end_offset]

    def forget_before(self, log_start_offset: int) -> None:
        """Aborted transactions that no reader can meet any more."""
        at = bisect_left(self._aborted, log_start_offset, key=lambda each: each.last_offset)
        del self._aborted[:at]


def _follows(last: int, sequence: int) -> bool:
    return sequence == last + 1 or (sequence == 0 and last == _MAX_SEQUENCE)
