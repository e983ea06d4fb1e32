"""What is committed now, by the log or by the newest snapshot, whichever saw it last."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie.spark.marts.inputs import Inputs, latest_snapshot, settled_commits

__all__ = ["committed_now", "with_last_commit"]


def committed_now(inputs: Inputs) -> DataFrame:
    """One row per group and partition: `committed_offset`, `commit_timestamp`, `source` and so on.

    Removed offsets have no row. `commit_timestamp` is null if only a snapshot saw the offset, because the
    admin API does not return it. `groups` decides which snapshot is the newest, also if that has no offsets.
    """
    log = _by_log(inputs["commits"])
    if "offsets" not in inputs:
        return log.where(~F.col("tombstone")).drop("tombstone")
    live = _by_snapshot(inputs["offsets"], inputs.get("groups", None))
    keys = ["group_id", "topic", "partition"]
    both = log.join(live, keys, "full_outer")
    newer = F.col("live_at").isNull() | (F.col("seen_at") > F.col("live_at"))
    # A snapshot that does not have an offset says nothing about it: it may not have been allowed to look.
    found = both.select(
        *keys,
        F.when(newer, F.col("committed_offset"))
        .otherwise(F.col("live_offset"))
        .alias("committed_offset"),
        # A log that ends with a removal has not seen the commit that the snapshot shows.
        F.when(newer | ~F.col("tombstone"), F.col("commit_timestamp")).alias("commit_timestamp"),
        "expire_timestamp",
        F.when(newer, F.col("seen_at")).otherwise(F.col("live_at")).alias("seen_at"),
        F.when(newer, "log").otherwise("snapshot").alias("source"),
        F.when(newer, F.coalesce("tombstone", F.lit(False))).otherwise(False).alias("tombstone"),
    )
    gone = F.col("tombstone") | F.col("committed_offset").isNull()
    return found.where(~gone).drop("tombstone")


def with_last_commit(groups: DataFrame, commits: DataFrame) -> DataFrame:
    """Groups with `last_commit`, also if that was for a topic that has been deleted since."""
    log = settled_commits(commits)
    last = (
        log.where(~F.col("tombstone"))
        .groupBy("group_id")
        .agg(F.max(F.coalesce("commit_timestamp", "timestamp")).alias("last_known"))
    )
    joined = groups.join(last, "group_id", "left")
    whole = F.coalesce("last_known", "last_commit")
    return joined.withColumn("last_commit", whole).drop("last_known")


def _by_log(commits: DataFrame) -> DataFrame:
    # max_by of plain numbers stays in Spark's hash aggregation; of a struct it would sort everything.
    return (
        settled_commits(commits)
        .groupBy("group_id", "topic", F.col("topic_partition").alias("partition"))
        .agg(
            F.max_by("committed_offset", "offset").alias("committed_offset"),
            F.max_by(F.coalesce("commit_timestamp", "timestamp"), "offset").alias(
                "commit_timestamp"
            ),
            F.max_by("expire_timestamp", "offset").alias("expire_timestamp"),
            F.max_by("timestamp", "offset").alias("seen_at"),
            F.max_by("tombstone", "offset").alias("tombstone"),
        )
        .withColumn("source", F.lit("log"))
    )


def _by_snapshot(offsets: DataFrame, groups: DataFrame | None) -> DataFrame:
    return (
        latest_snapshot(offsets, groups)
        .where(F.col("committed_offset").isNotNull())
        .select(
            "group_id",
            "topic",
            "partition",
            F.col("committed_offset").alias("live_offset"),
            F.col("taken_at").alias("live_at"),
        )
    )
