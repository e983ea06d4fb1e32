"""compact: the same rows in fewer files, old days gone, and nothing to do the second time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from coterie.spark.pipeline.compaction import Compacted, compact
from coterie.spark.pipeline.store import TableStore
from tests.unit.spark.tables import START, append, rows_of


def test_small_files_of_a_day_become_one(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    for _ in range(3):
        append(store, day=0, rows=10)
        append(store, day=1, rows=1)
    before = rows_of(store)
    assert compact(store) == [Compacted("end_offsets", 6, 2, 0, 0)]
    assert rows_of(store) == before
    assert len(list(tmp_path.rglob("*.parquet"))) <= 2 + 6
    assert compact(store) == []
    append(store, day=1, rows=1)
    assert len(rows_of(store)) == len(before) + 1


def test_replaced_files_go_with_the_next_commit_but_one(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    for _ in range(4):
        append(store, day=0, rows=10)
    compact(store)
    append(store, day=2, rows=1)
    append(store, day=2, rows=1)
    assert {str(path) for path in tmp_path.rglob("*.parquet")} == set(store.paths("end_offsets"))


def test_retention_drops_whole_days(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    for day in range(5):
        append(store, day=day, rows=2)
    now = START + timedelta(days=4, hours=12)
    assert compact(store, retention=timedelta(days=2), now=now) == [
        Compacted("end_offsets", 5, 3, 4, 2)
    ]
    assert min(row["taken_at"] for row in rows_of(store)) == START + timedelta(days=2)


def test_large_files_are_left_alone(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    for _ in range(2):
        append(store, day=0, rows=1000)
    assert compact(store, target_bytes=100) == []
