"""The mart `stale_groups`: groups without members that nobody has used for long.

Idle time is what the log says: since the last commit, or since the last member went, whichever is later.
The admin API knows neither, so from snapshots alone it is null. `delete_plan` makes of it the document that
`coterie groups delete --plan` executes, after another look at each group.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from coterie.plans.model import Plan, PlannedGroup, PlannedOffset
from coterie.spark.marts.committed import with_last_commit
from coterie.spark.marts.inputs import Inputs, at_moment, conform, seconds, with_known_until

__all__ = ["IDLE", "delete_plan", "family_of", "stale_groups"]

_UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_HEX = r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b"
#: Numbers at the end are chance in console-consumer-12345, and a version in orders-2024.
_CONSOLE = "^(console-consumer|console-share-consumer|perf-consumer)-[0-9]+$"
_NUMBERED = 3
#: How long groups have been idle, at least, that the pipeline's mart has.
IDLE: Final = timedelta(days=1)


def family_of(group_id: Column) -> Column:
    """The pattern of an id that was made by chance: `console-consumer-*`, `prefix-<uuid>`; else null."""
    pattern = F.regexp_replace(group_id, _UUID, "<uuid>")
    pattern = F.regexp_replace(pattern, _HEX, "<hex>")
    return (
        F.when(group_id.rlike(_CONSOLE), F.regexp_replace(group_id, "-[0-9]+$", "-*"))
        .when(pattern != group_id, pattern)
        .otherwise(F.lit(None))
    )


def stale_groups(
    inputs: Inputs, *, idle_for: timedelta = IDLE, retention: timedelta = timedelta(days=7)
) -> DataFrame:
    """Groups without members that have been idle for so long; `retention` is offsets.retention.minutes.

    A group in a part of the log that could not be read to its end (`gaps`) is idle up to where it was read.
    """
    idle = inputs["groups_now"].where(F.coalesce("member_count", F.lit(0)) == 0)
    idle = idle.where(F.col("state").isin("Empty", "Dead"))
    kept = idle.join(_kept(inputs["lag"]), "group_id", "left")
    found = at_moment(with_last_commit(kept, inputs["commits"]), inputs.now)
    found = found.select(
        "*",
        F.col("empty_since").alias("last_member"),
        F.greatest("last_commit", "empty_since").alias("idle_since"),
        _expiry(retention).alias("expires_at"),
    )
    found = with_known_until(found, inputs["gaps"], inputs["commits"], inputs["group_events"])
    until = F.least("as_of", "known_until")
    age = seconds(until, F.col("idle_since"))
    found = found.withColumn("idle_seconds", F.when(F.col("idle_since").isNotNull(), age))
    enough = F.lit(idle_for.total_seconds())
    unknown = (
        F.lit("commits" not in inputs and "group_events" not in inputs)
        & F.col("idle_seconds").isNull()
    )
    found = found.where((F.col("idle_seconds") >= enough) | unknown)
    return conform(_with_families(found), "stale_groups")


def _kept(lag: DataFrame) -> DataFrame:
    """The offsets of each group: how many, of which topics, and when it last committed."""
    return lag.groupBy("group_id").agg(
        F.count("*").alias("offsets"),
        F.max("commit_timestamp").alias("last_commit"),
        F.max("expire_timestamp").alias("asked_expiry"),
        F.count_if(F.col("expire_timestamp").isNull()).alias("unasked"),
        F.max(F.when(F.col("expire_timestamp").isNull(), F.col("commit_timestamp"))).alias(
            "last_unasked"
        ),
        F.array_sort(F.collect_set("topic")).alias("topics"),
        F.sum("lag").alias("total_lag"),
    )


def _expiry(retention: timedelta) -> Column:
    """When the last offset goes (Kafka's offsetExpirationCondition).

    Retention counts from when a group with a protocol became empty, else from the commit; where a client
    asked for a time of its own, that counts.
    """
    with_protocol = (F.col("type") == "classic") & (F.coalesce("protocol_type", F.lit("")) != "")
    base = F.when(with_protocol, F.coalesce("empty_since", "last_unasked")).otherwise(
        F.col("last_unasked")
    )
    kept_for = F.make_dt_interval(secs=F.lit(retention.total_seconds()))
    by_retention = F.when(F.col("unasked") > 0, base + kept_for)
    return F.when(F.col("offsets").isNotNull(), F.greatest("asked_expiry", by_retention))


def _with_families(found: DataFrame) -> DataFrame:
    """Ids with a number at the end are a family too, if there are several of them."""
    numbered = F.regexp_replace("group_id", "[-_.][0-9]{4,}$", "-*")
    named = found.withColumn("chance", family_of(F.col("group_id"))).withColumn(
        "pattern", F.coalesce("chance", F.when(numbered != F.col("group_id"), numbered))
    )
    alike = F.count("*").over(Window.partitionBy("pattern"))
    named = named.withColumn("alike", F.when(F.col("pattern").isNotNull(), alike))
    is_family = F.col("chance").isNotNull() | (F.col("alike") >= _NUMBERED)
    return named.select(
        "*",
        F.when(is_family, F.col("pattern")).alias("family"),
        F.when(is_family, F.col("alike")).alias("family_size"),
    )


def delete_plan(
    stale: DataFrame, lag: DataFrame, *, cluster_id: str | None = None, now: datetime | None = None
) -> Plan:
    """The rows of the mart as a plan to delete these groups, for `coterie groups delete --plan`.

    `lag` has what they have committed. That is part of the plan: groups that commit without members are
    always Empty, and only their offsets tell that they are in use again.
    """
    rows = (
        stale.join(_offsets_of(lag), "group_id", "left")
        .orderBy("group_id")
        .select(
            "group_id",
            "state",
            "type",
            F.unix_micros("last_commit").alias("at"),
            "total_lag",
            "idle_seconds",
            "planned",
        )
    )
    epoch = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    groups = tuple(
        PlannedGroup(
            group=row.group_id,
            state=row.state,
            type=row.type,
            last_commit_at=None if row.at is None else epoch + timedelta(microseconds=row.at),
            lag=row.total_lag,
            # What a share group has read is no commit, and not in the log that marts are made from.
            offsets=None if row.type == "share" else _planned(row.planned or ()),
            note="" if row.idle_seconds is None else f"idle for {_days(row.idle_seconds)}",
        )
        for row in rows.toLocalIterator()
    )
    return Plan.of("delete_groups", groups, cluster_id=cluster_id, reason="stale groups", now=now)


def _offsets_of(lag: DataFrame) -> DataFrame:
    """What each group has committed, in order; a negative offset the admin API does not tell of."""
    place = F.struct("topic", "partition", "committed_offset")
    return (
        lag.where("committed_offset >= 0")
        .groupBy("group_id")
        .agg(F.array_sort(F.collect_list(place)).alias("planned"))
    )


def _planned(offsets: Iterable[Row]) -> tuple[PlannedOffset, ...]:
    return tuple(
        PlannedOffset(each.topic, each.partition, each.committed_offset) for each in offsets
    )


def _days(idle_seconds: float) -> str:
    return str(timedelta(seconds=int(idle_seconds)))
