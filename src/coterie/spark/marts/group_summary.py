"""The mart `group_summary`: one row per group with the figures people ask for first."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from coterie.spark.marts.committed import with_last_commit
from coterie.spark.marts.groups_now import GROUPS_NOW
from coterie.spark.marts.groups_now import groups_now as groups_now_mart
from coterie.spark.marts.inputs import (
    Moment,
    at_moment,
    dataset_or_empty,
    moment,
    seconds,
    session_of,
)
from coterie.spark.marts.lag import lag as lag_mart
from coterie.spark.marts.schemas import MartColumn, conform
from coterie.spark.marts.stale import family_of

__all__ = ["GROUP_SUMMARY", "group_summary"]

GROUP_SUMMARY = (
    *GROUPS_NOW,
    MartColumn("topics", "array<string>", "Topics with committed offsets."),
    MartColumn("partitions", "bigint", "Partitions with committed offsets."),
    MartColumn("total_lag", "bigint", "Lag of all partitions; null if none is known."),
    MartColumn("max_lag", "bigint", "Largest lag of a partition."),
    MartColumn("max_lag_seconds", "double", "Largest lag of a partition in time."),
    MartColumn("data_loss", "boolean", "Whether records went before they were read."),
    MartColumn("last_commit", "timestamp", "When it last committed; null if not known."),
    MartColumn("idle_seconds", "double", "How long ago that was."),
    MartColumn(
        "commits_per_second", "double", "In the last period of commit_rates; 0 if it is long over."
    ),
    MartColumn("last_rebalance", "timestamp", "When it last rebalanced; null if not known."),
    MartColumn(
        "rebalances_24h", "bigint", "Rebalances in the last 24 hours; null without the log."
    ),
    MartColumn("resets_24h", "bigint", "Offsets set back in the last 24 hours; likewise."),
    MartColumn("status", "string", "Burrow's status: `OK`, `WARN` or `ERR`; null if not judged."),
    MartColumn("findings", "bigint", "Findings of the mart health that are not just `ok`."),
    MartColumn("family", "string", "Pattern of its id, if that was made by chance; else null."),
    MartColumn("as_of", "timestamp", "The moment that this is about."),
)
_DAY = "interval 24 hours"


def group_summary(
    lag: DataFrame | None = None,
    *,
    commits: DataFrame | None = None,
    group_events: DataFrame | None = None,
    groups: DataFrame | None = None,
    offsets: DataFrame | None = None,
    errors: DataFrame | None = None,
    rebalances: DataFrame | None = None,
    offset_resets: DataFrame | None = None,
    commit_rates: DataFrame | None = None,
    health: DataFrame | None = None,
    groups_now: DataFrame | None = None,
    as_of: datetime | None = None,
) -> DataFrame:
    """A row per group that exists. Other marts, where given, fill their columns; else these are null."""
    session = session_of(lag, commits, group_events, groups, offsets, groups_now)
    if lag is None:
        log = dataset_or_empty("commits", commits, session)
        lag = lag_mart(log, offsets=offsets, groups=groups, as_of=as_of)
    now = moment(
        as_of,
        session,
        commits=commits,
        group_events=group_events,
        groups=groups,
        offsets=offsets,
    )
    if groups_now is None:
        groups_now = groups_now_mart(
            group_events, groups=groups, errors=errors, lag=lag, as_of=as_of
        )
    behind = lag.groupBy("group_id").agg(
        F.array_sort(F.collect_set("topic")).alias("topics"),
        F.count("*").alias("partitions"),
        F.sum("lag").alias("total_lag"),
        F.max("lag").alias("max_lag"),
        F.max("lag_seconds").alias("max_lag_seconds"),
        F.max("data_loss").alias("data_loss"),
        F.max("commit_time").alias("last_commit"),
    )
    found = with_last_commit(groups_now.join(behind, "group_id", "left"), commits, as_of)
    found = at_moment(found, now)
    # Without the log nobody has counted, and 0 would say that there was none.
    none = F.lit(None if commits is None and group_events is None else 0)
    found = _with_rebalances(found, rebalances, now, none)
    found = _with_resets(found, offset_resets, now, none)
    found = _with_rates(found, commit_rates)
    found = _with_health(found, health)
    return conform(
        found.select(
            "*",
            seconds(F.col("as_of"), F.col("last_commit")).alias("idle_seconds"),
            family_of(F.col("group_id")).alias("family"),
        ),
        GROUP_SUMMARY,
    )


def _with_rebalances(
    found: DataFrame, mart: DataFrame | None, now: Moment, none: Column
) -> DataFrame:
    if mart is None:
        return found.withColumns(_nulls(last_rebalance="timestamp", rebalances_24h="bigint"))
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


def _with_resets(found: DataFrame, mart: DataFrame | None, now: Moment, none: Column) -> DataFrame:
    if mart is None:
        return found.withColumns(_nulls(resets_24h="bigint"))
    rows = at_moment(mart, now).where(F.col("time") >= F.col("as_of") - F.expr(_DAY))
    joined = found.join(rows.groupBy("group_id").agg(F.count("*").alias("n")), "group_id", "left")
    return joined.withColumn("resets_24h", F.coalesce("n", none)).drop("n")


def _with_rates(found: DataFrame, mart: DataFrame | None) -> DataFrame:
    if mart is None:
        return found.withColumns(_nulls(commits_per_second="double"))
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


def _with_health(found: DataFrame, mart: DataFrame | None) -> DataFrame:
    if mart is None:
        return found.withColumns(_nulls(status="string", findings="bigint"))
    whole = (F.col("rule") == "burrow") & F.col("topic").isNull()
    verdicts = mart.groupBy("group_id").agg(
        F.max(F.when(whole, F.col("status"))).alias("status"),
        F.count_if(F.col("severity") != "ok").alias("findings"),
    )
    joined = found.join(verdicts, "group_id", "left")
    return joined.withColumn("findings", F.coalesce("findings", F.lit(0)))


def _nulls(**columns: str) -> dict[str, Column]:
    """Columns of which nothing is known."""
    return {name: F.lit(None).cast(kind) for name, kind in columns.items()}
