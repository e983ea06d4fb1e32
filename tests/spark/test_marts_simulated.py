"""Marts against the truth of a simulated fleet: all that happened is found, and nothing else."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from coterie.plans.model import load_plan
from coterie.simulation import simulate
from coterie.spark.marts import delete_plan, make_mart
from coterie.spark.marts.burrow import STATUSES, Burrow
from tests.spark.burrow_rules import Seen, judged
from tests.spark.marts_kit import make_marts, quick, read_fleet, stamp, truth

END = datetime(2026, 3, 3, tzinfo=UTC)
#: `make truth` looks at larger fleets, and at more of them.
GROUPS = int(os.environ.get("COTERIE_FLEET_GROUPS", "48"))
SEEDS = range(11, 11 + int(os.environ.get("COTERIE_FLEETS", "1")))

#: Spark compiles plans and adapts them, as it does for users with many rows.
AS_FOR_MANY = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
}


@dataclass
class Fleet:
    directory: Path
    tables: dict[str, DataFrame]
    rows: dict[str, list[Row]]

    def truth(self, name: str) -> list[dict[str, Any]]:
        return truth(self.directory, name)

    def kinds(self, kind: str) -> set[str]:
        return {line["group"] for line in self.truth("groups") if line["kind"] == kind}


@pytest.fixture(scope="module", params=SEEDS)
def fleet(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """Every mart, once."""
    directory = tmp_path_factory.mktemp("fleet") / "sim"
    simulate(
        directory,
        groups=GROUPS,
        hours=24,
        seed=request.param,
        partitions=4,
        commit_every_ms=900_000,
    )
    with quick(spark, **AS_FOR_MANY):
        tables = read_fleet(spark, directory)
        yield Fleet(directory, tables, make_marts(spark, tables, END))


def written(row: Row) -> str | None:
    """When the record was written: a classic generation at its end, an epoch at its beginning."""
    return stamp(row.completed_at if row.group_type == "classic" else row.started_at)


def test_every_rebalance_is_found_with_its_cause_and_none_is_invented(fleet: Fleet) -> None:
    def of_row(row: Row) -> tuple[Any, ...]:
        return (
            row.group_id,
            row.generation,
            written(row),
            tuple(sorted(row.changes)),
            tuple(sorted(each.member_id for each in row.joined)),
            tuple(sorted(each.member_id for each in row.left)),
            row.member_count,
            row.leader_id,
            row.leader_changed,
            row.hidden_before,
        )

    def of_line(line: dict[str, Any]) -> tuple[Any, ...]:
        return (
            line["group"],
            line["generation"],
            line["time"],
            tuple(sorted(line["causes"])),
            tuple(line["joined"]),
            tuple(line["left"]),
            line["members"],
            line["leader"],
            line["leader_changed"],
            line["hidden_before"],
        )

    lines = fleet.truth("rebalances")
    rows = fleet.rows["rebalances"]
    assert sorted(map(of_row, rows), key=repr) == sorted(map(of_line, lines), key=repr)
    causes = {(line["group"], line["generation"], line["time"]): line for line in lines}
    for row in rows:
        line = causes[row.group_id, row.generation, written(row)]
        assert row.cause in line["causes"]
        assert len(line["causes"]) > 1 or row.cause == line["cause"]
    assert {row.cause for row in rows} == {
        "member_churn",
        "subscription_change",
        "partition_count_change",
        "static_restart",
        "coordinator_move",
    }


def test_rebalances_say_what_moved(fleet: Fleet) -> None:
    for row in fleet.rows["rebalances"]:
        # An epoch may be overtaken by the next before a member has come to it.
        overtaken = row.group_type == "consumer" and row.completed_at == row.started_at
        assert (row.duration_seconds is None) <= (overtaken or not row.rebalanced)
        assert row.rebalanced or row.duration_seconds is None
        assert row.stickiness is None or 0 <= row.stickiness <= 1
        assert row.group_type == (
            "consumer" if row.group_id in fleet.kinds("modern") else "classic"
        )
        if row.cause == "static_restart":
            assert (row.partitions_moved, row.stickiness, row.rebalanced) == (0, 1.0, False)


def test_storms_are_those_of_members_that_come_and_go(fleet: Fleet) -> None:
    stormy = {row.group_id for row in fleet.rows["rebalances"] if row.storm}
    assert stormy == fleet.kinds("flapping")


def test_idle_groups_are_found_with_their_idle_time(fleet: Fleet) -> None:
    expected = {
        line["group"]: (line["last_commit"], line["last_member"], line["idle_seconds"])
        for line in fleet.truth("stale_groups")
        if line["idle_seconds"] >= 86_400
    }
    found = {
        row.group_id: (stamp(row.last_commit), stamp(row.last_member), int(row.idle_seconds))
        for row in fleet.rows["stale_groups"]
    }
    assert found == expected
    for row in fleet.rows["stale_groups"]:
        # Offsets of these groups live on from when their last member went.
        assert row.expires_at == row.last_member + timedelta(days=7)
    families = {row.family for row in fleet.rows["stale_groups"]}
    chance = {row.group_id for row in fleet.rows["stale_groups"] if row.family is not None}
    assert chance == set(found) & (fleet.kinds("console") | fleet.kinds("ephemeral"))
    assert all(each is None or each.endswith(("-*", "-preview-<uuid>")) for each in families)


def test_stale_groups_are_ready_to_be_deleted(fleet: Fleet, tmp_path: Path) -> None:
    made = delete_plan(fleet.tables["stale_groups"], fleet.tables["lag"], now=END)
    made.save(tmp_path / "plan.json")
    plan = load_plan(tmp_path / "plan.json")
    assert plan.action == "delete_groups"
    assert [each.group for each in plan.groups] == sorted(
        row.group_id for row in fleet.rows["stale_groups"]
    )
    assert all(each.state == "Empty" for each in plan.groups)


def test_without_a_threshold_all_groups_without_members_are_idle(fleet: Fleet) -> None:
    tables = {name: fleet.tables[name] for name in ("commits", "group_events", "lag", "groups_now")}
    found = make_mart("stale_groups", tables, as_of=END, idle_for=timedelta(0)).collect()
    expected = {line["group"] for line in fleet.truth("stale_groups")}
    assert {row.group_id for row in found} == expected


def test_every_reset_is_found_with_who_did_it(fleet: Fleet) -> None:
    found = sorted(
        (
            *(row.group_id, row.topic, row.partition, stamp(row.time)),
            *(row.from_offset, row.to_offset, row.member_id or row.by),
        )
        for row in fleet.rows["offset_resets"]
    )
    assert found == sorted(
        (
            *(line["group"], line["topic"], line["partition"], line["time"]),
            *(line["from"], line["to"], line["by"]),
        )
        for line in fleet.truth("offset_resets")
    )
    assert found


def test_lag_is_what_it_is_and_never_negative(fleet: Fleet) -> None:
    totals: Counter[str] = Counter()
    for row in fleet.rows["lag"]:
        assert row.lag >= 0
        assert 0 <= row.lag_seconds <= 86_400
        assert (row.lag == 0) == (row.lag_seconds == 0)
        assert row.data_loss == (row.committed_offset < row.log_start)
        totals[row.group_id] += row.lag
    for line in fleet.truth("groups"):
        # An offset more or less per partition: the sample is of the same second, computed otherwise.
        assert abs(totals[line["group"]] - line["total_lag"]) <= line["partitions"]


def test_every_partition_is_judged_by_the_rules_of_burrow(fleet: Fleet) -> None:
    """Those rules in plain Python beside the mart, for all that is committed."""
    ends: dict[tuple[str, int], list[Seen]] = {}
    for row in fleet.tables["end_offsets"].orderBy("taken_at").collect():
        ends.setdefault((row.topic, row.partition), []).append((ago(row.taken_at), row.log_end))
    commits: dict[tuple[str, str, int], list[Seen]] = {}
    settled = fleet.tables["commits"].where(
        "not tombstone and (outcome is null or outcome = 'committed')"
    )
    for row in settled.orderBy("offset").collect():
        place = (row.group_id, row.topic, row.topic_partition)
        commits.setdefault(place, []).append((ago(row.commit_timestamp), row.committed_offset))
    there = {(row.group_id, row.topic, row.partition) for row in fleet.rows["lag"]}
    expected = {place: judged(commits[place], ends[place[1:]], Burrow()) for place in sorted(there)}
    found = {
        (row.group_id, row.topic, row.partition): row.status
        for row in fleet.rows["health"]
        if row.rule == "burrow" and row.topic is not None
    }
    assert found == {place: status for place, status in expected.items() if status != "OK"}
    worst: dict[str, int] = {}
    for (group, *_), status in expected.items():
        worst[group] = max(worst.get(group, 0), min(STATUSES[status], STATUSES["ERR"]))
    verdicts = {
        row.group_id: STATUSES[row.status]
        for row in fleet.rows["health"]
        if row.rule == "burrow" and row.topic is None
    }
    assert verdicts == worst


def ago(moment: datetime) -> int:
    """Milliseconds before the end, of a time from Spark, which hands out UTC without saying so."""
    return (END - moment.replace(tzinfo=UTC)) // timedelta(milliseconds=1)


def test_health_knows_each_kind_of_trouble(fleet: Fleet) -> None:
    verdicts = {
        row.group_id: row.status
        for row in fleet.rows["health"]
        if row.rule == "burrow" and row.topic is None
    }
    worst: dict[str, set[str]] = {}
    for row in fleet.rows["health"]:
        worst.setdefault(row.rule, set()).add(row.group_id)
        assert row.evidence
        assert row.next_step
    for kind, statuses in {
        "service": {"OK"},
        "static": {"OK"},
        "transactional": {"OK"},
        # At an hour with little traffic a slow group catches up.
        "slow": {"OK", "WARN"},
        "stalled": {"ERR"},
        "silent": {"ERR"},
        "dead": {"ERR"},
    }.items():
        found = {verdicts[group] for group in fleet.kinds(kind)}
        assert found, kind
        assert found <= statuses, kind
    partitions = {
        (row.group_id, row.status)
        for row in fleet.rows["health"]
        if row.rule == "burrow" and row.topic is not None
    }
    assert {(group, "STALL") for group in fleet.kinds("stalled")} <= partitions
    assert {(group, "STOP") for group in fleet.kinds("silent")} <= partitions
    still = fleet.kinds("stalled") | fleet.kinds("silent")
    # Two transactions in a row that are aborted are half an hour without progress, too.
    assert still <= worst["stuck"] <= still | fleet.kinds("transactional")
    crowded = {
        line["group"]
        for line in fleet.truth("groups")
        if line["members"] > line["partitions"] and line["kind"] == "overstaffed"
    }
    assert crowded
    assert worst["more_members_than_partitions"] >= crowded
    assert "unassigned_partitions" not in worst


def test_the_summary_has_every_group_that_exists(fleet: Fleet) -> None:
    lines = {line["group"]: line for line in fleet.truth("groups")}
    rows = {row.group_id: row for row in fleet.rows["group_summary"]}
    assert set(rows) == set(lines) - fleet.kinds("expired")
    rebalances = Counter(
        line["group"]
        for line in fleet.truth("rebalances")
        if line["time"] >= "2026-03-02" and line["cause"] != "static_restart"
        for _ in range(1 + line["hidden_before"])
    )
    for group, row in rows.items():
        line = lines[group]
        assert (row.member_count, row.partitions or 0) == (line["members"], line["partitions"])
        assert (row.generation or 0) == line["generation"]
        assert row.state == ("Stable" if line["members"] else "Empty")
        assert row.rebalances_24h == rebalances[group]


def test_topics_and_groups_are_found_both_ways(fleet: Fleet) -> None:
    pairs = {(row.topic, row.group_id): row for row in fleet.rows["topic_subscribers"]}
    for line in fleet.truth("groups"):
        if line["members"]:
            found = {topic for topic, group in pairs if group == line["group"]}
            assert set(line["topics"]) <= found
    for (_, group), row in pairs.items():
        assert (row.subscribed_members > 0) == (row.state == "Stable"), group


def test_curves_end_where_the_groups_are_now(fleet: Fleet) -> None:
    last: dict[tuple[str, str], Row] = {}
    for row in sorted(fleet.rows["lag_history"], key=lambda row: row.time):
        assert row.max_lag_seconds is None or row.max_lag_seconds >= 0
        last[row.group_id, row.topic] = row
    now: Counter[tuple[str, str]] = Counter()
    older: Counter[tuple[str, str]] = Counter()
    for row in fleet.rows["lag"]:
        now[row.group_id, row.topic] += row.lag
        older[row.group_id, row.topic] += row.at_least
    assert last
    for key, row in last.items():
        assert (row.lag, row.at_least) == (now[key], older[key] > 0)
    assert {row.at_least for row in last.values()} == {True, False}


def test_rates_add_up(fleet: Fleet) -> None:
    commits = fleet.tables["commits"].where(
        "not tombstone and (outcome is null or outcome = 'committed')"
    )
    assert sum(row.commits for row in fleet.rows["commit_rates"]) == commits.count()
    assert all(row.records is None or row.records >= 0 for row in fleet.rows["commit_rates"])


def test_hostile_names_come_through_unchanged(fleet: Fleet) -> None:
    hostile = {
        line["group"] for line in fleet.truth("groups") if set(line["group"]) & set("<=\"'\n")
    }
    assert hostile
    for name in ("group_summary", "lag", "topic_subscribers"):
        assert hostile <= {row.group_id for row in fleet.rows[name]}
