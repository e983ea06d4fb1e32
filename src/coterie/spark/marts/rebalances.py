"""The mart `rebalances`: every change of a group's assignment, with what is known of its cause.

Classic groups are read generation by generation (coterie.spark.marts.generations), the others epoch by
epoch (coterie.spark.marts.epochs). Here the causes are named, and storms are found.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.spark.marts.epochs import epochs
from coterie.spark.marts.generations import generations
from coterie.spark.marts.inputs import Inputs, conform, seconds

__all__ = ["rebalances"]

#: So many rebalances in ten minutes are a storm; in a large group more, because a rolling deploy, with a
#: member that goes and one that comes each time, is none.
STORM = 5
_PER_MEMBER = 2
_STORM_SECONDS = 600
_MICROS = 1_000_000
#: Groups that rebalance without visible change, together, were moved.
_MOVE_SECONDS = 60
_MOVED_GROUPS = 2
#: So long after a rebalance its second step may come, if the members do not say: Kafka's own default.
_FOLLOW_SECONDS = 300


def rebalances(inputs: Inputs) -> DataFrame:
    """Every rebalance in the log, in no order."""
    events = inputs["group_events"]
    found = generations(events).unionByName(epochs(events), allowMissingColumns=True)
    took = F.when(F.col("rebalanced"), seconds(F.col("completed_at"), F.col("started_at")))
    found = found.withColumn("duration_seconds", took)
    # Of an epoch that no member came to, all that is known is when it was made.
    found = found.withColumn("completed_at", F.coalesce("completed_at", "started_at"))
    return conform(_with_storms(_with_causes(found)), "rebalances")


def _with_causes(found: DataFrame) -> DataFrame:
    """The first cause there is a sign of; if there is none, what the neighbours did.

    When a coordinator moves, members of some clients rejoin although nothing has changed. Alone that could
    have any reason; but a move does it to groups of the same partition of the log at the same time. If there
    were generations in between that nobody recorded, somebody came and went.

    Other partitions without any of this are the second step of the rebalance before, if that was a moment
    ago; later, the topics have changed.
    """
    silent = (F.size("changes") == 0) & F.col("rebalanced") & ~F.col("history_begins")
    unchanged, reassigned = silent & ~F.col("may_follow"), silent & F.col("may_follow")
    soon = F.col("since_previous") <= F.coalesce("patience", F.lit(_FOLLOW_SECONDS))
    found = found.withColumn("follow_up", reassigned & F.coalesce(soon, F.lit(False)))
    regressed = F.coalesce(F.col("generation") < F.col("previous_generation"), F.lit(False))
    near = (
        Window.partitionBy("log_partition")
        .orderBy(F.unix_seconds("completed_at"))
        .rangeBetween(-_MOVE_SECONDS, _MOVE_SECONDS)
    )
    neighbours = F.size(F.collect_set(F.when(unchanged, F.col("group_id"))).over(near))
    moved = regressed | (unchanged & (neighbours >= _MOVED_GROUPS))
    passed = unchanged & (F.col("hidden_before") > 0)
    changes = (
        F.when(moved, F.array_union("changes", F.array(F.lit("coordinator_move"))))
        .when(passed, F.array(F.lit("member_churn")))
        .when(reassigned & ~F.col("follow_up"), F.array(F.lit("partition_count_change")))
        .otherwise(F.col("changes"))
    )
    found = found.withColumn("changes", changes)
    own = F.coalesce(F.get("changes", 0), F.lit("unknown"))
    so_far = (
        Window.partitionBy("group_id", "group_type")
        .orderBy("log_partition", "log_offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    first_step = F.last(F.when(~F.col("follow_up"), own), ignorenulls=True).over(so_far)
    return found.withColumn("cause", F.coalesce(first_step, own))


def _with_storms(found: DataFrame) -> DataFrame:
    """Count the rebalances of the ten minutes up to each one, and mark storms."""
    at, ten_minutes = F.unix_micros("completed_at"), _STORM_SECONDS * _MICROS
    in_time = Window.partitionBy("group_id").orderBy(at)
    in_log = Window.partitionBy("group_id").orderBy(at, "log_partition", "log_offset")
    count: Column = F.when(F.col("rebalanced"), 1 + _hidden_lately())
    # A range of times would include what follows at the same time: only the order of the log excludes it.
    up_to_here = F.sum(count).over(in_log.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    long_ago = F.sum(count).over(in_time.rangeBetween(Window.unboundedPreceding, -ten_minutes - 1))
    # Members before or after. A group that is being stopped is small only at the end.
    crowd = F.coalesce("member_count", F.lit(0)) + F.greatest(F.size("left"), F.lit(0))
    recent = F.coalesce(up_to_here, F.lit(0)) - F.coalesce(long_ago, F.lit(0))
    found = found.withColumn("in_ten_minutes", recent)
    found = found.withColumn("crowd", F.max(crowd).over(in_time.rangeBetween(-ten_minutes, 0)))
    return found.withColumn("storm", F.max(_stormy()).over(in_time.rangeBetween(0, ten_minutes)))


def _hidden_lately() -> Column:
    """How many of the generations without a record were in the last ten minutes, if they came evenly.

    Epochs are all recorded: those that are missing went when the log was compacted.
    """
    spread = F.greatest(F.col("since_previous"), F.lit(_STORM_SECONDS))
    lately = F.floor(F.col("hidden_before") * _STORM_SECONDS / spread)
    return F.when(F.col("group_type") == "classic", F.coalesce(lately, F.lit(0))).otherwise(0)


def _stormy() -> Column:
    """Whether the ten minutes up to a rebalance were a storm."""
    return F.col("in_ten_minutes") > F.greatest(F.lit(STORM - 1), F.col("crowd") * _PER_MEMBER + 1)
