"""The mart `commit_rates`: how often groups commit, and how much they read between commits."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from coterie.spark.marts.inputs import (
    Inputs,
    at_least_zero,
    at_moment,
    conform,
    seconds,
    settled_commits,
)

__all__ = ["commit_rates"]


def commit_rates(inputs: Inputs, *, every: timedelta = timedelta(hours=1)) -> DataFrame:
    """Commits and progress per group, topic and period. Periods without commits have no row."""
    length = every.total_seconds()
    log = settled_commits(inputs["commits"])
    bucket = (F.floor(F.unix_seconds("timestamp") / F.lit(length)) * F.lit(length)).cast("bigint")
    places = log.groupBy("group_id", "topic", "topic_partition", bucket.alias("bucket")).agg(
        F.count_if(~F.col("tombstone")).alias("commits"),
        F.count_if(F.col("tombstone")).alias("removals"),
        F.max_by("committed_offset", "offset").alias("reached"),
    )
    in_time = Window.partitionBy("group_id", "topic", "topic_partition").orderBy("bucket")
    advance = at_least_zero(F.col("reached") - F.lag("reached").over(in_time))
    moved = places.withColumn("records", advance)
    found = moved.groupBy("group_id", "topic", "bucket").agg(
        F.sum("commits").alias("commits"),
        F.sum("removals").alias("removals"),
        F.count_if(F.col("commits") > 0).alias("partitions"),
        F.sum("records").alias("records"),
    )
    timed = at_moment(found, inputs.now)
    timed = timed.withColumn("period_start", F.timestamp_seconds("bucket"))
    # A second at least: what the first moments of a period would be divided by says nothing yet.
    so_far = F.greatest(seconds(F.col("as_of"), F.col("period_start")), F.lit(1.0))
    timed = timed.withColumn("period_seconds", F.least(so_far, F.lit(length)))
    return conform(
        timed.select(
            "*",
            (F.col("commits") / F.col("period_seconds")).alias("commits_per_second"),
            (F.col("records") / F.col("period_seconds")).alias("records_per_second"),
        ),
        "commit_rates",
    )
