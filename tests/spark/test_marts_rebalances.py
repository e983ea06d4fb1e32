"""The mart `rebalances` of classic groups, on records written by hand: what the simulator does not do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from coterie.spark.marts import make_mart
from tests.spark.marts_kit import NOW, frame, generation, member, only, quick


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    with quick(spark) as quick_session:
        yield quick_session


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
    generation(13, 1, member("z", 0, 1), group="twice"),
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


CLASSIC += [
    generation(400 + number, 1 + number, member(f"m-{number}", 0), group="same second")
    | {"timestamp": NOW - timedelta(minutes=80) + timedelta(milliseconds=10 * number)}
    for number in range(3)
]
CLASSIC += ends("stopped", 200, "a", "b", "c", "d", "e", "f")
CLASSIC += [
    generation(300 + number, 1 + number, member(f"m-{number}", 0), group="restless")
    | {"timestamp": NOW - timedelta(minutes=90) + timedelta(seconds=number)}
    for number in range(8)
]


def reads(member_id: str, more: Any = None, **topics: list[int]) -> dict[str, Any]:
    """A member that wants topics t and u, and has what is there of them."""
    given = [{"topic": topic, "partitions": indexes} for topic, indexes in topics.items()]
    return member(member_id, subscription=["t", "u"], assignment=given, **more or {})


def cooperative(group: str, second_step: int, **more: Any) -> list[dict[str, Any]]:
    """What the second member shall have is taken from the first, and handed out so many minutes later."""
    a, b = reads("a", more, t=[0]), reads("b", more)
    return [
        generation(1000, 1, reads("a", more, t=[0, 1]), group=group),
        generation(1001, 2, a, b, group=group),
        generation(1001 + second_step, 3, a, reads("b", more, t=[1]), group=group),
    ]


DAY = 24 * 60
CLASSIC += cooperative("cooperative", 1)
CLASSIC += cooperative("not cooperative", 6)
CLASSIC += cooperative("slow", 6, rebalance_timeout_ms=900_000)
CLASSIC += [
    # A topic that was always wanted is made, soon or days later; then it is deleted.
    generation(2000, 1, reads("a", t=[0, 1]), group="topics"),
    generation(2001, 2, reads("a", t=[0, 1], u=[0, 1]), group="topics"),
    generation(2001 + DAY, 3, reads("a", t=[0, 1]), group="topics"),
    generation(2000, 1, reads("a", t=[0, 1]), group="topics later"),
    generation(2000 + 2 * DAY, 2, reads("a", t=[0, 1], u=[0, 1]), group="topics later"),
    # Generations without a record, in no time, in twenty minutes, in a week.
    generation(3000, 10, member("a", 0), group="gaps"),
    generation(3005, 20, member("b", 0), group="gaps"),
    generation(3025, 30, member("c", 0), group="gaps"),
    generation(3025 + 7 * DAY, 70, member("d", 0), group="gaps"),
]


@pytest.fixture(scope="module")
def classic(session: SparkSession) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    found = make_mart(
        "rebalances", {"group_events": frame(session, "group_events", CLASSIC)}
    ).collect()
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
    # More partitions than the old one had are nothing to the new one.
    assert [row.changes for row in classic["twice"]] == [["member_churn"]] * 2
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
    assert [row.member_count for row in stopped] == [6, 5, 4, 3, 2, 1, 0]
    assert stopped[-1].in_ten_minutes == 7
    assert not any(row.storm for row in stopped)
    assert all(row.storm for row in classic["restless"])


def test_what_nobody_can_know_is_unknown(classic: dict[str, list[Row]]) -> None:
    first, second = classic["alone"]
    assert (first.cause, second.cause, second.changes) == ("member_churn", "unknown", [])
    assert only(classic["opaque"][1:]).cause == "member_churn"


def test_the_second_step_of_a_rebalance_comes_soon(classic: dict[str, list[Row]]) -> None:
    causes = {
        group: [(row.cause, row.follow_up) for row in classic[group]][2]
        for group in ("cooperative", "not cooperative", "slow")
    }
    assert causes == {
        "cooperative": ("member_churn", True),
        "not cooperative": ("partition_count_change", False),
        # Its members may take a quarter of an hour.
        "slow": ("member_churn", True),
    }


def test_a_topic_that_comes_or_goes_is_no_second_step(classic: dict[str, list[Row]]) -> None:
    for group in ("topics", "topics later"):
        first, *later = classic[group]
        assert first.changes == ["member_churn"]
        for row in later:
            assert (row.cause, row.changes) == ("partition_count_change", [row.cause])
            assert not row.follow_up


def test_generations_without_a_record_are_taken_to_come_evenly(
    classic: dict[str, list[Row]],
) -> None:
    rows = classic["gaps"]
    assert [row.hidden_before for row in rows] == [None, 9, 9, 39]
    assert [row.in_ten_minutes for row in rows] == [1, 11, 5, 1]
    assert [row.storm for row in rows] == [True, True, False, False]


def test_rebalances_after_a_row_do_not_count_for_it(classic: dict[str, list[Row]]) -> None:
    """Those of the same second, and even of the same millisecond, are in the order of the log."""
    assert [row.in_ten_minutes for row in classic["stopped"]] == list(range(1, 8))
    assert [row.in_ten_minutes for row in classic["same second"]] == [1, 2, 3]
