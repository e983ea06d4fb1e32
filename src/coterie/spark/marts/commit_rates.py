"""The mart `commit_rates`: how often groups commit, and how much they read between commits."""

from __future__ import annotations

from datetime import datetime, timedelta

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from coterie.spark.marts.inputs import (
    at_least_zero,
    at_moment,
    dataset_or_empty,
    moment,
    seconds,
    session_of,
    settled_commits,
)
from coterie.spark.marts.schemas import MartColumn, conform

__all__ = ["COMMIT_RATES", "commit_rates"]

COMMIT_RATES = (
    MartColumn("group_id", "string", "The group."),
    MartColumn("topic", "string", "The topic."),
    MartColumn("period_start", "timestamp", "When the period began; an hour each by default."),
    MartColumn("period_seconds", "double", "How long it is; of the running one, so far."),
    MartColumn("commits", "bigint", "Offsets committed, of all partitions together."),
    MartColumn("partitions", "bigint", "Partitions with a commit."),
    MartColumn("commits_per_second", "double", "commits / period_seconds."),
    MartColumn("records", "bigint", "Offsets advanced since the period before; 0 after a reset."),
    MartColumn("records_per_second", "double", "records / period_seconds; null in the first one."),
    MartColumn("removals", "bigint", "Offsets removed: expired or deleted."),
)


def commit_rates(
    commits: DataFrame | None = None,
    *,
    as_of: datetime | None = None,
    every: timedelta = timedelta(hours=1),
) -> DataFrame:
    """Commits and progress per group, topic and period. Periods without commits have no row."""
    session = session_of(commits)
    length = every.total_seconds()
    log = settled_commits(dataset_or_empty("commits", commits, session, as_of))
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
    timed = at_moment(found, moment(as_of, session, commits=commits))
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
        COMMIT_RATES,
    )
