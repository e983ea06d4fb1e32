"""The tables that marts are made from, the moment that marts describe, and what many marts compute from both.

A cluster whose log cannot be read has snapshots only; a copied disk has the log only. A dataset that is
missing has no rows, and the columns that would come from it are null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import TypeVar

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from coterie.datasets.schemas import arrow_schema, stored_schema
from coterie.errors import InvalidArgument
from coterie.vocabulary.columns import Column as Described
from coterie.vocabulary.datasets import GAPS
from coterie.vocabulary.marts import MARTS

__all__ = [
    "Inputs",
    "Moment",
    "about_members",
    "about_whole_groups",
    "at_least_zero",
    "at_moment",
    "conform",
    "end_offset_history",
    "lag_between",
    "latest",
    "latest_of_groups",
    "latest_snapshot",
    "schema_of",
    "seconds",
    "settled_commits",
    "with_known_until",
]

#: The column that says when a row was true. Datasets of snapshots have `taken_at` and `snapshot_id`.
_TIMES = {
    "commits": "timestamp",
    "group_events": "timestamp",
    "end_offsets": "taken_at",
    "groups": "taken_at",
    "members": "taken_at",
    "assignments": "taken_at",
    "offsets": "taken_at",
    "errors": "taken_at",
}
_SNAPSHOTS = frozenset({"groups", "members", "assignments", "offsets", "errors"})
_MICROSECOND = datetime.resolution
T = TypeVar("T")
#: A time that is known, or a frame of one row with the column `as_of`.
Moment = Column | DataFrame


@dataclass(frozen=True)
class Inputs:
    """Datasets, `gaps` and marts by name, and the moment that a mart made from them describes."""

    spark: SparkSession
    tables: Mapping[str, DataFrame]
    #: Rows of datasets that are newer are left out; None keeps all rows.
    as_of: datetime | None
    #: `as_of`, or the newest time in the datasets.
    now: Moment

    @classmethod
    def of(
        cls, spark: SparkSession, tables: Mapping[str, DataFrame], as_of: datetime | None = None
    ) -> Inputs:
        known = {name: _with_snapshot_columns(name, frame) for name, frame in tables.items()}
        now = _newest(known) if as_of is None else _literal(as_of)
        return cls(spark, known, as_of, now)

    def only(self, names: Iterable[str]) -> Inputs:
        """These tables alone, of the same moment."""
        found = {name: self.tables[name] for name in names if name in self.tables}
        return Inputs(self.spark, found, self.as_of, self.now)

    def plus(self, name: str, mart: DataFrame) -> Inputs:
        """These tables and a mart that was made from them."""
        return Inputs(self.spark, {**self.tables, name: mart}, self.as_of, self.now)

    def __contains__(self, name: str) -> bool:
        """Whether a dataset is there, with or without rows."""
        return name in self.tables

    def get(self, name: str, default: T) -> DataFrame | T:
        """A mart, or the rows of a dataset up to the moment; the default if it is missing."""
        if name not in self.tables:
            return default
        frame, time = self.tables[name], _TIMES.get(name)
        if time is None or self.as_of is None:
            return frame
        return frame.where(F.col(time) <= _literal(self.as_of))

    def __getitem__(self, name: str) -> DataFrame:
        """The same, or no rows if a dataset is missing."""
        if name in self.tables:
            return self.get(name, self.tables[name])
        if name in MARTS:
            raise KeyError(name)
        columns = arrow_schema(GAPS.columns) if name == GAPS.name else stored_schema(name)
        # From Arrow, because Spark then knows that the frame is empty and plans no work for it.
        return self.spark.createDataFrame(columns.empty_table())


def _with_snapshot_columns(name: str, frame: DataFrame) -> DataFrame:
    """A dataset that was just read from a cluster is a snapshot of now."""
    if name not in _SNAPSHOTS or "taken_at" in frame.columns:
        return frame
    identity = F.lit(None).cast("string").alias("snapshot_id")
    return frame.select(identity, F.current_timestamp().alias("taken_at"), "*")


def _newest(tables: Mapping[str, DataFrame]) -> Moment:
    """The newest time in the datasets; null if there is none."""
    times = [
        frame.agg(F.max(_TIMES[name]).alias("as_of"))
        for name, frame in tables.items()
        if name in _TIMES
    ]
    if not times:
        return F.lit(None).cast("timestamp")
    return reduce(DataFrame.unionByName, times).agg(F.max("as_of").alias("as_of"))


def _literal(as_of: datetime) -> Column:
    if as_of.tzinfo is None:
        raise InvalidArgument(f"as_of {as_of} has no time zone: give it one, such as UTC")
    micros = (as_of - datetime(1970, 1, 1, tzinfo=UTC)) // _MICROSECOND
    return F.timestamp_micros(F.lit(micros))


def schema_of(columns: tuple[Described, ...]) -> StructType:
    """The schema of Spark for declared columns."""
    ddl = ", ".join(f"`{column.name}` {column.type}" for column in columns)
    found = StructType.fromDDL(ddl)
    if not isinstance(found, StructType):
        raise TypeError(f"{ddl} is not a list of columns")
    return found


def conform(frame: DataFrame, mart: str) -> DataFrame:
    """Exactly the columns of a mart, in their order, as their types."""
    columns = MARTS[mart].columns
    return frame.select([F.col(each.name).cast(each.type).alias(each.name) for each in columns])


def at_moment(frame: DataFrame, now: Moment) -> DataFrame:
    """Every row with the moment as its `as_of`. One that is known needs no join, and so no job of Spark."""
    if isinstance(now, Column):
        return frame.withColumn("as_of", now)
    return frame.crossJoin(F.broadcast(now))


def latest_snapshot(frame: DataFrame, groups: DataFrame | None = None) -> DataFrame:
    """The rows of the newest snapshot.

    `groups`, if it is given, decides which snapshot is the newest: a snapshot without members has no rows in
    `members`, and the members of an older snapshot must not replace them.
    """
    reference = frame if groups is None else groups
    newest = reference.agg(F.max("taken_at").alias("newest"))
    return frame.join(F.broadcast(newest), F.col("taken_at") == F.col("newest")).drop("newest")


def settled_commits(commits: DataFrame) -> DataFrame:
    """Commits that count: those of open and aborted transactions do not."""
    return commits.where(F.col("outcome").isNull() | (F.col("outcome") == "committed"))


def with_known_until(found: DataFrame, gaps: DataFrame, *logs: DataFrame) -> DataFrame:
    """Groups with `known_until`, the time up to which their part of the log was read; null if all of it was.

    `gaps` has the partitions of the log that could not be read to their end, `logs` the groups in them.
    """
    short = gaps.where(F.col("kind").isin("waiting", "failed"))
    places = [log.select("group_id", "partition") for log in logs]
    known = (
        reduce(DataFrame.unionAll, places)
        .distinct()
        .join(F.broadcast(short), "partition")
        .groupBy("group_id")
        .agg(F.min("read_until").alias("known_until"))
    )
    return found.join(known, "group_id", "left")


def end_offset_history(inputs: Inputs) -> DataFrame:
    """Starts and ends of logs over time: samples (`end_offsets`), and what snapshots of `offsets` saw.

    A snapshot takes both, seconds apart, and Burrow counts samples. So the rows of `offsets` are only used
    for partitions without samples, and after the last sample of a partition.
    """
    columns = ["taken_at", "topic", "partition", "log_start", "log_end"]
    sampled = inputs["end_offsets"].select(columns)
    if "offsets" not in inputs:
        return sampled
    # Groups of one snapshot are described one after another, so their ends may differ.
    seen = (
        inputs["offsets"]
        .where(F.col("log_end").isNotNull())
        .groupBy("taken_at", "topic", "partition")
        .agg(F.max("log_start").alias("log_start"), F.max("log_end").alias("log_end"))
    )
    if "end_offsets" not in inputs:
        return seen.select(columns)
    both = sampled.select(*columns, F.lit(True).alias("sampled")).unionByName(
        seen.select(*columns, F.lit(False).alias("sampled"))
    )
    last = F.max(F.when(F.col("sampled"), F.col("taken_at"))).over(
        Window.partitionBy("topic", "partition")
    )
    later = F.coalesce(F.col("taken_at") > F.col("last_sampled"), F.lit(True))
    return both.withColumn("last_sampled", last).where(F.col("sampled") | later).select(columns)


def seconds(later: Column, earlier: Column) -> Column:
    """Seconds between two times, with fractions; never negative, and null if one is not known."""
    return at_least_zero(F.unix_micros(later) - F.unix_micros(earlier)) / F.lit(1e6)


def lag_between(committed_offset: Column, log_end: Column) -> Column:
    """The lag of a partition, by the rule of coterie.client.lag.lag_between: never negative."""
    return at_least_zero(log_end - committed_offset)


def at_least_zero(number: Column) -> Column:
    """The number, or 0 if it is negative; null stays null, which `greatest` would make 0."""
    return F.when(number.isNotNull(), F.greatest(number, F.lit(0)))


def about_whole_groups() -> Column:
    """Whether a record is about a group as a whole."""
    return F.col("record").rlike("^(Consumer|Share|Streams|)GroupMetadata$")


def about_members() -> Column:
    """Whether a record says who a member is; classic groups have their members in the group's record."""
    return F.col("record").rlike("^(Consumer|Share|Streams)GroupMemberMetadata$")


def latest_of_groups(events: DataFrame) -> DataFrame:
    """The newest record of each group as a whole, of whichever protocol: groups may change theirs."""
    return latest(events.where(about_whole_groups()), ["group_id"])


def latest(rows: DataFrame, keys: list[str]) -> DataFrame:
    """The last row of each key, in the order of the log."""
    backwards = Window.partitionBy(*keys).orderBy(F.desc("partition"), F.desc("offset"))
    numbered = rows.withColumn("place_from_end", F.row_number().over(backwards))
    return numbered.where("place_from_end = 1").drop("place_from_end")
