"""Who is in which group now, and what they have: from the newest snapshot, or from the log.

Of each group, whichever saw it last decides: a snapshot is what the coordinators said, and what the log has
written since then is newer. Without a snapshot the log decides, as a coordinator would that has just read it.
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from coterie.spark.marts.inputs import dataset_or_empty, latest_snapshot

__all__ = ["groups_now", "members_now", "topics_by_id"]

_GIVEN = "array<struct<topic:string,topic_id:string,partitions:array<int>>>"
#: Records of a group as a whole, and of a member where members have their own.
_WHOLE = "^(Consumer|Share|Streams|)GroupMetadata$"
_MEMBER = "^(Consumer|Share|Streams)GroupMemberMetadata$"
#: Of a group and a pattern: the topics that it matched.
_PATTERN = "ConsumerGroupRegularExpression"
#: Records that have both the name and the id of a topic.
_NAMING = ("ConsumerGroupPartitionMetadata", "ShareGroupStatePartitionMetadata")


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


def groups_now(
    session: SparkSession,
    *,
    group_events: DataFrame | None,
    committed: DataFrame,
    groups: DataFrame | None,
    errors: DataFrame | None = None,
    as_of: datetime | None = None,
) -> DataFrame:
    """Every group that there is: type, state, generation and so on, and since when it has no members.

    `committed` has the groups with offsets: rows of the mart `lag`, or of `committed_now`.
    """
    events = dataset_or_empty("group_events", group_events, session, as_of)
    log = _with_simple_groups(_groups_by_log(events), committed)
    if groups is None:
        nothing = F.lit(None)
        return (
            log.where(~F.col("gone"))
            .drop("gone", "seen_at", "offset_at")
            .withColumns(
                {"coordinator_id": nothing.cast("int"), "coordinator": nothing.cast("string")}
            )
        )
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
    newest = _newest_snapshot(snapshots, failures)
    return _later(live.join(_since_snapshot(log, newest), "group_id", "full_outer"))


def _newest_snapshot(snapshots: DataFrame, errors: DataFrame | None) -> DataFrame:
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


def _lives(events: DataFrame) -> DataFrame:
    """The newest record of each group as a whole, of whichever protocol: groups may change theirs."""
    return _newest(events.where(F.col("record").rlike(_WHOLE)), ["group_id"])


def _groups_by_log(events: DataFrame) -> DataFrame:
    """Groups by their newest record; `gone` are those that were deleted.

    Members of classic groups are in that record, those of the others have records of their own.
    """
    counts = (
        _newest(_of_members(events), ["group_id", "member_id"])
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
        _lives(events)
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


def _of_members(events: DataFrame) -> DataFrame:
    return events.where(F.col("record").rlike(_MEMBER))


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


def members_now(
    session: SparkSession,
    *,
    group_events: DataFrame | None,
    commits: DataFrame | None,
    groups: DataFrame | None,
    members: DataFrame | None,
    assignments: DataFrame | None,
    errors: DataFrame | None = None,
    as_of: datetime | None = None,
) -> DataFrame:
    """Every member: group_id, member_id, client_id, host, subscription, and `places`: (topic, partition)s.

    To a subscription belongs what its pattern matches, if the log tells. Tasks of streams groups are places
    without a topic: the log does not tell which ones they are about.
    """
    events = dataset_or_empty("group_events", group_events, session, as_of)
    names = topics_by_id(dataset_or_empty("commits", commits, session, as_of), events)
    if members is None:
        return _with_matched(_members_by_log(events, names), events)
    people = dataset_or_empty("members", members, session, as_of)
    snapshots = people if groups is None else dataset_or_empty("groups", groups, session, as_of)
    given = dataset_or_empty("assignments", assignments, session, as_of)
    live = _members_by_snapshot(people, given, snapshots)
    if group_events is None:
        return live.drop("subscription_regex")
    changed = _changed_since(events, snapshots)
    if groups is not None and errors is not None:
        failures = dataset_or_empty("errors", errors, session, as_of)
        changed = changed.unionByName(_not_shown(events, snapshots, failures)).distinct()
    changed = F.broadcast(changed)
    people = live.join(changed, "group_id", "left_anti").unionByName(
        _members_by_log(events, names).join(changed, "group_id", "left_semi")
    )
    return _with_matched(people, events)


def _with_matched(people: DataFrame, events: DataFrame) -> DataFrame:
    """Subscriptions with the topics that the coordinator found for the member's pattern (KIP-848)."""
    keys = ["group_id", "subscription_regex"]
    patterns = _newest(events.where(F.col("record") == _PATTERN), keys)
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
    changes = events.where(F.col("record").rlike(_WHOLE) | F.col("record").rlike(_MEMBER))
    later = F.col("newest").isNull() | (F.col("timestamp") > F.col("newest"))
    return changes.join(F.broadcast(newest), later).select("group_id").distinct()


def _not_shown(events: DataFrame, snapshots: DataFrame, errors: DataFrame) -> DataFrame:
    """Groups of which a partial snapshot does not tell; none if it is whole."""
    shown = latest_snapshot(snapshots).select("group_id")
    partial = _newest_snapshot(snapshots, errors).where("partial").select()
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
    newest = _lives(events).where((F.col("group_type") == "classic") & ~F.col("tombstone"))
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
    people = _newest(_of_members(events), keys).where(~F.col("tombstone"))
    has = events.where(F.col("record").endswith("GroupCurrentMemberAssignment"))
    has = _newest(has, keys).where(~F.col("tombstone"))
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


def _newest(rows: DataFrame, keys: list[str]) -> DataFrame:
    """The last row of each key, in the order of the log."""
    backwards = Window.partitionBy(*keys).orderBy(F.desc("partition"), F.desc("offset"))
    numbered = rows.withColumn("place_from_end", F.row_number().over(backwards))
    return numbered.where("place_from_end = 1").drop("place_from_end")
