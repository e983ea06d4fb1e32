"""Findings about groups: who is stuck, who is not judged, whose partitions nobody has."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from coterie.spark.marts import health
from tests.spark.marts_kit import NOW, commit, frame, generation, member, only, quick

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    with quick(spark) as quick_session:
        yield quick_session


def sample(ago: float, end: int, partition: int = 0) -> dict[str, Any]:
    at = NOW - timedelta(seconds=ago)
    return {"taken_at": at, "topic": "t", "partition": partition, "log_start": 0, "log_end": end}


def found(session: SparkSession, **tables: Rows) -> dict[tuple[str, str, int | None], Row]:
    """Findings by group, rule and partition."""
    frames = {name: frame(session, name, rows) for name, rows in tables.items()}
    given: dict[str, Any] = {"as_of": NOW, **frames}
    rows = health(**given).collect()
    assert len({(row.group_id, row.rule, row.partition) for row in rows}) == len(rows)
    return {(row.group_id, row.rule, row.partition): row for row in rows}


def test_stuck_is_who_stays_at_an_offset_however_often_it_commits(session: SparkSession) -> None:
    minute = 60
    lives: dict[str, list[tuple[int | None, float]]] = {
        "commits all the time": [(400, 185 * minute), *((500, 5.0 * i) for i in range(400, 0, -1))],
        "commits no more": [(400, 50 * minute), (500, 40 * minute)],
        "moves": [(400, 35 * minute), (500, minute)],
        "was set back": [(100, 32 * minute), (200, 12 * minute), (100, minute)],
        "was set back long ago": [(100, 90 * minute), (200, 80 * minute), (100, 40 * minute)],
        "was removed": [(100, 90 * minute), (None, 80 * minute), (100, minute)],
    }
    commits: Rows = []
    for group, life in lives.items():
        commits += [commit(len(commits) + i, *each, group=group) for i, each in enumerate(life)]
    events = [generation(0, 1, member("m", 0), group=group) for group in lives]
    # A single sample: of these two Burrow cannot say more, but the offset of one stands still all the same.
    ends = [sample(0, 10_500)]
    rows = found(session, commits=commits, end_offsets=ends, group_events=events)
    stuck = {group: row.evidence for (group, rule, _), row in rows.items() if rule == "stuck"}
    assert stuck == {
        "commits all the time": "offset 500 since 2026-03-02 23:26:40, 2000 s ago; lag 10000",
        "commits no more": "offset 500 since 2026-03-02 23:20:00, 2400 s ago; lag 10000",
        "was set back long ago": "offset 100 since 2026-03-02 23:20:00, 2400 s ago; lag 10400",
    }
    unjudged = {group for (group, _, _), row in rows.items() if row.status is None}
    assert unjudged == {"commits all the time", "moves"}


def test_groups_of_topics_without_samples_are_not_judged(session: SparkSession) -> None:
    commits = [
        commit(0, 10, 60),
        commit(1, 20, 30, group="half known"),
        commit(2, 20, 30, group="half known", topic="unknown"),
        commit(3, 20, 30, group="not known", topic="unknown"),
    ]
    ends = [sample(90, 20), sample(0, 20)]
    rows = found(session, commits=commits, end_offsets=ends)
    verdicts = {
        group: (row.status, row.severity, row.evidence)
        for (group, rule, partition), row in rows.items()
        if (rule, partition) == ("burrow", None)
    }
    counts = "1 partitions: 0 WARN, {} STOP, 0 STALL, 0 REWIND; total lag {}"
    assert verdicts == {
        "g": ("ERR", "critical", counts.format(1, 10)),
        "half known": ("OK", "ok", counts.format(0, 0)),
        "not known": (
            None,
            "info",
            "not judged: the ends of 0 of 1 partitions are known; last commit 2026-03-02 23:59:30",
        ),
    }


def test_a_snapshot_is_one_sample_though_it_sees_ends_several_times(session: SparkSession) -> None:
    """Seven snapshots ago the group was at the end, and Burrow looks at ten samples."""
    commits = [commit(i, 1_000, 2_050 - i) for i in range(3)]
    ends: Rows = []
    offsets: Rows = []
    for i, end in enumerate([900, 950, 1_000, *range(1_010, 1_080, 10)]):
        ago = 300.0 * (9 - i)
        ends.append(sample(ago, end))
        seen = {"snapshot_id": f"{i}", "committed_offset": 1_000}
        # Asked two seconds earlier, and of each group anew while the log grows.
        offsets += [sample(ago + 2, end + n) | seen | {"group_id": f"g{n}"} for n in (0, 1)]
    row = found(session, commits=commits, end_offsets=ends, offsets=offsets)["g", "burrow", None]
    assert (row.status, row.severity) == ("OK", "ok")
    assert row.evidence.endswith("total lag 70")


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


def test_partitions_that_a_topic_no_longer_has_need_no_member(session: SparkSession) -> None:
    ends = [sample(600, 10, partition) for partition in range(4)]
    ends += [sample(0, 5, partition) for partition in range(2)]
    rows = found(session, end_offsets=ends, group_events=[generation(0, 1, member("m", 1))])
    row = only(list(rows.values()))
    assert (row.rule, row.evidence) == (
        "unassigned_partitions",
        "1 partitions have no member: 0",
    )
