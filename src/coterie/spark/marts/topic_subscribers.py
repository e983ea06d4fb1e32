"""The mart `topic_subscribers`: which groups have to do with which topics, to be read both ways.

One row per topic and group. A group has to do with a topic if a member subscribes to it, has a partition of
it, or if the group has offsets of it: the last alone is what deleting the topic would leave behind.
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie.spark.marts.committed import committed_now
from coterie.spark.marts.groups_now import groups_now as groups_now_mart
from coterie.spark.marts.inputs import dataset_or_empty, session_of
from coterie.spark.marts.members_now import members_now as members_now_mart
from coterie.spark.marts.schemas import MartColumn, conform

__all__ = ["TOPIC_SUBSCRIBERS", "topic_subscribers"]

TOPIC_SUBSCRIBERS = (
    MartColumn("topic", "string", "The topic."),
    MartColumn("group_id", "string", "The group."),
    MartColumn("type", "string", "Type of the group."),
    MartColumn("state", "string", "State of the group."),
    MartColumn("subscribed_members", "bigint", "Members that subscribe to the topic."),
    MartColumn("assigned_partitions", "bigint", "Partitions of it that members have."),
    MartColumn("committed_partitions", "bigint", "Partitions of it with an offset of the group."),
    MartColumn(
        "last_commit", "timestamp", "When the group last committed for it; null if unknown."
    ),
    MartColumn("lag", "bigint", "Lag of the group in the topic; null if not known."),
)
_KEYS = ["topic", "group_id"]


def topic_subscribers(
    group_events: DataFrame | None = None,
    *,
    commits: DataFrame | None = None,
    groups: DataFrame | None = None,
    members: DataFrame | None = None,
    assignments: DataFrame | None = None,
    offsets: DataFrame | None = None,
    errors: DataFrame | None = None,
    lag: DataFrame | None = None,
    groups_now: DataFrame | None = None,
    members_now: DataFrame | None = None,
    as_of: datetime | None = None,
) -> DataFrame:
    """Topics and groups that have to do with each other."""
    session = session_of(
        group_events, commits, groups, members, assignments, offsets, lag, groups_now, members_now
    )
    committed = lag
    if committed is None:
        log = dataset_or_empty("commits", commits, session)
        committed = committed_now(log, offsets, as_of, groups=groups)
    if members_now is None:
        log = dataset_or_empty("commits", commits, session)
        members_now = members_now_mart(
            group_events,
            commits=log,
            groups=groups,
            members=members,
            assignments=assignments,
            errors=errors,
            as_of=as_of,
        )
    if groups_now is None:
        groups_now = groups_now_mart(
            group_events, groups=groups, errors=errors, lag=committed, as_of=as_of
        )
    subscribed = _subscriptions(
        members_now, dataset_or_empty("group_events", group_events, session, as_of)
    )
    subscribed = subscribed.groupBy(*_KEYS).agg(F.count("*").alias("subscribed_members"))
    assigned = members_now.select("group_id", F.explode("places").alias("place"))
    assigned = (
        assigned.where(F.col("place.topic").isNotNull())
        .groupBy(F.col("place.topic").alias("topic"), "group_id")
        .agg(F.count("*").alias("assigned_partitions"))
    )
    behind = F.sum("lag") if "lag" in committed.columns else F.lit(None).cast("bigint")
    kept = committed.groupBy(*_KEYS).agg(
        F.count("*").alias("committed_partitions"),
        F.max("commit_time").alias("last_commit"),
        behind.alias("lag"),
    )
    found = (
        subscribed.join(assigned, _KEYS, "full_outer")
        .join(kept, _KEYS, "full_outer")
        .join(groups_now.select("group_id", "type", "state"), "group_id", "left")
    )
    counts = ("subscribed_members", "assigned_partitions", "committed_partitions")
    return conform(
        found.withColumns({name: F.coalesce(name, F.lit(0)) for name in counts}), TOPIC_SUBSCRIBERS
    )


def _subscriptions(people: DataFrame, events: DataFrame) -> DataFrame:
    """Who subscribes to what. Members of streams groups do not say: their topology does, for all of them."""
    topologies = (
        events.where(F.col("record") == "StreamsGroupTopology")
        .groupBy("group_id")
        .agg(F.max_by("subscription", "offset").alias("sources"))
    )
    topics = F.coalesce("subscription", "sources")
    return people.join(F.broadcast(topologies), "group_id", "left").select(
        "group_id", F.explode(topics).alias("topic")
    )
