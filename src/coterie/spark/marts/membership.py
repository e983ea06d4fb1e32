"""Who is in which group now, and what they have: from the newest snapshot, or from the log.

A snapshot, where there is one, decides: it is what the coordinators said. Without one the log does, as a
coordinator would that has just read it.
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from coterie.spark.marts.inputs import dataset_or_empty, latest_snapshot

__all__ = ["groups_now", "members_now", "topics_by_id"]

_GIVEN = "array<struct<topic:string,topic_id:string,partitions:array<int>>>"


def topics_by_id(commits: DataFrame) -> DataFrame:
    """Names of topics by their ids, as far as commits tell both: KIP-848 assigns by id."""
    known = commits.where(F.col("topic_id").isNotNull())
    pairs = known.select("topic_id", F.col("topic").alias("topic_name")).distinct()
    return pairs.groupBy("topic_id").agg(F.max("topic_name").alias("topic_name"))


def groups_now(
    session: SparkSession,
    *,
    group_events: DataFrame | None,
    committed: DataFrame,
    groups: DataFrame | None,
    as_of: datetime | None = None,
) -> DataFrame:
    """Every group that there is: type, state, generation and so on, and since when it has no members.

    `committed` has the groups with offsets: rows of the mart `lag`, or of `committed_now`.
    """
    events = dataset_or_empty("group_events", group_events, session, as_of)
    log = _classic_groups(events).unionByName(_modern_groups(events), allowMissingColumns=True)
    log = _with_simple_groups(log, committed)
    if groups is None:
        nothing = F.lit(None)
        return log.withColumns(
            {"coordinator_id": nothing.cast("int"), "coordinator": nothing.cast("string")}
        )
    live = latest_snapshot(dataset_or_empty("groups", groups, session, as_of)).select(
        "group_id",
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
    # Groups that only the log has are gone: a snapshot is newer than what it does not show.
    both = live.join(log, "group_id", "left")
    names = ("type", "state", "protocol_type", "protocol", "generation", "leader_id", "members")
    return both.select(
        "group_id",
        *(F.coalesce(f"live_{name}", name).alias(name) for name in names),
        "empty_since",
        "coordinator_id",
        "coordinator",
    )


def _classic_groups(events: DataFrame) -> DataFrame:
    records = events.where(F.col("record") == "GroupMetadata")
    newest = _newest(records, ["group_id"]).where(~F.col("tombstone"))
    count = F.coalesce(F.size("members"), F.lit(0))
    nobody = count == 0
    return newest.select(
        "group_id",
        F.lit("classic").alias("type"),
        F.when(nobody, "Empty").otherwise("Stable").alias("state"),
        "protocol_type",
        "protocol",
        "generation",
        "leader_id",
        count.alias("members"),
        F.when(
            nobody & (F.col("generation") > 0), F.coalesce("state_timestamp", "timestamp")
        ).alias("empty_since"),
    )


def _modern_groups(events: DataFrame) -> DataFrame:
    """Consumer, share and streams groups: they are there from their epoch's record to its tombstone."""
    modern = events.where(F.col("group_type") != "classic")
    lives = modern.where(F.col("record").rlike("^(Consumer|Share|Streams)GroupMetadata$"))
    newest = _newest(lives, ["group_id"]).where(~F.col("tombstone"))
    counts = (
        _newest(_of_members(modern), ["group_id", "member_id"])
        .groupBy("group_id")
        .agg(
            F.count_if(~F.col("tombstone")).alias("members"),
            F.max("timestamp").alias("changed_at"),
        )
    )
    count = F.coalesce("members_", F.lit(0))
    return newest.join(counts.withColumnRenamed("members", "members_"), "group_id", "left").select(
        "group_id",
        F.col("group_type").alias("type"),
        F.when(count == 0, "Empty").otherwise("Stable").alias("state"),
        F.when(F.col("group_type") == "consumer", "consumer")
        .otherwise(F.col("group_type"))
        .alias("protocol_type"),
        "generation",
        count.cast("int").alias("members"),
        F.when(count == 0, F.col("changed_at")).alias("empty_since"),
    )


def _of_members(modern: DataFrame) -> DataFrame:
    return modern.where(F.col("record").endswith("GroupMemberMetadata"))


def _with_simple_groups(log: DataFrame, committed: DataFrame) -> DataFrame:
    """Groups of which only offsets tell: they assign partitions by hand, and are always Empty."""
    simple = committed.select("group_id").distinct()
    joined = log.withColumn("told", F.lit(True)).join(simple, "group_id", "full_outer")
    untold = F.col("told").isNull()
    return joined.withColumns(
        {
            "type": F.when(untold, "classic").otherwise(F.col("type")),
            "state": F.when(untold, "Empty").otherwise(F.col("state")),
            "protocol_type": F.when(untold, "").otherwise(F.col("protocol_type")),
            "members": F.when(untold, 0).otherwise(F.col("members")),
        }
    ).drop("told")


def members_now(
    session: SparkSession,
    *,
    group_events: DataFrame | None,
    commits: DataFrame | None,
    groups: DataFrame | None,
    members: DataFrame | None,
    assignments: DataFrame | None,
    as_of: datetime | None = None,
) -> DataFrame:
    """Every member: group_id, member_id, client_id, host, subscription, and `places`: (topic, partition)s."""
    if members is not None:
        reference = None if groups is None else dataset_or_empty("groups", groups, session, as_of)
        people = latest_snapshot(dataset_or_empty("members", members, session, as_of), reference)
        given = latest_snapshot(
            dataset_or_empty("assignments", assignments, session, as_of), reference
        )
        places = (
            given.where(~F.col("target"))
            .groupBy("group_id", "member_id")
            .agg(F.collect_list(F.struct("topic", "partition")).alias("places"))
        )
        return people.join(places, ["group_id", "member_id"], "left").select(
            "group_id", "member_id", "client_id", "host", "subscription", "places"
        )
    events = dataset_or_empty("group_events", group_events, session, as_of)
    log = _classic_members(events).unionByName(_modern_members(events))
    names = topics_by_id(dataset_or_empty("commits", commits, session, as_of))
    exploded = log.select("*", F.explode_outer("given").alias("one")).join(
        F.broadcast(names), F.col("one.topic_id") == F.col("topic_id"), "left"
    )
    pairs = F.transform(
        F.col("one.partitions"),
        lambda index: F.struct(
            F.coalesce("one.topic", "topic_name", "one.topic_id").alias("topic"),
            index.alias("partition"),
        ),
    )
    return exploded.groupBy("group_id", "member_id").agg(
        F.first("client_id").alias("client_id"),
        F.first("host").alias("host"),
        F.first("subscription").alias("subscription"),
        F.flatten(F.collect_list(pairs)).alias("places"),
    )


def _classic_members(events: DataFrame) -> DataFrame:
    records = events.where(F.col("record") == "GroupMetadata")
    newest = _newest(records, ["group_id"]).where(~F.col("tombstone"))
    each = newest.select("group_id", F.explode("members").alias("member"))
    given = F.transform(
        F.col("member.assignment"),
        lambda one: F.struct(
            one["topic"].alias("topic"),
            F.lit(None).cast("string").alias("topic_id"),
            one["partitions"].alias("partitions"),
        ),
    )
    return each.select(
        "group_id",
        "member.member_id",
        "member.client_id",
        F.col("member.client_host").alias("host"),
        "member.subscription",
        given.cast(_GIVEN).alias("given"),
    )


def _modern_members(events: DataFrame) -> DataFrame:
    modern = events.where(F.col("group_type") != "classic")
    keys = ["group_id", "member_id"]
    people = _newest(_of_members(modern), keys).where(~F.col("tombstone"))
    has = modern.where(F.col("record").endswith("GroupCurrentMemberAssignment"))
    has = _newest(has, keys).where(~F.col("tombstone"))
    has = has.select(*keys, F.col("assignment").cast(_GIVEN).alias("given"))
    people = people.select(*keys, "client_id", F.col("client_host").alias("host"), "subscription")
    return people.join(has, keys, "left")


def _newest(rows: DataFrame, keys: list[str]) -> DataFrame:
    """The last row of each key, in the order of the log."""
    backwards = Window.partitionBy(*keys).orderBy(F.desc("partition"), F.desc("offset"))
    numbered = rows.withColumn("place_from_end", F.row_number().over(backwards))
    return numbered.where("place_from_end = 1").drop("place_from_end")
