"""Marts on segments that Apache Kafka 4.3.0 wrote: scripted lives of groups of all kinds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from coterie.datasets.log import LogQuery, SegmentSource, read_log
from coterie.datasets.schemas import schema
from coterie.spark.marts import group_summary, rebalances
from tests.kit.offsets_log import golden_disk
from tests.spark.marts_kit import quick

FINAL_STATE = Path(__file__).parents[1] / "data" / "offsets-log" / "final-state.json"


@pytest.fixture(scope="module")
def tables(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, DataFrame]]:
    source = SegmentSource.at(str(golden_disk(tmp_path_factory.mktemp("disk"))))
    with quick(spark):
        yield {
            name: spark.createDataFrame(
                pa.Table.from_batches(read_log(source, LogQuery(name)), schema=schema(name))
            )
            for name in ("commits", "group_events")
        }


def test_groups_are_those_that_the_broker_listed(tables: dict[str, DataFrame]) -> None:
    listed = json.loads(FINAL_STATE.read_text("utf-8"))["listGroups"]["groups"]
    expected = {
        each["groupId"]: (each["groupType"], each["groupState"], each["protocolType"])
        for each in listed
    }
    # It joined and never synced: of that the log knows nothing.
    expected["life-joined-only"] = ("classic", "Empty", "")
    found = {
        row.group_id: (row.type, row.state, row.protocol_type)
        for row in group_summary(
            commits=tables["commits"], group_events=tables["group_events"]
        ).collect()
    }
    assert found == expected


@pytest.fixture(scope="module")
def lives(tables: dict[str, DataFrame]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    rows = rebalances(tables["group_events"]).collect()
    for row in sorted(rows, key=lambda row: row.log_offset):
        found.setdefault(row.group_id, []).append(row)
    return found


@pytest.mark.parametrize(
    ("group", "members"),
    [
        ("life-classic", [1, 2, 3, 2, 1, 0]),
        ("life-static", [1, 2, 2, 1]),
        ("life-coop", [1, 2, 2, 1]),
        ("life-deleted", [1, 0]),
        ("life-848", [1, 2, 3, 2, 1]),
        ("life-848-deleted", [1, 0]),
        ("life-848-regex", [1, 0]),
        ("life-migrate", [1, 1, 2, 1, 0, 1, 0]),
        ("life-share", [1, 1, 2, 2, 1, 0]),
        ("life-streams", [1, 0]),
        ("life-connect", [1]),
    ],
)
def test_members_come_and_go_as_the_script_says(
    lives: dict[str, list[Row]], group: str, members: list[int]
) -> None:
    rows = lives[group]
    assert [row.members for row in rows] == members
    assert not any(row.history_begins or row.hidden_before for row in rows)
    before = 0
    for row in rows:
        if row.group_type == rows[0].group_type and group != "life-migrate":
            assert row.members == before + len(row.joined) - len(row.left)
            before = row.members


def test_causes_are_those_of_the_script(lives: dict[str, list[Row]]) -> None:
    causes = {(group, row.cause, row.follow_up) for group, rows in lives.items() for row in rows}
    assert {each for each in causes if each[1] != "member_churn" or each[2]} == {
        ("life-static", "static_restart", False),
        # Cooperative: what the second member gets is taken from the first a generation earlier.
        ("life-coop", "member_churn", True),
        # Share groups: once more when the state of the partitions is there.
        ("life-share", "member_churn", True),
    }
    restart = next(row for row in lives["life-static"] if row.cause == "static_restart")
    assert [each.instance_id for each in restart.joined] == ["static-1"]
    assert (restart.rebalanced, restart.partitions_moved) == (False, 0)


def test_the_new_protocol_tells_how_long_it_took(lives: dict[str, list[Row]]) -> None:
    second = lives["life-848"][1]
    assert (second.partitions_moved, second.partitions) == (1, 6)
    assert 0.5 < second.duration_seconds < 5
