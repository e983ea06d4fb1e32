"""Rebalances of classic groups: each generation compared with the one before it in the log.

A GroupMetadata record has the whole group: generation, leader, members with what they subscribe to and what
they were given. So two neighbouring records tell who came, who went and what moved. Lists are compared as
lists of strings, which Spark hashes; lists of structs it compares one with all.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from coterie.spark.marts.inputs import seconds

__all__ = ["generations", "life_of", "people"]

_MEMBERS = (
    "array<struct<member_id:string,instance_id:string,client_id:string,client_host:string,"
    "session_timeout_ms:int,rebalance_timeout_ms:int,subscription:array<string>,"
    "assignment:array<struct<topic:string,partitions:array<int>>>>>"
)
_RECORD = ["group_id", "partition", "offset"]
_NOBODY = f"cast(array() as {_MEMBERS})"
#: Between the parts of a name that is made of several: not to be found in topics or ids.
_BAR = "\u001f"


def generations(group_events: DataFrame) -> DataFrame:
    """One row per recorded generation or static restart, with what changed; no causes yet."""
    records = group_events.where(F.col("record") == "GroupMetadata").select(
        "group_id",
        "group_type",
        "partition",
        "offset",
        "timestamp",
        "tombstone",
        "generation",
        "leader_id",
        "state_timestamp",
        F.when(~F.col("tombstone"), F.coalesce("members", F.expr(_NOBODY))).alias("members"),
    )
    in_order = Window.partitionBy("group_id").orderBy("partition", "offset")
    before = F.struct("tombstone", "timestamp", "generation", "leader_id", "members")
    records = records.select(
        "*",
        F.lag(before).over(in_order).alias("before"),
        life_of(F.col("tombstone") | _is_born(), in_order).alias("life"),
    )
    # What comes before the first record of a group's life is of an earlier life.
    same_life = ~F.col("before.tombstone") & ~_is_born()
    pairs = records.where(~F.col("tombstone")).withColumn(
        "before", F.when(same_life, F.col("before"))
    )
    return _diff(pairs.where(_is_event()).join(_growth(records), _RECORD, "left"))


def life_of(ended: Column, in_order: WindowSpec) -> Column:
    """Which life of its group a record is of: a group that was deleted may be made anew."""
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return F.count_if(ended).over(so_far)


def _growth(records: DataFrame) -> DataFrame:
    """Records in which a topic has a higher partition than ever before, or is there for the first time.

    Not simply another set of partitions than before: a cooperative rebalance takes partitions away in one
    generation and hands them out in the next (KIP-429). Those of a new topic are nobody's, and handed out
    at once.
    """
    given = (
        records.select(*_RECORD, "life", F.explode("members.assignment").alias("given"))
        .select("*", F.explode("given").alias("one"))
        .groupBy(*_RECORD, "life", F.col("one.topic").alias("topic"))
        .agg(F.max(F.array_max("one.partitions")).alias("highest"))
    )
    earlier = (
        Window.partitionBy("group_id", "life", "topic")
        .orderBy("partition", "offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    compared = given.withColumn("known", F.max("highest").over(earlier))
    found = compared.groupBy(*_RECORD).agg(
        F.max(F.col("highest") > F.col("known")).alias("grown"),
        F.max(F.col("highest").isNotNull() & F.col("known").isNull()).alias("first_seen"),
    )
    return found.where("grown or first_seen")


def _is_born() -> Column:
    """Whether a record is a group's first: the tombstone before it may have been compacted away."""
    return (F.col("generation") == 0) & (F.size("members") == 0)


def _is_event() -> Column:
    """Whether a record is a rebalance or a static restart.

    The first record of a group is not, if it has no members: it says that the group exists. A record that
    repeats the one before is not either.
    """
    first = F.col("before").isNull() & ((F.col("generation") > 1) | (F.size("members") > 0))
    again = (F.col("generation") == F.col("before.generation")) & (
        _ids("members") == _ids("before.members")
    )
    return F.when(F.col("before").isNull(), first).otherwise(~again)


def _diff(pairs: DataFrame) -> DataFrame:
    """What changed from the record before."""
    # Without one, only a first generation is known to have begun with nobody.
    begins = F.col("before").isNull() & (F.col("generation") > 1)
    earlier = F.coalesce("before.members", F.expr(_NOBODY))
    sides = pairs.withColumn("earlier", earlier).withColumn("history_begins", begins)
    lists = sides.select(
        "*",
        _ids("members").alias("ids"),
        _ids("earlier").alias("old_ids"),
        _identities("members").alias("names"),
        _identities("earlier").alias("old_names"),
        _subscriptions("members").alias("subscriptions"),
        _subscriptions("earlier").alias("old_subscriptions"),
        _places("members", owner=False).alias("places"),
        _places("earlier", owner=False).alias("old_places"),
        _places("members", owner=True).alias("owned"),
        _places("earlier", owner=True).alias("old_owned"),
    )
    common = F.size(F.array_intersect("places", "old_places"))
    kept = F.size(F.array_intersect("owned", "old_owned"))
    known = ~F.col("history_begins")
    rebalanced = F.coalesce(F.col("generation") != F.col("before.generation"), F.lit(True))
    started_at = F.coalesce(F.when(rebalanced, F.col("state_timestamp")), "timestamp")
    return lists.select(
        "group_id",
        "group_type",
        "generation",
        F.col("before.generation").alias("previous_generation"),
        F.col("partition").alias("log_partition"),
        F.col("offset").alias("log_offset"),
        started_at.alias("started_at"),
        F.col("timestamp").alias("completed_at"),
        F.size("members").alias("member_count"),
        F.when(known, people(F.col("members"), F.col("old_ids"))).alias("joined"),
        F.when(known, people(F.col("earlier"), F.col("ids"))).alias("left"),
        "leader_id",
        F.when(known, ~F.col("leader_id").eqNullSafe(F.col("before.leader_id"))).alias(
            "leader_changed"
        ),
        F.size("places").alias("partitions"),
        F.when(known, common - kept).alias("partitions_moved"),
        F.when(known & (common > 0), kept / common).alias("stickiness"),
        rebalanced.alias("rebalanced"),
        _hidden().alias("hidden_before"),
        seconds(started_at, F.col("before.timestamp")).alias("since_previous"),
        (F.array_max("members.rebalance_timeout_ms") / 1000).alias("patience"),
        "history_begins",
        # What one generation took away, the next hands out: the second step of a cooperative rebalance.
        (known & (common < F.greatest(F.size("places"), F.size("old_places")))).alias("may_follow"),
        F.when(known, _changes())
        .otherwise(F.expr("cast(array() as array<string>)"))
        .alias("changes"),
    )


def _hidden() -> Column:
    """Generations that left no record: they were overtaken before their leader had assigned."""
    gap = F.col("generation") - F.coalesce("before.generation", F.lit(0)) - 1
    return F.when(F.col("history_begins"), F.lit(None)).otherwise(F.greatest(gap, F.lit(0)))


def _changes() -> Column:
    """The causes that can be seen in the difference itself."""
    came = F.size(F.array_except("names", "old_names")) > 0
    went = F.size(F.array_except("old_names", "names")) > 0
    # Members that are there in both and have another id: static ones that were started again.
    replaced = F.size(F.array_except("ids", "old_ids")) > F.size(
        F.array_except("names", "old_names")
    )
    new_subscriptions = F.array_except("subscriptions", "old_subscriptions")
    resubscribed = F.exists(
        new_subscriptions,
        lambda each: F.array_contains(
            F.col("old_names"), F.split_part(each, F.lit(_BAR), F.lit(1))
        ),
    )
    # A topic that nobody had before is a new one if it was always wanted.
    created = F.col("first_seen") & F.col("before").isNotNull() & ~(came | went | resubscribed)
    flags = F.array(
        F.when(came | went, F.lit("member_churn")),
        F.when(resubscribed, F.lit("subscription_change")),
        F.when(F.col("grown") | created, F.lit("partition_count_change")),
        F.when(replaced, F.lit("static_restart")),
    )
    return F.array_compact(flags)


def people(members: Column, known: Column) -> Column:
    """Those of the members whose ids are not among the known ones, as people know them."""
    others = F.filter(members, lambda each: ~F.array_contains(known, each["member_id"]))
    return F.transform(
        others,
        lambda each: F.struct(
            each["member_id"].alias("member_id"),
            each["instance_id"].alias("instance_id"),
            each["client_id"].alias("client_id"),
            each["client_host"].alias("host"),
        ),
    )


def _ids(members: str) -> Column:
    return F.array_sort(F.transform(members, lambda each: each["member_id"]))


def _identity(member: Column) -> Column:
    """A static member is the same under any member id (KIP-345)."""
    return F.coalesce(member["instance_id"], member["member_id"])


def _identities(members: str) -> Column:
    return F.transform(members, _identity)


def _subscriptions(members: str) -> Column:
    """Who subscribes to what, as text."""
    return F.transform(
        members,
        lambda each: F.concat_ws(
            _BAR, _identity(each), F.concat_ws(_BAR, F.array_sort(each["subscription"]))
        ),
    )


def _places(members: str, *, owner: bool) -> Column:
    """All assigned partitions as text: `topic|partition`, or `topic|partition|owner`."""

    def of_topic(member: Column, given: Column) -> Column:
        tail = (_identity(member),) if owner else ()
        return F.transform(
            given["partitions"],
            lambda index: F.concat_ws(_BAR, given["topic"], index.cast("string"), *tail),
        )

    def of_member(member: Column) -> Column:
        given = F.coalesce(member["assignment"], F.expr(_NO_ASSIGNMENT))
        return F.flatten(F.transform(given, lambda each: of_topic(member, each)))

    return F.flatten(F.transform(members, of_member))


_NO_ASSIGNMENT = "cast(array() as array<struct<topic:string,partitions:array<int>>>)"
