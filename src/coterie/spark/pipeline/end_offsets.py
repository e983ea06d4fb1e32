"""Histories of end offsets that came with segment files, as `coterie simulate` writes them.

Any `end_offsets/*.parquet` below the directory with the columns of the dataset; each file is taken once,
whatever its name, by its content.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coterie.errors import CoterieError
from coterie.spark.pipeline.catalog import Step
from coterie.spark.pipeline.compaction import write_day
from coterie.spark.pipeline.store import TableStore, check_version
from coterie.spark.pipeline.tables import raw_table

__all__ = ["import_end_offsets", "write_days"]

#: Without these a row says nothing.
_NEVER_NULL = ("taken_at", "topic", "partition", "log_end")


def import_end_offsets(store: TableStore, segments: Path) -> int:
    """Take histories that are not in the table yet; how many rows that gave."""
    table = raw_table("end_offsets")
    found = {_digest(path): path for path in sorted(segments.rglob("end_offsets/*.parquet"))}
    with store.write() as transaction:
        check_version(store, table)
        known = list(store.state(Step.END_OFFSETS).get("imported", []))
        new = {digest: path for digest, path in found.items() if digest not in known}
        if not new:
            return 0
        read = [_read(path, table.schema) for path in new.values()]
        write_days(transaction.directory(table.name), pa.concat_tables(read), table.name)
        rows = transaction.append(table.name, table.schema, table.version)
        transaction.remember(Step.END_OFFSETS, {"imported": [*known, *new]})
        transaction.commit()
    return rows


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        rows = pq.read_table(path, columns=schema.names).cast(schema)
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise CoterieError(f"{path} is no history of end offsets: {reason}") from None
    for name in _NEVER_NULL:
        if rows[name].null_count:
            raise CoterieError(f"{path} is no history of end offsets: a row has no {name}")
    return rows


def write_days(directory: Path, rows: pa.Table, name: str) -> None:
    """Write rows of a raw table, a file per day."""
    table = raw_table(name)
    days = pc.strftime(rows[table.day_of], "%Y-%m-%d")
    for day in sorted(pc.unique(days).to_pylist()):
        of_day = rows.filter(pc.equal(days, day))
        order = [(column, "ascending") for column in (*table.order, table.day_of)]
        unique = list(dict.fromkeys(order))
        write_day(directory, day, table, of_day.sort_by(unique).to_batches())
