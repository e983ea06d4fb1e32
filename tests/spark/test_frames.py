"""Tables as DataFrames, whatever the directory is called that they are in; and columns that cost one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own custom)

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


def test_classes_are_looked_up_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark would ask the JVM where they are at every column, and it looks through all of its jars."""
    F.col("a")  # with the first one it asks whether it is to remember the line
    asked: list[str] = []
    gateway: Any = spark.sparkContext._gateway
    client = gateway._gateway_client
    send = client.send_command

    def listening(command: str, *rest: Any, **named: Any) -> Any:
        asked.append(command)
        return send(command, *rest, **named)

    monkeypatch.setattr(client, "send_command", listening)
    F.when(F.col("a").isin("b", "c"), F.lit(1))
    assert asked
    assert not [command for command in asked if command.startswith("r\n")]
