"""Between DataFrames and the table store: few files out, what the catalog names in, and views for SQL.

Called by every step that has a Spark session.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own custom)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from coterie.datasets.schemas import arrow_schema
from coterie.errors import CoterieError
from coterie.spark.marts import schema_of
from coterie.spark.pipeline.catalog import Step
from coterie.spark.pipeline.gaps import GAPS, table_of_gaps
from coterie.spark.pipeline.settings import has_few, writing
from coterie.spark.pipeline.store import TableStore, Transaction, check_mart, check_version, lock_of
from coterie.spark.pipeline.tables import RAW, RawTable
from coterie.vocabulary.datasets import LAST_BUILD as DECLARED
from coterie.vocabulary.marts import MARTS

__all__ = [
    "LAST_BUILD",
    "append_raw",
    "literal",
    "must_be_shared",
    "read_table",
    "register_views",
    "remember_build",
    "replace_mart",
    "spark_schema",
    "table_of_last_build",
]

#: The table with the moment that the marts describe, which is known even if every mart is empty.
LAST_BUILD: Final = DECLARED.name


def spark_schema(schema: pa.Schema) -> StructType:
    """An Arrow schema in Spark's words."""
    return from_arrow_schema(schema)


def literal(path: Path | str) -> str:
    """A path that Spark is to read: its signs stand for themselves, and are no pattern of Hadoop's."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", str(path))


def must_be_shared(spark: SparkSession, root: Path) -> None:
    """Raise unless executors see what we have written to a directory.

    Files that executors write to a directory of their own machine would be lost without an error. The lock of
    a store that is being written has our process id: an executor that reads another has another directory.
    """
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        return
    tasks = 2 * context.defaultParallelism
    found = (
        context.parallelize(range(tasks), tasks).map(_content_seen(str(lock_of(root)))).collect()
    )
    wrong = sorted({host for host, content in found if content != lock_of(root).read_bytes()})
    if wrong:
        raise CoterieError(
            f"--out {root} is not the same directory on {', '.join(wrong)} as here; choose one that"
            " this machine and all executors share"
        )


def _content_seen(path: str) -> Callable[[int], tuple[str, bytes | None]]:
    """A task: the name of its machine, and what is in a file there. It is sent whole, and imports nothing."""

    def seen(_: int) -> tuple[str, bytes | None]:
        import socket
        from pathlib import Path

        try:
            return socket.gethostname(), Path(path).read_bytes()
        except OSError:
            return socket.gethostname(), None

    return seen


def append_raw(transaction: Transaction, table: RawTable, frame: DataFrame, below: str = "") -> int:
    """Write rows as new files of a raw table, by day; how many there are by now."""
    day = F.date_format(F.col(table.day_of), "yyyy-MM-dd")
    whole = frame.select(*table.schema.names).withColumn("day", day)
    # REBALANCE lets Spark join small partitions of a day and split large ones, by what is really there.
    with writing(frame.sparkSession):
        rows = whole.hint("rebalance", "day").sortWithinPartitions("day", *table.order)
        rows.write.partitionBy("day").parquet(str(transaction.directory(table.name) / below))
    return transaction.append(table.name, table.schema, table.version)


def replace_mart(transaction: Transaction, name: str, frame: DataFrame, version: int) -> int:
    """Write a mart anew, with the settings for `writing`; how many rows it has."""
    # Only adaptive execution rebalances; few rows are planned without it.
    whole = frame.coalesce(1) if has_few(transaction.store) else frame.hint("rebalance")
    whole.write.parquet(str(transaction.directory(name)))
    schema = _written_schema(transaction, name)
    return transaction.replace(name, schema, version)


def _written_schema(transaction: Transaction, name: str) -> pa.Schema:
    for path in sorted(transaction.directory(name).glob("*.parquet")):
        return pq.read_schema(path).remove_metadata()
    raise CoterieError(
        f"Spark wrote no file under {transaction.directory(name)};"
        " --out must be a directory that this machine and all executors share"
    )


def read_table(spark: SparkSession, store: TableStore, name: str) -> DataFrame:
    """A table as it was last committed; a raw table that was never written is empty."""
    if name == GAPS:
        return spark.createDataFrame(table_of_gaps(store))
    if name == LAST_BUILD:
        return spark.createDataFrame(table_of_last_build(store))
    table = RAW.get(name)
    paths = [literal(path) for path in store.paths(name)]
    if table is None:
        check_mart(store, name)
        return spark.read.schema(schema_of(MARTS[name].columns)).parquet(*paths)
    check_version(store, table)
    schema = spark_schema(table.schema)
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*paths)


def register_views(spark: SparkSession, store: TableStore, text: str) -> list[str]:
    """Views for the tables that are named in some SQL; the names of all that could be."""
    names = sorted({*RAW, GAPS, LAST_BUILD, *(name for name in store.tables if name in MARTS)})
    for name in names:
        if re.search(rf"\b{name}\b", text, re.IGNORECASE):
            read_table(spark, store, name).createOrReplaceTempView(name)
    return names


def remember_build(transaction: Transaction, as_of: datetime | None, rows: dict[str, int]) -> None:
    """Store the moment of a build, and the number of rows of each mart, with its commit."""
    state = {"as_of": None if as_of is None else as_of.isoformat(), "rows": rows}
    transaction.remember(Step.BUILD, state)


def table_of_last_build(store: TableStore) -> pa.Table:
    """One row with the moment; no row if there was no build, or nothing to build from."""
    as_of = store.state(Step.BUILD).get("as_of")
    rows = [] if as_of is None else [{"as_of": datetime.fromisoformat(as_of)}]
    return pa.Table.from_pylist(rows, schema=arrow_schema(DECLARED.columns))
