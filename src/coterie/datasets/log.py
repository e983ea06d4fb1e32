"""Reading log datasets: which part of `__consumer_offsets`, from where, as record batches of Arrow.

A source (segment files, or a cluster) cuts what is wanted into slices; slices are read, maybe each in another
process, into chunks; chunks are decoded. Everything here can be sent to another process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from coterie.datasets.chunks import Chunk
from coterie.datasets.commits import commits
from coterie.datasets.group_events import group_events
from coterie.datasets.log_records import log_records, undecodable
from coterie.datasets.outcomes import Outcomes, decided
from coterie.datasets.schemas import LOG, pruned
from coterie.datasets.segments import PartitionFiles, end_offset, find_partitions, read_files
from coterie.datasets.selection import Selection
from coterie.errors import InvalidArgument
from coterie.protocol.records.columns import Int64s

__all__ = [
    "BYTES_PER_OFFSET",
    "LogQuery",
    "LogRange",
    "LogSlice",
    "LogSource",
    "SegmentSource",
    "cut",
    "packed",
    "read_datasets",
    "read_log",
]

#: Rows of one record batch at most: more make nothing faster, and cost memory on both sides.
_MOST_ROWS: Final = 1 << 16
#: A commit takes about so many bytes in the log. Kafka returns offsets, not sizes.
BYTES_PER_OFFSET: Final = 100
#: Memory that a process which reads logs does not give back; see _keep_memory.
_KEPT: Final = 24 << 20
#: A slice of a large partition: a second of work for one task.
_OFFSETS_PER_SLICE: Final = 1_000_000


class LogSlice(msgspec.Struct, frozen=True):
    """A piece of a partition: from an offset to another that is not included; None is the end."""

    partition: int
    start: int
    stop: int | None
    #: How large it is, roughly, in bytes: to give tasks their share.
    weight: int = 0


class LogRange(msgspec.Struct, frozen=True):
    """What is wanted of the log: offsets by partition, the second of each not included, and since when.

    Partitions that are not named are read whole; `partitions` limits them.
    """

    starting: Mapping[int, int] = {}
    ending: Mapping[int, int] = {}
    start_ms: int | None = None
    partitions: frozenset[int] | None = None

    def wants(self, partition: int) -> bool:
        return self.partitions is None or partition in self.partitions

    def cut(self, partition: int, start: int, stop: int | None) -> tuple[int, int | None]:
        """The offsets of a partition, limited to those that are wanted."""
        start = max(start, self.starting.get(partition, start))
        end = self.ending.get(partition)
        if end is not None:
            stop = end if stop is None else min(stop, end)
        return start, stop


class LogQuery(msgspec.Struct, frozen=True):
    """A dataset, its columns, and which of its rows."""

    dataset: str
    columns: tuple[str, ...] | None = None
    selection: Selection = Selection()
    start_ms: int | None = None
    end_ms: int | None = None
    #: Of the dataset `log`, only what has a reason why it cannot be read.
    undecodable: bool = False


class LogSource(Protocol):
    """Where the log is. Sources are values: they can be sent to another process and hold nothing open."""

    def bounds(self) -> dict[int, tuple[int, int]]:
        """The first offset and the offset after the last, of each partition.

        Of a cluster, all before it is decided. Segment files go to their end, and transactions may be open
        there: where the first of them began, only reading the whole log would show.
        """
        ...

    def slices(self, wanted: LogRange) -> list[LogSlice]: ...

    def chunks(self, slices: Sequence[LogSlice]) -> Iterator[Chunk]: ...

    def look_ahead(self, partition: int, offset: int) -> Iterator[Chunk]:
        """The log from an offset on, to its end."""
        ...


class SegmentSource(msgspec.Struct, frozen=True):
    """Segment files below a directory, as they were when it was looked at."""

    root: str
    partitions: dict[int, PartitionFiles]

    @classmethod
    def at(cls, root: str) -> SegmentSource:
        return cls(root, find_partitions(root))

    def bounds(self) -> dict[int, tuple[int, int]]:
        return {
            number: (each.files[0].base_offset if each.files else 0, end_offset(each))
            for number, each in self.partitions.items()
        }

    def slices(self, wanted: LogRange) -> list[LogSlice]:
        """A slice per segment: a large partition is read by several tasks."""
        found = []
        for number, each in self.partitions.items():
            if not wanted.wants(number):
                continue
            ends = [file.base_offset for file in each.files[1:]]
            for file, end in zip(each.files, [*ends, None], strict=True):
                start, stop = wanted.cut(number, file.base_offset, end)
                if file.size and (stop is None or start < stop):
                    found.append(LogSlice(number, start, stop, file.size))
        return found

    def chunks(self, slices: Sequence[LogSlice]) -> Iterator[Chunk]:
        for each in slices:
            yield from read_files(self.partitions[each.partition], each.start, each.stop)

    def look_ahead(self, partition: int, offset: int) -> Iterator[Chunk]:
        yield from read_files(self.partitions[partition], offset)


def cut(partition: int, start: int, stop: int) -> Iterator[LogSlice]:
    """A span of offsets as slices that are not too large for a task."""
    for first in range(start, stop, _OFFSETS_PER_SLICE):
        behind = min(first + _OFFSETS_PER_SLICE, stop)
        yield LogSlice(partition, first, behind, (behind - first) * BYTES_PER_OFFSET)


def packed(slices: Sequence[LogSlice], most: int) -> list[tuple[LogSlice, ...]]:
    """Slices in packs of about the same weight, for tasks: many small ones are one task."""
    packs: list[tuple[LogSlice, ...]] = []
    pack: list[LogSlice] = []
    weight = 0
    for each in slices:
        if pack and weight + each.weight > most:
            packs.append(tuple(pack))
            pack, weight = [], 0
        pack.append(each)
        weight += each.weight
    if pack:
        packs.append(tuple(pack))
    return packs


def read_log(
    source: LogSource, query: LogQuery, slices: Sequence[LogSlice] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a log dataset; without slices, of all that the source has."""
    return (batch for _, batch in read_datasets(source, (query,), slices))


def read_datasets(
    source: LogSource, queries: Sequence[LogQuery], slices: Sequence[LogSlice] | None = None
) -> Iterator[tuple[LogQuery, pa.RecordBatch]]:
    """The rows of several log datasets by one reading of the log, each batch with the query that wants it."""
    schemas = []
    for query in queries:
        if query.dataset not in LOG:
            known = ", ".join(LOG)
            raise InvalidArgument(f"{query.dataset!r} is not a log dataset; there are {known}")
        schemas.append(pruned(query.dataset, query.columns))
    if slices is None:
        slices = source.slices(LogRange())
    _keep_memory()
    chunks = source.chunks(slices)
    pairs: Iterable[tuple[Chunk, Outcomes | None]]
    plain = ((chunk, None) for chunk in chunks)
    wants_outcome = any("outcome" in schema.names for schema in schemas)
    pairs = decided(chunks, source.look_ahead) if wants_outcome else plain
    for chunk, outcomes in pairs:
        for query, schema in zip(queries, schemas, strict=True):
            batch = _rows(chunk, outcomes, query, schema)
            for start in range(0, batch.num_rows, _MOST_ROWS):
                yield query, batch.slice(start, _MOST_ROWS)


@cache
def _keep_memory() -> None:
    """Have the vectors of each chunk lie where those of the chunk before it lay.

    The C library gives memory back to the system when twice as much is free as the largest block that was
    ever freed, and the next chunk would begin with fresh pages: a quarter of the time of decoding it. So free
    a large block once; it is never touched.
    """
    np.empty(_KEPT, np.uint8)


def _rows(
    chunk: Chunk, outcomes: Outcomes | None, query: LogQuery, schema: pa.Schema
) -> pa.RecordBatch:
    """The wanted rows of a chunk."""
    needed = _with_filtered(schema, query)
    if query.dataset == "log":
        rows = undecodable(chunk) if query.undecodable else chunk.rows()
        batch = log_records(chunk, _in_time(chunk, rows, query), needed)
    elif query.dataset == "commits":
        batch = commits(chunk, _in_time(chunk, chunk.data_rows(), query), needed, outcomes)
    else:
        batch = group_events(chunk, _in_time(chunk, chunk.data_rows(), query), needed)
    mask = query.selection.filter_log(batch)
    if mask is not None:
        batch = batch.filter(mask)
    return batch if needed is schema else batch.select(schema.names)


def _with_filtered(schema: pa.Schema, query: LogQuery) -> pa.Schema:
    """The columns to decode: those that are wanted, and those that decide which rows are."""
    chosen = query.selection
    extra = []
    if chosen.chooses_groups:
        extra.append("group_id")
    if chosen.topics is not None and query.dataset == "commits":
        extra.append("topic")
    missing = [name for name in extra if name not in schema.names]
    if not missing:
        return schema
    return pruned(query.dataset, [*schema.names, *missing])


def _in_time(chunk: Chunk, rows: Int64s, query: LogQuery) -> Int64s:
    if query.start_ms is None and query.end_ms is None:
        return rows
    times = chunk.records.timestamp[rows]
    wanted = np.ones(len(rows), np.bool_)
    if query.start_ms is not None:
        wanted &= times >= query.start_ms
    if query.end_ms is not None:
        wanted &= times < query.end_ms
    return rows[wanted]
