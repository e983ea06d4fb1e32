"""The mart `offset_resets`: committed offsets that moved backwards, and who moved them.

An offset that was removed in between is no reset: a group that comes back after its offsets have expired
begins anew. Whoever had the partition when the commit was written is the one who made it; in a group
without members that is an administrator, or a consumer that assigns partitions by hand. Where the log does
not show who had it, nor that there were no members, it is unknown.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.spark.marts.inputs import Inputs, conform, settled_commits
from coterie.spark.marts.members_now import topics_by_id

__all__ = ["offset_resets"]


_GIVEN = "array<struct<topic:string,partitions:array<int>>>"
_OWNERS = f"array<struct<member_id:string,client_id:string,host:string,assignment:{_GIVEN}>>"
_PLACES = "array<struct<topic_id:string,partition:int>>"
_NAMES = ("member_id", "client_id", "host")
_PERSON = "struct<member_id:string,client_id:string,host:string>"


def offset_resets(inputs: Inputs) -> DataFrame:
    """Every commit that is lower than the one before it."""
    log = settled_commits(inputs["commits"])
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
        "metadata",
        F.lag("committed_offset").over(in_order).alias("from_offset"),
    )
    found = rows.where(F.col("committed_offset") < F.col("from_offset"))
    events = inputs["group_events"]
    records = _member_records(events)
    names = topics_by_id(inputs["commits"], events)
    owned = _with_members(_with_modern_owner(found, records, names), events, records)
    return conform(_told(owned, has_events="group_events" in inputs), "offset_resets")


def _beside(found: DataFrame, news: DataFrame) -> DataFrame:
    """Resets and what the log says of groups, in one table.

    They are sorted together: resets are made from the whole log, and are to be looked at only once.
    """
    return found.withColumn("is_reset", F.lit(True)).unionByName(
        news.withColumn("is_reset", F.lit(False)), allowMissingColumns=True
    )


def _resets_of(both: DataFrame) -> DataFrame:
    return both.where("is_reset").drop("is_reset")


def _member_records(events: DataFrame) -> DataFrame:
    """What KIP-848 groups write of members, one by one: who came (1) or went (-1), and what each has."""
    record = F.col("record")
    is_assignment = record.endswith("GroupCurrentMemberAssignment")
    rows = events.where(F.col("group_type") != "classic").where(
        is_assignment | record.endswith("GroupMemberMetadata")
    )
    of_member = Window.partitionBy("group_id", "member_id")
    in_order = of_member.orderBy("partition", "offset")
    nothing = F.expr("array()").cast(_PLACES)
    # Tasks of streams groups are no partitions of a topic: nobody can tell which ones they stand for.
    is_told = is_assignment & (F.col("group_type") != "streams")
    has = F.when(F.col("tombstone"), nothing).when(is_told, _places(nothing))
    was_there = F.coalesce(F.lag(~F.col("tombstone")).over(in_order), F.lit(False))
    had = F.last(has, ignorenulls=True).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    return rows.select(
        "group_id",
        "partition",
        "offset",
        ((~F.col("tombstone")).cast("int") - was_there.cast("int")).alias("came"),
        has.alias("has"),
        F.array_except(had, has).alias("lost"),
        F.struct(
            "member_id",
            F.max("client_id").over(of_member).alias("client_id"),
            F.max("client_host").over(of_member).alias("host"),
        ).alias("member"),
    )


def _places(nothing: Column) -> Column:
    """The partitions of an assignment, one by one."""
    each = F.transform(
        "assignment",
        lambda given: F.transform(
            given["partitions"],
            lambda index: F.struct(given["topic_id"].alias("topic_id"), index.alias("partition")),
        ),
    )
    return F.coalesce(F.flatten(each).cast(_PLACES), nothing)


def _with_modern_owner(found: DataFrame, records: DataFrame, names: DataFrame) -> DataFrame:
    """Each reset with the member of a KIP-848 group that had the partition, by the topic's name.

    Members have ids of topics, commits need not: those of transactions and of older versions have none.
    """
    nobody = F.lit(None).cast(_PERSON)
    changes = F.concat(
        _owned(F.coalesce("lost", F.expr("array()").cast(_PLACES)), nobody),
        _owned(F.coalesce("has", F.expr("array()").cast(_PLACES)), F.col("member")),
    )
    each = records.select("group_id", "partition", "offset", F.explode(changes).alias("change"))
    owners = each.join(F.broadcast(names), F.col("change.topic_id") == F.col("topic_id")).select(
        "group_id",
        "partition",
        "offset",
        F.col("topic_name").alias("topic"),
        F.col("change.topic_partition").alias("topic_partition"),
        F.struct(F.col("change.member").alias("member")).alias("modern"),
    )
    # A topic that was made anew is lost and had in one record: what a member has then comes last.
    so_far = (
        Window.partitionBy("group_id", "topic", "topic_partition")
        .orderBy("partition", "offset", F.col("modern.member").isNotNull())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    newest = F.last("modern", ignorenulls=True).over(so_far)
    return _resets_of(_beside(found, owners).withColumn("modern", newest))


def _owned(places: Column, member: Column) -> Column:
    return F.transform(
        places,
        lambda place: F.struct(
            place["topic_id"].alias("topic_id"),
            place["partition"].alias("topic_partition"),
            member.alias("member"),
        ),
    )


def _with_members(found: DataFrame, events: DataFrame, records: DataFrame) -> DataFrame:
    """Each reset with the members that its group had then.

    `owners` are those of a classic group's generation, `modern_members` counts those of a KIP-848 group.
    `first_generation` tells whether the log has the beginning of a classic group.
    """
    generations = events.where(F.col("record") == "GroupMetadata").select(
        "group_id", "partition", "offset", "generation", _owners().alias("owners")
    )
    came = records.where("came <> 0").select("group_id", "partition", "offset", "came")
    both = _beside(found, generations.unionByName(came, allowMissingColumns=True))
    of_group = Window.partitionBy("group_id")
    so_far = of_group.orderBy("partition", "offset").rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    known = both.withColumns(
        {
            "owners": F.last("owners", ignorenulls=True).over(so_far),
            "modern_members": F.coalesce(F.sum("came").over(so_far), F.lit(0)),
            "first_generation": F.min("generation").over(of_group),
        }
    )
    return _resets_of(known)


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


def _nobody_there() -> Column:
    """Whether the group is known to have had no members: of a log that begins later, nobody can tell."""
    begins_later = F.col("owners").isNull() & (F.coalesce("first_generation", F.lit(0)) > 1)
    has_members = (F.coalesce(F.size("owners"), F.lit(0)) > 0) | (F.col("modern_members") > 0)
    return ~has_members & ~begins_later


def _told(found: DataFrame, *, has_events: bool) -> DataFrame:
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

    classic = F.get(F.filter("owners", has), 0)
    owner = F.coalesce(
        F.when(classic.isNotNull(), F.struct(*(classic[name].alias(name) for name in _NAMES))),
        F.col("modern.member"),
    )
    named = found.withColumn("owner", owner)
    by = (
        F.when(F.col("owner").isNotNull(), "member")
        .when(_nobody_there() & F.lit(has_events), "administrator")
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
        "owner.member_id",
        "owner.client_id",
        "owner.host",
        "metadata",
        F.col("partition").alias("log_partition"),
        F.col("offset").alias("log_offset"),
    )
