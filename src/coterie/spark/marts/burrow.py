"""Burrow's evaluation of consumers, rule by rule, with its names: OK, WARN, ERR, STOP, STALL, REWIND.

Burrow keeps a ring of the last commits of each partition and a ring of the last end offsets, and judges a
consumer by what is in them, without thresholds. Here the rings are windows over the tables. Three things are
different, where Burrow is known to be wrong: commits of transactions that were aborted or are open do not
count, neither does what was committed before an offset was removed, and of commits from before the first end
offset the lag is not known: where all depends on it, and Burrow would say STALL or WARN, there is no status.

Nor is there one for groups that have not committed for a week.

The rules, in this order, for a partition with more lag than is allowed:
STOP: nothing was committed for longer than the ring spans, and lag was not zero lately.
REWIND: an offset is lower than the one before it, and no later one has caught up.
Lag was zero, at one of the commits: OK.
STALL: all commits are of the same offset.
WARN: lag never went down from one commit to the next; of two of them at least it must be known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.spark.marts.inputs import Moment, at_least_zero, at_moment, settled_commits

__all__ = ["STATUSES", "Burrow", "group_status", "partition_status", "with_group_status"]

#: Burrow's numbers; a group has the highest of its partitions', but no more than ERR.
STATUSES = {"NOTFOUND": 0, "OK": 1, "WARN": 2, "ERR": 3, "STOP": 4, "STALL": 5, "REWIND": 6}
_PLACE = ["topic", "partition"]
_KEYS = ["group_id", *_PLACE]
_COMMIT = "struct<order:bigint,committed:bigint,at:bigint,lag:bigint>"


@dataclass(frozen=True, slots=True)
class Burrow:
    """Burrow's settings, with its names and defaults."""

    #: How many commits, and end offsets, are looked at.
    intervals: int = 10
    #: Commits that come sooner after another take its place.
    min_distance: timedelta = timedelta(0)
    #: A partition with a smaller share of its ring filled is OK.
    minimum_complete: float = 0.0
    allowed_lag: int = 0
    #: Groups that have not committed for so long are not judged.
    expire_group: timedelta = timedelta(days=7)


def partition_status(
    commits: DataFrame, history: DataFrame, now: Moment, settings: Burrow
) -> DataFrame:
    """One row per group and partition: `status`, `complete`, `current_lag`, and what was looked at.

    `status` is null if there is nothing to judge by. `since` is when the last offset was committed first.
    """
    rings = _rings(commits, history, settings)
    brokers = _broker_rings(history, settings)
    judged = at_moment(rings.join(brokers, _PLACE, "left"), now)
    judged = judged.select(
        "*",
        (F.size("ring") / F.lit(settings.intervals)).alias("complete"),
        at_least_zero(F.col("broker_end") - F.col("last_committed")).alias("current_lag"),
        # Burrow's clock has seconds.
        (F.unix_seconds("as_of") * 1000).alias("now_ms"),
        F.transform("ring", lambda each: each["committed"]).alias("offsets"),
        F.filter(F.transform("ring", lambda each: each["lag"]), F.isnotnull).alias("lags"),
    )
    status = F.when(F.col("complete") < settings.minimum_complete, F.lit("OK")).otherwise(
        _status(settings.allowed_lag)
    )
    return judged.withColumn("status", F.when(F.col("current_lag").isNotNull(), status))


def group_status(partitions: DataFrame) -> DataFrame:
    """One row per group: the worst status of its partitions, at most ERR, and its lag."""
    figures = [figure.alias(name) for name, figure in _figures().items()]
    found = partitions.groupBy("group_id").agg(*figures)
    return found.withColumn("status", _name_of("worst")).drop("worst")


def with_group_status(partitions: DataFrame, settings: Burrow) -> DataFrame:
    """The partitions, each with the figures of its group (`group_...`) beside its own.

    For whoever needs both: what partitions are made from is large, and is looked at only once this way.
    Groups that have not committed for long lose their status here: partitions do not expire one by one.
    """
    of_group = Window.partitionBy("group_id")
    figures = [figure.over(of_group).alias(f"group_{name}") for name, figure in _figures().items()]
    first = F.row_number().over(of_group.orderBy(*_PLACE)) == 1
    found = partitions.select(
        "*",
        *figures,
        first.alias("first_of_group"),
        F.max("last_at").over(of_group).alias("group_last_at"),
    )
    silence = F.col("now_ms") - F.col("group_last_at")
    alive = silence <= F.lit(int(settings.expire_group.total_seconds() * 1000))
    return found.withColumns(
        {
            "status": F.when(alive, F.col("status")),
            "group_status": F.when(alive, _name_of("group_worst")),
        }
    ).drop("group_worst")


def _figures() -> dict[str, Column]:
    """What is counted over the partitions of a group."""
    number = F.create_map(*[F.lit(each) for pair in STATUSES.items() for each in pair])
    counts = {
        each: F.sum((F.col("status") == each).cast("int"))
        for each in ("WARN", "STOP", "STALL", "REWIND")
    }
    return {
        "worst": F.max(F.element_at(number, F.col("status"))),
        "partitions": F.count("*"),
        "judged": F.count("status"),
        "with_ends": F.count("current_lag"),
        "total_lag": F.sum("current_lag"),
        "max_lag": F.max("current_lag"),
        "complete": F.avg((F.col("complete") == 1).cast("int")),
        **counts,
    }


def _name_of(worst: str) -> Column:
    names = F.create_map(*[F.lit(each) for name, n in STATUSES.items() for each in (n, name)])
    # `least` would make ERR of a group without a status.
    number = F.when(F.col(worst).isNotNull(), F.least(F.col(worst), F.lit(STATUSES["ERR"])))
    return F.element_at(names, number)


def _rings(commits: DataFrame, history: DataFrame, settings: Burrow) -> DataFrame:
    """The last commits of each partition, oldest first, each with the lag that it had; and the newest one."""
    tail = _with_lag(_tails(commits, settings), history)
    millis = F.unix_millis("at")
    commit = F.struct("order", "committed", millis.alias("at"), "lag")
    lists = tail.groupBy(*_KEYS).agg(
        F.array_sort(F.collect_list(F.when(F.col("in_tail"), commit))).alias("tail"),
        F.max_by("committed", "order").alias("last_committed"),
        F.max_by(millis, "order").alias("last_at"),
        F.min(F.when(F.col("begins_run"), millis)).alias("since"),
    )
    merged = F.aggregate("tail", F.expr(f"cast(array() as array<{_COMMIT}>)"), _merge(settings))
    ring = F.slice(
        merged, F.greatest(F.size(merged) - settings.intervals + 1, F.lit(1)), settings.intervals
    )
    return lists.withColumn("ring", ring).drop("tail")


def _tails(commits: DataFrame, settings: Burrow) -> DataFrame:
    """What is looked at of the commits since the last removal: the last ones (`in_tail`), and the one with
    which the offset that is committed now began to stay (`begins_run`), however long ago that was."""
    rows = settled_commits(commits).select(
        "group_id",
        "topic",
        F.col("topic_partition").alias("partition"),
        F.col("offset").alias("order"),
        F.when(~F.col("tombstone"), F.col("committed_offset")).alias("committed"),
        F.coalesce("commit_timestamp", "timestamp").alias("at"),
        "tombstone",
    )
    # More than fit into the ring, because some of them will take each other's place.
    most = settings.intervals * (20 if settings.min_distance else 2)
    backwards = Window.partitionBy(*_KEYS).orderBy(F.desc("order"))
    so_far = backwards.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    stays = F.min("committed").over(so_far) == F.max("committed").over(so_far)
    goes_on = F.coalesce(F.lead("committed").over(backwards) == F.col("committed"), F.lit(False))
    found = rows.select(
        *_KEYS,
        "order",
        "committed",
        "at",
        F.max("tombstone").over(so_far).alias("removed"),
        (F.row_number().over(backwards) <= most).alias("in_tail"),
        (stays & ~goes_on).alias("begins_run"),
    )
    return found.where(~F.col("removed") & (F.col("in_tail") | F.col("begins_run"))).drop("removed")


def _merge(settings: Burrow) -> Callable[[Column, Column], Column]:
    """How a commit goes into the ring: behind the last, or in its place, with the old time."""
    distance = int(settings.min_distance.total_seconds() * 1000)

    def put(ring: Column, commit: Column) -> Column:
        last = F.get(ring, F.size(ring) - 1)
        soon = (F.size(ring) > 0) & (commit["at"] - last["at"] < distance)
        replaced = F.struct(
            commit["order"].alias("order"),
            commit["committed"].alias("committed"),
            F.when(soon, last["at"]).otherwise(commit["at"]).alias("at"),
            commit["lag"].alias("lag"),
        )
        kept = F.when(soon, F.slice(ring, 1, F.greatest(F.size(ring) - 1, F.lit(0)))).otherwise(
            ring
        )
        return F.concat(kept, F.array(replaced))

    return put


def _with_lag(tail: DataFrame, history: DataFrame) -> DataFrame:
    """Each commit with its lag at the time: against the newest end offset that was known then."""
    samples = history.select(
        *_PLACE, F.col("taken_at").alias("at"), F.lit(0).alias("is_commit"), "log_end"
    )
    rows = tail.withColumn("is_commit", F.lit(1))
    both = rows.unionByName(samples, allowMissingColumns=True)
    so_far = (
        Window.partitionBy(*_PLACE)
        .orderBy("at", "is_commit", "log_end")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    known = both.withColumn("known_end", F.last("log_end", ignorenulls=True).over(so_far))
    return known.where("is_commit = 1").withColumn(
        "lag", at_least_zero(F.col("known_end") - F.col("committed"))
    )


def _broker_rings(history: DataFrame, settings: Burrow) -> DataFrame:
    """The newest end offset of each partition, and the lowest of the last ones."""
    backwards = Window.partitionBy(*_PLACE).orderBy(F.desc("taken_at"), F.desc("log_end"))
    newest = history.withColumn("place_from_end", F.row_number().over(backwards))
    newest = newest.where(F.col("place_from_end") <= settings.intervals)
    return newest.groupBy(*_PLACE).agg(
        F.max(F.when(F.col("place_from_end") == 1, F.col("log_end"))).alias("broker_end"),
        F.min("log_end").alias("lowest_end"),
    )


def _status(allowed_lag: int) -> Column:
    first, last = F.element_at("ring", 1), F.element_at("ring", -1)
    silence = F.col("now_ms") - last["at"]
    recently_zero = F.col("lowest_end") <= F.col("last_committed")
    stopped = (silence > last["at"] - first["at"]) & ~recently_zero
    was_zero = F.exists("lags", lambda lag: lag <= allowed_lag)
    stalled = F.size(F.array_distinct("offsets")) == 1
    return (
        F.when(F.col("current_lag") <= allowed_lag, "OK")
        .when(stopped, "STOP")
        .when(_rewound(), "REWIND")
        .when(was_zero, "OK")
        .when(stalled & (F.size("lags") > 0), "STALL")
        .when(_ever_lower("lags"), "OK")
        .when(F.size("lags") > 1, "WARN")
    )


def _rewound() -> Column:
    """Whether the first step backwards has not been caught up with."""
    return F.expr(
        """coalesce(
            aggregate(
                offsets,
                named_struct('last', cast(null as bigint), 'before', cast(null as bigint), 'open', false),
                (so_far, offset) -> named_struct(
                    'last', offset,
                    'before', coalesce(so_far.before, if(offset < so_far.last, so_far.last, null)),
                    'open', case
                        when so_far.before is null then coalesce(offset < so_far.last, false)
                        else so_far.open and offset < so_far.before
                    end
                ),
                end -> end.open
            ),
            false
        )"""
    )


def _ever_lower(numbers: str) -> Column:
    """Whether a number is lower than the one before it."""
    return F.expr(
        f"""aggregate(
            {numbers},
            named_struct('last', cast(null as bigint), 'lower', false),
            (so_far, each) -> named_struct(
                'last', each, 'lower', so_far.lower or coalesce(each < so_far.last, false)
            ),
            end -> end.lower
        )"""
    )
