"""Rebalances of consumer (KIP-848), share and streams groups: each epoch, with its cause.

These groups are written as many small records: of a member, of the group's new epoch, targets, and what each
member has. A change of members is written before the epoch that it leads to, in the same batch, and the
targets after it. The three kinds have the same record names after a prefix (`ConsumerGroupMemberMetadata`,
`ShareGroupMemberMetadata`), so one function reads all of them.

An example: member a has both partitions of topic t, b joins at :10, and a leaves at 1:00.

    time  record                     of  content         step
    0:00  MemberMetadata             a                   1
    0:00  Metadata                       epoch 2         1
    0:00  TargetAssignmentMember     a   t-0, t-1        1
    0:00  CurrentMemberAssignment    a   epoch 2         1
    0:10  MemberMetadata             b                   1, and leads to 2
    0:10  Metadata                       epoch 3         2
    0:10  TargetAssignmentMember     a   t-0             2
    0:10  TargetAssignmentMember     b   t-1             2
    0:13  CurrentMemberAssignment    a   epoch 3         2
    0:14  CurrentMemberAssignment    b   epoch 3         2
    1:00  CurrentMemberAssignment    a   (removed)       2
    1:00  TargetAssignmentMember     a   (removed)       2, and leads to 3
    1:00  MemberMetadata             a   (removed)       2, and leads to 3
    1:00  Metadata                       epoch 4         3
    1:00  TargetAssignmentMember     b   t-0, t-1        3
    1:01  CurrentMemberAssignment    b   epoch 4         3

`epochs` returns a row per step:

    generation  started_at  completed_at  joined  left  member_count  partitions  moved  stickiness
    2           0:00        0:00          a             1             2           0      null
    3           0:10        0:14          b             2             2           1      0.5
    4           1:00        1:01                  a     1             2           1      0.5

A classic group with members becomes a consumer group in one batch: its tombstone, its members, and its
generation as the epoch. No assignment changes, so this step is counted and has no row.

If the log lacks the beginning of a group, members show up that never joined: they were there before it.

All windows and groupings begin with the group, so that Spark shuffles its records once.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from coterie.spark.marts.generations import life_of
from coterie.spark.marts.inputs import seconds

__all__ = ["epochs"]

_STEP = ["group_id", "life", "step"]
_PLACE = ["group_id", "life", "topic", "index"]
_UP_TO_HERE = (Window.unboundedPreceding, Window.currentRow)
_BEFORE_HERE = (Window.unboundedPreceding, -1)
_EVERYWHERE = (Window.unboundedPreceding, Window.unboundedFollowing)
#: Kafka 4.3 makes a group with epoch 1 and counts on before it writes.
_FIRST_EPOCH = 2


def epochs(group_events: DataFrame) -> DataFrame:
    """One row per epoch or static restart of groups of these kinds, with what changed; no causes yet."""
    events = _with_members(_with_steps(group_events))
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
    # Of a classic group only this is needed; its members are long lists.
    events = events.withColumn("members", F.size("members"))
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
        _is_upgrade(so_far).alias("upgraded"),
        life_of(own & (epoch == 0), in_order).alias("life"),
        F.count_if(is_epoch | F.col("returns")).over(so_far).alias("step"),
        F.last(F.when(own, epoch), ignorenulls=True).over(so_far).alias("epoch"),
    ).where(F.col("group_type") != "classic")


def _is_upgrade(so_far: WindowSpec) -> Column:
    """Whether an epoch is the generation of a classic group whose members stay; null if that is not known.

    A classic group without members is deleted in the same way, but the epoch is that of its first new member.
    """
    classic = F.col("group_type") == "classic"
    end = F.last(F.when(classic, F.struct("tombstone", "timestamp")), ignorenulls=True).over(so_far)
    replaced = F.coalesce(end["tombstone"] & (end["timestamp"] == F.col("timestamp")), F.lit(False))
    group = F.when(classic & ~F.col("tombstone"), F.struct("generation", "members"))
    group = F.last(group, ignorenulls=True).over(so_far)
    return replaced & (group["members"] > 0) & (group["generation"] == F.col("generation"))


def _with_members(events: DataFrame) -> DataFrame:
    """Each record of a member with who that is and what it wanted before; epochs with when all had them."""
    of_member = Window.partitionBy("group_id", "life", "member_id").orderBy("partition", "offset")
    so_far, earlier = of_member.rowsBetween(*_UP_TO_HERE), of_member.rowsBetween(*_BEFORE_HERE)
    wish = F.struct("tombstone", F.array_sort("subscription").alias("topics"), "subscription_regex")
    said = F.when(_is("MemberMetadata"), F.struct("timestamp", "epoch"))
    first = F.col("member_id").isNotNull() & (F.row_number().over(of_member) == 1)
    joins = _is("MemberMetadata") & ~F.col("tombstone")
    events = events.withColumn("wish", F.when(_tells(), wish)).select(
        *(name for name in events.columns if name not in ("instance_id", "client_id")),
        "wish",
        F.last("instance_id", ignorenulls=True).over(so_far).alias("instance_id"),
        F.last("client_id", ignorenulls=True).over(so_far).alias("client_id"),
        F.last("client_host", ignorenulls=True).over(so_far).alias("host"),
        F.last("wish", ignorenulls=True).over(earlier).alias("old_wish"),
        F.last(said, ignorenulls=True).over(so_far).alias("said"),
        first.alias("first"),
        # Members join with their metadata: others were there before the log begins.
        (first & ~joins).alias("unseen"),
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
    known_before = F.col("member_id").isNotNull() & ~F.col("first")
    was_there = F.coalesce(~F.col("old_wish.tombstone"), known_before)
    came = _is("MemberMetadata") & ~F.col("tombstone") & ~was_there
    # The first record of a member may be its tombstone, if the log begins after it joined.
    went = _is("MemberMetadata") & F.col("tombstone") & (was_there | F.col("unseen"))
    # Members of streams groups write themselves down again only if an epoch follows (KIP-1071).
    # What a member wanted before the log begins is not known; its metadata has changed, in any case.
    unlike = F.coalesce(F.col("wish") != F.col("old_wish"), F.lit(True))
    other = (F.col("group_type") == "streams") | unlike
    changed = _tells() & ~F.col("tombstone") & was_there & other
    person = F.struct("member_id", "instance_id", "client_id", "host", "timestamp")
    own = F.struct(
        "group_type",
        F.col("partition").alias("log_partition"),
        F.col("offset").alias("log_offset"),
        F.col("epoch").alias("generation"),
        F.col("timestamp").alias("started_at"),
        "completed",
        "returns",
        "upgraded",
    )
    return rows.groupBy(*_STEP).agg(
        F.first(F.when(F.col("is_epoch") | F.col("returns"), own), ignorenulls=True).alias("own"),
        F.collect_list(F.when(came, person)).alias("joined"),
        F.collect_list(F.when(went, person)).alias("left"),
        F.max(changed).alias("resubscribed"),
        F.sum(came.cast("int") - went.cast("int")).alias("net"),
        F.count_if("unseen").alias("unseen"),
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
    unseen = F.sum("unseen").over(in_order.rowsBetween(*_EVERYWHERE))
    found = steps.select(
        "group_id",
        "own.*",
        "joined",
        "left",
        F.coalesce("resubscribed", F.lit(False)).alias("resubscribed"),
        F.coalesce("moved", F.lit(0)).alias("moved"),
        F.coalesce("gained", F.lit(0)).alias("gained"),
        unseen.alias("unseen"),
        (unseen + F.sum("net").over(so_far)).alias("member_count"),
        F.sum(gained).over(so_far).alias("partitions"),
        F.last("own", ignorenulls=True).over(earlier).alias("previous"),
    )
    # Epoch 0 is that of a group that has had no members yet. Records that did not lead to a step have no
    # epoch: they count for those that follow.
    return found.where("generation > 0 and not coalesce(upgraded, false)")


def _as_rebalances(found: DataFrame) -> DataFrame:
    returns = F.col("returns")
    late = (F.col("generation") > _FIRST_EPOCH) | (F.col("unseen") > 0) | F.col("upgraded").isNull()
    begins = F.col("previous.generation").isNull() & late
    # Where the log begins, older records may be what compaction left. Members that go go with the epoch.
    gone_now = F.filter("left", lambda each: each["timestamp"] == F.col("started_at"))
    left = F.when(~begins, F.col("left")).when(F.size(gone_now) > 0, gone_now)
    joined = F.when(~begins, F.col("joined"))
    churned = ~returns & (
        F.greatest(F.size(joined), F.lit(0)) + F.greatest(F.size(left), F.lit(0)) > 0
    )
    resubscribed = F.col("resubscribed") & ~begins
    # An epoch that no member asked for comes from the topics: they are the only other reason (KIP-848). In a
    # share group it follows, too, once the state of new partitions has been set up (KIP-932).
    by_members = churned | resubscribed | returns
    shares = F.col("group_type") == "share"
    flags = F.array(
        F.when(churned, F.lit("member_churn")),
        F.when(resubscribed, F.lit("subscription_change")),
        F.when(~by_members & ~shares & ~begins, F.lit("partition_count_change")),
        F.when(returns, F.lit("static_restart")),
    )
    gap = F.col("generation") - F.col("previous.generation") - 1
    # Where many may share a partition, it does not go from one to another.
    known = ~begins & ~shares
    stayed = F.col("partitions") - F.col("gained")
    # Nobody is waited for when all have gone, nor when one is back where it was.
    at_once = F.when(returns | (F.col("member_count") == 0), F.col("started_at"))
    return found.select(
        "group_id",
        "group_type",
        "generation",
        F.col("previous.generation").alias("previous_generation"),
        "log_partition",
        "log_offset",
        "started_at",
        F.coalesce(F.col("completed"), at_once).alias("completed_at"),
        "member_count",
        _without_time(joined).alias("joined"),
        _without_time(left).alias("left"),
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


def _without_time(people: Column) -> Column:
    return F.transform(people, lambda each: each.dropFields("timestamp"))
