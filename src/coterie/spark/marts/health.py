"""The mart `health`: findings about groups, each with its evidence and what to do next.

Burrow's verdict comes first (coterie.spark.marts.burrow), for every group; other rules only speak where they
find something. All of them look at the moment; what went on over time is in the other marts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.spark.marts.burrow import Burrow, partition_status, with_group_status
from coterie.spark.marts.inputs import (
    Inputs,
    at_moment,
    conform,
    end_offset_history,
    with_known_until,
)

__all__ = ["HealthRules", "health"]

_PLACE = ["topic", "partition"]
#: A partition is hot if it has so many times the lag of its neighbours, and so much at least.
_HOT_TIMES, _HOT_LAG, _HOT_PARTITIONS = 5, 1_000, 3
_RISK = 0.8
_STEPS = {
    "OK": "nothing to do",
    "WARN": "the consumer is too slow: add members up to the number of partitions, or make it faster",
    "ERR": "look at the partitions of this group below",
    "STOP": "it commits no more: see whether its members live, and restart them",
    "STALL": "it commits the same offset again and again: look for a record that it cannot process",
    "REWIND": "its offsets were set back: see offset_resets for who did it",
}
_NOT_JUDGED = (
    "to judge it takes commits of the last week, and samples of end offsets from before them"
)
_NOT_READ = "see gaps for what keeps the rest from being read, and ingest again"


@dataclass(frozen=True, slots=True)
class HealthRules:
    """Settings of the rules."""

    burrow: Burrow = field(default_factory=Burrow)
    #: A group is stuck if its offset has not moved for so long; some commit intervals at least.
    stuck_after: timedelta = timedelta(minutes=30)


def health(inputs: Inputs, rules: HealthRules | None = None) -> DataFrame:
    """Findings about groups.

    Groups in a part of the log that could not be read to its end (`gaps`) may have committed since, so they
    are not reported as stopped or stuck.
    """
    rules = rules or HealthRules()
    history = end_offset_history(inputs)
    found = [
        *_of_lag(inputs["lag"], inputs["groups_now"]),
        *_of_members(inputs["members_now"], history),
        _of_rebalances(at_moment(inputs["rebalances"].where("storm"), inputs.now)),
    ]
    if "commits" in inputs:
        found.append(_of_rings(_judged(inputs, history, rules.burrow), rules))
    together = reduce(DataFrame.unionByName, found)
    return conform(at_moment(together, inputs.now), "health")


def _judged(inputs: Inputs, history: DataFrame, settings: Burrow) -> DataFrame:
    """Burrow's figures of each partition whose group exists and whose offset was not removed."""
    partitions = partition_status(inputs["commits"], history, inputs.now, settings)
    live = inputs["lag"].select("group_id", *_PLACE)
    members = inputs["groups_now"].select("group_id", "member_count")
    judged = partitions.join(live, ["group_id", *_PLACE], "left_semi")
    judged = judged.join(members, "group_id", "left")
    return with_known_until(judged, inputs["gaps"], inputs["commits"])


def _finding(
    rule: str,
    severity: Column | str,
    evidence: Column,
    next_step: Column | str,
    *,
    status: Column | None = None,
    about: str = "partition",
) -> Column:
    """What a rule says of a row; `about` is group, topic or partition."""
    nothing = F.lit(None)
    level = F.lit(severity) if isinstance(severity, str) else severity
    step = F.lit(next_step) if isinstance(next_step, str) else next_step
    if status is None:
        status = F.when(level == "critical", "ERR").when(level == "warning", "WARN").otherwise("OK")
    topic = F.col("topic") if about != "group" else nothing
    partition = F.col("partition") if about == "partition" else nothing
    return F.struct(
        topic.cast("string").alias("topic"),
        partition.cast("int").alias("partition"),
        F.lit(rule).alias("rule"),
        status.alias("status"),
        level.alias("severity"),
        evidence.alias("evidence"),
        step.alias("next_step"),
    )


def _found(frame: DataFrame, *findings: Column) -> DataFrame:
    """The findings of each row, one row each."""
    each = F.explode(F.array_compact(F.array(*findings))).alias("finding")
    return frame.select("group_id", each).select("group_id", "finding.*")


# Burrow, and what can be seen in its rings


def _of_rings(judged: DataFrame, rules: HealthRules) -> DataFrame:
    """A verdict for each group, the partitions that it comes from, and those that are stuck."""
    still = ((F.col("now_ms") - F.col("since")) / 1000).cast("bigint")
    read = F.col("known_until").isNull()
    rows = judged.withColumns(
        {"still_seconds": F.when(read, still), "status": F.when(read, F.col("status"))}
    )
    rows = with_group_status(rows, rules.burrow)
    bad = F.col("status") != "OK"
    return _found(
        rows,
        F.when(F.col("first_of_group"), _verdict()),
        F.when(bad, _judgement()),
        _stuck(rules.stuck_after),
    )


def _steps() -> Column:
    return F.create_map(*[F.lit(each) for pair in _STEPS.items() for each in pair])


def _verdict() -> Column:
    """What Burrow says of a group; without a status, what it lacks to say something."""
    status = F.col("group_status")
    counts = [
        F.format_string(f"%d {each}", F.col(f"group_{each}"))
        for each in ("WARN", "STOP", "STALL", "REWIND")
    ]
    judged = F.concat(
        F.format_string("%d partitions: ", F.col("group_judged")),
        F.concat_ws(", ", *counts),
        F.format_string("; total lag %d", F.col("group_total_lag")),
    )
    not_judged = F.format_string(
        "not judged: the ends of %d of %d partitions are known; last commit %s",
        F.col("group_with_ends"),
        F.col("group_partitions"),
        _time(F.timestamp_millis("group_last_at")),
    )
    unread = F.col("known_until").isNotNull()
    not_read = F.format_string(
        "not judged: its part of the log was read up to %s", _time(F.col("known_until"))
    )
    return _finding(
        "burrow",
        F.when(status.isNull(), "info")
        .when(status == "OK", "ok")
        .when(status == "WARN", "warning")
        .otherwise("critical"),
        F.when(unread, not_read).when(status.isNull(), not_judged).otherwise(judged),
        F.when(unread, F.lit(_NOT_READ))
        .when(status.isNull(), F.lit(_NOT_JUDGED))
        .when(status == "OK", _steps()["OK"])
        .otherwise(_steps()["ERR"]),
        status=status,
        about="group",
    )


def _judgement() -> Column:
    """What Burrow says of a partition."""
    status = F.col("status")
    return _finding(
        "burrow",
        F.when(status == "WARN", "warning").otherwise("critical"),
        F.format_string(
            "lag %d; last commit %s of offset %d; %d commits looked at",
            F.col("current_lag"),
            _time(F.timestamp_millis("last_at")),
            F.col("last_committed"),
            F.size("ring"),
        ),
        _steps()[status],
        status=status,
    )


def _stuck(stuck_after: timedelta) -> Column:
    """Members are there, lag too, and the offset has not moved for long; of all commits, not of the ring."""
    still = F.col("still_seconds") >= stuck_after.total_seconds()
    finding = _finding(
        "stuck",
        "warning",
        F.format_string(
            "offset %d since %s, %d s ago; lag %d",
            F.col("last_committed"),
            _time(F.timestamp_millis("since")),
            F.col("still_seconds"),
            F.col("current_lag"),
        ),
        "the group has members, but nobody gets on: look at the logs of the one that has the partition",
    )
    return F.when((F.col("current_lag") > 0) & still & (F.col("member_count") > 0), finding)


def _time(moment_: Column) -> Column:
    return F.date_format(moment_, "yyyy-MM-dd HH:mm:ss")


# What can be seen in lag


def _of_lag(lag: DataFrame, there: DataFrame) -> list[DataFrame]:
    loss = _finding(
        "data_loss",
        "critical",
        F.format_string(
            "committed offset %d, but the log starts at %d: %d offsets are gone",
            F.col("committed_offset"),
            F.col("log_start"),
            F.col("lost_records"),
        ),
        "these records cannot be read any more; the group will go on by its auto.offset.reset",
    )
    empty = _finding(
        "no_members",
        "info",
        F.format_string("no members, and lag %d", F.col("lag")),
        "start its consumers, or delete the group if it is not needed: see stale_groups",
        about="group",
    )
    # A simple group has no members at any time.
    with_protocol = F.coalesce("protocol_type", F.lit("")) != ""
    idle = there.where((F.col("member_count") == 0) & (F.col("state") == "Empty") & with_protocol)
    totals = lag.groupBy("group_id").agg(F.sum("lag").alias("lag")).where("lag > 0")
    return [
        _found(_with_neighbours(lag), _hot(), _at_risk(), F.when(F.col("data_loss"), loss)),
        _found(totals.join(idle, "group_id", "left_semi"), empty),
    ]


def _at_risk() -> Column:
    """Retention is about to overtake the group."""
    span = F.col("log_end") - F.col("log_start")
    share = F.when(span > 0, F.col("lag") / span)
    # A log that still has its first record has lost nothing yet.
    risky = (F.col("log_start") > 0) & (share >= _RISK) & ~F.col("data_loss")
    finding = _finding(
        "retention_risk",
        "warning",
        F.format_string(
            "lag %d is %d %% of what the log keeps (%d to %d)",
            F.col("lag"),
            (share * 100).cast("int"),
            F.col("log_start"),
            F.col("log_end"),
        ),
        "records will go before they are read: speed the group up, or lengthen the topic's retention",
    )
    return F.when(risky, finding)


def _with_neighbours(lag: DataFrame) -> DataFrame:
    """Each partition with how many the group has of its topic, and the lag of the others on average."""
    of_topic = Window.partitionBy("group_id", "topic")
    others = F.count("lag").over(of_topic) - 1
    return lag.select(
        "*",
        others.alias("others"),
        F.when(others > 0, (F.sum("lag").over(of_topic) - F.col("lag")) / others).alias("mean"),
    )


def _hot() -> Column:
    """One partition of a topic is far behind its neighbours."""
    hot = (
        (F.col("others") >= _HOT_PARTITIONS - 1)
        & (F.col("lag") >= _HOT_LAG)
        & (F.col("lag") > F.col("mean") * _HOT_TIMES)
    )
    finding = _finding(
        "hot_partition",
        "warning",
        F.format_string(
            "lag %d, where the other %d partitions have %d on average",
            F.col("lag"),
            F.col("others"),
            F.col("mean").cast("bigint"),
        ),
        "look at the keys of the topic's producers, and at the member that has this partition",
    )
    return F.when(hot, finding)


# What can be seen in members


def _of_members(people: DataFrame, history: DataFrame) -> list[DataFrame]:
    # Not `size`, of which a setting of the session says what it makes of null.
    places = F.coalesce(F.array_size("places"), F.lit(0))
    counts = people.groupBy("group_id").agg(
        F.count("*").alias("members"),
        F.sum(places).alias("partitions"),
        F.count_if(places == 0).alias("idle"),
        F.array_sort(F.collect_list(F.when(places == 0, F.col("client_id")))).alias("names"),
    )
    crowded = (F.col("members") > F.col("partitions")) & (F.col("partitions") > 0)
    idle = _finding(
        "more_members_than_partitions",
        "info",
        F.format_string(
            "%d members for %d partitions; idle: %s",
            F.col("members"),
            F.col("partitions"),
            F.concat_ws(", ", F.slice("names", 1, 5)),
        ),
        "stop the members that have nothing to do, or give the topics more partitions",
        about="group",
    )
    return [_found(counts, F.when(crowded, idle)), _unassigned(people, history)]


def _unassigned(people: DataFrame, history: DataFrame) -> DataFrame:
    """Partitions of topics that a group subscribes to, and that none of its members has."""
    wanted = people.select("group_id", F.explode("subscription").alias("topic")).distinct()
    # A topic that was made anew with fewer partitions has only those of its newest sample.
    there = history.groupBy(*_PLACE).agg(F.max("taken_at").alias("sampled_at"))
    newest = F.max("sampled_at").over(Window.partitionBy("topic"))
    there = there.withColumn("newest", newest).where("sampled_at = newest").select(*_PLACE)
    has = people.select("group_id", F.explode("places").alias("place")).select(
        "group_id", "place.topic", "place.partition"
    )
    lonely = wanted.join(there, "topic").join(has, ["group_id", *_PLACE], "left_anti")
    found = lonely.groupBy("group_id", "topic").agg(
        F.count("*").alias("count"), F.array_sort(F.collect_list("partition")).alias("which")
    )
    finding = _finding(
        "unassigned_partitions",
        "warning",
        F.format_string(
            "%d partitions have no member: %s",
            F.col("count"),
            F.concat_ws(", ", F.slice("which", 1, 10).cast("array<string>")),
        ),
        "nobody reads them: see whether the group is rebalancing, or restart its leader to assign anew",
        about="topic",
    )
    return _found(found, finding)


def _of_rebalances(storms: DataFrame) -> DataFrame:
    recent = storms.where(F.col("completed_at") >= F.col("as_of") - F.expr("interval 1 hour"))
    counts = recent.groupBy("group_id").agg(
        F.count("*").alias("count"),
        F.max("in_ten_minutes").alias("most"),
        F.max_by("cause", "completed_at").alias("cause"),
    )
    finding = _finding(
        "rebalance_storm",
        "warning",
        F.format_string(
            "%d rebalances in the last hour, up to %d in ten minutes; the last by %s",
            F.col("count"),
            F.col("most"),
            F.col("cause"),
        ),
        "look for a member that comes and goes: see rebalances for its client id and host",
        about="group",
    )
    return _found(counts, finding)
