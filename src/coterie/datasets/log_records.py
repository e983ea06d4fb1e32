"""Every record as it is: the dataset `log`. Unreadable records are rows with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from coterie.datasets import vectors
from coterie.datasets.chunks import Chunk
from coterie.datasets.commit_vectors import commit_rows
from coterie.datasets.commits import find_commits
from coterie.protocol.group_records import decode_record, record_types
from coterie.protocol.records.columns import Bools, Int64s, gather
from coterie.protocol.versioned import Undecoded

__all__ = ["log_records", "undecodable"]

#: Kafka's name for what ends a transaction, a record of a control batch.
_MARKER: Final = "EndTxnMarker"


class _Records:
    """The records of some rows, and what can be read of all of them at once."""

    def __init__(self, chunk: Chunk, rows: Int64s) -> None:
        records = chunk.records
        self.chunk = chunk
        self.rows = rows
        self.buffer = records.buffer
        self.key_start, self.key_length = records.key_start[rows], records.key_length[rows]
        self.value_start, self.value_length = records.value_start[rows], records.value_length[rows]
        self.is_marker: Bools = chunk.batch_flags("is_control")[rows]
        self.kind = gather(self.buffer, ">i2", self.key_start).astype(np.int64)
        self.no_kind: Bools = self.key_length < 2
        types = record_types()
        self.unknown = self.no_kind | self.is_marker | ~np.isin(self.kind, list(types))

    def record(self) -> pa.Array:
        names, places = _names()
        code = places[np.clip(self.kind, -1, len(places) - 2)]
        code[self.is_marker] = 0
        return vectors.named(code, names, self.unknown & ~self.is_marker)

    def version_of_value(self) -> pa.Array:
        version = gather(self.buffer, ">i2", self.value_start)
        return vectors.numbers(version, pa.int16(), self.value_length < 2)

    def group_id(self) -> pa.Array:
        """Every known key has the group first."""
        length = gather(self.buffer, ">u2", self.key_start + 2).astype(np.int64)
        odd = self.unknown | (length > self.key_length - 4)
        found = vectors.strings(self.buffer, self.key_start + 4, np.where(odd, -1, length))
        if vectors.is_utf8(found):
            return found
        return pa.array([_text(each) for each in found.cast(pa.binary()).to_pylist()], pa.string())

    def reason(self) -> pa.Array:
        reasons: list[str | None] = [None] * len(self.rows)
        closer = _looked_at(self.chunk, self.rows[~self.is_marker])
        for place in np.flatnonzero(np.isin(self.rows, closer)).tolist():
            row = int(self.rows[place])
            reasons[place] = _reason(self.chunk.key(row), self.chunk.value(row))
        return pa.array(reasons, pa.string())


def _looked_at(chunk: Chunk, rows: Int64s) -> Int64s:
    """Rows that have to be decoded to know whether they can be; of ordinary commits that is known."""
    commits = commit_rows(chunk, rows)
    found: Int64s = np.union1d(find_commits(chunk, commits, ()).odd, np.setdiff1d(rows, commits))
    return found


def undecodable(chunk: Chunk) -> Int64s:
    """The rows that cannot be read."""
    rows = _looked_at(chunk, chunk.data_rows()).tolist()
    bad = [row for row in rows if _reason(chunk.key(row), chunk.value(row)) is not None]
    return np.array(bad, np.int64)


@cache
def _names() -> tuple[list[str], Int64s]:
    """Names, the marker's first, and for each number of a type the place of its name."""
    types = record_types()
    places = np.zeros(max(types) + 2, np.int64)
    for place, number in enumerate(types, 1):
        places[number] = place
    return [_MARKER, *(each.name for each in types.values())], places


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _reason(key: bytes | None, value: bytes | None) -> str | None:
    decoded = decode_record(key, value)
    if isinstance(decoded.key, Undecoded):
        return f"key: {decoded.key.reason}"
    if isinstance(decoded.value, Undecoded):
        return f"value: {decoded.value.reason}"
    return None


_COLUMNS: Final[Mapping[str, Callable[[_Records], pa.Array]]] = {
    "partition": lambda r: vectors.numbers(np.full(len(r.rows), r.chunk.partition), pa.int32()),
    "offset": lambda r: vectors.numbers(r.chunk.records.offset[r.rows], pa.int64()),
    "timestamp": lambda r: vectors.timestamps(r.chunk.records.timestamp[r.rows]),
    "key": lambda r: vectors.binaries(r.buffer, r.key_start, r.key_length),
    "value": lambda r: vectors.binaries(r.buffer, r.value_start, r.value_length),
    "record": _Records.record,
    "key_version": lambda r: vectors.numbers(r.kind, pa.int16(), r.no_kind),
    "value_version": _Records.version_of_value,
    "group_id": _Records.group_id,
    "reason": _Records.reason,
}


def log_records(chunk: Chunk, rows: Int64s, schema: pa.Schema) -> pa.RecordBatch:
    """The records of the rows, and a row for each damaged batch, with its first offset."""
    found = _Records(chunk, rows)
    batch = pa.RecordBatch.from_arrays(
        [_COLUMNS[name](found) for name in schema.names], schema=schema
    )
    if not chunk.damages:
        return batch
    lost: list[dict[str, Any]] = [
        {"partition": chunk.partition, "offset": each.offset, "reason": each.reason}
        for each in chunk.damages
    ]
    more = pa.RecordBatch.from_pylist(lost, schema=schema)
    places = np.concatenate(
        (chunk.records.offset[rows], np.array([each.offset for each in chunk.damages], np.int64))
    )
    order = np.argsort(places, kind="stable")
    return pa.concat_batches([batch, more]).take(pa.array(order))
