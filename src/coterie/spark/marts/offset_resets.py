"""The mart `offset_resets`: committed offsets that moved backwards, and who moved them.

An offset that was removed in between is no reset: a group that comes back after its offsets have expired
begins anew. Whoever had the partition when the commit was written is the one who made it; in a group
without members that is an administrator, or a consumer that assigns partitions by hand.
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.spark.marts.inputs import dataset_or_empty, session_of, settled_commits
from coterie.spark.marts.schemas import MartColumn, conform

__all__ = ["OFFSET_RESETS", "offset_resets"]

OFFSET_RESETS = (
    MartColumn("group_id", "string", "The group."),
    MartColumn("topic", "string", "The topic."),
    MartColumn("partition", "int", "The topic's partition."),
    MartColumn("time", "timestamp", "When the lower offset was written."),
    MartColumn("from_offset", "bigint", "What was committed before."),
    MartColumn("to_offset", "bigint", "What was committed then."),
    MartColumn("moved_back", "bigint", "from_offset - to_offset."),
    MartColumn("by", "string", "`member`, `administrator` (no members) or `unknown`."),
    MartColumn("member_id", "string", "The member that had the partition; else null."),
    MartColumn("client_id", "string", "Its client id."),
    MartColumn("host", "string", "Where it connected from."),
    MartColumn("metadata", "string", "Free text of the commit."),
    MartColumn("log_partition", "int", "Partition of `__consumer_offsets` of its record."),
    MartColumn("log_offset", "bigint", "Offset of its record."),
)

_GIVEN = "array<struct<topic:string,partitions:array<int>>>"
_OWNERS = f"array<struct<member_id:string,client_id:string,host:string,assignment:{_GIVEN}>>"


def offset_resets(
    commits: DataFrame | None = None,
    *,
    group_events: DataFrame | None = None,
    as_of: datetime | None = None,
) -> DataFrame:
    """Every commit that is lower than the one before it."""
    session = session_of(commits, group_events)
    log = settled_commits(dataset_or_empty("commits", commits, session, as_of))
    in_order = Window.partitionBy("group_id", "topic", "topic_partition").orderBy(
        "partition", "offset"
    )
    rows = log.select(
        "group_id",
        "topic",
        "topic_partition",
        "partition",
        "offset",
        "timestamp",
        "committed_offset",
        "topic_id",
        "metadata",
        F.lag("committed_offset").over(in_order).alias("from_offset"),
    )
    found = rows.where(F.col("committed_offset") < F.col("from_offset"))
    events = dataset_or_empty("group_events", group_events, session, as_of)
    owned = _with_classic_owner(_with_modern_owner(found, events), events)
    return conform(_told(owned), OFFSET_RESETS)


def _with_classic_owner(found: DataFrame, events: DataFrame) -> DataFrame:
    """Each reset with the members of the generation that it was written in: the record before it."""
    generations = events.where(F.col("record") == "GroupMetadata").select(
        "group_id", "partition", "offset", _owners().alias("owners")
    )
    return _with_newest(found, generations, ["group_id"], "owners")


def _with_newest(found: DataFrame, news: DataFrame, keys: list[str], column: str) -> DataFrame:
    """Each reset with the newest value that the log has before it, for the same keys.

    Both are sorted together: resets are made from the whole log, and are to be looked at only once.
    """
    both = found.withColumn("is_reset", F.lit(True)).unionByName(
        news.withColumn("is_reset", F.lit(False)), allowMissingColumns=True
    )
    so_far = (
        Window.partitionBy(*keys)
        .orderBy("partition", "offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    known = both.withColumn(column, F.last(column, ignorenulls=True).over(so_far))
    return known.where("is_reset").drop("is_reset")


def _owners() -> Column:
    """Who has what, in a generation: no members after a tombstone."""
    people = F.transform(
        "members",
        lambda each: F.struct(
            each["member_id"].alias("member_id"),
            each["client_id"].alias("client_id"),
            each["client_host"].alias("host"),
            each["assignment"].alias("assignment"),
        ),
    )
    return F.coalesce(people, F.expr("array()")).cast(_OWNERS)


def _with_modern_owner(found: DataFrame, events: DataFrame) -> DataFrame:
    """The same for KIP-848 groups, whose members are written one by one, with ids of topics."""
    modern = events.where((F.col("group_type") != "classic") & ~F.col("tombstone"))
    people = (
        modern.where(F.col("record").endswith("GroupMemberMetadata"))
        .groupBy("group_id", F.col("member_id").alias("modern_id"))
        .agg(F.max("client_id").alias("modern_client"), F.max("client_host").alias("modern_host"))
    )
    has = modern.where(F.col("record").endswith("GroupCurrentMemberAssignment")).select(
        "group_id",
        "partition",
        "offset",
        F.col("member_id").alias("modern_id"),
        F.explode("assignment").alias("given"),
    )
    places = has.select(
        "group_id",
        "partition",
        "offset",
        "modern_id",
        F.col("given.topic_id").alias("topic_id"),
        F.explode("given.partitions").alias("topic_partition"),
    )
    keys = ["group_id", "topic_id", "topic_partition"]
    owned = _with_newest(found, places, keys, "modern_id")
    return owned.join(people, ["group_id", "modern_id"], "left")


def _told(found: DataFrame) -> DataFrame:
    def has(member: Column) -> Column:
        return F.exists(
            F.coalesce(
                member["assignment"],
                F.expr("array()").cast(_GIVEN),
            ),
            lambda given: (
                (given["topic"] == F.col("topic"))
                & F.array_contains(given["partitions"], F.col("topic_partition"))
            ),
        )

    named = found.withColumn("owner", F.get(F.filter("owners", has), 0))
    by = (
        F.when(F.col("owner").isNotNull() | F.col("modern_id").isNotNull(), "member")
        .when(F.coalesce(F.size("owners"), F.lit(0)) == 0, "administrator")
        .otherwise("unknown")
    )
    return named.select(
        "group_id",
        "topic",
        F.col("topic_partition").alias("partition"),
        F.col("timestamp").alias("time"),
        "from_offset",
        F.col("committed_offset").alias("to_offset"),
        (F.col("from_offset") - F.col("committed_offset")).alias("moved_back"),
        by.alias("by"),
        F.coalesce("owner.member_id", "modern_id").alias("member_id"),
        F.coalesce("owner.client_id", "modern_client").alias("client_id"),
        F.coalesce("owner.host", "modern_host").alias("host"),
        "metadata",
        F.col("partition").alias("log_partition"),
        F.col("offset").alias("log_offset"),
    )
