"""Committed offsets, decoded in bulk: the dataset `commits`.

Keys and values of the known layouts are found by vector arithmetic and checked to the last byte. What does
not fit exactly (long metadata, tagged fields of the future, bytes behind the end, text that is none) is
decoded one by one as any record; what still cannot be read is not here but in `log`, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.datasets import vectors
from coterie.datasets.chunks import Chunk
from coterie.datasets.commit_values import CommitValues
from coterie.datasets.times import moment
from coterie.protocol.group_records import decode_record
from coterie.protocol.group_records.classic import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.protocol.records.columns import Bools, Int64s, gather
from coterie.protocol.types import Uuid
from coterie.protocol.versioned import leading_number

__all__ = ["OUTCOMES", "Commits", "commit_rows", "commits"]

#: What became of a transaction, by the codes of coterie.datasets.outcomes; -1 is none.
OUTCOMES: Final = ["open", "committed", "aborted"]

_NEWEST_KEY: Final = 1
_KEY_OVERHEAD: Final = 10  # type, two sizes, partition
_LONGEST: Final = 0x7FFF


class Commits:
    """Commits of known layout among the records of a chunk; columns are built when asked for."""

    def __init__(self, chunk: Chunk, rows: Int64s) -> None:
        records = chunk.records
        self.chunk = chunk
        self.buffer = records.buffer
        rows, head = _commit_keys(chunk, rows)
        self.key_start = _of(records.key_start, rows)
        key_length = _of(records.key_length, rows)
        self.key_version = head >> 16
        group_length = head & 0xFFFF
        topic_at = self.key_start + 4 + group_length
        topic_length = gather(self.buffer, ">u2", topic_at).astype(np.int64)
        self.values = CommitValues(
            self.buffer, _of(records.value_start, rows), _of(records.value_length, rows)
        )
        fits = self.values.fits
        # To the byte: a length that lies would point into another record.
        fits &= key_length == _KEY_OVERHEAD + group_length + topic_length
        fits &= (group_length <= _LONGEST) & (topic_length <= _LONGEST)
        # The oldest type of key has only the oldest value.
        fits &= (self.key_version == _NEWEST_KEY) | (self.values.version <= 0)
        self.group = (self.key_start + 4, group_length)
        self.topic = (topic_at + 2, topic_length)
        self.rows = rows
        #: Commits that need a closer look.
        self.odd = rows[:0]
        if not fits.all():
            self._keep(fits)
        self._texts = {name: vectors.strings(self.buffer, *where) for name, where in self._where()}
        if not all(map(vectors.is_utf8, self._texts.values())):
            self._keep(self._are_text())
            self._texts = {
                name: vectors.strings(self.buffer, *where) for name, where in self._where()
            }

    def _where(self) -> list[tuple[str, tuple[Int64s, Int64s]]]:
        return [
            ("group_id", self.group),
            ("topic", self.topic),
            ("metadata", (self.values.metadata_start, self.values.metadata_length)),
        ]

    def _keep(self, fits: Bools) -> None:
        self.odd = np.concatenate((self.odd, self.rows[~fits]))
        self.rows = self.rows[fits]
        self.key_start, self.key_version = self.key_start[fits], self.key_version[fits]
        self.group = (self.group[0][fits], self.group[1][fits])
        self.topic = (self.topic[0][fits], self.topic[1][fits])
        self.values.keep(fits)

    def _are_text(self) -> Bools:
        fits = np.ones(len(self.rows), np.bool_)
        for _, (start, length) in self._where():
            for row, (at, size) in enumerate(zip(start.tolist(), length.tolist(), strict=True)):
                fits[row] &= _is_text(bytes(self.buffer[at : at + max(size, 0)]))
        return fits

    def text(self, name: str) -> pa.Array:
        return self._texts[name]

    def record(self, name: str) -> NDArray[Any]:
        """A field of the record around the commit."""
        return _of(getattr(self.chunk.records, name), self.rows)

    @property
    def topic_partition(self) -> NDArray[Any]:
        return gather(self.buffer, ">i4", self.topic[0] + self.topic[1])

    @property
    def producer(self) -> tuple[Int64s, Bools]:
        """Who wrote it, and whether it was outside of any transaction."""
        plain = ~self.chunk.batch_flags("is_transactional")[self.rows]
        return self.chunk.records.batches.producer_id[self.record("batch")], plain


def _topic_id(commits: Commits) -> pa.Array:
    values = commits.values
    return vectors.topic_ids(values.topic_id, values.topic_id_null)


_COLUMNS: Final[Mapping[str, Callable[[Commits], pa.Array]]] = {
    "partition": lambda c: vectors.numbers(np.full(len(c.rows), c.chunk.partition), pa.int32()),
    "offset": lambda c: vectors.numbers(c.record("offset"), pa.int64()),
    "timestamp": lambda c: vectors.timestamps(c.record("timestamp")),
    "group_id": lambda c: c.text("group_id"),
    "topic": lambda c: c.text("topic"),
    "topic_partition": lambda c: vectors.numbers(c.topic_partition, pa.int32()),
    "committed_offset": lambda c: vectors.numbers(c.values.offset, pa.int64(), c.values.tombstone),
    "leader_epoch": lambda c: vectors.numbers(
        c.values.leader_epoch, pa.int32(), c.values.leader_epoch < 0
    ),
    "metadata": lambda c: c.text("metadata"),
    "commit_timestamp": lambda c: vectors.timestamps(c.values.time),
    "expire_timestamp": lambda c: vectors.timestamps(c.values.expire),
    "topic_id": _topic_id,
    "tombstone": lambda c: pa.array(c.values.tombstone),
    "key_version": lambda c: vectors.numbers(c.key_version, pa.int16()),
    "value_version": lambda c: vectors.numbers(c.values.version, pa.int16(), c.values.tombstone),
    "producer_id": lambda c: vectors.numbers(c.producer[0], pa.int64(), c.producer[1]),
}


def _of(values: NDArray[Any], rows: Int64s) -> NDArray[Any]:
    """The values of some rows, each named once; without a copy if they are all."""
    return values if len(rows) == len(values) else values[rows]


def _commit_keys(chunk: Chunk, rows: Int64s) -> tuple[Int64s, Int64s]:
    """Those of the rows whose keys are of a commit, and the first four bytes of these keys."""
    records = chunk.records
    head = gather(records.buffer, ">u4", _of(records.key_start, rows)).astype(np.int64)
    fits = (head >> 16 <= _NEWEST_KEY) & (_of(records.key_length, rows) >= 2)
    return (rows, head) if fits.all() else (rows[fits], head[fits])


def commit_rows(chunk: Chunk, rows: Int64s) -> Int64s:
    """Those of the rows whose keys are of a commit."""
    return _commit_keys(chunk, rows)[0]


def commits(
    chunk: Chunk, rows: Int64s, schema: pa.Schema, outcomes: NDArray[np.int8] | None
) -> pa.RecordBatch:
    """The commits among the rows. `outcomes` are of the chunk's batches, if they are asked for."""
    found = Commits(chunk, rows)
    arrays = [
        _outcome(found, outcomes) if name == "outcome" else _COLUMNS[name](found)
        for name in schema.names
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    if not len(found.odd):
        return batch
    decoded = [(row, _decode(chunk, row, outcomes)) for row in found.odd.tolist()]
    odd = [(row, values) for row, values in decoded if values is not None]
    return merged(batch, found.rows, odd)


def merged(
    batch: pa.RecordBatch, rows: Int64s, odd: Iterable[tuple[int, dict[str, Any]]]
) -> pa.RecordBatch:
    """A batch and some rows that were decoded one by one, put back into the order of the log."""
    places, values = zip(*odd, strict=True) if odd else ((), ())
    more = pa.RecordBatch.from_pylist(list(values), schema=batch.schema)
    order = np.argsort(np.concatenate((rows, np.array(places, np.int64))), kind="stable")
    return pa.concat_batches([batch, more]).take(pa.array(order))


def _outcome(found: Commits, outcomes: NDArray[np.int8] | None) -> pa.Array:
    if outcomes is None:
        return pa.nulls(len(found.rows), pa.string())
    codes = outcomes[found.record("batch")].astype(np.int64)
    return vectors.named(codes, OUTCOMES, codes < 0)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# -- one by one -------------------------------------------------------------------------------------------


def _decode(chunk: Chunk, row: int, outcomes: NDArray[np.int8] | None) -> dict[str, Any] | None:
    """A commit by the codec of its message, as a row; None if it cannot be read."""
    raw = chunk.value(row)
    key, value = decode_record(chunk.key(row), raw)
    if not isinstance(key, (LegacyOffsetCommitKey, OffsetCommitKey)):
        return None
    if value is not None and not isinstance(value, (LegacyOffsetCommitValue, OffsetCommitValue)):
        return None
    batch = int(chunk.records.batch[row])
    batches = chunk.records.batches
    code = -1 if outcomes is None else int(outcomes[batch])
    found: dict[str, Any] = {
        "partition": chunk.partition,
        "offset": int(chunk.records.offset[row]),
        "timestamp": moment(int(chunk.records.timestamp[row])),
        "group_id": key.group,
        "topic": key.topic,
        "topic_partition": key.partition,
        "tombstone": value is None,
        "key_version": type(key).__key__,
        "producer_id": int(batches.producer_id[batch]) if batches.is_transactional[batch] else None,
        "outcome": OUTCOMES[code] if code >= 0 else None,
    }
    if value is not None:
        found |= {
            "committed_offset": value.offset,
            "metadata": value.metadata,
            "commit_timestamp": moment(value.commit_timestamp),
            "value_version": leading_number(raw or b""),
        }
    if isinstance(value, OffsetCommitValue):
        found |= {
            "leader_epoch": value.leader_epoch if value.leader_epoch >= 0 else None,
            "expire_timestamp": moment(value.expire_timestamp),
            "topic_id": None if value.topic_id == Uuid.ZERO else str(value.topic_id),
        }
    return found
