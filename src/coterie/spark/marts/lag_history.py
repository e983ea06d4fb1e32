"""The mart `lag_history`: curves of lag over time, of the groups that are furthest behind.

For each period the last commit up to its end counts against the newest end offset known then, so a group
that stops committing is seen to fall behind; lag in time is that of the moment of that sample. Only the worst
groups have curves: all of them would be as large as the log.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.spark.marts.inputs import (
    at_least_zero,
    dataset_or_empty,
    end_offset_history,
    seconds,
    session_of,
    settled_commits,
)
from coterie.spark.marts.lag import lag as lag_mart
from coterie.spark.marts.lag import with_lives, written_at
from coterie.spark.marts.schemas import MartColumn, conform

__all__ = ["LAG_HISTORY", "lag_history"]

LAG_HISTORY = (
    MartColumn("group_id", "string", "The group."),
    MartColumn("topic", "string", "The topic."),
    MartColumn("time", "timestamp", "End of the period; periods of fifteen minutes by default."),
    MartColumn("partitions", "bigint", "Partitions that had an offset then."),
    MartColumn("lag", "bigint", "Lag of all of them."),
    MartColumn("max_lag", "bigint", "Largest lag of a partition."),
    MartColumn("max_lag_seconds", "double", "Largest lag of a partition in time."),
    MartColumn("at_least", "boolean", "Whether the history is too short: it is more than that."),
)
_PLACE = ["topic", "partition"]
_KEYS = ["group_id", *_PLACE]
_OFFSET = [*_PLACE, "life", "committed_offset"]


def lag_history(
    commits: DataFrame | None = None,
    *,
    end_offsets: DataFrame | None = None,
    offsets: DataFrame | None = None,
    lag: DataFrame | None = None,
    stale_groups: DataFrame | None = None,
    as_of: datetime | None = None,
    every: timedelta = timedelta(minutes=15),
    worst: int = 50,
) -> DataFrame:
    """Lag per group, topic and period, of the `worst` groups by their lag now.

    Stale groups, if they are given, are not among them: nobody works there, and their curves would hide the
    others.
    """
    session = session_of(commits, end_offsets, offsets, lag)
    log = dataset_or_empty("commits", commits, session, as_of)
    if lag is None:
        lag = lag_mart(log, end_offsets=end_offsets, offsets=offsets, as_of=as_of)
    candidates = lag
    if stale_groups is not None:
        candidates = lag.join(F.broadcast(stale_groups.select("group_id")), "group_id", "left_anti")
    chosen = (
        candidates.groupBy("group_id")
        .agg(F.max("lag_seconds").alias("age"), F.sum("lag").alias("behind"))
        .where("behind > 0")
        .orderBy(F.desc("age"), F.desc("behind"), "group_id")
        .limit(worst)
    )
    history = with_lives(end_offset_history(end_offsets, offsets, session, as_of))
    length = int(every.total_seconds())
    reached = _reached(log.join(F.broadcast(chosen), "group_id", "left_semi"), length)
    ends = _ends(history, length)
    points = _filled(reached, ends).withColumn(
        "lag", at_least_zero(F.col("log_end") - F.col("committed_offset"))
    )
    behind = points.where("lag > 0").select(*_OFFSET).distinct()
    timed = points.join(written_at(behind, history), _OFFSET, "left")
    age = seconds(F.col("sampled_at"), F.col("written_at"))
    timed = timed.withColumn("age", F.when(F.col("lag") == 0, 0.0).otherwise(age))
    found = timed.groupBy("group_id", "topic", "period").agg(
        F.count("*").alias("partitions"),
        F.sum("lag").alias("lag"),
        F.max("lag").alias("max_lag"),
        F.max("age").alias("max_lag_seconds"),
        F.bool_or(F.coalesce("before_history", F.lit(False))).alias("at_least"),
    )
    return conform(found.withColumn("time", F.timestamp_seconds("period")), LAG_HISTORY)


def _period(column: str, length: int) -> Column:
    """The end of the period that a time is in, in epoch seconds."""
    return (F.ceil(F.unix_micros(column) / F.lit(length * 1_000_000)) * length).cast("bigint")


def _reached(commits: DataFrame, length: int) -> DataFrame:
    """The last commit of each partition in each period; null if it was removed."""
    return (
        settled_commits(commits)
        .groupBy(
            "group_id",
            "topic",
            F.col("topic_partition").alias("partition"),
            _period("timestamp", length).alias("period"),
        )
        .agg(
            F.max_by("committed_offset", "offset").alias("committed_offset"),
            F.max_by("tombstone", "offset").alias("removed"),
        )
    )


def _ends(history: DataFrame, length: int) -> DataFrame:
    """The newest end offset of each partition in each period."""
    return history.groupBy(*_PLACE, _period("taken_at", length).alias("period")).agg(
        F.max_by("log_end", "nth").alias("log_end"),
        F.max("taken_at").alias("sampled_at"),
        F.max("life").alias("life"),
    )


def _filled(reached: DataFrame, ends: DataFrame) -> DataFrame:
    """A point for each period that there are end offsets of: what was committed last up to then."""
    places = reached.select(*_KEYS).distinct()
    asked = places.join(ends, _PLACE)
    both = asked.join(reached, [*_KEYS, "period"], "full_outer")
    so_far = (
        Window.partitionBy(*_KEYS)
        .orderBy("period")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    state = F.when(F.col("removed").isNotNull(), F.struct("removed", "committed_offset"))
    known = both.withColumn("state", F.last(state, ignorenulls=True).over(so_far))
    return known.where(F.col("log_end").isNotNull() & ~F.col("state.removed")).select(
        *_KEYS,
        "period",
        "log_end",
        "sampled_at",
        "life",
        F.col("state.committed_offset").alias("committed_offset"),
    )
