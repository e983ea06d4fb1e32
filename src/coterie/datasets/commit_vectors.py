"""Commits found and read as vectors: where compiled code cannot, or there is none.

Keys and values of the known layouts are found by vector arithmetic and checked to the last byte.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.datasets import vectors
from coterie.datasets.chunks import Chunk
from coterie.datasets.commit_values import TOMBSTONE, CommitValues
from coterie.protocol.records.columns import Bools, Int64s, gather

__all__ = ["TEXTS", "TOMBSTONE", "CommitVectors", "FoundCommits", "commit_rows"]

#: Columns that have to be text for a commit to be readable.
TEXTS: Final = ("group_id", "topic", "metadata")

_NEWEST_KEY: Final = 1
_KEY_OVERHEAD: Final = 10  # type, two sizes, partition
_LONGEST: Final = 0x7FFF


class FoundCommits(ABC):
    """Commits of known layout among the records of a chunk, and those that need a closer look."""

    def __init__(self, chunk: Chunk, rows: Int64s, odd: Int64s) -> None:
        self.chunk = chunk
        self.rows = rows
        self.odd = odd

    @abstractmethod
    def number(self, name: str) -> NDArray[Any]:
        """A column by its name; -1 where the commit has none, anything where it is a tombstone."""

    @abstractmethod
    def text(self, name: str) -> pa.Array: ...

    @property
    @abstractmethod
    def tombstone(self) -> Bools: ...

    def record(self, name: str) -> NDArray[Any]:
        """A field of the record around the commit."""
        return vectors.chosen(getattr(self.chunk.records, name), self.rows)

    @property
    def producer(self) -> tuple[Int64s, Bools]:
        """Who wrote it, and whether it was outside of any transaction."""
        plain = ~self.chunk.batch_flags("is_transactional")[self.rows]
        return self.chunk.records.batches.producer_id[self.record("batch")], plain


class CommitVectors(FoundCommits):
    """All columns are there; most are built when asked for."""

    def __init__(self, chunk: Chunk, rows: Int64s) -> None:
        records = chunk.records
        self._buffer = records.buffer
        rows, head = _commit_keys(chunk, rows)
        super().__init__(chunk, rows, rows[:0])
        key_start = vectors.chosen(records.key_start, rows)
        key_length = vectors.chosen(records.key_length, rows)
        self._key_version = head >> 16
        group_length = head & 0xFFFF
        topic_at = key_start + 4 + group_length
        topic_length = gather(self._buffer, ">u2", topic_at).astype(np.int64)
        self._values = CommitValues(
            self._buffer,
            vectors.chosen(records.value_start, rows),
            vectors.chosen(records.value_length, rows),
        )
        fits = self._values.fits
        # To the byte: a length that lies would point into another record.
        fits &= key_length == _KEY_OVERHEAD + group_length + topic_length
        fits &= (group_length <= _LONGEST) & (topic_length <= _LONGEST)
        # The oldest type of key has only the oldest value.
        fits &= (self._key_version == _NEWEST_KEY) | (self._values.version <= 0)
        self._group = (key_start + 4, group_length)
        self._topic = (topic_at + 2, topic_length)
        if not fits.all():
            self._keep(fits)
        self._texts = self._strings()
        if not all(map(vectors.is_utf8, self._texts.values())):
            self._keep(self._are_text())
            self._texts = self._strings()

    def _where(self) -> list[tuple[Int64s, Int64s]]:
        metadata = (self._values.metadata_start, self._values.metadata_length)
        return [self._group, self._topic, metadata]

    def _strings(self) -> dict[str, pa.Array]:
        where = zip(TEXTS, self._where(), strict=True)
        return {name: vectors.strings(self._buffer, *places) for name, places in where}

    def _keep(self, fits: Bools) -> None:
        self.odd = np.concatenate((self.odd, self.rows[~fits]))
        self.rows = self.rows[fits]
        self._key_version = self._key_version[fits]
        self._group = (self._group[0][fits], self._group[1][fits])
        self._topic = (self._topic[0][fits], self._topic[1][fits])
        self._values.keep(fits)

    def _are_text(self) -> Bools:
        fits = np.ones(len(self.rows), np.bool_)
        for start, length in self._where():
            for row, (at, size) in enumerate(zip(start.tolist(), length.tolist(), strict=True)):
                fits[row] &= _is_text(bytes(self._buffer[at : at + max(size, 0)]))
        return fits

    def number(self, name: str) -> NDArray[Any]:
        values = self._values
        match name:
            case "topic_partition":
                return gather(self._buffer, ">i4", self._topic[0] + self._topic[1])
            case "key_version":
                return self._key_version
        columns = {
            "committed_offset": values.offset,
            "leader_epoch": values.leader_epoch,
            "commit_timestamp": values.time,
            "expire_timestamp": values.expire,
            "value_version": values.version,
        }
        return columns[name]

    def text(self, name: str) -> pa.Array:
        if name == "topic_id":
            return vectors.topic_ids(self._values.topic_id, self._values.topic_id_null)
        return self._texts[name]

    @property
    def tombstone(self) -> Bools:
        return self._values.tombstone


def _commit_keys(chunk: Chunk, rows: Int64s) -> tuple[Int64s, Int64s]:
    """Those of the rows whose keys are of a commit, and the first four bytes of these keys."""
    records = chunk.records
    head = gather(records.buffer, ">u4", vectors.chosen(records.key_start, rows)).astype(np.int64)
    fits = (head >> 16 <= _NEWEST_KEY) & (vectors.chosen(records.key_length, rows) >= 2)
    return (rows, head) if fits.all() else (rows[fits], head[fits])


def commit_rows(chunk: Chunk, rows: Int64s) -> Int64s:
    """Those of the rows whose keys are of a commit."""
    return _commit_keys(chunk, rows)[0]


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
