"""One reading of the log by Spark's tasks, for all tables: commits go to Spark, the rest to files beside.

Nearly all records are commits. A task yields them, and writes what else it meets (group events, and what
nobody can read) as small Parquet files that `ingest` hands to Spark afterwards. A task that is run again
writes the same files again: they are named after it. Called by coterie.spark.pipeline.ingest.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from coterie.datasets.log import LogQuery, LogRange, LogSlice, LogSource, packed, read_datasets
from coterie.datasets.schemas import schema
from coterie.errors import CoterieError
from coterie.spark.quickstart.worker import acknowledge

__all__ = ["read_commits"]

#: A part of the log for one task: a second of work.
_BYTES_PER_TASK: Final = 32 << 20
_COMMITS: Final = LogQuery("commits")
#: What is written beside, by the table that it is for.
_TABLES: Final = {
    "group_events": LogQuery("group_events"),
    "quarantine": LogQuery("log", undecodable=True),
}


def read_commits(
    spark: SparkSession,
    source: LogSource,
    ranges: Mapping[int, tuple[int, int]],
    beside: Path,
) -> DataFrame | None:
    """The commits of a part of the log. When they have been read, the rest lies in `beside`/<table>."""
    wanted = LogRange(
        starting={partition: start for partition, (start, _) in ranges.items()},
        ending={partition: end for partition, (_, end) in ranges.items()},
        partitions=frozenset(ranges),
    )
    tasks = packed(source.slices(wanted), _BYTES_PER_TASK)
    if not tasks:
        return None
    for table in _TABLES:
        (beside / table).mkdir(parents=True, exist_ok=True)
    from coterie.spark.pipeline.frames import spark_schema

    read = _reader(source, tasks, str(beside))
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    return numbers.mapInArrow(read, spark_schema(schema("commits")))


Batches = Iterator[pa.RecordBatch]


def _reader(
    source: LogSource, tasks: list[tuple[LogSlice, ...]], beside: str
) -> Callable[[Batches], Batches]:
    """What a task does with the number that it is given."""

    def read(numbers: Batches) -> Batches:
        acknowledge()
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from _read(source, tasks[number], Path(beside), number)

    return read


def _read(source: LogSource, slices: tuple[LogSlice, ...], beside: Path, number: int) -> Batches:
    expected = schema("commits")
    try:
        with ExitStack() as stack:
            files = {
                query: stack.enter_context(_File(beside / table, number, schema(query.dataset)))
                for table, query in _TABLES.items()
            }
            for query, batch in read_datasets(source, (_COMMITS, *files), slices):
                if query is _COMMITS:
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=expected)
                else:
                    files[query].write(batch)
    except CoterieError as error:
        raise error.with_traceback(None) from None


class _File:
    """A Parquet file that is there when it is whole, and not if it had no rows."""

    def __init__(self, directory: Path, number: int, columns: pa.Schema) -> None:
        self._path = directory / f"task-{number:05}.parquet"
        self._new = directory / f".task-{number:05}-{secrets.token_hex(4)}"
        self._columns = columns
        self._writer: pq.ParquetWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._new, self._columns, compression="zstd")
        self._writer.write_batch(batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
            if kind is None:
                self._new.replace(self._path)
            else:
                self._new.unlink()
