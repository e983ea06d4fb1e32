"""Burrow's rules: a table of cases, and random rings beside a reading of the rules in plain Python."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from coterie.spark.marts.burrow import (
    STATUSES,
    Burrow,
    group_status,
    partition_status,
    with_group_status,
)
from tests.spark.burrow_rules import judged, ring
from tests.spark.marts_kit import NOW, commit, frame, quick


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    with quick(spark) as quick_session:
        yield quick_session


@dataclass
class Case:
    """Commits and end offsets of one partition, as (seconds ago, offset), in the order of arrival."""

    commits: list[tuple[float, int]]
    ends: list[tuple[float, int]]
    status: str = ""
    settings: Burrow = field(default_factory=Burrow)
    #: When the offset was removed, in seconds ago.
    removed: float | None = None


#: A log that grows by ten a minute, sampled every minute for an hour; its end is 1600 now.
GROWING = [(60.0 * m, 1600 - 10 * m) for m in range(60, -1, -1)]


def every_minute(*offsets: int, last: float = 10) -> list[tuple[float, int]]:
    return [(last + 60 * i, offset) for i, offset in enumerate(reversed(offsets))][::-1]


CASES = {
    "no lag": Case(every_minute(*range(1510, 1601, 10), last=0), GROWING, "OK"),
    "lag that was zero once": Case(every_minute(1565, 1566, 1567, 1568), GROWING, "OK"),
    "slow": Case(every_minute(*(500 + i for i in range(10))), GROWING, "WARN"),
    "slow, but catching up once": Case(
        every_minute(500, 501, 502, 530, 531, 532, 533, 534, 535, 536), GROWING, "OK"
    ),
    "the same offset again and again": Case(every_minute(*[500] * 10), GROWING, "STALL"),
    "one commit, long ago": Case([(900, 500)], GROWING, "STOP"),
    "stopped": Case(every_minute(500, 510, 520, last=600), GROWING, "STOP"),
    "stopped, but not behind minutes ago": Case(every_minute(1500, 1540, last=300), GROWING, "OK"),
    "set back": Case(every_minute(900, 910, 300, 310, 320), GROWING, "REWIND"),
    "set back and there again": Case(every_minute(*range(900, 905), 895, 904), GROWING, "WARN"),
    "set back twice, the first caught up": Case(
        every_minute(900, 890, 900, 600, 610), GROWING, "WARN"
    ),
    "no end offsets known": Case(every_minute(1, 2, 3), [], "NOTFOUND"),
    "commits older than the first sample": Case(
        every_minute(500, 501, 502, last=10), [(5, 1600)], "NOTFOUND"
    ),
    "a fast one that was never sampled": Case(
        every_minute(*range(910, 1001, 10), last=20), [(0, 1003)], "NOTFOUND"
    ),
    "all but one commit older than the first sample": Case(
        every_minute(299, 300, 301), [(30, 1500), (0, 1600)], "NOTFOUND"
    ),
    "all but two commits older than the first sample": Case(
        every_minute(299, 300, 301, 302), [(90, 1500), (30, 1600)], "WARN"
    ),
    "stopped before the first sample": Case(every_minute(500, 510, last=600), [(9, 1600)], "STOP"),
    "set back before the first sample": Case(every_minute(500, 300), [(0, 1600)], "REWIND"),
    "stalled before the first sample": Case(every_minute(500, 500), [(0, 1600)], "NOTFOUND"),
    "no lag, sampled afterwards": Case(every_minute(500, 510), [(0, 510)], "OK"),
    "removed and begun anew": Case(
        [(190, 900), (130, 1000), (70, 10), (10, 20)], GROWING, "WARN", removed=100
    ),
    "removed, and nothing since": Case(every_minute(900, 1000), GROWING, "", removed=5),
    "lag that is allowed": Case(
        every_minute(*(1599 for _ in range(10))), GROWING, "OK", Burrow(allowed_lag=1)
    ),
    "ring not full enough": Case(
        every_minute(*[500] * 4), GROWING, "OK", Burrow(minimum_complete=0.5)
    ),
    "commits in the same slot": Case(
        [(40, 500), (39.5, 501), (39, 502), (38.8, 503)],
        GROWING,
        "STOP",
        Burrow(min_distance=timedelta(seconds=10)),
    ),
    "a commit a second, merged, with lag that was zero": Case(
        [(float(ago), max(1590 - 2 * ago, 1000)) for ago in range(600, -1, -1)],
        [(600.0, 1000), *GROWING[-5:]],
        "OK",
        Burrow(min_distance=timedelta(seconds=30)),
    ),
    # Ten slots of 30 seconds span more than the silence; two hundred commits do not.
    "the same offset every second, then a short silence": Case(
        [(float(ago), 500) for ago in range(830, 229, -1)],
        GROWING,
        "STALL",
        Burrow(min_distance=timedelta(seconds=30)),
    ),
    # One commit has a time of the future: those that follow replace it until the clock is there.
    "a clock that ran ahead": Case(
        [*every_minute(*range(500, 509), last=300), (-600, 508)]
        + [(200.0 - i, 508) for i in range(50)],
        GROWING,
        "WARN",
    ),
    "older than a week": Case([(8 * 86_400, 500)], [(9 * 86_400, 600), *GROWING], "NOTFOUND"),
}


def judge(session: SparkSession, cases: dict[str, Case], settings: Burrow) -> dict[str, str]:
    """The statuses of partitions by name; NOTFOUND if one has none."""
    judged_rows = with_group_status(statuses(session, cases, settings), settings)
    return {
        row.topic: row.status or "NOTFOUND"
        for row in judged_rows.select("topic", "status").collect()
    }


def statuses(session: SparkSession, cases: dict[str, Case], settings: Burrow) -> DataFrame:
    """The rows of `partition_status`; each case is a topic and a group of its own."""
    commits: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    for name, case in cases.items():
        rows: list[tuple[float, int | None]] = [*case.commits]
        if case.removed is not None:
            earlier = sum(ago > case.removed for ago, _ in case.commits)
            rows.insert(earlier, (case.removed, None))
        for ago, offset in rows:
            commits.append(commit(len(commits), offset, ago, topic=name, group=f"of {name}"))
        ends += [
            {
                "taken_at": NOW - timedelta(seconds=ago),
                "topic": name,
                "partition": 0,
                "log_start": 0,
                "log_end": end,
            }
            for ago, end in case.ends
        ]
    now = session.range(1).select(lit(NOW).alias("as_of"))
    return partition_status(
        frame(session, "commits", commits), frame(session, "end_offsets", ends), now, settings
    )


@pytest.mark.parametrize(
    "settings", list(dict.fromkeys(case.settings for case in CASES.values())), ids=repr
)
def test_each_rule_finds_its_case(session: SparkSession, settings: Burrow) -> None:
    cases = {name: case for name, case in CASES.items() if case.settings == settings}
    expected = {name: case.status for name, case in cases.items() if case.status}
    assert judge(session, cases, settings) == expected


@pytest.mark.parametrize(
    "settings",
    [
        Burrow(intervals=5),
        Burrow(intervals=5, min_distance=timedelta(seconds=30)),
        Burrow(intervals=3, min_distance=timedelta(seconds=90), minimum_complete=0.7),
        Burrow(intervals=1, min_distance=timedelta(seconds=1), allowed_lag=20),
    ],
    ids=repr,
)
def test_random_rings_are_judged_as_the_rules_say(session: SparkSession, settings: Burrow) -> None:
    dice = random.Random(20)
    cases = {f"case {i}": _random(dice) for i in range(400)}
    found = judge(session, cases, settings)
    expected = {name: judged(case.commits, case.ends, settings) for name, case in cases.items()}
    assert found == expected
    if settings == Burrow(intervals=5):
        assert set(found.values()) == {"NOTFOUND", "OK", "WARN", "STOP", "STALL", "REWIND"}


def test_rings_are_made_from_all_commits(session: SparkSession) -> None:
    """The slots themselves, for any rate of commits and any clock, and not only the verdict on them."""
    settings = Burrow(intervals=4, min_distance=timedelta(seconds=30))
    dice = random.Random(21)
    cases = {f"case {i}": replace(_random(dice), ends=GROWING) for i in range(100)}
    found = {
        row.topic: [(each["at"], each["committed"]) for each in row.ring]
        for row in statuses(session, cases, settings).select("topic", "ring").collect()
    }
    now = NOW.timestamp() * 1000
    assert found == {
        name: [(round(now - slot.ago * 1000), slot.offset) for slot in ring(case.commits, settings)]
        for name, case in cases.items()
    }


def _random(dice: random.Random) -> Case:
    """Commits a minute or a second apart, many or few, some by a clock that jumps."""
    offset = dice.randint(400, 1_500)
    step = dice.choice([0, 0, 5, 10, 20])
    apart, most = dice.choice([(60.0, 8), (60.0, 8), (1.0, 300), (0.25, 300), (7.0, 40)])
    count = dice.randint(1, most)
    ago = dice.choice([1, 10, 100, 1_000]) + apart * count
    jumps = dice.choice([0.0, 0.0, 0.1])
    ahead, commits = 0.0, []
    for _ in range(count):
        offset = max(offset + step + dice.choice([0, 0, 0, 1, -60, 30]), 0)
        if dice.random() < jumps:
            ahead = dice.choice([0.0, 5.0, 45.0, 600.0, -20.0])
        ago -= apart
        commits.append((ago - ahead, offset))
    return Case(commits, dice.choice([GROWING, GROWING[-4:], GROWING[::7], GROWING[-1:]]))


def test_partitions_expire_with_their_group_and_not_alone(session: SparkSession) -> None:
    """Burrow drops groups by their last commit: an old partition of one that lives has stopped."""
    week = 7 * 86_400
    commits = [
        commit(0, 500, 8 * 86_400, group="lives", topic_partition=1),
        commit(1, 1_500, 20, group="lives"),
        commit(2, 1_600, 10, group="lives"),
        commit(3, 500, week, group="almost gone"),
        commit(4, 500, week + 1, group="gone"),
    ]
    ends = [
        {
            "taken_at": NOW - timedelta(seconds=ago),
            "topic": "t",
            "partition": partition,
            "log_start": 0,
            "log_end": 1_600,
        }
        for ago in (9 * 86_400, 0)
        for partition in (0, 1)
    ]
    rings = partition_status(
        frame(session, "commits", commits),
        frame(session, "end_offsets", ends),
        lit(NOW),
        Burrow(),
    )
    found = with_group_status(rings, Burrow()).collect()
    assert {(row.group_id, row.partition): (row.status, row.group_status) for row in found} == {
        ("lives", 0): ("OK", "ERR"),
        ("lives", 1): ("STOP", "ERR"),
        ("almost gone", 0): ("STOP", "ERR"),
        ("gone", 0): (None, None),
    }


def test_a_group_has_the_worst_of_its_partitions_but_at_most_err(session: SparkSession) -> None:
    rows = [
        (group, status, lag, 1.0)
        for group, statuses in {
            "well": ("OK", "OK"),
            "slow": ("OK", "WARN"),
            "stopped": ("WARN", "STOP"),
            "rewound": ("REWIND", "OK"),
            "half known": (None, "OK"),
            "not known": (None, None),
        }.items()
        for lag, status in enumerate(statuses)
    ]
    partitions = session.createDataFrame(
        rows, "group_id string, status string, current_lag long, complete double"
    )
    found = {
        row.group_id: (row.status, row.total_lag) for row in group_status(partitions).collect()
    }
    assert found == {
        "well": ("OK", 1),
        "slow": ("WARN", 1),
        "stopped": ("ERR", 1),
        "rewound": ("ERR", 1),
        "half known": ("OK", 1),
        "not known": (None, 1),
    }
    assert STATUSES == {
        "NOTFOUND": 0, "OK": 1, "WARN": 2, "ERR": 3, "STOP": 4, "STALL": 5, "REWIND": 6,
    }  # fmt: skip
