"""Rebalances of consumer (KIP-848), share and streams groups: each epoch, with what led to it.

These groups are written as many small records: a member's, the group's new epoch, targets, and what each
member has. A change of members stands before the epoch that it leads to, in the same batch; targets stand
behind it. The three kinds name their records alike, `ConsumerGroupMemberMetadata`,
`ShareGroupMemberMetadata`, so one reading does.

All windows and groupings begin with the group, so that Spark sends its records around once.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.spark.marts.generations import life_of
from coterie.spark.marts.inputs import seconds

__all__ = ["epochs"]

_STEP = ["group_id", "life", "step"]
_PLACE = ["group_id", "life", "topic", "index"]
_UP_TO_HERE = (Window.unboundedPreceding, Window.currentRow)
_BEFORE_HERE = (Window.unboundedPreceding, -1)
#: Kafka 4.3 makes a group with epoch 1 and counts on before it writes.
_FIRST_EPOCH = 2


def epochs(group_events: DataFrame) -> DataFrame:
    """One row per epoch or static restart of groups of these kinds, with what changed; no causes yet."""
    events = _with_members(_with_steps(group_events.where(F.col("group_type") != "classic")))
    steps = _steps(events).join(_moves(events), _STEP, "left")
    return _as_rebalances(_in_sequence(steps))


def _is(kind: str) -> Column:
    return F.col("kind") == kind


def _with_steps(events: DataFrame) -> DataFrame:
    """Each record with the life of its group, and how many steps and which epoch it had come to.

    A step is a new epoch, or a static member that comes back under a new member id: for that there is no
    epoch, but tombstones of the old member and, right behind them, the new one.
    """
    in_order = Window.partitionBy("group_id").orderBy("partition", "offset")
    so_far = in_order.rowsBetween(*_UP_TO_HERE)
    # Whatever the group's type: `ConsumerGroup...`, `ShareGroup...`.
    kind = F.regexp_replace("record", "^(Consumer|Share|Streams)Group", "")
    events = events.withColumn("kind", kind)
    before = F.lag(F.struct("kind", "tombstone", "timestamp")).over(in_order)
    events = events.withColumn("before", before)
    returns = (
        _is("MemberMetadata")
        & F.col("instance_id").isNotNull()
        & (F.col("before.kind") == "MemberMetadata")
        & F.col("before.tombstone")
        & (F.col("before.timestamp") == F.col("timestamp"))
    )
    own, epoch = _is("Metadata"), F.coalesce("generation", F.lit(0))
    is_epoch = own & ~F.col("tombstone")
    marks = events.withColumn("returns", F.coalesce(returns, F.lit(False)))
    return marks.select(
        "*",
        is_epoch.alias("is_epoch"),
        life_of(own & (epoch == 0), in_order).alias("life"),
        F.count_if(is_epoch | F.col("returns")).over(so_far).alias("step"),
        F.last(F.when(own, epoch), ignorenulls=True).over(so_far).alias("epoch"),
    )


def _with_members(events: DataFrame) -> DataFrame:
    """Each record of a member with who that is and what it wanted before; epochs with when all had them."""
    of_member = Window.partitionBy("group_id", "life", "member_id").orderBy("partition", "offset")
    so_far, earlier = of_member.rowsBetween(*_UP_TO_HERE), of_member.rowsBetween(*_BEFORE_HERE)
    wish = F.struct("tombstone", F.array_sort("subscription").alias("topics"), "subscription_regex")
    said = F.when(_is("MemberMetadata"), F.struct("timestamp", "epoch"))
    events = events.withColumn("wish", F.when(_tells(), wish)).select(
        *(name for name in events.columns if name not in ("instance_id", "client_id")),
        "wish",
        F.last("instance_id", ignorenulls=True).over(so_far).alias("instance_id"),
        F.last("client_id", ignorenulls=True).over(so_far).alias("client_id"),
        F.last("client_host", ignorenulls=True).over(so_far).alias("host"),
        F.last("wish", ignorenulls=True).over(earlier).alias("old_wish"),
        F.last(said, ignorenulls=True).over(so_far).alias("said"),
    )
    stable = F.col("member_state").isNull() | (F.col("member_state") == "STABLE")
    # Whoever comes, or comes back, is first put where the others are, in the same batch: if that is an epoch
    # that was there before it came, it completes nothing.
    put_there = (
        (F.coalesce("previous_member_epoch", F.lit(0)) <= 0)
        & (F.col("said.timestamp") == F.col("timestamp"))
        & (F.col("said.epoch") >= F.col("member_epoch"))
    )
    current = _is("CurrentMemberAssignment") & ~F.col("tombstone")
    reached = current & stable & ~F.coalesce(put_there, F.lit(False))
    of_epoch = Window.partitionBy("group_id", "life", F.coalesce("member_epoch", "generation"))
    return events.withColumn("completed", F.max(F.when(reached, F.col("timestamp"))).over(of_epoch))


def _tells() -> Column:
    """Whether a record says what a member wants: in streams groups the topology says it for all of them."""
    return _is("MemberMetadata") | _is("Topology")


def _steps(events: DataFrame) -> DataFrame:
    """Who came, who went and who changed their mind before each step, and the step's own record."""
    leads = (_tells() & ~F.col("returns")) | (_is("TargetAssignmentMember") & F.col("tombstone"))
    rows = events.withColumn("step", F.col("step") + leads.cast("int"))
    was_there = F.coalesce(~F.col("old_wish.tombstone"), F.lit(False))
    came = _is("MemberMetadata") & ~F.col("tombstone") & ~was_there
    went = _is("MemberMetadata") & F.col("tombstone") & was_there
    # Members of streams groups write themselves down again only if an epoch follows (KIP-1071).
    other = (F.col("group_type") == "streams") | (F.col("wish") != F.col("old_wish"))
    changed = _tells() & ~F.col("tombstone") & was_there & other
    person = F.struct("member_id", "instance_id", "client_id", "host")
    own = F.struct(
        "group_type",
        F.col("partition").alias("log_partition"),
        F.col("offset").alias("log_offset"),
        F.col("epoch").alias("generation"),
        F.col("timestamp").alias("started_at"),
        "completed",
        "returns",
    )
    return rows.groupBy(*_STEP).agg(
        F.first(F.when(F.col("is_epoch") | F.col("returns"), own), ignorenulls=True).alias("own"),
        F.collect_list(F.when(came, person)).alias("joined"),
        F.collect_list(F.when(went, person)).alias("left"),
        F.max(changed).alias("resubscribed"),
        F.sum(came.cast("int") - went.cast("int")).alias("net"),
    )


def _moves(events: DataFrame) -> DataFrame:
    """How many partitions each step hands from one member to another, for the first time, or to nobody."""
    targets = events.where(_is("TargetAssignmentMember")).select(
        "group_id",
        "life",
        "partition",
        "offset",
        "tombstone",
        "assignment",
        # A static member is the same under any member id.
        F.coalesce("instance_id", "member_id").alias("owner"),
        # Tombstones stand before the epoch that they lead to.
        (F.col("step") + F.col("tombstone").cast("int")).alias("step"),
    )
    of_owner = Window.partitionBy("group_id", "life", "owner").orderBy("partition", "offset")
    held = targets.withColumn("until", F.lead("step").over(of_owner))
    held = held.where(~F.col("tombstone") & (F.col("until").isNull() | F.expr("until > step")))
    given = held.select("*", F.explode("assignment").alias("given"))
    taken = F.struct("step", F.lit(1).alias("holders"))
    given_up = F.struct(F.col("until").alias("step"), F.lit(-1).alias("holders"))
    turns = (
        given.withColumn("topic", F.coalesce("given.topic_id", "given.topic"))
        .withColumn("index", F.explode("given.partitions"))
        .select(*_PLACE, "owner", F.explode(F.array(taken, given_up)).alias("turn"))
        .where("turn.step is not null")
    )
    return _counted(turns)


def _counted(turns: DataFrame) -> DataFrame:
    """From members that take and give up partitions, what became of the partitions."""
    places = turns.groupBy(*_PLACE, F.col("turn.step").alias("step")).agg(
        F.sum("turn.holders").alias("change"),
        F.max(F.when(F.col("turn.holders") > 0, F.col("owner"))).alias("taker"),
        F.max(F.when(F.col("turn.holders") < 0, F.col("owner"))).alias("giver"),
    )
    so_far = Window.partitionBy(*_PLACE).orderBy("step").rowsBetween(*_UP_TO_HERE)
    # In a share group a partition may have many.
    places = places.withColumn("holders", F.sum("change").over(so_far))
    earlier = F.col("holders") - F.col("change")
    return places.groupBy(*_STEP).agg(
        F.count_if(F.col("taker") != F.col("giver")).alias("moved"),
        F.count_if((earlier == 0) & (F.col("holders") > 0)).alias("gained"),
        F.count_if((earlier > 0) & (F.col("holders") == 0)).alias("lost"),
    )


def _in_sequence(steps: DataFrame) -> DataFrame:
    """Steps with what adds up over them, and with the one before."""
    in_order = Window.partitionBy("group_id", "life").orderBy("step")
    so_far, earlier = in_order.rowsBetween(*_UP_TO_HERE), in_order.rowsBetween(*_BEFORE_HERE)
    gained = F.coalesce(F.col("gained") - F.col("lost"), F.lit(0))
    found = steps.select(
        "group_id",
        "own.*",
        "joined",
        "left",
        F.coalesce("resubscribed", F.lit(False)).alias("resubscribed"),
        F.coalesce("moved", F.lit(0)).alias("moved"),
        F.coalesce("gained", F.lit(0)).alias("gained"),
        F.sum("net").over(so_far).alias("members"),
        F.sum(gained).over(so_far).alias("partitions"),
        F.last("own", ignorenulls=True).over(earlier).alias("previous"),
    )
    # Epoch 0 is of a group that exists and has had nobody yet. Without an epoch are records that did not
    # come to a step: they count for those behind them.
    return found.where("generation > 0")


def _as_rebalances(found: DataFrame) -> DataFrame:
    returns = F.col("returns")
    churned = ~returns & (F.size("joined") + F.size("left") > 0)
    begins = F.col("previous.generation").isNull() & (F.col("generation") > _FIRST_EPOCH)
    # An epoch that no member asked for comes from the topics: they are the only other reason (KIP-848). In a
    # share group it follows, too, once the state of new partitions has been set up (KIP-932).
    by_members = churned | F.col("resubscribed") | returns
    shares = F.col("group_type") == "share"
    flags = F.array(
        F.when(churned, F.lit("member_churn")),
        F.when(F.col("resubscribed"), F.lit("subscription_change")),
        F.when(~by_members & ~shares & ~begins, F.lit("partition_count_change")),
        F.when(returns, F.lit("static_restart")),
    )
    gap = F.col("generation") - F.col("previous.generation") - 1
    # Where many may share a partition, it does not go from one to another.
    known = ~begins & ~shares
    stayed = F.col("partitions") - F.col("gained")
    # Nobody is waited for when all have gone, nor when one is back where it was.
    at_once = F.when(returns | (F.col("members") == 0), F.col("started_at"))
    return found.select(
        "group_id",
        "group_type",
        "generation",
        F.col("previous.generation").alias("previous_generation"),
        "log_partition",
        "log_offset",
        "started_at",
        F.coalesce(F.col("completed"), at_once).alias("completed_at"),
        "members",
        F.when(~begins, F.col("joined")).alias("joined"),
        F.when(~begins, F.col("left")).alias("left"),
        "partitions",
        F.when(known, F.col("moved")).alias("partitions_moved"),
        F.when(known & (stayed > 0), 1 - F.col("moved") / stayed).alias("stickiness"),
        (~returns).alias("rebalanced"),
        F.when(~begins, F.greatest(gap, F.lit(0))).alias("hidden_before"),
        seconds(F.col("started_at"), F.col("previous.started_at")).alias("since_previous"),
        (shares & ~by_members).alias("may_follow"),
        begins.alias("history_begins"),
        F.array_compact(flags).alias("changes"),
    )
