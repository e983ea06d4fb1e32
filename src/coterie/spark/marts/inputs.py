"""What marts are made from: datasets that may be missing, snapshots of which the newest counts, the time.

Every input of a mart may be None: a cluster whose log nobody may read has snapshots only, a copied disk has
the log only. A missing input is an empty one, and what it would have told is null.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from coterie.datasets.schemas import TIMESTAMP, schema
from coterie.errors import InvalidArgument

__all__ = [
    "Moment",
    "at_least_zero",
    "at_moment",
    "dataset_or_empty",
    "end_offset_history",
    "latest_snapshot",
    "moment",
    "seconds",
    "session_of",
    "settled_commits",
    "until",
    "with_known_until",
]

#: Which column says when a row was true.
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
_SNAPSHOT_COLUMNS = (pa.field("snapshot_id", pa.string()), pa.field("taken_at", TIMESTAMP))
#: A time that is known, or a frame of one row with the column `as_of`.
Moment = Column | DataFrame
_SNAPSHOTS = frozenset({"groups", "members", "assignments", "offsets", "errors"})


def session_of(*frames: DataFrame | None) -> SparkSession:
    """The session of whatever is there."""
    for frame in frames:
        if frame is not None:
            return frame.sparkSession
    raise InvalidArgument("a mart needs one of its inputs at least: none was given")


def _empty(session: SparkSession, name: str) -> DataFrame:
    """A dataset without rows. From Arrow, for of that Spark knows that it is empty, and plans no work."""
    columns = schema(name)
    if name in _SNAPSHOTS:
        columns = pa.schema([*_SNAPSHOT_COLUMNS, *columns])
    return session.createDataFrame(columns.empty_table())


def dataset_or_empty(
    name: str, frame: DataFrame | None, session: SparkSession, as_of: datetime | None = None
) -> DataFrame:
    """A dataset, or none of its rows; of snapshots also without the columns that tell them apart."""
    if frame is None:
        return _empty(session, name)
    if name in _SNAPSHOTS and "taken_at" not in frame.columns:
        frame = frame.select(
            F.lit(None).cast("string").alias("snapshot_id"),
            F.current_timestamp().alias("taken_at"),
            "*",
        )
    return until(frame, _TIMES[name], as_of)


def until(frame: DataFrame, column: str, as_of: datetime | None) -> DataFrame:
    """The rows up to a moment; all of them without one."""
    return frame if as_of is None else frame.where(F.col(column) <= _literal(as_of))


def _literal(as_of: datetime) -> Column:
    if as_of.tzinfo is None:
        raise InvalidArgument(f"as_of {as_of} has no time zone: give it one, such as UTC")
    micros = (as_of - datetime(1970, 1, 1, tzinfo=UTC)) // _MICROSECOND
    return F.timestamp_micros(F.lit(micros))


_MICROSECOND = datetime.resolution


def moment(as_of: datetime | None, session: SparkSession, **datasets: DataFrame | None) -> Moment:
    """The moment that was asked for, or the newest one that the data knows of."""
    if as_of is not None:
        return _literal(as_of)
    newest = [
        dataset_or_empty(name, frame, session).agg(F.max(_TIMES[name]).alias("as_of"))
        for name, frame in datasets.items()
    ]
    return reduce(DataFrame.unionByName, newest).agg(F.max("as_of").alias("as_of"))


def at_moment(frame: DataFrame, now: Moment) -> DataFrame:
    """Every row with the moment as its `as_of`. One that is known needs no join, and so no job of Spark."""
    if isinstance(now, Column):
        return frame.withColumn("as_of", now)
    return frame.crossJoin(F.broadcast(now))


def latest_snapshot(frame: DataFrame, groups: DataFrame | None = None) -> DataFrame:
    """The rows of the newest snapshot.

    Which one that is, `groups` decides where it is given: a snapshot in which nobody had members has no
    rows of `members`, and an older one must not speak in its place.
    """
    reference = frame if groups is None else groups
    newest = reference.agg(F.max("taken_at").alias("newest"))
    return frame.join(F.broadcast(newest), F.col("taken_at") == F.col("newest")).drop("newest")


def settled_commits(commits: DataFrame) -> DataFrame:
    """Commits that count: what a transaction left open or took back does not."""
    return commits.where(F.col("outcome").isNull() | (F.col("outcome") == "committed"))


def with_known_until(found: DataFrame, gaps: DataFrame, *logs: DataFrame) -> DataFrame:
    """Until when the log tells of each group, as `known_until`: null if to its end.

    `gaps` has the partitions of the log that could not be read to their end, `logs` which groups they have.
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


def end_offset_history(
    end_offsets: DataFrame | None,
    offsets: DataFrame | None,
    session: SparkSession,
    as_of: datetime | None,
) -> DataFrame:
    """Where logs began and ended over time: sampled for that purpose, or seen by snapshots of offsets.

    A snapshot takes both, seconds apart, and Burrow counts samples. So what `offsets` saw of a partition is
    only used where it was not sampled, or not any more.
    """
    sampled = dataset_or_empty("end_offsets", end_offsets, session, as_of)
    columns = ["taken_at", "topic", "partition", "log_start", "log_end"]
    if offsets is None:
        return sampled.select(columns)
    seen = dataset_or_empty("offsets", offsets, session, as_of)
    # Groups of one snapshot are asked about one after another, so their ends may differ.
    seen = (
        seen.where(F.col("log_end").isNotNull())
        .groupBy("taken_at", "topic", "partition")
        .agg(F.max("log_start").alias("log_start"), F.max("log_end").alias("log_end"))
    )
    if end_offsets is None:
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


def at_least_zero(number: Column) -> Column:
    """The number, or 0 if it is negative; null stays null, which `greatest` would make 0."""
    return F.when(number.isNotNull(), F.greatest(number, F.lit(0)))
