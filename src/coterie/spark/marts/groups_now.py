"""The mart `groups_now`: every group that there is, and its state.

Of each group, whichever saw it last decides: a snapshot is what the coordinators said, and what the log has
written since then is newer. Without a snapshot the log decides, as a coordinator would that has just read it.
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie.spark.marts.committed import committed_now
from coterie.spark.marts.group_records import about_members, latest, latest_of_groups
from coterie.spark.marts.inputs import dataset_or_empty, latest_snapshot, session_of
from coterie.spark.marts.schemas import MartColumn, conform

__all__ = ["GROUPS_NOW", "groups_now", "newest_snapshot"]

GROUPS_NOW = (
    MartColumn("group_id", "string", "The group."),
    MartColumn("type", "string", "`classic`, `consumer`, `share` or `streams`."),
    MartColumn("state", "string", "State; from the log alone `Stable` or `Empty`."),
    MartColumn("protocol_type", "string", "Kind of protocol; empty for a simple group."),
    MartColumn("protocol", "string", "Assignor in use; null if not known."),
    MartColumn("generation", "int", "Generation, or epoch of the group."),
    MartColumn("leader_id", "string", "Member id of a classic group's leader."),
    MartColumn("coordinator_id", "int", "Node id of the coordinator; null without a snapshot."),
    MartColumn("coordinator", "string", "Its address, host:port; null without a snapshot."),
    MartColumn("members", "int", "How many members it has."),
    MartColumn("empty_since", "timestamp", "Since when it has none, if so and if known."),
)


def groups_now(
    group_events: DataFrame | None = None,
    *,
    commits: DataFrame | None = None,
    offsets: DataFrame | None = None,
    groups: DataFrame | None = None,
    errors: DataFrame | None = None,
    lag: DataFrame | None = None,
    as_of: datetime | None = None,
) -> DataFrame:
    """A row per group. Those that only have offsets are in `lag`, or else in `commits` and `offsets`."""
    session = session_of(group_events, commits, offsets, groups, lag)
    committed = lag
    if committed is None:
        log = dataset_or_empty("commits", commits, session)
        committed = committed_now(log, offsets, as_of, groups=groups)
    events = dataset_or_empty("group_events", group_events, session, as_of)
    log = _with_simple_groups(_groups_by_log(events), committed)
    if groups is None:
        nothing = {"coordinator_id": F.lit(None), "coordinator": F.lit(None)}
        return conform(log.where(~F.col("gone")).withColumns(nothing), GROUPS_NOW)
    snapshots = dataset_or_empty("groups", groups, session, as_of)
    live = latest_snapshot(snapshots).select(
        "group_id",
        F.lit(True).alias("is_live"),
        F.col("type").alias("live_type"),
        F.col("state").alias("live_state"),
        F.col("protocol_type").alias("live_protocol_type"),
        F.coalesce("assignor", "protocol").alias("live_protocol"),
        F.col("generation").alias("live_generation"),
        F.col("leader_id").alias("live_leader_id"),
        F.col("member_count").alias("live_members"),
        "coordinator_id",
        "coordinator",
    )
    failures = None if errors is None else dataset_or_empty("errors", errors, session, as_of)
    known = _since_snapshot(log, newest_snapshot(snapshots, failures))
    return conform(_later(live.join(known, "group_id", "full_outer")), GROUPS_NOW)


def newest_snapshot(snapshots: DataFrame, errors: DataFrame | None) -> DataFrame:
    """When the newest snapshot was taken, and whether it is `partial`: a broker did not answer."""
    newest = snapshots.agg(F.max("taken_at").alias("newest"))
    if errors is None:
        return newest.withColumn("partial", F.lit(False))
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
    names = ("type", "state", "protocol_type", "protocol", "generation", "leader_id", "members")
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
    return found.withColumn("empty_since", F.when(F.col("members") == 0, F.col("empty_since")))


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
            count.alias("members"),
            F.when(count == 0, emptied).alias("empty_since"),
        )
    )


def _with_simple_groups(log: DataFrame, committed: DataFrame) -> DataFrame:
    """Groups of which only offsets tell: they assign partitions by hand, and are always Empty."""
    simple = committed.groupBy("group_id").agg(
        F.lit(True).alias("has_offsets"), F.max("commit_time").alias("offset_at")
    )
    joined = log.join(simple, "group_id", "full_outer")
    untold = F.coalesce("gone", F.lit(True))
    simply = {"type": "classic", "state": "Empty", "protocol_type": "", "members": 0}
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
