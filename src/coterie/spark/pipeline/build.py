"""`build`: make every mart again from the raw tables, as of the newest time in them, and commit all of them.

A mart is written before those that are made from it, and they read its files: nothing is computed twice, and
what does not fit into memory spills. Marts of few rows are made in parallel, because each is many short
stages of one task, between which Spark plans. Without new rows the marts come out the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import TypeVar

import pyarrow.parquet as pq
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

from coterie.console.progress import StepProgress
from coterie.spark.marts import Inputs, dependencies, make, schema_of
from coterie.spark.pipeline.catalog import Step
from coterie.spark.pipeline.frames import (
    literal,
    must_be_shared,
    read_table,
    remember_build,
    replace_mart,
)
from coterie.spark.pipeline.gaps import GAPS
from coterie.spark.pipeline.settings import has_few, writing
from coterie.spark.pipeline.store import TableStore, Transaction
from coterie.spark.pipeline.tables import MART_VERSION, RAW, RawTable
from coterie.vocabulary.marts import MARTS

__all__ = ["build", "inputs_of", "newest_moment", "side_by_side"]

T = TypeVar("T")

#: What a snapshot says of groups.
_OF_GROUPS = frozenset({"groups", "members", "assignments", "offsets"})


def build(
    spark: SparkSession, store: TableStore, progress: StepProgress | None = None
) -> dict[str, int]:
    """Make all marts; the rows of each."""
    progress = progress or StepProgress(quiet=True)
    with store.write() as transaction, writing(spark, store):
        must_be_shared(spark, store.root)
        as_of = newest_moment(store)

        def make_table(name: str) -> int:
            frame = make(name, inputs_of(spark, transaction, MARTS[name].needs, as_of))
            return replace_mart(transaction, name, frame, MART_VERSION)

        if has_few(store):
            with progress.step("Making marts"):
                rows = side_by_side(make_table)
        else:
            rows = _in_turn(make_table, progress)
        with progress.step("Committing"):
            remember_build(transaction, as_of, rows)
            transaction.commit()
    return rows


def _in_turn(make_table: Callable[[str], int], progress: StepProgress) -> dict[str, int]:
    rows = {}
    for name in dependencies().static_order():
        with progress.step(f"Making {name.replace('_', ' ')}"):
            rows[name] = make_table(name)
    return {name: rows[name] for name in MARTS}


def side_by_side(make_table: Callable[[str], T]) -> dict[str, T]:
    """Make each mart in a thread of its own as soon as those that it needs are made.

    After a failure no more are begun, and the first one is raised when those that were begun have ended.
    """
    order, made, ended = dependencies(), dict[str, Future[T]](), SimpleQueue[str]()

    def work(name: str) -> None:
        try:
            made[name].set_result(make_table(name))
        except BaseException as error:  # noqa: BLE001  (raised where the result is read)
            made[name].set_exception(error)
        ended.put(name)

    order.prepare()
    running = failed = 0
    while order.is_active():
        for name in () if failed else order.get_ready():
            made[name] = Future()
            InheritableThread(work, args=(name,), daemon=True).start()
            running += 1
        if not running:
            break
        name = ended.get()
        running -= 1
        failed += made[name].exception() is not None
        order.done(name)
    return {name: made[name].result() for name in MARTS if name in made}


def newest_moment(store: TableStore) -> datetime | None:
    """The newest time in any raw table, read from the footers of files."""
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


def inputs_of(
    spark: SparkSession,
    transaction: Transaction,
    names: Iterable[str],
    as_of: datetime | None = None,
) -> Inputs:
    """These tables, as a mart is made from them: raw ones that have rows, gaps, and marts just made."""
    found = {name: _input(spark, transaction, name) for name in names}
    tables = {name: frame for name, frame in found.items() if frame is not None}
    return Inputs.of(spark, tables, as_of)


def _input(spark: SparkSession, transaction: Transaction, name: str) -> DataFrame | None:
    """A table; None for a raw table that never had rows."""
    if name == GAPS:
        return read_table(spark, transaction.store, name)
    if name in MARTS:
        path = literal(transaction.directory(name))
        return spark.read.schema(schema_of(MARTS[name].columns)).parquet(path)
    manifest = transaction.store.manifest(name)
    if manifest is None or not manifest.rows:
        return None
    frame = read_table(spark, transaction.store, name)
    is_empty = transaction.store.state(Step.SNAPSHOTS).get("newest_groups") == 0
    # The newest snapshot has no row to say that it is the newest, so older ones must not be read.
    return frame.where("false") if is_empty and name in _OF_GROUPS else frame
