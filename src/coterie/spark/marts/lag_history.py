"""The mart `lag_history`: curves of lag over time, of the groups that are furthest behind.

For each period the last commit up to its end counts against the newest end offset known then, so a group
that stops committing is seen to fall behind; lag in time is that of the moment of that sample. Only the worst
groups have curves: all of them would be as large as the log.
"""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.spark.marts.inputs import (
    Inputs,
    conform,
    end_offset_history,
    lag_between,
    seconds,
    settled_commits,
)
from coterie.spark.marts.lag import with_lives, written_at

__all__ = ["lag_history"]

_PLACE = ["topic", "partition"]
_KEYS = ["group_id", *_PLACE]
_OFFSET = [*_PLACE, "life", "committed_offset"]


def lag_history(
    inputs: Inputs, *, every: timedelta = timedelta(minutes=15), worst: int = 50
) -> DataFrame:
    """Lag per group, topic and period, of the `worst` groups by their lag now.

    Stale groups are left out: they have no members, and their curves would hide the others.
    """
    stale = F.broadcast(inputs["stale_groups"].select("group_id"))
    chosen = (
        inputs["lag"]
        .join(stale, "group_id", "left_anti")
        .groupBy("group_id")
        .agg(F.max("lag_seconds").alias("age"), F.sum("lag").alias("behind"))
        .where("behind > 0")
        .orderBy(F.desc("age"), F.desc("behind"), "group_id")
        .limit(worst)
    )
    history = with_lives(end_offset_history(inputs))
    length = int(every.total_seconds())
    commits = inputs["commits"].join(F.broadcast(chosen), "group_id", "left_semi")
    reached = _reached(commits, length)
    ends = _ends(history, length)
    points = _filled(reached, ends).withColumn(
        "lag", lag_between(F.col("committed_offset"), F.col("log_end"))
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
    return conform(found.withColumn("time", F.timestamp_seconds("period")), "lag_history")


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
