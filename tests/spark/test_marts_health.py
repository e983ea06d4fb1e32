"""Findings about groups: who is stuck, who is not judged, whose partitions nobody has."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from coterie.spark.marts import make_mart
from tests.spark.marts_kit import NOW, commit, frame, generation, member, only, quick

Rows = list[dict[str, Any]]
Findings = dict[tuple[str, str, int | None], Row]
MINUTE = 60
#: Groups, and what they committed so many seconds ago.
LIVES: dict[str, list[tuple[int | None, float]]] = {
    "commits all the time": [(400, 185 * MINUTE), *((500, 5.0 * i) for i in range(400, 0, -1))],
    "commits no more": [(400, 50 * MINUTE), (500, 40 * MINUTE)],
    "moves": [(400, 35 * MINUTE), (500, MINUTE)],
    "was set back": [(100, 32 * MINUTE), (200, 12 * MINUTE), (100, MINUTE)],
    "was set back long ago": [(100, 90 * MINUTE), (200, 80 * MINUTE), (100, 40 * MINUTE)],
    "was removed": [(100, 90 * MINUTE), (None, 80 * MINUTE), (100, MINUTE)],
}


@dataclass(frozen=True)
class Tables:
    """Rows that marts are made from, by what they are."""

    commits: Rows = field(default_factory=list)
    end_offsets: Rows = field(default_factory=list)
    group_events: Rows = field(default_factory=list)
    offsets: Rows = field(default_factory=list)


def sample(ago: float, end: int, partition: int = 0, *, topic: str) -> dict[str, Any]:
    at = NOW - timedelta(seconds=ago)
    return {"taken_at": at, "topic": topic, "partition": partition, "log_start": 0, "log_end": end}


def found(
    session: SparkSession, gaps: list[tuple[int, str, datetime]] | None = None, **tables: Rows
) -> Findings:
    """Findings by group, rule and partition."""
    frames = {name: frame(session, name, rows) for name, rows in tables.items()}
    if gaps is not None:
        columns = "partition int, kind string, read_until timestamp"
        frames["gaps"] = session.createDataFrame(gaps, columns)
    rows = make_mart("health", frames, as_of=NOW).collect()
    assert len({(row.group_id, row.rule, row.partition) for row in rows}) == len(rows)
    return {(row.group_id, row.rule, row.partition): row for row in rows}


def standing() -> Tables:
    """Groups that stay at an offset, or do not, however often they commit."""
    commits: Rows = []
    for group, life in LIVES.items():
        at = len(commits)
        commits += [
            commit(at + i, *each, group=group, topic="standing") for i, each in enumerate(life)
        ]
    given = member("m", 0, topic="standing")
    events = [generation(0, 1, given, group=group) for group in LIVES]
    # A single sample: of two of them Burrow cannot say more, but the offset of one stands still all the same.
    return Tables(commits, [sample(0, 10_500, topic="standing")], events)


def half_known() -> Tables:
    """Groups of topics of which nobody has seen the ends."""
    commits = [
        commit(0, 10, 60, group="known", topic="known"),
        commit(1, 20, 30, group="half known", topic="known"),
        commit(2, 20, 30, group="half known", topic="unknown"),
        commit(3, 20, 30, group="not known", topic="unknown"),
    ]
    return Tables(commits, [sample(90, 20, topic="known"), sample(0, 20, topic="known")])


def seen_often() -> Tables:
    """Seven snapshots ago the group was at the end, and Burrow looks at ten samples."""
    commits = [commit(i, 1_000, 2_050 - i, group="seen", topic="seen") for i in range(3)]
    ends: Rows = []
    offsets: Rows = []
    for i, end in enumerate([900, 950, 1_000, *range(1_010, 1_080, 10)]):
        ago = 300.0 * (9 - i)
        ends.append(sample(ago, end, topic="seen"))
        seen = {"snapshot_id": f"{i}", "committed_offset": 1_000}
        # Asked two seconds earlier, and of each group anew while the log grows.
        offsets += [
            sample(ago + 2, end + n, topic="seen") | seen | {"group_id": f"seen {n}"}
            for n in (0, 1)
        ]
    return Tables(commits, ends, offsets=offsets)


def made_smaller() -> Tables:
    """A topic that had four partitions once."""
    ends = [sample(600, 10, partition, topic="smaller") for partition in range(4)]
    ends += [sample(0, 5, partition, topic="smaller") for partition in range(2)]
    events = [generation(0, 1, member("m", 1, topic="smaller"), group="smaller")]
    return Tables(end_offsets=ends, group_events=events)


#: Partitions of the log that were not read to their end; of the last one nothing is missing, it is open.
GAPS = [
    (7, "waiting", NOW - timedelta(minutes=40)),
    (8, "failed", NOW - timedelta(minutes=40)),
    (9, "open", NOW - timedelta(minutes=40)),
]


def held_back() -> Tables:
    """Groups whose part of the log was not read to its end, and one that has stopped."""
    commits: Rows = []
    events: Rows = []
    for partition, group, ago in ((7, "waits", 40), (8, "failed", 40), (9, "has stopped", 20)):
        commits += [
            commit(i, 401 + i, (ago - i) * MINUTE, group=group, topic="held", partition=partition)
            for i in range(-1, 1)
        ]
        events.append(
            generation(0, 1, member("m", 0, topic="held"), group=group, partition=partition)
        )
    ends = [sample(50 * MINUTE, 500, topic="held"), sample(0, 900, topic="held")]
    return Tables(commits, ends, events)


@pytest.fixture(scope="module")
def findings(spark: SparkSession) -> Findings:
    """About all of them at once: each has groups and topics of its own."""
    every = [standing(), half_known(), seen_often(), made_smaller(), held_back()]
    tables = {
        each.name: [row for one in every for row in getattr(one, each.name)]
        for each in fields(Tables)
    }
    with quick(spark) as session:
        return found(session, GAPS, **tables)


def test_stuck_is_who_stays_at_an_offset_however_often_it_commits(findings: Findings) -> None:
    stuck = {group: row.evidence for (group, rule, _), row in findings.items() if rule == "stuck"}
    assert stuck == {
        "commits all the time": "offset 500 since 2026-03-02 23:26:40, 2000 s ago; lag 10000",
        "commits no more": "offset 500 since 2026-03-02 23:20:00, 2400 s ago; lag 10000",
        "was set back long ago": "offset 100 since 2026-03-02 23:20:00, 2400 s ago; lag 10400",
    }
    unjudged = {group for (group, _, _), row in findings.items() if row.status is None}
    assert unjudged & LIVES.keys() == {"commits all the time", "moves"}


def test_groups_of_topics_without_samples_are_not_judged(findings: Findings) -> None:
    verdicts = {
        group: (row.status, row.severity, row.evidence)
        for (group, rule, partition), row in findings.items()
        if group.endswith("known") and (rule, partition) == ("burrow", None)
    }
    counts = "1 partitions: 0 WARN, {} STOP, 0 STALL, 0 REWIND; total lag {}"
    assert verdicts == {
        "known": ("ERR", "critical", counts.format(1, 10)),
        "half known": ("OK", "ok", counts.format(0, 0)),
        "not known": (
            None,
            "info",
            "not judged: the ends of 0 of 1 partitions are known; last commit 2026-03-02 23:59:30",
        ),
    }


def test_who_is_in_a_part_of_the_log_that_was_not_read_is_not_judged(findings: Findings) -> None:
    """They may have committed since: to call them dead would be invented."""
    verdicts = {
        group: (row.status, row.severity, row.evidence)
        for (group, rule, partition), row in findings.items()
        if group in ("waits", "failed") and (rule, partition) == ("burrow", None)
    }
    until = "not judged: its part of the log was read up to 2026-03-02 23:20:00"
    assert verdicts == dict.fromkeys(("waits", "failed"), (None, "info", until))
    assert "gaps" in findings["waits", "burrow", None].next_step
    rules = {(group, rule, at) for group, rule, at in findings if group in ("waits", "failed")}
    assert rules == {("waits", "burrow", None), ("failed", "burrow", None)}
    assert findings["has stopped", "burrow", 0].status == "STOP"


def test_a_snapshot_is_one_sample_though_it_sees_ends_several_times(findings: Findings) -> None:
    row = findings["seen", "burrow", None]
    assert (row.status, row.severity) == ("OK", "ok")
    assert row.evidence.endswith("total lag 70")


def test_partitions_that_a_topic_no_longer_has_need_no_member(findings: Findings) -> None:
    row = only([row for (group, _, _), row in findings.items() if group == "smaller"])
    assert (row.rule, row.evidence) == (
        "unassigned_partitions",
        "1 partitions have no member: 0",
    )


def test_members_without_partitions_do_not_depend_on_the_session(spark: SparkSession) -> None:
    """Without ANSI, which is Spark's default, `size` of what is not there would be -1."""
    taken = {"snapshot_id": "s", "taken_at": NOW, "group_id": "g"}
    members = [taken | {"member_id": each, "client_id": each} for each in ("a", "b", "c")]
    assignments = [taken | {"member_id": "a", "topic": "t", "partition": 0, "target": False}]
    groups = [taken | {"type": "classic", "state": "Stable", "member_count": 3}]
    with quick(spark, **{"spark.sql.ansi.enabled": "false"}) as session:
        rows = found(session, groups=groups, members=members, assignments=assignments)
    row = rows["g", "more_members_than_partitions", None]
    assert row.evidence == "3 members for 1 partitions; idle: b, c"
    assert (row.status, row.severity) == ("OK", "info")
