"""The mart `members_now`: who is in which group and what they have, by the newest snapshot or by the log.

Whichever saw a group last decides about its members, as in groups_now.py about the group.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie.spark.marts.groups_now import newest_snapshot
from coterie.spark.marts.inputs import (
    Inputs,
    about_members,
    about_whole_groups,
    conform,
    latest,
    latest_of_groups,
    latest_snapshot,
)

__all__ = ["members_now", "topics_by_id"]

_GIVEN = "array<struct<topic:string,topic_id:string,partitions:array<int>>>"
#: Of a group and a pattern: the topics that it matched.
_PATTERN = "ConsumerGroupRegularExpression"
#: Records that have both the name and the id of a topic.
_NAMING = ("ConsumerGroupPartitionMetadata", "ShareGroupStatePartitionMetadata")


def members_now(inputs: Inputs) -> DataFrame:
    """A row per member."""
    events = inputs["group_events"]
    names = topics_by_id(inputs["commits"], events)
    if "members" not in inputs:
        return conform(_with_matched(_members_by_log(events, names), events), "members_now")
    members = inputs["members"]
    snapshots = inputs.get("groups", members)
    live = _members_by_snapshot(members, inputs["assignments"], snapshots)
    if "group_events" not in inputs:
        return conform(live, "members_now")
    changed = _changed_since(events, snapshots)
    if "groups" in inputs and "errors" in inputs:
        unseen = _not_shown(events, snapshots, inputs["errors"])
        changed = changed.unionByName(unseen).distinct()
    changed = F.broadcast(changed)
    members = live.join(changed, "group_id", "left_anti").unionByName(
        _members_by_log(events, names).join(changed, "group_id", "left_semi")
    )
    return conform(_with_matched(members, events), "members_now")


def topics_by_id(commits: DataFrame, events: DataFrame) -> DataFrame:
    """Names of topics by their ids, as far as the log tells both: KIP-848 assigns by id."""
    of_commits = commits.select("topic_id", F.col("topic").alias("topic_name"))
    given = events.where(F.col("record").isin(*_NAMING)).select(
        F.explode("assignment").alias("given")
    )
    of_groups = given.select("given.topic_id", F.col("given.topic").alias("topic_name"))
    pairs = of_commits.unionByName(of_groups).where(F.col("topic_id").isNotNull())
    # Of all commits few pairs are left; the largest text of a group Spark finds by sorting it.
    return pairs.distinct().groupBy("topic_id").agg(F.max("topic_name").alias("topic_name"))


def _with_matched(people: DataFrame, events: DataFrame) -> DataFrame:
    """Subscriptions with the topics that the coordinator found for the member's pattern (KIP-848)."""
    keys = ["group_id", "subscription_regex"]
    patterns = latest(events.where(F.col("record") == _PATTERN), keys)
    matched = patterns.select(*keys, F.col("subscription").alias("matched"))
    named = F.coalesce("subscription", F.array().cast("array<string>"))
    whole = F.when(F.col("matched").isNull(), F.col("subscription")).otherwise(
        F.array_union(named, "matched")
    )
    found = people.join(F.broadcast(matched), keys, "left").withColumn("subscription", whole)
    return found.drop("subscription_regex", "matched")


def _changed_since(events: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Groups of which the log has something newer than the newest snapshot: there it knows better."""
    newest = snapshots.agg(F.max("taken_at").alias("newest"))
    changes = events.where(about_whole_groups() | about_members())
    later = F.col("newest").isNull() | (F.col("timestamp") > F.col("newest"))
    return changes.join(F.broadcast(newest), later).select("group_id").distinct()


def _not_shown(events: DataFrame, snapshots: DataFrame, errors: DataFrame) -> DataFrame:
    """Groups of which a partial snapshot does not tell; none if it is whole."""
    shown = latest_snapshot(snapshots).select("group_id")
    partial = newest_snapshot(snapshots, errors).where("partial").select()
    untold = events.select("group_id").distinct().join(shown, "group_id", "left_anti")
    return untold.crossJoin(F.broadcast(partial))


def _members_by_snapshot(people: DataFrame, given: DataFrame, snapshots: DataFrame) -> DataFrame:
    places = (
        latest_snapshot(given, snapshots)
        .where(~F.col("target"))
        .groupBy("group_id", "member_id")
        .agg(F.collect_list(F.struct("topic", "partition")).alias("places"))
    )
    return (
        latest_snapshot(people, snapshots)
        .join(places, ["group_id", "member_id"], "left")
        .select(
            "group_id",
            "member_id",
            "client_id",
            "host",
            "subscription",
            "subscription_regex",
            "places",
        )
    )


def _members_by_log(events: DataFrame, names: DataFrame) -> DataFrame:
    log = _classic_members(events).unionByName(_modern_members(events))
    exploded = log.select("*", F.explode_outer("given").alias("one")).join(
        F.broadcast(names), F.col("one.topic_id") == F.col("topic_id"), "left"
    )
    topic = F.coalesce("one.topic", "topic_name", "one.topic_id")
    pairs = F.transform(
        F.col("one.partitions"),
        lambda index: F.struct(
            F.when(~F.col("has_tasks"), topic).alias("topic"), index.alias("partition")
        ),
    )
    return exploded.groupBy("group_id", "member_id").agg(
        F.first("client_id").alias("client_id"),
        F.first("host").alias("host"),
        F.first("subscription").alias("subscription"),
        F.first("subscription_regex").alias("subscription_regex"),
        F.flatten(F.collect_list(pairs)).alias("places"),
    )


def _classic_members(events: DataFrame) -> DataFrame:
    newest = latest_of_groups(events).where(
        (F.col("group_type") == "classic") & ~F.col("tombstone")
    )
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
        F.lit(None).cast("string").alias("subscription_regex"),
        F.lit(False).alias("has_tasks"),
        given.cast(_GIVEN).alias("given"),
    )


def _modern_members(events: DataFrame) -> DataFrame:
    keys = ["group_id", "member_id"]
    people = latest(events.where(about_members()), keys).where(~F.col("tombstone"))
    has = events.where(F.col("record").endswith("GroupCurrentMemberAssignment"))
    has = latest(has, keys).where(~F.col("tombstone"))
    has = has.select(*keys, F.col("assignment").cast(_GIVEN).alias("given"))
    people = people.select(
        *keys,
        "client_id",
        F.col("client_host").alias("host"),
        "subscription",
        "subscription_regex",
        (F.col("group_type") == "streams").alias("has_tasks"),
    )
    return people.join(has, keys, "left")
