"""Marts with half of their inputs: the log alone, snapshots alone, nothing; and their documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from coterie.errors import InvalidArgument
from coterie.spark.marts import Inputs, make_mart
from coterie.spark.marts.inputs import end_offset_history
from coterie.vocabulary.marts import MARTS
from tests.spark.marts_kit import (
    NOW,
    commit,
    frame,
    generation,
    make_marts,
    member,
    only,
    quick,
    with_marts,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "marts.md"
HOSTILE = "=cmd|' /C calc'!A0,\"<script>alert(1)</script>\"\n"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    with quick(spark) as quick_session:
        yield quick_session


def taken(ago: float = 0, /, **more: Any) -> dict[str, Any]:
    return {"snapshot_id": f"{ago}", "taken_at": NOW - timedelta(seconds=ago), **more}


def live_tables(session: SparkSession) -> dict[str, Any]:
    """Two snapshots: in the newer one `gone` is not there any more and `left` has lost its member."""
    groups = [
        taken(900, group_id="gone", type="classic", state="Stable", member_count=1),
        taken(900, group_id="left", type="classic", state="Stable", member_count=1),
        taken(
            group_id="left",
            type="classic",
            state="Empty",
            protocol_type="consumer",
            member_count=0,
            coordinator_id=3,
        ),
        taken(group_id=HOSTILE, type="consumer", state="Stable", member_count=3, generation=9),
    ]
    names = ("a", "b", "c")
    members = [
        taken(900, group_id="left", member_id="x", client_id="x", subscription=["t"]),
        *(
            taken(group_id=HOSTILE, member_id=name, client_id=name, subscription=["t"])
            for name in names
        ),
    ]
    place = {"group_id": HOSTILE, "topic": "t"}
    assignments = [
        taken(900, group_id="left", member_id="x", topic="t", partition=0, target=False),
        taken(**place, member_id="a", partition=0, target=False),
        taken(**place, member_id="b", partition=1, target=True),
    ]
    offsets = [
        taken(**place, partition=0, committed_offset=5, log_start=0, log_end=10, lag=5),
        taken(**place, partition=1, committed_offset=None, log_start=0, log_end=10),
        taken(group_id="left", topic="t", partition=0, committed_offset=1, log_start=3, log_end=10),
    ]
    rows = {"groups": groups, "members": members, "assignments": assignments, "offsets": offsets}
    return {name: frame(session, name, each) for name, each in rows.items()}


def test_snapshots_alone_give_what_they_know(session: SparkSession) -> None:
    rows = make_marts(session, live_tables(session), NOW)
    assert rows["rebalances"] == rows["offset_resets"] == rows["commit_rates"] == []
    summary = {row.group_id: row for row in rows["group_summary"]}
    assert set(summary) == {"left", HOSTILE}
    assert (summary["left"].state, summary["left"].member_count) == ("Empty", 0)
    assert (summary["left"].coordinator_id, summary["left"].rebalances_24h) == (3, None)
    assert (summary[HOSTILE].total_lag, summary[HOSTILE].last_commit) == (5, None)
    stale = only(rows["stale_groups"])
    assert (stale.group_id, stale.idle_seconds, stale.expires_at) == ("left", None, None)
    found = {(row.group_id, row.rule): row for row in rows["health"]}
    assert set(found) == {
        ("left", "data_loss"),
        ("left", "no_members"),
        (HOSTILE, "more_members_than_partitions"),
        (HOSTILE, "unassigned_partitions"),
    }
    assert found[HOSTILE, "unassigned_partitions"].evidence == "1 partitions have no member: 1"
    assert "idle: b, c" in found[HOSTILE, "more_members_than_partitions"].evidence
    topics = {row.group_id: row for row in rows["topic_subscribers"]}
    assert topics[HOSTILE].subscribed_members == 3
    assert (topics["left"].subscribed_members, topics["left"].committed_partitions) == (0, 1)


def test_a_snapshot_without_offsets_is_not_filled_from_an_older_one(session: SparkSession) -> None:
    groups = [
        taken(ago, group_id="g", type="classic", state="Empty", member_count=0) for ago in (900, 0)
    ]
    place = {"group_id": "g", "topic": "t", "partition": 0}
    offsets = [taken(900, **place, committed_offset=5, log_start=0, log_end=10, lag=5)]
    tables = {
        "groups": frame(session, "groups", groups),
        "offsets": frame(session, "offsets", offsets),
    }
    found = make_marts(session, tables, NOW)
    assert found["lag"] == found["topic_subscribers"] == []
    group = only(found["group_summary"])
    assert (group.partitions, group.total_lag) == (None, None)
    assert {row.rule for row in found["health"]} == set()


@pytest.mark.parametrize("name", ["groups", "end_offsets"])
def test_any_part_of_a_snapshot_may_be_all_there_is(session: SparkSession, name: str) -> None:
    rows = {
        "groups": [taken(group_id="g", type="classic", state="Empty", member_count=0)],
        "end_offsets": [
            {"taken_at": NOW, "topic": "t", "partition": 0, "log_start": 0, "log_end": 1}
        ],
    }
    made = make_marts(session, {name: frame(session, name, rows[name])}, NOW)
    assert made["lag"] == []
    groups = ["g"] if name == "groups" else []
    assert [row.group_id for row in made["group_summary"]] == groups


def test_the_log_alone_gives_what_it_knows(session: SparkSession) -> None:
    tables = {
        "commits": frame(session, "commits", [commit(5, 10, 60, group=HOSTILE)]),
        "group_events": frame(
            session, "group_events", [generation(0, 1, member("a", 0), group=HOSTILE)]
        ),
    }
    rows = make_marts(session, tables, NOW)
    summary = only(rows["group_summary"])
    assert (summary.group_id, summary.state, summary.member_count) == (HOSTILE, "Stable", 1)
    assert (summary.total_lag, summary.max_lag_seconds, summary.coordinator) == (None, None, None)
    # Where no end of a log is known there is nothing to judge by.
    assert (summary.status, summary.rebalances_24h) == (None, 1)
    assert only(rows["lag"]).lag is None
    assert only(rows["rebalances"]).cause == "member_churn"
    assert rows["stale_groups"] == []


def test_ends_of_snapshots_count_where_they_were_not_sampled(session: SparkSession) -> None:
    def seen(ago: float, partition: int, end: int | None, group: str = "g") -> dict[str, Any]:
        place = {"group_id": group, "topic": "t", "partition": partition}
        return taken(ago, **place, log_start=0, log_end=end)

    sampled = [
        {"taken_at": NOW - timedelta(seconds=ago), "topic": "t", "partition": 0, "log_start": 0}
        | {"log_end": end}
        for ago, end in ((300, 10), (200, 20))
    ]
    offsets = [
        seen(302, 0, 9),
        # At the moment of a sample, that counts.
        seen(200, 0, 99),
        # Later than the last sample, and once of each group.
        seen(100, 0, 30),
        seen(100, 0, 31, "other"),
        seen(302, 1, 5),
        seen(202, 1, 6),
        seen(102, 1, None),
    ]
    found = {}
    alone = {"offsets": frame(session, "offsets", offsets)}
    both = alone | {"end_offsets": frame(session, "end_offsets", sampled)}
    for name, given in (("both", both), ("offsets alone", alone)):
        rows = end_offset_history(Inputs.of(session, given)).collect()
        found[name] = sorted((row.partition, row.log_end) for row in rows)
    assert found == {
        "both": [(0, 10), (0, 20), (0, 31), (1, 5), (1, 6)],
        "offsets alone": [(0, 9), (0, 31), (0, 99), (1, 5), (1, 6)],
    }


def test_a_live_dataset_needs_no_snapshot_columns(session: SparkSession) -> None:
    tables = live_tables(session)
    groups = tables["groups"].where("snapshot_id = '0'").drop("snapshot_id", "taken_at")
    found = make_mart("groups_now", {"groups": groups}).select("group_id", "state").collect()
    assert {row.group_id for row in found} == {"left", HOSTILE}


def test_a_mart_is_made_from_datasets_with_the_marts_that_it_needs(session: SparkSession) -> None:
    """What was made before gives the same rows, and is not made again."""
    tables = live_tables(session)
    found = make_mart("topic_subscribers", tables, as_of=NOW).collect()
    assert {row.group_id: row.subscribed_members for row in found} == {HOSTILE: 3, "left": 0}
    known = with_marts(session, tables, NOW, "lag", "groups_now", "members_now")
    assert make_mart("topic_subscribers", known, as_of=NOW).collect() == found
    nobody = known | {"members_now": known["members_now"].where("false")}
    rows = make_mart("topic_subscribers", nobody, as_of=NOW).collect()
    assert {row.subscribed_members for row in rows} == {0}


@pytest.mark.parametrize(
    ("mart", "tables", "settings", "message"),
    [
        ("laag", ["commits"], {}, "there is no mart 'laag'; did you mean 'lag'?"),
        ("lag", ["comits"], {}, "there is no table 'comits'; did you mean 'commits'?"),
        ("lag", ["commits"], {"every": 1}, "there is no setting of lag 'every'; there are none"),
        ("lag", [], {}, "mart 'lag' needs at least one dataset, and none was given"),
    ],
)
def test_what_cannot_be_made_is_refused_with_the_reason(
    session: SparkSession, mart: str, tables: list[str], settings: dict[str, Any], message: str
) -> None:
    frames = {name: frame(session, "commits", []) for name in tables}
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        make_mart(mart, frames, **settings)


def test_the_documentation_has_every_column() -> None:
    sections = re.split(r"^## ", DOCUMENT.read_text("utf-8"), flags=re.MULTILINE)
    documented = {
        section.split("\n", 1)[0].strip("`"): re.findall(
            r"^\| `(\w+)` \| `(.+?)` \| (.+?) \|$", section, flags=re.MULTILINE
        )
        for section in sections
    }
    for mart in MARTS.values():
        expected = [(each.name, each.type, each.meaning) for each in mart.columns]
        assert documented.get(mart.name) == expected, mart.name
