"""Tables as DataFrames, whatever the directory is called that they are in."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coterie.spark.pipeline.frames import append_raw, read_table
from coterie.spark.pipeline.store import TableStore
from coterie.spark.pipeline.tables import raw_table
from tests.unit.spark.tables import append


@pytest.mark.parametrize("name", ["[a-b]", "{a,b}", "a*", "a?", "a\\b", "a]}", "a b%20,#"])
def test_a_path_is_no_pattern(spark: SparkSession, tmp_path: Path, name: str) -> None:
    for other in ("a", "b", "ab"):  # what a pattern would find
        append(TableStore(tmp_path / other), day=0, rows=1)
    table = raw_table("end_offsets")
    store = TableStore(tmp_path / name)
    append(store, day=0, rows=3)
    with store.write() as transaction:
        append_raw(transaction, table, read_table(spark, store, table.name))
        transaction.commit()
    found = read_table(spark, store, table.name)
    assert found.columns == table.schema.names
    assert found.count() == 6
