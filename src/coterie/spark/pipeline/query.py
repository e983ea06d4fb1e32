"""`sql`: a query over all tables of a store, with values bound by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from coterie.errors import CoterieError
from coterie.spark.pipeline.frames import register_views
from coterie.spark.pipeline.store import TableStore

__all__ = ["run_query"]


def run_query(
    spark: SparkSession,
    store: TableStore,
    text: str,
    parameters: Mapping[str, object] | None = None,
    limit: int | None = None,
) -> tuple[list[str], list[Sequence[object]]]:
    """Column names and rows. Values come in by `:name`, never by pasting them into the text."""
    store.must_exist()
    names = register_views(spark, store, text)
    try:
        frame = spark.sql(text, args=dict(parameters or {}))
        if limit is not None:
            frame = frame.limit(limit)
        table = frame.toArrow()
    except PySparkException as error:
        raise CoterieError(_sentence(error, names)) from None
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return list(table.column_names), [tuple(row) for row in rows]


def _sentence(error: PySparkException, names: Sequence[str]) -> str:
    """Spark's first sentence, which names the trouble; and the tables, if one was not found."""
    first = str(error).strip().splitlines()[0]
    if "TABLE_OR_VIEW_NOT_FOUND" in first:
        return f"{first.split(' Verify')[0]} There are: {', '.join(names)}"
    return first
