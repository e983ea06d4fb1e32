"""Rows for stores in tests, made without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.spark.pipeline.compaction import write_day
from coterie.spark.pipeline.end_offsets import write_days
from coterie.spark.pipeline.store import TableStore
from coterie.spark.pipeline.tables import raw_table

START = datetime(2026, 3, 1, tzinfo=UTC)


def end_offsets(day: int, rows: int) -> pa.Table:
    """Some rows of the table end_offsets, all of one day."""
    table = raw_table("end_offsets")
    at = START + timedelta(days=day)
    made: list[dict[str, Any]] = [
        {"taken_at": at, "topic": "orders", "partition": n, "log_start": 0, "log_end": n}
        for n in range(rows)
    ]
    return pa.Table.from_pylist(made, schema=table.schema)


def append(store: TableStore, day: int, rows: int, **state: Any) -> None:
    """Commit some rows, and maybe what a step remembers."""
    table = raw_table("end_offsets")
    with store.write() as transaction:
        name = f"{START + timedelta(days=day):%Y-%m-%d}"
        batches = end_offsets(day, rows).to_batches()
        write_day(transaction.directory(table.name), name, table, batches)
        transaction.append(table.name, table.schema, table.version)
        for step, value in state.items():
            transaction.remember(step, value)
        transaction.commit()


def append_log(store: TableStore, name: str, rows: list[dict[str, Any]], below: str = "") -> None:
    """Commit rows of a table of the log; each needs `day` and `offset`, what else it lacks is null."""
    table = raw_table(name)
    defaults = {"partition": 0, "tombstone": False}
    made = [
        {**defaults, **row, "timestamp": START + timedelta(days=row["day"], seconds=row["offset"])}
        for row in rows
    ]
    with store.write() as transaction:
        found = pa.Table.from_pylist(made, schema=table.schema)
        write_days(transaction.directory(name) / below, found, name)
        transaction.append(name, table.schema, table.version)
        transaction.commit()


def rows_of(store: TableStore, table: str = "end_offsets") -> list[dict[str, Any]]:
    """All rows of a table, in an order that does not depend on files."""
    found = [row for path in store.paths(table) for row in pq.read_table(path).to_pylist()]
    return sorted(found, key=lambda row: tuple(str(value) for value in row.values()))
