"""`build`: every mart made anew from the raw tables, as of the newest moment in them, and committed together.

A mart is written before those that are made from it, and they read it from there: nothing is computed twice,
and what does not fit into memory spills. Marts of few rows are made side by side: each is many short stages
of one task, between which Spark plans. Without new rows the same marts come out.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import TypeVar

import pyarrow.parquet as pq
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

from coterie.spark.marts import MARTS, Mart
from coterie.spark.pipeline.frames import literal, must_be_shared, read_table, replace_mart
from coterie.spark.pipeline.gaps import GAPS, known_gaps
from coterie.spark.pipeline.last_build import remember_build
from coterie.spark.pipeline.progress import Progress
from coterie.spark.pipeline.settings import has_few, writing
from coterie.spark.pipeline.store import TableStore, Transaction
from coterie.spark.pipeline.tables import MART_VERSION, RAW, RawTable

__all__ = ["build", "inputs", "newest_moment", "side_by_side"]

T = TypeVar("T")

#: What a snapshot says of groups.
_OF_GROUPS = frozenset({"groups", "members", "assignments", "offsets"})


def build(
    spark: SparkSession, store: TableStore, progress: Progress | None = None
) -> dict[str, int]:
    """Make all marts; the rows of each."""
    progress = progress or Progress(quiet=True)
    with store.write() as transaction, writing(spark, store):
        must_be_shared(spark, store.root)
        as_of = newest_moment(store)

        def make(mart: Mart) -> int:
            frame = mart.make(**inputs(spark, transaction, mart.needs), as_of=as_of)
            return replace_mart(transaction, mart.name, frame, MART_VERSION)

        if has_few(store):
            with progress.step("Making marts"):
                rows = side_by_side(make)
        else:
            rows = _in_turn(make, progress)
        with progress.step("Committing"):
            remember_build(transaction, as_of, rows)
            transaction.commit()
    return rows


def _in_turn(make: Callable[[Mart], int], progress: Progress) -> dict[str, int]:
    rows = {}
    for mart in MARTS.values():
        with progress.step(f"Making {mart.name.replace('_', ' ')}"):
            rows[mart.name] = make(mart)
    return rows


def side_by_side(make: Callable[[Mart], T]) -> dict[str, T]:
    """Make all marts, each in a thread that waits for those that it needs, and fails if one of them does."""
    made: dict[str, Future[T]] = {name: Future() for name in MARTS}

    def work(mart: Mart) -> None:
        try:
            for need in mart.needs:
                if need in made:
                    made[need].result()
            made[mart.name].set_result(make(mart))
        except BaseException as error:  # noqa: BLE001  (raised where it is waited for)
            made[mart.name].set_exception(error)

    threads = [InheritableThread(work, args=(mart,), daemon=True) for mart in MARTS.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {name: future.result() for name, future in made.items()}


def newest_moment(store: TableStore) -> datetime | None:
    """The newest time in any raw table, which is what marts call now; read from the footers of files."""
    newest = [_newest(path, table) for table in RAW.values() for path in store.paths(table.name)]
    return max((each for each in newest if each is not None), default=None)


def _newest(path: str, table: RawTable) -> datetime | None:
    footer = pq.read_metadata(path)
    column = footer.schema.to_arrow_schema().get_field_index(table.day_of)
    found = []
    for group in range(footer.num_row_groups):
        statistics = footer.row_group(group).column(column).statistics
        if statistics is not None and statistics.has_min_max:
            found.append(statistics.max.replace(tzinfo=UTC))
    return max(found, default=None)


def inputs(
    spark: SparkSession, transaction: Transaction, needs: tuple[str, ...]
) -> dict[str, DataFrame | None]:
    """What a mart is made from. One at least is there, if without rows: a mart asks it for the session."""
    found = {need: _input(spark, transaction, need) for need in needs}
    if all(frame is None for frame in found.values()):
        found[needs[0]] = read_table(spark, transaction.store, needs[0])
    return found


def _input(spark: SparkSession, transaction: Transaction, name: str) -> DataFrame | None:
    """A raw table, gaps, or a mart that was just made; None for a table that never had rows."""
    if name == GAPS:
        return read_table(spark, transaction.store, name) if known_gaps(transaction.store) else None
    if name in RAW:
        manifest = transaction.store.manifest(name)
        if manifest is None or not manifest.rows:
            return None
        frame = read_table(spark, transaction.store, name)
        nobody = transaction.store.state("snapshots").get("newest_groups") == 0
        # The newest snapshot, which has no row to say so: an older one must not speak in its place.
        return frame.where("false") if nobody and name in _OF_GROUPS else frame
    return spark.read.schema(MARTS[name].schema).parquet(literal(transaction.directory(name)))
