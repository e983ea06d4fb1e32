"""Commits found and read by compiled code: the same as coterie.datasets.commit_vectors, in one pass."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie import compiled
from coterie.datasets import vectors
from coterie.datasets.chunks import Chunk
from coterie.datasets.commit_vectors import TEXTS, TOMBSTONE, FoundCommits
from coterie.protocol.records.columns import Bools, Int64s

__all__ = ["compiled_commits"]

#: Columns of numbers in the order of the arguments of read_commits, behind the rows and the odd ones.
_NUMBERS: Final = {
    "committed_offset": np.int64,
    "commit_timestamp": np.int64,
    "expire_timestamp": np.int64,
    "topic_partition": np.int32,
    "leader_epoch": np.int32,
    "key_version": np.int16,
    "value_version": np.int16,
}
#: Text is copied in words of so many bytes where there is room for it.
_WORD: Final = 32
_TOPIC_ID: Final = 22


def compiled_commits(chunk: Chunk, rows: Int64s, wanted: Collection[str]) -> CompiledCommits | None:
    """The commits among the rows, with the columns that are wanted; None if this is not for compiled code."""
    native = compiled.native
    if native is None:
        return None
    found = CompiledCommits(native, chunk, rows, wanted)
    if found.is_ascii:
        return found
    # Whether the rest is text matters also where nobody wants it: what is none cannot be read.
    found = CompiledCommits(native, chunk, rows, (*wanted, *TEXTS))
    return found if all(vectors.is_utf8(found.text(name)) for name in TEXTS) else None


class CompiledCommits(FoundCommits):
    """Columns that are not wanted are not there."""

    def __init__(
        self, native: compiled.Native, chunk: Chunk, rows: Int64s, wanted: Collection[str]
    ) -> None:
        records = chunk.records
        all_places = (
            records.key_start, records.key_length, records.value_start, records.value_length,
        )  # fmt: skip
        places = [vectors.chosen(each, rows) for each in all_places]
        count = len(rows)
        wanted = {*wanted, "value_version"}  # which tells tombstones, too
        kept, odd = np.empty(count, np.int64), np.empty(count, np.int64)
        numbers = {
            name: np.empty(count if name in wanted else 0, kind) for name, kind in _NUMBERS.items()
        }
        # Of what is null the sum has -1.
        keys, values = (int(places[index].sum()) + count for index in (1, 3))
        rooms = {"group_id": keys, "topic": keys, "metadata": values, "topic_id": _TOPIC_ID * count}
        texts = {name: _Text(count, room) for name, room in rooms.items() if name in wanted}
        none = _Text(-1, -_WORD)
        buffers = [array for name in rooms for array in texts.get(name, none).arrays]
        found, odd_ones, *sizes, ascii_only = native.read_commits(
            records.buffer, *places, kept, odd, *numbers.values(), *buffers
        )
        for text, size in zip((texts.get(name, none) for name in rooms), sizes, strict=True):
            text.size = size
        super().__init__(
            chunk, rows if found == count else rows[kept[:found]], rows[odd[:odd_ones]]
        )
        self.is_ascii = bool(ascii_only)
        self._numbers = {name: values[:found] for name, values in numbers.items()}
        self._texts = texts

    def number(self, name: str) -> NDArray[Any]:
        return self._numbers[name]

    @property
    def tombstone(self) -> Bools:
        tombstones: Bools = self._numbers["value_version"] == TOMBSTONE
        return tombstones

    def text(self, name: str) -> pa.Array:
        text = self._texts[name]
        null = None
        if name == "metadata":
            null = self.tombstone
        elif name == "topic_id":
            null = text.empty(len(self.rows))
        return text.array(len(self.rows), null)


class _Text:
    """Memory for a column of strings: where each begins, and the bytes of all; none for -1 rows."""

    def __init__(self, rows: int, room: int) -> None:
        self.arrays = np.empty(rows + 1, np.int32), np.empty(room + _WORD, np.uint8)
        self.size = 0

    def empty(self, count: int) -> Bools:
        starts = self.arrays[0][: count + 1]
        empty: Bools = starts[1:] == starts[:-1]
        return empty

    def array(self, count: int, null: Bools | None) -> pa.Array:
        starts, data = self.arrays
        valid, nulls = None, 0
        if null is not None and null.any():
            valid, nulls = pa.array(~null).buffers()[1], int(null.sum())
        buffers = [valid, pa.py_buffer(starts), pa.py_buffer(data).slice(0, self.size)]
        return pa.Array.from_buffers(pa.string(), count, buffers, nulls)
