"""Marts on segments that Apache Kafka 4.3.0 wrote: scripted lives of groups of all kinds.

What they must say is taken from the dump of Kafka's own tool, and from what the broker answered in the end.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from coterie.datasets.log import LogQuery, SegmentSource, read_log
from coterie.datasets.schemas import schema
from coterie.spark.marts import make_mart
from tests.kit.offsets_log import at, dumped, expected_commit, golden_disk
from tests.spark.marts_kit import make_marts, quick

FINAL_STATE = Path(__file__).parents[1] / "data" / "offsets-log" / "final-state.json"


Rows = dict[str, list[Row]]
#: Two days after the script: what is idle is stale by then.
NOW = max(filter(None, (at(row["CreateTime"]) for row in dumped()))) + timedelta(days=2)


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


@pytest.fixture(scope="module")
def made(spark: SparkSession, tables: dict[str, DataFrame]) -> Rows:
    """Every mart."""
    return make_marts(spark, dict(tables), NOW)


@pytest.fixture(scope="module")
def final_state() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FINAL_STATE.read_text("utf-8"))
    return found


def test_groups_are_those_that_the_broker_listed(made: Rows, final_state: dict[str, Any]) -> None:
    expected = {
        each["groupId"]: (each["groupType"], each["groupState"], each["protocolType"])
        for each in final_state["listGroups"]["groups"]
    }
    # It joined and never synced: of that the log knows nothing.
    expected["life-joined-only"] = ("classic", "Empty", "")
    found = {
        row.group_id: (row.type, row.state, row.protocol_type) for row in made["group_summary"]
    }
    assert found == expected
    members = {
        each["groupId"]: len(each["members"])
        for name in ("describeGroups_v6", "consumerGroupDescribe_v1")
        for each in final_state[name]["groups"]
        if each["groupId"] != "life-joined-only" and not each["errorCode"]
    }
    assert {
        row.group_id: row.member_count for row in made["group_summary"]
    }.items() >= members.items()


def committed() -> dict[tuple[str, str, int], list[dict[str, Any]]]:
    """Kafka's dump: what counts of the commits of each partition of a group, oldest first."""
    found: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    ends: dict[tuple[int, str], list[tuple[int, str]]] = {}
    for row in dumped():
        if "endTxnMarker" in row:
            place = (row["partition"], row["batch"]["producerId"])
            ends.setdefault(place, []).append((int(row["offset"]), row["endTxnMarker"]))
    for row in dumped():
        if row.get("key", {}).get("type") != "1":
            continue
        behind = [
            kind
            for offset, kind in ends.get((row["partition"], row["batch"]["producerId"]), [])
            if offset > int(row["offset"])
        ]
        if row["batch"]["isTransactional"] == "false" or behind[:1] == ["COMMIT"]:
            commit = expected_commit(row)
            key = (commit["group_id"], commit["topic"], commit["topic_partition"])
            found.setdefault(key, []).append(commit)
    return found


def test_offsets_and_rates_are_those_of_the_dump(made: Rows) -> None:
    """`lag` has the last commit of each partition that was not removed; `commit_rates` has all of them."""
    last = {key: commits[-1] for key, commits in committed().items()}
    listed = {row.group_id for row in made["group_summary"]}
    expected = {
        key: commit["committed_offset"]
        for key, commit in last.items()
        if not commit["tombstone"] and key[0] in listed
    }
    assert {
        (row.group_id, row.topic, row.partition): row.committed_offset for row in made["lag"]
    } == expected
    # Segment files do not tell where other logs end.
    assert {(row.lag, row.lag_seconds) for row in made["lag"]} == {(None, None)}
    counts = Counter(
        (group, topic, commit["tombstone"])
        for (group, topic, _), commits in committed().items()
        for commit in commits
    )
    found: Counter[tuple[str, str, bool]] = Counter()
    for row in made["commit_rates"]:
        found[row.group_id, row.topic, False] += row.commits
        found[row.group_id, row.topic, True] += row.removals
    assert +found == +counts


def test_offsets_that_went_back_are_those_of_the_dump(made: Rows) -> None:
    expected = set()
    for key, commits in committed().items():
        for before, after in itertools.pairwise(commits):
            if before["tombstone"] or after["tombstone"]:
                continue
            if after["committed_offset"] < before["committed_offset"]:
                offsets = (before["committed_offset"], after["committed_offset"])
                expected.add((*key, *offsets, after["offset"]))
    assert {
        (r.group_id, r.topic, r.partition, r.from_offset, r.to_offset, r.log_offset)
        for r in made["offset_resets"]
    } == expected


def test_topics_are_those_of_members_and_of_offsets(
    made: Rows, final_state: dict[str, Any]
) -> None:
    pairs = {(row.group_id, row.topic): row for row in made["topic_subscribers"]}
    listed = {row.group_id for row in made["group_summary"]}
    kept = {key[:2] for key, commits in committed().items() if not commits[-1]["tombstone"]}
    assert {pair for pair in kept if pair[0] in listed} <= set(pairs)
    for group in final_state["consumerGroupDescribe_v1"]["groups"]:
        for topic in {name for each in group["members"] for name in each["subscribedTopicNames"]}:
            row = pairs[group["groupId"], topic]
            assert row.subscribed_members == len(group["members"])
            assert row.assigned_partitions == sum(
                len(place["partitions"])
                for each in group["members"]
                for place in each["assignment"]["topicPartitions"]
                if place["topicName"] == topic
            )


def test_idle_and_unhealthy_groups_are_told(made: Rows) -> None:
    empty = {row.group_id for row in made["group_summary"] if row.state == "Empty"}
    stale = {row.group_id: row for row in made["stale_groups"]}
    # Nobody knows since when this one is idle: it has no offset, and never had a member that was recorded.
    assert set(stale) == empty - {"life-joined-only"}
    for group, row in stale.items():
        assert (row.offsets or 0) == sum(each.group_id == group for each in made["lag"])
        assert row.idle_seconds is None or row.idle_seconds >= 86_400
    assert made["health"]
    for row in made["health"]:
        assert row.group_id in {each.group_id for each in made["group_summary"]}
        assert (row.evidence, row.next_step) > ("", "")
    # No end offsets, no curves.
    assert all(row.lag is None for row in made["lag_history"])


@pytest.fixture(scope="module")
def lives(made: Rows) -> Rows:
    found: Rows = {}
    for row in sorted(made["rebalances"], key=lambda row: row.log_offset):
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
        # Its conversion to a consumer group keeps the member: that is not a rebalance.
        ("life-migrate", [1, 2, 1, 0, 1, 0]),
        ("life-share", [1, 1, 2, 2, 1, 0]),
        ("life-streams", [1, 0]),
        ("life-connect", [1]),
    ],
)
def test_members_come_and_go_as_the_script_says(
    lives: dict[str, list[Row]], group: str, members: list[int]
) -> None:
    rows = lives[group]
    assert [row.member_count for row in rows] == members
    assert not any(row.history_begins or row.hidden_before for row in rows)
    before = 0
    for row in rows:
        assert row.member_count == before + len(row.joined) - len(row.left)
        before = row.member_count


def test_a_pattern_subscribes_to_what_kafka_matched(tables: dict[str, DataFrame]) -> None:
    matched = next(row for row in dumped() if "regularExpression" in str(row))
    moment = at(matched["CreateTime"])
    assert moment is not None
    subscribers = make_mart("topic_subscribers", tables, as_of=moment)
    found = subscribers.where("group_id = 'life-848-regex'").collect()
    assert {(row.topic, row.subscribed_members) for row in found} == {
        ("orders", 1),
        ("payments", 1),
    }


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
