"""Rebalances of consumer (KIP-848), share and streams groups: each epoch, with what led to it.

These groups are written as many small records: a member's, the group's new epoch, targets, and what each
member has. A change of members stands before the epoch that it leads to, in the same batch. The three kinds
name their records alike, `ConsumerGroupMemberMetadata`, `ShareGroupMemberMetadata`, so one reading does.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

__all__ = ["epochs"]

_KEYS = ["group_id", "epoch_offset"]
#: Kafka 4.3 makes a group with epoch 1 and counts on before it writes.
_FIRST_EPOCH = 2


def epochs(group_events: DataFrame) -> DataFrame:
    """One row per epoch of a group that is not classic, with what changed; no causes yet."""
    events = _with_epochs(group_events.where(F.col("group_type") != "classic"))
    own = events.where(_is("GroupMetadata") & ~F.col("tombstone"))
    first = own.groupBy(*_KEYS).agg(
        F.first("group_type").alias("group_type"),
        F.first("partition").alias("log_partition"),
        F.first("generation").alias("generation"),
        F.min("timestamp").alias("started_at"),
    )
    in_order = Window.partitionBy("group_id").orderBy("epoch_offset")
    numbered = first.withColumn("previous_generation", F.lag("generation").over(in_order))
    # The record of a group that exists and has had nobody yet.
    numbered = numbered.where("generation > 0")
    found = (
        numbered.join(_membership(events), _KEYS, "left")
        .join(_targets(events), _KEYS, "left")
        .join(_completion(events), ["group_id", "generation"], "left")
    )
    return _as_rebalances(found)


def _is(suffix: str) -> Column:
    """Whether a record is of a kind, whatever the group's type: `ConsumerGroup...`, `ShareGroup...`."""
    kind = F.regexp_replace("record", "^(Consumer|Share|Streams)Group", "Group")
    return kind == suffix


def _with_epochs(events: DataFrame) -> DataFrame:
    """Each event with the offset of the epoch record that it led to: the next one in the log."""
    backwards = (
        Window.partitionBy("group_id")
        .orderBy(F.desc("partition"), F.desc("offset"))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    mark = F.when(_is("GroupMetadata") & ~F.col("tombstone"), F.col("offset"))
    return events.withColumn("epoch_offset", F.last(mark, ignorenulls=True).over(backwards))


def _membership(events: DataFrame) -> DataFrame:
    """Who came, who went and who changed their mind before each epoch, and how many there are then."""
    of_member = Window.partitionBy("group_id", "member_id").orderBy("partition", "offset")
    rows = events.where(_is("GroupMemberMetadata")).select(
        *_KEYS,
        "offset",
        "partition",
        "member_id",
        "tombstone",
        F.last("instance_id", ignorenulls=True).over(of_member).alias("instance_id"),
        F.last("client_id", ignorenulls=True).over(of_member).alias("client_id"),
        F.last("client_host", ignorenulls=True).over(of_member).alias("host"),
        F.array_sort("subscription").alias("subscription"),
        F.lag("tombstone", 1, True).over(of_member).alias("was_gone"),
        F.lag(F.array_sort("subscription")).over(of_member).alias("old_subscription"),
    )
    came = ~F.col("tombstone") & F.col("was_gone")
    went = F.col("tombstone") & ~F.col("was_gone")
    changed = (
        ~F.col("tombstone")
        & ~F.col("was_gone")
        & (~F.col("subscription").eqNullSafe(F.col("old_subscription")))
    )
    person = F.struct("member_id", "instance_id", "client_id", "host")
    per_epoch = rows.groupBy(*_KEYS).agg(
        F.collect_list(F.when(came, person)).alias("joined"),
        F.collect_list(F.when(went, person)).alias("left"),
        F.max(changed).alias("resubscribed"),
        F.sum(came.cast("int") - went.cast("int")).alias("net"),
    )
    so_far = (
        Window.partitionBy("group_id")
        .orderBy("epoch_offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return per_epoch.withColumn("members", F.sum("net").over(so_far)).drop("net")


def _targets(events: DataFrame) -> DataFrame:
    """Partitions that another member shall have after an epoch than before.

    Targets stand behind the epoch's record, so they belong to the epoch before them, not after.
    """
    in_order = Window.partitionBy("group_id").orderBy("partition", "offset")
    forwards = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    mark = F.when(_is("GroupMetadata") & ~F.col("tombstone"), F.col("offset"))
    rows = events.withColumn("epoch_offset", F.last(mark, ignorenulls=True).over(forwards))
    rows = rows.where(_is("GroupTargetAssignmentMember") & ~F.col("tombstone"))
    places = rows.select("*", F.explode("assignment").alias("given")).select(
        *_KEYS,
        "partition",
        "offset",
        "member_id",
        F.coalesce("given.topic_id", "given.topic").alias("topic"),
        F.explode("given.partitions").alias("index"),
    )
    of_place = Window.partitionBy("group_id", "topic", "index").orderBy("partition", "offset")
    owners = places.withColumn("old_owner", F.lag("member_id").over(of_place))
    per_epoch = owners.groupBy(*_KEYS).agg(
        F.sum((F.col("old_owner") != F.col("member_id")).cast("int")).alias("partitions_moved"),
        F.sum(F.col("old_owner").isNull().cast("int")).alias("new_places"),
    )
    so_far = (
        Window.partitionBy("group_id")
        .orderBy("epoch_offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return per_epoch.withColumn("partitions", F.sum("new_places").over(so_far))


def _completion(events: DataFrame) -> DataFrame:
    """When the last member had come to an epoch."""
    stable = F.col("member_state").isNull() | (F.col("member_state") == "STABLE")
    has = events.where(_is("GroupCurrentMemberAssignment") & ~F.col("tombstone") & stable)
    return has.groupBy("group_id", F.col("member_epoch").alias("generation")).agg(
        F.max("timestamp").alias("completed")
    )


def _as_rebalances(found: DataFrame) -> DataFrame:
    nobody = F.expr(
        "cast(array() as array<struct<member_id:string,instance_id:string,client_id:string,host:string>>)"
    )
    joined, left = F.coalesce("joined", nobody), F.coalesce("left", nobody)
    instances = F.array_compact(F.transform(left, lambda each: each["instance_id"]))
    fresh = F.filter(
        joined,
        lambda each: ~F.coalesce(F.array_contains(instances, each["instance_id"]), F.lit(False)),
    )
    replaced = F.size(joined) - F.size(fresh)
    churned = (F.size(fresh) > 0) | (F.size(left) > replaced)
    begins = F.col("previous_generation").isNull() & (F.col("generation") > _FIRST_EPOCH)
    resubscribed = F.coalesce("resubscribed", F.lit(False))
    # An epoch that no member asked for comes from the topics: they are the only other reason (KIP-848). In a
    # share group it follows once the state of new partitions has been set up (KIP-932).
    by_members = churned | resubscribed | (replaced > 0)
    shares = F.col("group_type") == "share"
    by_topics = ~by_members & ~shares & ~begins
    flags = F.array(
        F.when(churned, F.lit("member_churn")),
        F.when(resubscribed, F.lit("subscription_change")),
        F.when(by_topics, F.lit("partition_count_change")),
        F.when(replaced > 0, F.lit("static_restart")),
    )
    moved = F.coalesce("partitions_moved", F.lit(0))
    gap = F.when(
        F.col("previous_generation").isNotNull(),
        F.col("generation") - F.col("previous_generation") - 1,
    )
    old = F.col("partitions") - F.coalesce("new_places", F.lit(0))
    in_order = (
        Window.partitionBy("group_id")
        .orderBy("epoch_offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return found.select(
        "group_id",
        "group_type",
        "generation",
        "previous_generation",
        "log_partition",
        F.col("epoch_offset").alias("log_offset"),
        "started_at",
        F.coalesce("completed", "started_at").alias("completed_at"),
        F.last("members", ignorenulls=True).over(in_order).alias("members"),
        F.when(~begins, joined).alias("joined"),
        F.when(~begins, left).alias("left"),
        F.last("partitions", ignorenulls=True).over(in_order).alias("partitions"),
        F.when(~begins, moved).alias("partitions_moved"),
        F.when(~begins & (old > 0), 1 - moved / old).alias("stickiness"),
        F.lit(True).alias("rebalanced"),
        F.when(~begins, F.greatest(gap, F.lit(0))).alias("hidden_before"),
        (shares & ~by_members).alias("may_follow"),
        begins.alias("history_begins"),
        F.array_compact(flags).alias("changes"),
    )
