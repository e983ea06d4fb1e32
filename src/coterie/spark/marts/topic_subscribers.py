"""The mart `topic_subscribers`: which groups have to do with which topics, to be read both ways.

One row per topic and group. A group has to do with a topic if a member subscribes to it, has a partition of
it, or if the group has offsets of it: the last alone is what deleting the topic would leave behind.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie.spark.marts.inputs import Inputs, conform

__all__ = ["topic_subscribers"]

_KEYS = ["topic", "group_id"]


def topic_subscribers(inputs: Inputs) -> DataFrame:
    """Topics and groups that have to do with each other."""
    members_now = inputs["members_now"]
    subscribed = _subscriptions(members_now, inputs["group_events"])
    subscribed = subscribed.groupBy(*_KEYS).agg(F.count("*").alias("subscribed_members"))
    assigned = members_now.select("group_id", F.explode("places").alias("place"))
    assigned = (
        assigned.where(F.col("place.topic").isNotNull())
        .groupBy(F.col("place.topic").alias("topic"), "group_id")
        .agg(F.count("*").alias("assigned_partitions"))
    )
    kept = (
        inputs["lag"]
        .groupBy(*_KEYS)
        .agg(
            F.count("*").alias("committed_partitions"),
            F.max("commit_timestamp").alias("last_commit"),
            F.sum("lag").alias("lag"),
        )
    )
    found = (
        subscribed.join(assigned, _KEYS, "full_outer")
        .join(kept, _KEYS, "full_outer")
        .join(inputs["groups_now"].select("group_id", "type", "state"), "group_id", "left")
    )
    counts = ("subscribed_members", "assigned_partitions", "committed_partitions")
    found = found.withColumns({name: F.coalesce(name, F.lit(0)) for name in counts})
    return conform(found, "topic_subscribers")


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
