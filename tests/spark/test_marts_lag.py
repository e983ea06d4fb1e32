"""Lag in offsets and in time, where it could go wrong: gaps, plateaus, losses, no samples at all."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from coterie.errors import InvalidArgument
from coterie.spark.marts import make_mart
from tests.spark.marts_kit import NOW, commit, frame, generation, mart, member, only, quick


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    with quick(spark) as quick_session:
        yield quick_session


def lag(
    commits: DataFrame, ends: DataFrame | None = None, as_of: datetime | None = None
) -> DataFrame:
    tables = {"commits": commits} if ends is None else {"commits": commits, "end_offsets": ends}
    return make_mart("lag", tables, as_of=as_of)


def curves(session: SparkSession, commits: DataFrame, ends: DataFrame) -> DataFrame:
    tables = {
        "commits": commits,
        "end_offsets": ends,
        "stale_groups": mart(session, "stale_groups"),
    }
    return make_mart("lag_history", tables)


def sample(ago: float, end: int, *, start: int = 0, topic: str = "t") -> dict[str, Any]:
    return {
        "taken_at": NOW - timedelta(seconds=ago),
        "topic": topic,
        "partition": 0,
        "log_start": start,
        "log_end": end,
    }


#: 100 records in the first ten minutes, none in the next, 200 in the last.
SAMPLES = [sample(1_800, 0), sample(1_200, 100), sample(600, 100), sample(0, 300, start=20)]


@pytest.fixture(scope="module")
def judged(session: SparkSession) -> dict[str, Row]:
    """Groups with one commit each, named for their case."""
    commits = [
        commit(0, 300, 5, group="at the end"),
        commit(1, 200, 5, group="between samples"),
        commit(2, 100, 5, group="at a plateau"),
        commit(3, 50, 5, group="before the plateau"),
        commit(4, 350, 5, group="beyond the end"),
        commit(5, 10, 5, group="lost"),
        commit(6, 5, 5, group="no samples", topic="unknown"),
        commit(7, 200, 60, group="removed"),
        commit(8, None, 50, group="removed"),
        commit(9, 200, 60, group="in doubt", outcome="committed", producer_id=1),
        commit(10, 250, 50, group="in doubt", outcome="aborted", producer_id=1),
        commit(11, 280, 40, group="in doubt", outcome="open", producer_id=1),
        commit(12, 3, 5, group="before history", topic="young"),
    ]
    ends = [*SAMPLES, sample(100, 10, topic="young"), sample(0, 20, topic="young")]
    found = lag(frame(session, "commits", commits), frame(session, "end_offsets", ends))
    return {row.group_id: row for row in found.collect()}


@pytest.mark.parametrize(
    ("group", "behind", "seconds"),
    [
        ("at the end", 0, 0.0),
        ("between samples", 100, 300.0),
        ("at a plateau", 200, 600.0),
        ("before the plateau", 250, 1_500.0),
        ("beyond the end", 0, 0.0),
        ("lost", 290, 1_740.0),
        ("no samples", None, None),
        ("in doubt", 100, 300.0),
        ("before history", 17, 100.0),
    ],
)
def test_lag_in_offsets_and_in_time(
    judged: dict[str, Row], group: str, behind: int | None, seconds: float | None
) -> None:
    row = judged[group]
    assert (row.lag, row.lag_seconds) == (behind, seconds)
    assert row.at_least == (group == "before history")
    assert row.data_loss == (group == "lost")
    assert row.lost_records == (10 if group == "lost" else 0)
    assert row.ahead_of_end == (group == "beyond the end")


def test_offsets_that_were_removed_have_no_lag(judged: dict[str, Row]) -> None:
    assert "removed" not in judged
    assert len(judged) == 9


def test_the_past_can_be_looked_at(session: SparkSession) -> None:
    commits = frame(
        session, "commits", [commit(0, 0, 1_700), commit(1, 90, 1_300), commit(2, 300, 5)]
    )
    ends = frame(session, "end_offsets", SAMPLES)
    row = only(lag(commits, ends, NOW - timedelta(seconds=900)).collect())
    assert (row.committed_offset, row.lag, row.lag_seconds) == (90, 10, 360.0)
    with pytest.raises(InvalidArgument, match="time zone"):
        lag(commits, None, datetime(2026, 3, 3))  # noqa: DTZ001


DAY = 86_400
#: A topic that was made anew on the third day.
TWO_LIVES = [sample(3 * DAY, 10), sample(2 * DAY, 1_000), sample(DAY, 0), sample(0, 50)]


@pytest.mark.parametrize("order", [1, -1])
def test_samples_of_a_topic_that_was_made_anew_are_not_mixed(
    session: SparkSession, order: int
) -> None:
    commits = frame(session, "commits", [commit(0, 30, 5), commit(1, 0, 5, group="at its start")])
    ends = frame(session, "end_offsets", TWO_LIVES[::order])
    rows = {row.group_id: row for row in lag(commits, ends).collect()}
    row = rows["g"]
    assert (row.lag, row.lag_seconds, row.at_least) == (20, 0.4 * DAY, False)
    row = rows["at its start"]
    assert (row.lag, row.lag_seconds, row.at_least) == (50, DAY, False)


def test_curves_know_each_life_of_a_topic(session: SparkSession) -> None:
    commits = frame(session, "commits", [commit(0, 505, 2.5 * DAY), commit(1, 30, 0.5 * DAY)])
    ends = frame(session, "end_offsets", TWO_LIVES)
    found = curves(session, commits, ends).orderBy("time").collect()
    assert [(row.lag, row.max_lag_seconds) for row in found] == [
        (495, 0.5 * DAY),
        (0, 0.0),
        (20, 0.4 * DAY),
    ]


def test_of_two_samples_of_one_moment_the_higher_end_counts(session: SparkSession) -> None:
    commits = frame(session, "commits", [commit(0, 5, 60)])
    for ends in ([sample(90, 0), sample(0, 10), sample(0, 12)], [sample(0, 12), sample(0, 10)]):
        row = only(lag(commits, frame(session, "end_offsets", ends)).collect())
        assert (row.log_end, row.lag) == (12, 7)


def test_curves_are_of_the_moment_of_their_samples(session: SparkSession) -> None:
    """Written half a minute before the sample, and the period ends fourteen minutes after it."""
    commits = frame(session, "commits", [commit(0, 5, 880)])
    ends = frame(session, "end_offsets", [sample(900, 0), sample(840, 10)])
    row = only(curves(session, commits, ends).where("lag > 0").collect())
    assert (row.lag, row.max_lag_seconds) == (5, 30.0)
    assert row.time.replace(tzinfo=NOW.tzinfo) == NOW


def test_a_snapshot_counts_if_it_is_newer_than_the_log(session: SparkSession) -> None:
    taken = {
        "snapshot_id": "s",
        "taken_at": NOW - timedelta(seconds=100),
        "topic": "t",
        "partition": 0,
    }
    offsets = [
        {**taken, "group_id": "g", "committed_offset": 40, "log_start": 0, "log_end": 50},
        {**taken, "group_id": "only live", "committed_offset": 45, "log_start": 0, "log_end": 50},
        {**taken, "group_id": "moved on", "committed_offset": 10, "log_start": 0, "log_end": 50},
    ]
    commits = [commit(0, 30, 200), commit(1, 49, 20, group="moved on")]
    tables = {
        "commits": frame(session, "commits", commits),
        "offsets": frame(session, "offsets", offsets),
    }
    found = make_mart("lag", tables)
    rows = {row.group_id: (row.committed_offset, row.lag, row.source) for row in found.collect()}
    assert rows == {
        "g": (40, 10, "snapshot"),
        "only live": (45, 5, "snapshot"),
        "moved on": (49, 1, "log"),
    }


def test_who_set_offsets_back(session: SparkSession) -> None:
    events = [
        generation(0, 1, member("a", 0), member("b", 1)),
        generation(50, 2),
        {
            "partition": 0, "offset": 2, "timestamp": NOW, "group_id": "k", "group_type": "consumer",
            "record": "ConsumerGroupMemberMetadata", "tombstone": False, "member_id": "m",
            "client_id": "new", "client_host": "/h",
        },
        {
            "partition": 0, "offset": 3, "timestamp": NOW, "group_id": "k", "group_type": "consumer",
            "record": "ConsumerGroupCurrentMemberAssignment", "tombstone": False, "member_id": "m",
            "assignment": [{"topic_id": "id", "partitions": [0]}],
        },
    ]  # fmt: skip
    commits = [
        commit(10, 100, 90),
        commit(11, 60, 80),
        commit(60, 30, 70),
        # Removed in between: no reset.
        commit(61, None, 60),
        commit(62, 5, 50),
        # Taken back: never happened.
        commit(63, 1, 40, outcome="aborted"),
        commit(64, 9, 30, group="k", topic_id="id"),
        commit(65, 8, 20, group="k", topic_id="id"),
        commit(66, 7, 20, group="nobody", topic_partition=3),
        commit(67, 6, 20, group="nobody", topic_partition=3),
    ]
    tables = {
        "commits": frame(session, "commits", commits),
        "group_events": frame(session, "group_events", events),
    }
    found = make_mart("offset_resets", tables)
    rows = {
        row.log_offset: (row.group_id, row.from_offset, row.to_offset, row.by, row.client_id)
        for row in found.collect()
    }
    assert rows == {
        11: ("g", 100, 60, "member", "client-a"),
        60: ("g", 60, 30, "administrator", None),
        65: ("k", 9, 8, "member", "new"),
        67: ("nobody", 7, 6, "administrator", None),
    }


def test_rates_of_commits_and_of_reading(session: SparkSession) -> None:
    commits = [commit(0, 10, 7_000), commit(1, 20, 6_900), commit(2, 200, 3_000), commit(3, 50, 60)]
    tables = {"commits": frame(session, "commits", commits)}
    found = make_mart("commit_rates", tables).orderBy("period_start")
    assert [(row.commits, row.records, row.partitions) for row in found.collect()] == [
        (2, None, 1),
        (2, 30, 1),
    ]
