"""What became of transactions: the marker that ended each, found for batches that were part of one.

A marker (a control batch of the same producer) follows the records that it decides, maybe much later.
Chunks whose transactions are not decided yet are held back until they are, or until the log ends.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coterie.datasets.chunks import Chunk
from coterie.protocol.records.columns import Bools, Int64s, gather
from coterie.protocol.records.control import ControlRecordType

__all__ = ["LookAhead", "decided"]

NONE: Final = -1
OPEN: Final = 0
COMMITTED: Final = 1
ABORTED: Final = 2

Outcomes = NDArray[np.int8]

#: Reads a partition on from an offset to the end of its log.
LookAhead = Callable[[int, int], Iterable[Chunk]]

#: So many chunks of a partition wait for a marker; then the log is searched for it instead.
_MOST_HELD: Final = 8


class _Held:
    """A chunk, what is known of its batches, and which of them are undecided."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        batches = chunk.records.batches
        self.outcomes = np.full(len(batches), NONE, np.int8)
        open_ones = batches.is_transactional & ~batches.is_control
        self.outcomes[open_ones] = OPEN
        self.waiting = bool(open_ones.any())

    def decide(self, markers: _Markers) -> None:
        """Give each open batch the first marker of its producer after it."""
        batches = self.chunk.records.batches
        index = np.flatnonzero(self.outcomes == OPEN)
        if not len(index) or not len(markers.offset):
            return
        offset = np.concatenate((batches.base_offset[index], markers.offset))
        producer = np.concatenate((batches.producer_id[index], markers.producer))
        order = np.lexsort((offset, producer))
        is_marker = order >= len(index)
        # For each place in this order, the first marker at it or after it.
        places = np.where(is_marker, np.arange(len(order)), len(order))
        following = np.minimum.accumulate(places[::-1])[::-1]
        found = following[~is_marker]
        mine = order[~is_marker]
        within = found < len(order)
        marker = order[np.where(within, found, 0)]
        same = within & (producer[marker] == producer[mine])
        self.outcomes[index[mine[same]]] = markers.outcome[marker[same] - len(index)]
        self.waiting = bool((self.outcomes == OPEN).any())

    def decide_by(self, first: Callable[[int, int], int]) -> None:
        """The same by what is known of markers: of a producer's first from an offset on."""
        batches = self.chunk.records.batches
        index = np.flatnonzero(self.outcomes == OPEN)
        wanted = (batches.producer_id[index], batches.base_offset[index])
        self.outcomes[index] = list(map(first, *(each.tolist() for each in wanted)))
        self.waiting = bool((self.outcomes == OPEN).any())

    @property
    def decided(self) -> tuple[Chunk, Outcomes]:
        return self.chunk, self.outcomes


class _Markers:
    """The ends of transactions in a chunk."""

    def __init__(self, chunk: Chunk) -> None:
        records = chunk.records
        batches = records.batches
        rows = np.flatnonzero(chunk.batch_flags("is_control"))
        kinds = gather(records.buffer, ">i2", records.key_start[rows] + 2)
        ends: Bools = (kinds == ControlRecordType.COMMIT) | (kinds == ControlRecordType.ABORT)
        rows, kinds = rows[ends], kinds[ends]
        self.offset: Int64s = records.offset[rows]
        self.producer: Int64s = batches.producer_id[records.batch[rows]]
        self.outcome = np.where(kinds == ControlRecordType.COMMIT, COMMITTED, ABORTED).astype(
            np.int8
        )


class _Ahead:
    """The markers that were found ahead of the reading of a partition, from one offset on to another.

    They are remembered: else transactions that wait in every chunk would have the log searched to its end
    again and again.
    """

    def __init__(self, partition: int, look_ahead: LookAhead) -> None:
        self._read = partial(look_ahead, partition)
        self._start = self._stop = 0
        self._is_end = False
        #: Offsets and outcomes of each producer's markers, in the order of the log.
        self._markers: dict[int, tuple[array[int], bytearray]] = {}

    def search(self, queue: Iterable[_Held], offset: int) -> None:
        """Decide what waits by the log from an offset on, which is after all that waits."""
        if not self._start <= offset <= self._stop:
            self._start = self._stop = offset
            self._is_end = False
            self._markers = {}
        waiting = [each for each in queue if each.waiting]
        for each in waiting:
            each.decide_by(self._first)
        waiting = [each for each in waiting if each.waiting]
        if self._is_end or not waiting:
            return
        for chunk in self._read(self._stop):
            markers = _Markers(chunk)
            self._remember(markers, _end(chunk, self._stop))
            for each in waiting:
                each.decide(markers)
            if not any(each.waiting for each in waiting):
                return
        self._is_end = True

    def _remember(self, markers: _Markers, stop: int) -> None:
        # A chunk may begin before the offset that was asked for.
        new = markers.offset >= self._stop
        columns = (markers.producer[new], markers.offset[new], markers.outcome[new])
        for producer, offset, outcome in zip(*(each.tolist() for each in columns), strict=True):
            offsets, outcomes = self._markers.setdefault(producer, (array("q"), bytearray()))
            offsets.append(offset)
            outcomes.append(outcome)
        self._stop = max(self._stop, stop)

    def _first(self, producer: int, offset: int) -> int:
        """What the producer's first marker after an offset says; OPEN if there is none."""
        if producer not in self._markers:
            return OPEN
        offsets, outcomes = self._markers[producer]
        place = bisect_left(offsets, offset)
        return outcomes[place] if place < len(offsets) else OPEN


class _Partition:
    """The chunks of a partition that are held back, and what was found ahead of them."""

    def __init__(self, number: int, look_ahead: LookAhead) -> None:
        self._queue: deque[_Held] = deque()
        self._ahead = _Ahead(number, look_ahead)
        self._end = 0

    def take(self, chunk: Chunk) -> Iterator[tuple[Chunk, Outcomes]]:
        """Hold a chunk; gives what need not be held any more."""
        mine = _Held(chunk)
        if self._queue or chunk.records.batches.is_control.any():
            markers = _Markers(chunk)
            for each in (*self._queue, mine):
                each.decide(markers)
        self._queue.append(mine)
        self._end = _end(chunk, self._end)
        if len(self._queue) > _MOST_HELD:
            yield from self.rest()
        while self._queue and not self._queue[0].waiting:
            yield self._queue.popleft().decided

    def rest(self) -> Iterator[tuple[Chunk, Outcomes]]:
        """All that is held, with what the log ahead says of it."""
        if self._queue:
            self._ahead.search(self._queue, self._end)
        while self._queue:
            yield self._queue.popleft().decided


def _end(chunk: Chunk, known: int) -> int:
    """The offset after a chunk, or the known one if the chunk has no batch."""
    last = chunk.records.batches.last_offset[-1:].tolist()
    return last[0] + 1 if last else known


def decided(chunks: Iterable[Chunk], look_ahead: LookAhead) -> Iterator[tuple[Chunk, Outcomes]]:
    """Each chunk with the outcome of each of its batches, in the order of its partition's log."""
    partitions: dict[int, _Partition] = {}
    for chunk in chunks:
        number = chunk.partition
        if number not in partitions:
            partitions[number] = _Partition(number, look_ahead)
        yield from partitions[number].take(chunk)
    for each in partitions.values():
        yield from each.rest()
