"""Spark's settings while the pipeline works: what our files need, and what fits the number of rows.

Called by code that writes tables or queries many of them. The session may be a user's own, so its settings
are restored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from coterie.spark.pipeline.store import TableStore
from coterie.spark.pipeline.tables import RAW
from coterie.spark.quickstart import is_plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["has_few", "planning", "raw_rows", "writing"]

#: A file holds about this much before it is packed; a day of 10,000 groups is a handful of them.
_FILE_BYTES: Final = 256 * 1024 * 1024
#: How tables are written, whatever session we are given.
_WRITING: Final = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(_FILE_BYTES),
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.session.timeZone": "UTC",
}
#: Up to so many rows in all, planning and compiling take longer than the work. Half a million of them are
#: built in two thirds of the time that it takes with the settings for many.
_FEW_ROWS: Final = 500_000
#: For few rows. Adaptive execution runs each stage as a job of its own and plans the others again after it,
#: and compiling a stage takes a young JVM longer than interpreting its plan.
_FEW: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextmanager
def writing(spark: SparkSession, store: TableStore | None = None) -> Iterator[None]:
    """While tables are written; those that are made from the store's, if it is given."""
    few = _FEW if store is not None and has_few(store) else {}
    with _set(spark, {**_WRITING, **few}):
        yield


@contextmanager
def planning(spark: SparkSession, store: TableStore) -> Iterator[None]:
    """While tables of a store are asked."""
    with _set(spark, _FEW if has_few(store) else {}):
        yield


def has_few(store: TableStore) -> bool:
    """Whether a store has so few rows that planning takes longer than the work."""
    return raw_rows(store) <= _FEW_ROWS and not is_plain()


def raw_rows(store: TableStore) -> int:
    """How many rows marts are made from."""
    manifests = (store.manifest(name) for name in RAW)
    return sum(each.rows for each in manifests if each is not None)


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
