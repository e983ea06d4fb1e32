"""The mart `rebalances` on records written by hand: what the simulator does not do, and KIP-848."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from coterie.spark.marts import rebalances
from tests.spark.marts_kit import NOW, frame, generation, member, only, quick


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    with quick(spark) as quick_session:
        yield quick_session


def event(offset: int, record: str, **more: Any) -> dict[str, Any]:
    """A record of the KIP-848 group k; all with the same offset's tens are of one second."""
    row = {
        "partition": 1,
        "offset": offset,
        "timestamp": NOW - timedelta(hours=1) + timedelta(seconds=offset // 10),
        "group_id": "k",
        "group_type": "consumer",
        "record": f"ConsumerGroup{record}",
        "tombstone": False,
    }
    return row | more


def joins(offset: int, member_id: str, **more: Any) -> dict[str, Any]:
    return event(
        offset,
        "MemberMetadata",
        **{"member_id": member_id, "client_id": f"c-{member_id}", "subscription": ["t"]} | more,
    )


def shall_have(offset: int, member_id: str, *partitions: int) -> dict[str, Any]:
    given = [{"topic_id": "id-of-t", "partitions": list(partitions)}]
    return event(offset, "TargetAssignmentMember", member_id=member_id, assignment=given)


def has(offset: int, member_id: str, epoch: int, state: str = "STABLE") -> dict[str, Any]:
    return event(
        offset,
        "CurrentMemberAssignment",
        member_id=member_id,
        member_epoch=epoch,
        member_state=state,
    )


def gone(offset: int, member_id: str) -> dict[str, Any]:
    return event(offset, "MemberMetadata", member_id=member_id, tombstone=True)


MODERN = [
    # a joins an empty group
    joins(0, "a"),
    event(1, "Metadata", generation=1),
    shall_have(2, "a", 0, 1),
    has(3, "a", 1),
    # b joins, and a has to give up a partition first
    joins(20, "b"),
    event(21, "Metadata", generation=2),
    shall_have(22, "a", 0),
    shall_have(23, "b", 1),
    has(24, "a", 1, "UNREVOKED_PARTITIONS"),
    has(30, "a", 2),
    has(40, "b", 2),
    # b subscribes to more
    joins(60, "b", subscription=["t", "u"]),
    event(61, "Metadata", generation=3),
    has(62, "b", 3),
    # the topic gets a partition
    event(80, "Metadata", generation=4),
    shall_have(81, "a", 0, 2),
    has(90, "a", 4),
    # b goes
    gone(100, "b"),
    event(101, "Metadata", generation=5),
    shall_have(102, "a", 0, 1, 2),
]


def test_epochs_are_rebalances_of_the_new_protocol(session: SparkSession) -> None:
    found = rebalances(frame(session, "group_events", MODERN)).collect()
    rows = {row.generation: row for row in found}
    assert {number: row.cause for number, row in rows.items()} == {
        1: "member_churn",
        2: "member_churn",
        3: "subscription_change",
        4: "partition_count_change",
        5: "member_churn",
    }
    assert {number: row.members for number, row in rows.items()} == {1: 1, 2: 2, 3: 2, 4: 2, 5: 1}
    assert [each.member_id for each in rows[2].joined] == ["b"]
    assert [(each.member_id, each.client_id) for each in rows[5].left] == [("b", "c-b")]
    assert (rows[2].partitions_moved, rows[2].stickiness, rows[2].partitions) == (1, 0.5, 2)
    assert (rows[4].partitions_moved, rows[4].stickiness, rows[4].partitions) == (0, 1.0, 3)
    # From the new epoch to the moment when the last member had come to it.
    assert [rows[number].duration_seconds for number in (1, 2, 3, 4)] == [0.0, 2.0, 0.0, 1.0]
    assert all(row.group_type == "consumer" and not row.hidden_before for row in found)


CLASSIC = [
    # The log begins in the middle of this group's life.
    generation(1, 7, member("a", 0, 1), group="cut"),
    generation(2, 8, member("a", 0), member("b", 1), group="cut"),
    # A group that begins, skips two generations, and loses its memory.
    generation(3, 0, group="g", protocol_type="", leader_id=None),
    generation(4, 1, member("a", 0, 1)),
    generation(5, 4, member("a", 0), member("b", 1)),
    generation(6, 2, member("a", 0), member("b", 1)),
    # Deleted and born again: the new one has nothing to do with the old.
    generation(10, 1, member("a", 0), group="twice"),
    generation(11, 1, group="twice", tombstone=True, generation=None, members=None),
    generation(12, 0, group="twice"),
    generation(13, 1, member("z", 0), group="twice"),
    # The same, where compaction has taken the tombstone away: a group without a generation is a new one.
    generation(14, 3, group="again"),
    generation(15, 0, group="again", protocol_type="", leader_id=None),
    generation(16, 1, member("z", 0), group="again"),
    # Somebody came, and went before the leader had assigned.
    generation(80, 1, member("a", 0), group="passed"),
    generation(90, 3, member("a", 0), group="passed"),
    # Nothing changed, and nobody else did the same: no telling why.
    generation(20, 1, member("a", 0), group="alone"),
    generation(30, 2, member("a", 0), group="alone"),
    # A record that only repeats the one before.
    generation(40, 2, member("a", 0), group="alone"),
    # Members whose blobs could not be read.
    generation(50, 1, member("a", subscription=None, assignment=None), group="opaque"),
    generation(51, 2, member("b", subscription=None, assignment=None), group="opaque"),
]


def ends(group: str, offset: int, *ids: str) -> list[dict[str, Any]]:
    """A group of some members whose processes are stopped together: they leave one after the other."""
    members = [member(each, number) for number, each in enumerate(ids)]
    at = NOW - timedelta(hours=1)
    return [
        generation(
            offset + gone, 1 + gone, *members[gone:], group=group, timestamp=at, state_timestamp=at
        )
        for gone in range(len(ids) + 1)
    ]


CLASSIC += ends("stopped", 200, "a", "b", "c", "d", "e", "f")
CLASSIC += [
    generation(300 + number, 1 + number, member(f"m-{number}", 0), group="restless")
    | {"timestamp": NOW - timedelta(minutes=90) + timedelta(seconds=number)}
    for number in range(8)
]


@pytest.fixture(scope="module")
def classic(session: SparkSession) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    found = rebalances(frame(session, "group_events", CLASSIC)).collect()
    for row in sorted(found, key=lambda row: row.log_offset):
        rows.setdefault(row.group_id, []).append(row)
    return rows


def test_a_log_that_begins_in_the_middle_says_so(classic: dict[str, list[Row]]) -> None:
    first, second = classic["cut"]
    assert (first.history_begins, first.cause, first.joined) == (True, "unknown", None)
    assert first.hidden_before is None
    assert (second.history_begins, second.cause) == (False, "member_churn")
    assert [each.member_id for each in second.joined] == ["b"]
    assert (second.partitions_moved, second.stickiness, second.leader_changed) == (1, 0.5, False)


def test_gaps_are_hidden_rebalances_and_a_step_back_is_a_lost_coordinator(
    classic: dict[str, list[Row]],
) -> None:
    first, second, third = classic["g"]
    assert (first.generation, first.cause, first.hidden_before) == (1, "member_churn", 0)
    assert (second.generation, second.hidden_before) == (4, 2)
    assert (third.generation, third.previous_generation) == (2, 4)
    assert (third.cause, third.hidden_before) == ("coordinator_move", 0)
    assert second.duration_seconds == 3.0


def test_a_group_that_was_deleted_begins_anew(classic: dict[str, list[Row]]) -> None:
    assert [(row.generation, len(row.left)) for row in classic["twice"]] == [(1, 0), (1, 0)]
    old, new = classic["again"]
    assert (old.generation, old.history_begins) == (3, True)
    assert (new.generation, new.cause, new.previous_generation) == (1, "member_churn", 0)


def test_a_generation_that_nobody_saw_was_somebody_who_came_and_went(
    classic: dict[str, list[Row]],
) -> None:
    _, second = classic["passed"]
    assert (second.hidden_before, second.joined, second.left) == (1, [], [])
    assert (second.cause, second.changes) == ("member_churn", ["member_churn"])


def test_a_large_group_that_is_stopped_is_no_storm(classic: dict[str, list[Row]]) -> None:
    """The last of them leave a small group; what counts is how large it was."""
    stopped = classic["stopped"]
    assert [row.members for row in stopped] == [6, 5, 4, 3, 2, 1, 0]
    assert stopped[-1].in_ten_minutes == 7
    assert not any(row.storm for row in stopped)
    assert all(row.storm for row in classic["restless"])


def test_what_nobody_can_know_is_unknown(classic: dict[str, list[Row]]) -> None:
    first, second = classic["alone"]
    assert (first.cause, second.cause, second.changes) == ("member_churn", "unknown", [])
    assert only(classic["opaque"][1:]).cause == "member_churn"
