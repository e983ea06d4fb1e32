"""What became of transactions: the marker that ended each, found for batches that were part of one.

A marker (a control batch of the same producer) stands behind the records that it decides, maybe far behind.
Chunks whose transactions are not decided yet are held back until they are, or until the log ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
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
        self.outcomes = np.full(len(batches.header), NONE, np.int8)
        open_ones = batches.is_transactional & ~batches.is_control
        self.outcomes[open_ones] = OPEN
        self.waiting = bool(open_ones.any())

    def decide(self, markers: _Markers) -> None:
        """Give each open batch the first marker of its producer behind it."""
        batches = self.chunk.records.batches
        index = np.flatnonzero(self.outcomes == OPEN)
        if not len(index) or not len(markers.offset):
            return
        offset = np.concatenate((batches.base_offset[index], markers.offset))
        producer = np.concatenate((batches.producer_id[index], markers.producer))
        order = np.lexsort((offset, producer))
        is_marker = order >= len(index)
        # For each place in this order, the first marker at it or behind it.
        places = np.where(is_marker, np.arange(len(order)), len(order))
        following = np.minimum.accumulate(places[::-1])[::-1]
        found = following[~is_marker]
        mine = order[~is_marker]
        within = found < len(order)
        marker = order[np.where(within, found, 0)]
        same = within & (producer[marker] == producer[mine])
        self.outcomes[index[mine[same]]] = markers.outcome[marker[same] - len(index)]
        self.waiting = bool((self.outcomes == OPEN).any())


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


def decided(chunks: Iterable[Chunk], look_ahead: LookAhead) -> Iterator[tuple[Chunk, Outcomes]]:
    """Each chunk with the outcome of each of its batches, in the order of its partition's log."""
    held: dict[int, deque[_Held]] = {}
    ends: dict[int, int] = {}
    for chunk in chunks:
        queue = held.setdefault(chunk.partition, deque())
        if queue or chunk.records.batches.is_control.any():
            markers = _Markers(chunk)
            for each in queue:
                each.decide(markers)
            mine = _Held(chunk)
            mine.decide(markers)
        else:
            mine = _Held(chunk)
        queue.append(mine)
        batches = chunk.records.batches
        if len(batches.header):
            ends[chunk.partition] = int(batches.last_offset[-1]) + 1
        if len(queue) > _MOST_HELD:
            _search(queue, look_ahead(chunk.partition, ends[chunk.partition]))
            yield from _released(queue, everything=True)
        yield from _released(queue)
    for partition, queue in held.items():
        if queue:
            _search(queue, look_ahead(partition, ends[partition]))
            yield from _released(queue, everything=True)


def _search(queue: deque[_Held], ahead: Iterable[Chunk]) -> None:
    for chunk in ahead:
        markers = _Markers(chunk)
        for each in queue:
            each.decide(markers)
        if not any(each.waiting for each in queue):
            return


def _released(queue: deque[_Held], *, everything: bool = False) -> Iterator[tuple[Chunk, Outcomes]]:
    while queue and (everything or not queue[0].waiting):
        first = queue.popleft()
        yield first.chunk, first.outcomes
