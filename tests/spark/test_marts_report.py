"""The report's questions in SQL, asked of marts written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from coterie.spark.marts import make_mart
from coterie.spark.pipeline.gaps import table_of_gaps
from coterie.spark.pipeline.report.figures import FIGURES
from coterie.spark.pipeline.store import TableStore
from tests.spark.marts_kit import NOW, frame, mart, only, quick


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    with quick(spark) as quick_session:
        yield quick_session


def asked(session: SparkSession, figure: str, tables: dict[str, DataFrame]) -> list[Row]:
    """What a figure of the report says of these tables."""
    for name, table in tables.items():
        table.createOrReplaceTempView(name)
    rows = session.sql(next(each.sql for each in FIGURES if each.name == figure)).collect()
    for name in tables:
        session.catalog.dropTempView(name)
    return rows


def built(session: SparkSession) -> dict[str, DataFrame]:
    """The table of the last build, as of now."""
    return {"last_build": session.createDataFrame([(NOW,)], "as_of timestamp")}


@pytest.mark.parametrize("whole_since", [None, 60])
def test_trouble_is_that_of_the_newest_snapshot(
    session: SparkSession, tmp_path: Path, whole_since: int | None
) -> None:
    failed = NOW - timedelta(days=1)
    error = ("s", failed, "broker", "3", "no answer")
    columns = "snapshot_id string, taken_at timestamp, scope string, name string, error string"
    groups = [{"group_id": "g", "taken_at": failed}]
    if whole_since is not None:
        groups.append({"group_id": "g", "taken_at": NOW - timedelta(seconds=whole_since)})
    tables = {
        "errors": session.createDataFrame([error], columns),
        "groups": frame(session, "groups", groups),
        "quarantine": frame(session, "log", []),
        "gaps": session.createDataFrame(table_of_gaps(TableStore(tmp_path))),
    }
    found = [(row.place, row.all_of_them) for row in asked(session, "trouble", tables)]
    assert found == ([("broker 3", 1)] if whole_since is None else [])


def test_groups_behind_are_not_those_that_are_stale(session: SparkSession) -> None:
    late = {"max_lag_seconds": 900.0, "total_lag": 7, "member_count": 1, "as_of": NOW}
    summary = [{"group_id": name, **late} for name in ("stale", "late")]
    tables = {
        "group_summary": mart(session, "group_summary", summary),
        "stale_groups": mart(session, "stale_groups", [{"group_id": "stale"}]),
    }
    row = only(asked(session, "overview", tables | built(session)))
    assert (row.groups, row.members, row.groups_behind, row.total_lag) == (2, 2, 1, 7)


def test_rebalances_are_counted_when_no_group_is_left(session: SparkSession) -> None:
    """The moment of the report is that of the build, and not that of the groups."""
    row = {"group_id": "gone", "group_type": "classic", "cause": "member_churn", "rebalanced": True}
    rows = [
        row | {"generation": number, "completed_at": NOW - timedelta(hours=number)}
        for number in range(1, 30)
    ]
    tables = {
        "rebalances": mart(session, "rebalances", rows),
        "group_summary": mart(session, "group_summary", []),
        "stale_groups": mart(session, "stale_groups", []),
    } | built(session)
    overview = only(asked(session, "overview", tables))
    assert (overview.groups, overview.members, overview.total_lag) == (0, 0, 0)
    assert overview.as_of == NOW.replace(tzinfo=None)
    by_hour = asked(session, "rebalances_by_hour", tables)
    assert sum(each.rebalances for each in by_hour) == 24
    assert [each.rebalances for each in asked(session, "rebalance_groups", tables)] == [24]
    assert len(asked(session, "rebalance_timeline", tables)) == 24


def test_a_busy_group_does_not_hide_the_others(session: SparkSession) -> None:
    def each(group: str, number: int) -> dict[str, Any]:
        at = NOW - timedelta(hours=3) + timedelta(seconds=number)
        return {"group_id": group, "generation": number, "completed_at": at, "rebalanced": True}

    rows = [*(each("a", number) for number in range(2500)), each("b", 1)]
    tables = {
        "rebalances": mart(session, "rebalances", rows),
    } | built(session)
    found = asked(session, "rebalance_timeline", tables)
    assert [row.generation for row in found if row.group_id == "a"] == list(range(2300, 2500))
    assert {(row.group_id, row.rebalances) for row in found} == {("a", 2500), ("b", 1)}


def test_rebalances_of_24_hours_are_the_same_everywhere(session: SparkSession) -> None:
    def each(group: str, hours: float, hidden: int | None, kind: str = "classic") -> dict[str, Any]:
        at = NOW - timedelta(hours=hours)
        row = {"group_id": group, "group_type": kind, "generation": 1, "completed_at": at}
        return row | {"cause": "unknown", "hidden_before": hidden, "rebalanced": True}

    rows = [
        each("a", 24.001, 5),
        each("a", 24, None),
        each("a", 3, 2),
        each("a", 2, 7) | {"rebalanced": False},
        # Epochs that are missing were compacted away: nobody knows when they were.
        each("b", 1, 9, "consumer"),
    ]
    mart_rows = mart(session, "rebalances", rows)
    groups = [{"group_id": name, "taken_at": NOW, "type": "classic"} for name in ("a", "b")]
    given = {
        "commits": frame(session, "commits", []),
        "groups": frame(session, "groups", groups),
        "rebalances": mart_rows,
        "health": mart(session, "health"),
    }
    summary = make_mart("group_summary", given, as_of=NOW)
    expected = {"a": 4, "b": 1}
    assert {row.group_id: row.rebalances_24h for row in summary.collect()} == expected
    tables = {
        "rebalances": mart_rows,
    } | built(session)
    by_hour = asked(session, "rebalances_by_hour", tables)
    assert sum(row.rebalances for row in by_hour) == sum(expected.values())
    busiest = asked(session, "rebalance_groups", tables)
    assert [(row.group_id, row.rebalances) for row in busiest] == [("a", 4), ("b", 1)]
    marks = asked(session, "rebalance_timeline", tables)
    assert [(row.group_id, row.rebalances, row.marks) for row in marks] == [
        ("a", 4, 2),
        ("a", 4, 2),
        ("b", 1, 1),
    ]


def test_the_worst_partition_is_the_one_that_is_furthest_behind_in_time(
    session: SparkSession,
) -> None:
    def behind(group: str, partition: int, lag: int, late: float | None) -> dict[str, Any]:
        place = {"group_id": group, "topic": "t", "partition": partition}
        return place | {"lag": lag, "lag_seconds": late, "at_least": False, "lost_records": 0}

    rows = [
        behind("g", 0, 9_000, 5.0),
        behind("g", 1, 3, 700.0),
        behind("of no known age", 0, 1, None),
        behind("of no known age", 1, 2, None),
    ]
    tables = {
        "lag": mart(session, "lag", rows),
        "stale_groups": mart(session, "stale_groups", []),
    }
    found = asked(session, "lag_now", tables)
    assert [(row.group_id, row.lag_seconds, row.lag, row.worst_partition) for row in found] == [
        ("g", 700.0, 9_003, "t-1"),
        ("of no known age", None, 3, "t-1"),
    ]


def finding(
    group: str, rule: str, severity: str, partition: int | None = None, **more: Any
) -> dict[str, Any]:
    place = {"topic": None if partition is None else "t", "partition": partition}
    row = {"group_id": group, "rule": rule, "severity": severity, **place}
    return row | {"evidence": f"{rule} of {group}-{partition}"} | more


def test_findings_are_a_row_per_group_and_rule_and_the_worst_come_first(
    session: SparkSession,
) -> None:
    health = [
        finding("a", "burrow", "critical", status="ERR"),
        finding("a", "burrow", "warning", 0, status="WARN"),
        *(finding("a", "burrow", "critical", number, status="STOP") for number in (1, 2, 3)),
        finding("b", "burrow", "critical", status="ERR"),
        finding("b", "burrow", "critical", 0, status="STALL"),
        finding("fine", "burrow", "ok", status="OK"),
        finding("stale", "data_loss", "critical", 0),
        finding("a", "stuck", "warning", 0),
        finding("z", "data_loss", "critical", 0),
        finding("z", "data_loss", "critical", 1),
        finding("y", "unassigned_partitions", "warning", topic="t"),
        finding("y", "unassigned_partitions", "warning", topic="u"),
        finding("y", "no_members", "info"),
    ]

    def behind(group: str, partition: int, lag: int, lost: int = 0) -> dict[str, Any]:
        place = {"group_id": group, "topic": "t", "partition": partition}
        return place | {"lag": lag, "lost_records": lost}

    lag = [
        *(behind("a", number, 100 * number) for number in (1, 3, 2)),
        behind("a", 0, 9_000),
        behind("b", 0, 5_000),
        # The larger loss is the worse one, whatever is left to be read.
        behind("z", 0, 90, lost=10),
        behind("z", 1, 30, lost=20),
        behind("stale", 0, 99_999, lost=99_999),
        behind("y", 7, 12_000),
    ]
    tables = {
        "health": mart(session, "health", health),
        "lag": mart(session, "lag", lag),
        "stale_groups": mart(session, "stale_groups", [{"group_id": "stale"}]),
    }
    found = asked(session, "findings", tables)
    assert [(row.group_id, row.rule, row.status, row.evidence) for row in found] == [
        ("z", "data_loss", None, "data_loss of z-1"),
        ("a", "burrow", "STOP", "burrow of a-3"),
        ("b", "burrow", "STALL", "burrow of b-0"),
        ("y", "unassigned_partitions", None, "unassigned_partitions of y-None"),
        ("a", "stuck", None, "stuck of a-0"),
        ("y", "no_members", None, "no_members of y-None"),
        ("stale", "data_loss", None, "data_loss of stale-0"),
    ]
    extent = {(row.group_id, row.rule): (row.partitions, row.topics) for row in found}
    assert extent["a", "burrow"] == (4, 1)
    assert extent["z", "data_loss"] == (2, 1)
    assert extent["y", "unassigned_partitions"] == (0, 2)
    assert extent["y", "no_members"] == (0, 0)
    assert [row.stale for row in found] == [False] * 6 + [True]
    assert {row.all_of_them for row in found} == {7}
