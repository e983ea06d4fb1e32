"""The steps of a command, one after the other, with a line for people after each.

One Spark session for all of them, started when the first one needs it. Called by coterie.cli.pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from coterie.console.progress import StepProgress
from coterie.console.terminal import note
from coterie.errors import CoterieError, InvalidArgument
from coterie.safe_text import shown
from coterie.spark.pipeline.compaction import compact
from coterie.spark.pipeline.end_offsets import import_end_offsets
from coterie.spark.pipeline.origin import ClusterOrigin, SegmentOrigin, known_cluster_id
from coterie.spark.pipeline.settings import raw_rows
from coterie.spark.pipeline.snapshot import snapshot
from coterie.spark.pipeline.store import TableStore
from coterie.spark.quickstart.session import Starting, pipeline_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from coterie.spark.pipeline.ingest import Ingested

__all__ = ["Steps"]

Source = Path | dict[str, str]


class Steps:
    """What `coterie pipeline` does to the tables in a directory."""

    def __init__(
        self,
        out: Path,
        *,
        strict: bool = False,
        master: str | None = None,
        driver_memory: str | None = None,
        verbose: bool = False,
    ) -> None:
        self.store = TableStore(out)
        self.progress = StepProgress(quiet=verbose)
        self._strict = strict
        self._start = partial(Starting, master=master, memory=driver_memory, verbose=verbose)
        self._starting: Starting | None = None
        self._stack = ExitStack()
        self._spark: SparkSession | None = None
        #: Remembers where the log ends, from when Spark was started until it is read.
        self._origin: tuple[Source, SegmentOrigin | ClusterOrigin] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)

    def start_spark(self, source: Source | None = None) -> Starting:
        """Start it, without waiting: a JVM needs a second before it can be asked anything.

        `source` is what is going to be read. A directory without segments is told before Spark starts.
        """
        if self._starting is None:
            to_read = 0 if source is None else self._origin_of(source).records()
            self._starting = self._start(rows=raw_rows(self.store) + to_read)
            self._stack.callback(self._starting.cancel)
        return self._starting

    def _origin_of(self, source: Source) -> SegmentOrigin | ClusterOrigin:
        if self._origin is None or self._origin[0] != source:
            made = SegmentOrigin(source) if isinstance(source, Path) else ClusterOrigin(source)
            self._origin = (source, made)
        return self._origin[1]

    @property
    def spark(self) -> SparkSession:
        if self._spark is None:
            session = pipeline_session(self.progress, self.start_spark())
            self._spark = self._stack.enter_context(session)
            self.store.refresh()  # others may have committed meanwhile
        return self._spark

    def snapshot(self, properties: Mapping[str, str], snapshot_id: str | None) -> None:
        self._origin = None  # the log is read at least as far as the snapshot has seen
        taken = snapshot(
            self.store,
            properties,
            snapshot_id=snapshot_id,
            strict=self._strict,
            progress=self.progress,
        )
        if not taken.is_new:
            click.echo(f"snapshot {taken.snapshot_id} was taken before, at {taken.taken_at}")
            return
        for sentence in taken.errors:
            _warn(f"not in the snapshot: {sentence}")
        counts = ", ".join(f"{rows:,} {name}" for name, rows in taken.rows.items() if rows)
        click.echo(f"snapshot {taken.snapshot_id}: {counts or 'no groups'}")

    def ingest(self, source: Source) -> None:
        if isinstance(source, Path) and source.absolute() == self.store.root:
            raise CoterieError(
                f"--out and --segments are both {source}; choose another --out: tables are no part"
                " of a log"
            )
        self.start_spark(source)
        spark = self.spark
        from coterie.spark.pipeline.ingest import ingest

        origin = self._origin_of(source)
        done = ingest(spark, self.store, origin, self.progress, strict=self._strict)
        _tell_gaps(done)
        counts = ", ".join(f"{rows:,} {name.replace('_', ' ')}" for name, rows in done.rows.items())
        click.echo(f"log: {counts if done.records else 'nothing new'}")
        # After the log, which is refused if it is another one.
        samples = import_end_offsets(self.store, source) if isinstance(source, Path) else 0
        if samples:
            click.echo(f"end offsets: {samples:,} samples")

    def build(self) -> None:
        self.store.must_exist()
        spark = self.spark
        from coterie.spark.pipeline.build import build

        done = build(spark, self.store, self.progress)
        counts = ", ".join(f"{rows:,} {name.replace('_', ' ')}" for name, rows in done.items())
        click.echo(f"marts: {counts}")

    def report(self, to: Path | None) -> None:
        self.store.must_exist()
        spark = self.spark
        from coterie.spark.pipeline.report.write import write_report

        with self.progress.step("Writing the report"):
            path = write_report(spark, self.store, to or self.store.root / "report")
        click.echo(f"report: {path}")

    def sql(
        self, query: str, parameters: Mapping[str, str], limit: int | None
    ) -> tuple[list[str], list[Sequence[object]]]:
        self.store.must_exist()
        spark = self.spark
        from coterie.spark.pipeline.query import run_query

        with self.progress.step("Asking"):
            return run_query(spark, self.store, query, parameters, limit)

    def plan(self, to: Path, idle: timedelta) -> None:
        """Write a plan to delete stale groups; without an idle time, all that the mart has."""
        from coterie.spark.marts.stale import IDLE, delete_plan

        if timedelta() < idle < IDLE:
            raise InvalidArgument(
                "--idle is too short: stale_groups has only groups that were idle for a day; give it"
                " 1d or more"
            )
        self.store.must_exist()
        spark = self.spark
        from coterie.spark.pipeline.frames import read_table

        stale = read_table(spark, self.store, "stale_groups")
        stale = stale.where(stale.idle_seconds >= idle.total_seconds())
        lag = read_table(spark, self.store, "lag")
        plan = delete_plan(stale, lag, cluster_id=known_cluster_id(self.store))
        plan.save(to)
        click.echo(
            f"{to}: {len(plan.groups):,} groups; check it, then run `coterie groups delete --plan {to}`"
        )

    def compact(self, retention: timedelta | None) -> None:
        self.store.must_exist()
        done = compact(self.store, retention=retention)
        for each in done:
            dropped = f", {each.rows_dropped:,} rows of {each.days_dropped} days dropped"
            click.echo(
                f"{each.table}: {each.files_before} files are {each.files_after} now"
                f"{dropped if each.days_dropped else ''}"
            )
        if not done:
            click.echo("nothing to do")


def _tell_gaps(done: Ingested) -> None:
    """What of the log is not in the tables, and whether it will be."""
    for gap in done.gaps:
        if gap.kind != "lost" or gap.partition in done.lost:  # what was lost earlier was told then
            _warn(gap.sentence)


def _warn(sentence: str) -> None:
    # Names of groups come from anyone who can connect to the cluster.
    note(f"Warning: {shown(sentence)}")
