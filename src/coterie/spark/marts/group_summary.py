"""The mart `group_summary`: one row per group with the figures people ask for first."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from coterie.spark.marts.committed import with_last_commit
from coterie.spark.marts.inputs import Inputs, Moment, at_moment, conform, seconds
from coterie.spark.marts.stale import family_of

__all__ = ["group_summary"]

_DAY = "interval 24 hours"


def group_summary(inputs: Inputs) -> DataFrame:
    """A row per group that exists."""
    behind = (
        inputs["lag"]
        .groupBy("group_id")
        .agg(
            F.array_sort(F.collect_set("topic")).alias("topics"),
            F.count("*").alias("partitions"),
            F.sum("lag").alias("total_lag"),
            F.max("lag").alias("max_lag"),
            F.max("lag_seconds").alias("max_lag_seconds"),
            F.max("data_loss").alias("data_loss"),
            F.max("commit_timestamp").alias("last_commit"),
        )
    )
    groups = inputs["groups_now"].join(behind, "group_id", "left")
    found = at_moment(with_last_commit(groups, inputs["commits"]), inputs.now)
    # Without the log nothing was counted, and 0 would say that there was none.
    none = F.lit(0 if "commits" in inputs or "group_events" in inputs else None)
    found = _with_rebalances(found, inputs["rebalances"], inputs.now, none)
    found = _with_resets(found, inputs["offset_resets"], inputs.now, none)
    found = _with_rates(found, inputs["commit_rates"])
    found = _with_health(found, inputs["health"])
    found = found.select(
        "*",
        seconds(F.col("as_of"), F.col("last_commit")).alias("idle_seconds"),
        family_of(F.col("group_id")).alias("family"),
    )
    return conform(found, "group_summary")


def _with_rebalances(found: DataFrame, mart: DataFrame, now: Moment, none: Column) -> DataFrame:
    recent = F.col("completed_at") >= F.col("as_of") - F.expr(_DAY)
    rows = at_moment(mart.where("rebalanced"), now)
    counts = rows.groupBy("group_id").agg(
        F.max("completed_at").alias("last_rebalance"),
        F.sum(F.when(recent, 1 + _hidden()).otherwise(0)).alias("n"),
    )
    joined = found.join(counts, "group_id", "left")
    return joined.withColumn("rebalances_24h", F.coalesce("n", none)).drop("n")


def _hidden() -> Column:
    """Generations without a record. Every epoch of other groups has one: those that are missing are old."""
    hidden = F.when(F.col("group_type") == "classic", F.col("hidden_before"))
    return F.coalesce(hidden, F.lit(0))


def _with_resets(found: DataFrame, mart: DataFrame, now: Moment, none: Column) -> DataFrame:
    rows = at_moment(mart, now).where(F.col("time") >= F.col("as_of") - F.expr(_DAY))
    joined = found.join(rows.groupBy("group_id").agg(F.count("*").alias("n")), "group_id", "left")
    return joined.withColumn("resets_24h", F.coalesce("n", none)).drop("n")


def _with_rates(found: DataFrame, mart: DataFrame) -> DataFrame:
    periods = mart.groupBy("group_id", "period_start").agg(
        F.sum("commits_per_second").alias("rate"), F.max("period_seconds").alias("length")
    )
    last = periods.groupBy("group_id").agg(
        F.max_by("rate", "period_start").alias("rate"),
        F.max_by("length", "period_start").alias("length"),
        F.max("period_start").alias("began"),
    )
    # The period before the running one still counts: the running one may have just begun.
    recent = seconds(F.col("as_of"), F.col("began")) < 2 * F.col("length")
    joined = found.join(last, "group_id", "left")
    return joined.withColumn(
        "commits_per_second", F.when(recent, F.col("rate")).when(F.col("began").isNotNull(), 0.0)
    ).drop("rate", "length", "began")


def _with_health(found: DataFrame, mart: DataFrame) -> DataFrame:
    whole = (F.col("rule") == "burrow") & F.col("topic").isNull()
    verdicts = mart.groupBy("group_id").agg(
        F.max(F.when(whole, F.col("status"))).alias("status"),
        F.count_if(F.col("severity") != "ok").alias("findings"),
    )
    joined = found.join(verdicts, "group_id", "left")
    return joined.withColumn("findings", F.coalesce("findings", F.lit(0)))
