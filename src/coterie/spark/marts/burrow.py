"""Burrow's evaluation of consumers, rule by rule, with its names: OK, WARN, ERR, STOP, STALL, REWIND.

Burrow keeps a ring of the last commits of each partition and a ring of the last end offsets, and judges a
consumer by what is in them, without thresholds. Here the rings are windows over the tables. Four things are
different:
Commits of transactions that were aborted or are open do not count, neither do commits from before an offset
was removed; Burrow is known to be wrong there.
The lag of a commit is taken against the newest end offset as of the commit's timestamp. Burrow takes the one
that it knows when the commit arrives, which depends on when Burrow was started and how fast it reads.
The lag of commits from before the first end offset is unknown. Burrow drops them, or calls STALL and WARN
without a known lag. Here STALL needs one known lag and WARN two; with fewer there is no status.

There is no status either for groups that have not committed for a week.

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
from pyspark.sql.window import WindowSpec

from coterie.spark.marts.inputs import Moment, at_moment, lag_between, settled_commits

__all__ = ["STATUSES", "Burrow", "group_status", "partition_status", "with_group_status"]

#: Burrow's numbers; a group has the highest of its partitions', but no more than ERR.
STATUSES = {"NOTFOUND": 0, "OK": 1, "WARN": 2, "ERR": 3, "STOP": 4, "STALL": 5, "REWIND": 6}
_PLACE = ["topic", "partition"]
_KEYS = ["group_id", *_PLACE]
_BEFORE = (Window.unboundedPreceding, -1)
_SO_FAR = (Window.unboundedPreceding, Window.currentRow)
_ALL = (Window.unboundedPreceding, Window.unboundedFollowing)
_COMMIT = "struct<order:bigint,committed:bigint,at:timestamp,slot_at:bigint>"
_NO_SLOTS = (
    f"named_struct('others', cast(array() as array<{_COMMIT}>), 'newest', cast(null as {_COMMIT}))"
)


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
        lag_between(F.col("last_committed"), F.col("broker_end")).alias("current_lag"),
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
    slots = _with_lag(_slots(_runs(_current(commits)), settings), history)
    commit = F.struct("order", "committed", F.col("slot_at").alias("at"), "lag")
    return slots.groupBy(*_KEYS).agg(
        F.array_sort(F.collect_list(commit)).alias("ring"),
        F.max_by("committed", "order").alias("last_committed"),
        F.max_by(F.unix_millis("at"), "order").alias("last_at"),
        F.max("since").alias("since"),
    )


def _current(commits: DataFrame) -> DataFrame:
    """The commits since the last removal, with the time when the newest offset was committed first.

    All windows here are over the same keys in the same order, so that Spark sorts the commits once.
    """
    rows = settled_commits(commits).select(
        "group_id",
        "topic",
        F.col("topic_partition").alias("partition"),
        F.col("offset").alias("order"),
        F.when(~F.col("tombstone"), F.col("committed_offset")).alias("committed"),
        F.coalesce("commit_timestamp", "timestamp").alias("at"),
        "tombstone",
    )
    moved = ~F.col("committed").eqNullSafe(F.lag("committed").over(_in_order()))
    rows = rows.withColumn("moved", moved)
    rows = rows.withColumns({"removals_left": _later("tombstone"), "moves_left": _later("moved")})
    rows = rows.where((F.col("removals_left") == 0) & ~F.col("tombstone"))
    began = F.when(F.col("moved") & (F.col("moves_left") == 0), F.unix_millis("at"))
    since = F.max(began).over(_in_order().rowsBetween(*_ALL))
    return rows.select(*_KEYS, "order", "committed", "at", since.alias("since"))


def _runs(commits: DataFrame) -> DataFrame:
    """Of commits that cannot begin a slot, only the last of each run, with the time of the run (`high`).

    A commit begins a slot only if no commit before it has a later time. All others, after a clock that ran
    ahead, replace each other.
    """
    earlier = F.max("at").over(_in_order().rowsBetween(*_BEFORE))
    rows = commits.withColumn("begins", F.coalesce(F.col("at") >= earlier, F.lit(True)))
    rows = rows.select(
        "*",
        F.coalesce(F.lead("begins").over(_in_order()), F.lit(True)).alias("ends"),
        F.unix_millis(F.max("at").over(_in_order().rowsBetween(*_SO_FAR))).alias("high"),
    )
    return rows.where("ends").drop("begins", "ends")


def _slots(runs: DataFrame, settings: Burrow) -> DataFrame:
    """One row per slot of the ring: its last commit, and the time of its first one as `slot_at`.

    Where a slot begins depends on where the one before it began, and so on. But after a pause of the minimum
    distance a slot begins in any case: what is before enough of these pauses cannot be in the ring.
    """
    distance = int(settings.min_distance.total_seconds() * 1000)
    pause = F.col("high") - F.lag("high").over(_in_order()) >= distance
    runs = runs.withColumn("paused", F.coalesce(pause, F.lit(True)))
    runs = runs.withColumn("pauses_left", _later("paused"))
    runs = runs.where(F.col("pauses_left") < settings.intervals)
    commit = F.struct("order", "committed", "at", F.col("high").alias("slot_at"))
    lists = runs.groupBy(*_KEYS).agg(
        F.array_sort(F.collect_list(commit)).alias("commits"), F.max("since").alias("since")
    )
    filled = F.aggregate("commits", F.expr(_NO_SLOTS), _put(settings.intervals, distance), _ring)
    return lists.select(*_KEYS, "since", F.inline(filled))


def _put(intervals: int, distance: int) -> Callable[[Column, Column], Column]:
    """Put a commit into the ring: into a new slot, or into the newest one, which keeps its time.

    The newest slot is apart from the others, so that replacing its commit does not copy the ring.
    """

    def put(ring: Column, commit: Column) -> Column:
        newest = ring["newest"]
        soon = commit["slot_at"] - newest["slot_at"] < distance
        replaced = F.struct(
            commit["order"].alias("order"),
            commit["committed"].alias("committed"),
            commit["at"].alias("at"),
            newest["slot_at"].alias("slot_at"),
        )
        others = F.when(newest.isNull(), ring["others"]).otherwise(
            F.slice(F.concat(F.array(newest), ring["others"]), 1, intervals - 1)
        )
        return F.when(
            soon, F.struct(ring["others"].alias("others"), replaced.alias("newest"))
        ).otherwise(F.struct(others.alias("others"), commit.alias("newest")))

    return put


def _ring(ring: Column) -> Column:
    return F.concat(ring["others"], F.array(ring["newest"]))


def _in_order() -> WindowSpec:
    return Window.partitionBy(*_KEYS).orderBy("order")


def _later(flag: str) -> Column:
    """In how many of the later rows of a partition a flag is set."""
    count = F.count_if(flag)
    everywhere, so_far = (_in_order().rowsBetween(*frame) for frame in (_ALL, _SO_FAR))
    return count.over(everywhere) - count.over(so_far)


def _with_lag(slots: DataFrame, history: DataFrame) -> DataFrame:
    """Each commit with its lag at the time: against the newest end offset that was known then."""
    samples = history.select(
        *_PLACE, F.col("taken_at").alias("at"), F.lit(0).alias("is_commit"), "log_end"
    )
    rows = slots.withColumn("is_commit", F.lit(1))
    both = rows.unionByName(samples, allowMissingColumns=True)
    so_far = (
        Window.partitionBy(*_PLACE)
        .orderBy("at", "is_commit", "log_end")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    known = both.withColumn("known_end", F.last("log_end", ignorenulls=True).over(so_far))
    return known.where("is_commit = 1").withColumn(
        "lag", lag_between(F.col("committed"), F.col("known_end"))
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
