"""The mart `groups_now`: every group that there is, and its state.

Of each group, whichever saw it last decides: a snapshot is what the coordinators said, and what the log has
written since then is newer. Without a snapshot the log decides, as a coordinator would that has just read it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie.spark.marts.inputs import (
    Inputs,
    about_members,
    conform,
    latest,
    latest_of_groups,
    latest_snapshot,
)

__all__ = ["groups_now", "newest_snapshot"]


def groups_now(inputs: Inputs) -> DataFrame:
    """A row per group, also for groups that only have offsets, which are in `lag`."""
    log = _with_simple_groups(_groups_by_log(inputs["group_events"]), inputs["lag"])
    if "groups" not in inputs:
        nothing = {"coordinator_id": F.lit(None), "coordinator": F.lit(None)}
        return conform(log.where(~F.col("gone")).withColumns(nothing), "groups_now")
    snapshots = inputs["groups"]
    live = latest_snapshot(snapshots).select(
        "group_id",
        F.lit(True).alias("is_live"),
        F.col("type").alias("live_type"),
        F.col("state").alias("live_state"),
        F.col("protocol_type").alias("live_protocol_type"),
        F.coalesce("assignor", "protocol").alias("live_protocol"),
        F.col("generation").alias("live_generation"),
        F.col("leader_id").alias("live_leader_id"),
        F.col("member_count").alias("live_member_count"),
        "coordinator_id",
        "coordinator",
    )
    known = _since_snapshot(log, newest_snapshot(snapshots, inputs["errors"]))
    return conform(_later(live.join(known, "group_id", "full_outer")), "groups_now")


def newest_snapshot(snapshots: DataFrame, errors: DataFrame) -> DataFrame:
    """When the newest snapshot was taken, and whether it is `partial`: a broker did not answer."""
    newest = snapshots.agg(F.max("taken_at").alias("newest"))
    failed = errors.where("scope = 'broker'").agg(F.max("taken_at").alias("failed_at"))
    partial = F.coalesce(F.col("failed_at") >= F.col("newest"), F.lit(False))
    return newest.crossJoin(failed).select("newest", partial.alias("partial"))


def _since_snapshot(log: DataFrame, newest: DataFrame) -> DataFrame:
    """Each group of the log, and whether it has changed, or has committed, since the newest snapshot."""
    first = F.col("newest").isNull()
    return log.crossJoin(F.broadcast(newest)).select(
        "*",
        (first | F.coalesce(F.col("seen_at") > F.col("newest"), F.lit(False))).alias("changed"),
        (first | F.coalesce(F.col("offset_at") > F.col("newest"), F.lit(False))).alias("has_new"),
    )


def _later(both: DataFrame) -> DataFrame:
    """Of each group, what was seen of it last.

    Commits alone say nothing about members. A group that only has them is one that the snapshot could not
    show if they are newer; else it is gone, like all others that the snapshot does not show. One that is
    partial says nothing of these: then the log decides.
    """
    by_log = F.coalesce("changed", F.lit(False))
    there = (
        F.when(by_log, ~F.col("gone"))
        .when(F.col("is_live"), True)
        .otherwise((F.col("has_new") | F.col("partial")) & ~F.col("gone"))
    )
    names = (
        "type",
        "state",
        "protocol_type",
        "protocol",
        "generation",
        "leader_id",
        "member_count",
    )
    found = both.where(there).select(
        "group_id",
        *(
            F.when(by_log, F.coalesce(name, f"live_{name}"))
            .otherwise(F.coalesce(f"live_{name}", name))
            .alias(name)
            for name in names
        ),
        "empty_since",
        "coordinator_id",
        "coordinator",
    )
    return found.withColumn("empty_since", F.when(F.col("member_count") == 0, F.col("empty_since")))


def _groups_by_log(events: DataFrame) -> DataFrame:
    """Groups by their newest record; `gone` are those that were deleted.

    Members of classic groups are in that record, those of the others have records of their own.
    """
    counts = (
        latest(events.where(about_members()), ["group_id", "member_id"])
        .groupBy("group_id")
        .agg(
            F.count_if(~F.col("tombstone")).cast("int").alias("counted"),
            F.max("timestamp").alias("changed_at"),
        )
    )
    classic = F.col("group_type") == "classic"
    in_record = F.coalesce(F.size("members"), F.lit(0))
    count = F.when(classic, in_record).otherwise(F.coalesce("counted", F.lit(0)))
    emptied = F.when(
        classic & (F.col("generation") > 0), F.coalesce("state_timestamp", "timestamp")
    ).when(~classic, F.col("changed_at"))
    kind = F.when(classic, F.col("protocol_type")).otherwise(F.col("group_type"))
    return (
        latest_of_groups(events)
        .join(counts, "group_id", "left")
        .select(
            "group_id",
            F.col("tombstone").alias("gone"),
            F.greatest("timestamp", F.when(~classic, F.col("changed_at"))).alias("seen_at"),
            F.col("group_type").alias("type"),
            F.when(count == 0, "Empty").otherwise("Stable").alias("state"),
            kind.alias("protocol_type"),
            "protocol",
            "generation",
            "leader_id",
            count.alias("member_count"),
            F.when(count == 0, emptied).alias("empty_since"),
        )
    )


def _with_simple_groups(log: DataFrame, committed: DataFrame) -> DataFrame:
    """Groups of which only offsets tell: they assign partitions by hand, and are always Empty."""
    simple = committed.groupBy("group_id").agg(
        F.lit(True).alias("has_offsets"), F.max("commit_timestamp").alias("offset_at")
    )
    joined = log.join(simple, "group_id", "full_outer")
    untold = F.coalesce("gone", F.lit(True))
    simply = {"type": "classic", "state": "Empty", "protocol_type": "", "member_count": 0}
    others = ("protocol", "generation", "leader_id", "empty_since")
    return joined.select(
        "group_id",
        "seen_at",
        "offset_at",
        (untold & F.col("has_offsets").isNull()).alias("gone"),
        *(
            F.when(untold, value).otherwise(F.col(name)).alias(name)
            for name, value in simply.items()
        ),
        *(F.when(~untold, F.col(name)).alias(name) for name in others),
    )
