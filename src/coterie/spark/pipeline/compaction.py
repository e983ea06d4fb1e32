"""`compact`: many small files of a day become one, and days that are too old go. No Spark, no JVM.

Rows are not changed. Old files stay until the next writer, because a reader may have them open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from coterie.spark.pipeline.catalog import DataFile
from coterie.spark.pipeline.store import TableStore, Transaction
from coterie.spark.pipeline.tables import RAW, RawTable
from coterie.spark.pipeline.versions import check_version

__all__ = ["TARGET_BYTES", "Compacted", "compact", "write_day"]

#: Files are joined until they are about this large.
TARGET_BYTES = 256 * 1024 * 1024
_ROWS_PER_GROUP = 1 << 19


@dataclass(frozen=True)
class Compacted:
    """What became of a table."""

    table: str
    files_before: int
    files_after: int
    rows_dropped: int
    days_dropped: int


def compact(
    store: TableStore,
    *,
    retention: timedelta | None = None,
    target_bytes: int = TARGET_BYTES,
    now: datetime | None = None,
) -> list[Compacted]:
    """Join small files, drop days older than `retention`; nothing is written where nothing changes."""
    oldest = "" if retention is None else f"{(now or datetime.now(UTC)) - retention:%Y-%m-%d}"
    done = []
    with store.write() as transaction:
        for table in RAW.values():
            check_version(store, table)
            result = _compact_table(transaction, table, oldest, target_bytes)
            if result is not None:
                done.append(result)
        if done:
            transaction.commit()
    return done


def _compact_table(
    transaction: Transaction, table: RawTable, oldest: str, target_bytes: int
) -> Compacted | None:
    manifest = transaction.store.manifest(table.name)
    if manifest is None:
        return None
    old = [file for file in manifest.files if file.day and file.day < oldest]
    kept = [file for file in manifest.files if file not in old]
    by_day: defaultdict[str, list[DataFile]] = defaultdict(list)
    for file in kept:
        by_day[file.day].append(file)
    stay: list[DataFile] = []
    joined = 0
    for day, files in sorted(by_day.items()):
        small = [file for file in files if file.bytes < target_bytes // 2]
        if len(small) < 2:  # noqa: PLR2004  (one file is as joined as can be)
            stay += files
            continue
        stay += [file for file in files if file not in small]
        joined += _join(transaction, table, day, small, target_bytes)
    if not joined and not old:
        return None
    transaction.keep_only(table.name, tuple(stay))
    return Compacted(
        table.name,
        len(manifest.files),
        len(stay) + joined,
        sum(file.rows for file in old),
        len({file.day for file in old}),
    )


def _join(
    transaction: Transaction,
    table: RawTable,
    day: str,
    files: Sequence[DataFile],
    target_bytes: int,
) -> int:
    """Write the rows of some files into as few as the target allows; how many those are."""
    root = transaction.store.root / table.name
    total = sum(file.bytes for file in files)
    number = max(1, round(total / target_bytes))
    rows_each = -(-sum(file.rows for file in files) // number)
    paths = [str(root / file.path) for file in files]
    rows = ds.dataset(paths, schema=table.schema, format="parquet").to_batches()
    return write_day(transaction.directory(table.name), day, table, rows, rows_each)


def write_day(
    directory: Path,
    day: str,
    table: RawTable,
    batches: Iterable[pa.RecordBatch],
    rows_each: int = 1 << 62,
) -> int:
    """Write rows of one day as Parquet files; how many files."""
    place = directory / f"day={day}" if day else directory
    place.mkdir(parents=True, exist_ok=True)
    writer: pq.ParquetWriter | None = None
    written = number = 0
    try:
        for batch in batches:
            if writer is None or written >= rows_each:
                if writer is not None:
                    writer.close()
                number += 1
                written = 0
                path = place / f"part-{number:05}.parquet"
                writer = pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_batch(batch, row_group_size=_ROWS_PER_GROUP)
            written += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    return number
