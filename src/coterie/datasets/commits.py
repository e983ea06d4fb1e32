"""Committed offsets, decoded in bulk: the dataset `commits`.

Keys and values of the known layouts are read in bulk, by compiled code or as vectors. What does not fit
exactly (long metadata, tagged fields of the future, bytes behind the end, text that is none) is
decoded one by one as any record; what still cannot be read is not here but in `log`, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.datasets import vectors
from coterie.datasets.chunks import Chunk
from coterie.datasets.commit_vectors import CommitVectors, FoundCommits
from coterie.datasets.compiled_commits import compiled_commits
from coterie.datasets.times import moment
from coterie.protocol.group_records import decode_record
from coterie.protocol.group_records.classic import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.protocol.records.columns import Int64s
from coterie.protocol.types import Uuid
from coterie.protocol.versioned import leading_number

__all__ = ["OUTCOMES", "commits", "find_commits"]

#: What became of a transaction, by the codes of coterie.datasets.outcomes; -1 is none.
OUTCOMES: Final = ["open", "committed", "aborted"]

_Column = Callable[[FoundCommits], pa.Array]


def find_commits(chunk: Chunk, rows: Int64s, wanted: Collection[str]) -> FoundCommits:
    """The commits among the rows, with at least the columns that are wanted."""
    return compiled_commits(chunk, rows, wanted) or CommitVectors(chunk, rows)


def _number(name: str, kind: pa.DataType, *, null_below_zero: bool = False) -> _Column:
    def column(found: FoundCommits) -> pa.Array:
        values = found.number(name)
        return vectors.numbers(values, kind, values < 0 if null_below_zero else None)

    return column


_COLUMNS: Final[Mapping[str, _Column]] = {
    "partition": lambda c: pa.array(np.full(len(c.rows), c.chunk.partition, np.int32)),
    "offset": lambda c: vectors.numbers(c.record("offset"), pa.int64()),
    "timestamp": lambda c: vectors.timestamps(c.record("timestamp")),
    "group_id": lambda c: c.text("group_id"),
    "topic": lambda c: c.text("topic"),
    "topic_partition": _number("topic_partition", pa.int32()),
    "committed_offset": lambda c: vectors.numbers(
        c.number("committed_offset"), pa.int64(), c.tombstone
    ),
    "leader_epoch": _number("leader_epoch", pa.int32(), null_below_zero=True),
    "metadata": lambda c: c.text("metadata"),
    "commit_timestamp": lambda c: vectors.timestamps(c.number("commit_timestamp")),
    "expire_timestamp": lambda c: vectors.timestamps(c.number("expire_timestamp")),
    "topic_id": lambda c: c.text("topic_id"),
    "tombstone": lambda c: pa.array(c.tombstone),
    "key_version": _number("key_version", pa.int16()),
    "value_version": _number("value_version", pa.int16(), null_below_zero=True),
    "producer_id": lambda c: vectors.numbers(c.producer[0], pa.int64(), c.producer[1]),
}


def commits(
    chunk: Chunk, rows: Int64s, schema: pa.Schema, outcomes: NDArray[np.int8] | None
) -> pa.RecordBatch:
    """The commits among the rows. `outcomes` are of the chunk's batches, if they are asked for."""
    found = find_commits(chunk, rows, schema.names)
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


def _outcome(found: FoundCommits, outcomes: NDArray[np.int8] | None) -> pa.Array:
    if outcomes is None:
        return pa.nulls(len(found.rows), pa.string())
    codes = outcomes[found.record("batch")].astype(np.int64)
    return vectors.named(codes, OUTCOMES, codes < 0)


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
