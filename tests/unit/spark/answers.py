"""Answers as the tables would give them, for pages that need no Spark; with names as hostile as can be."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from coterie.spark.pipeline.report.figures import FIGURES, Answer

NOW = datetime(2026, 3, 3, tzinfo=UTC)
HOSTILE = (
    "<script>alert('group')</script>",
    '"><img src=x onerror=alert(1)>',
    "</svg></title></style><b>",
    '=HYPERLINK("http://x.invalid","pay")',
    "o'brien\"s;group,with,commas",
    "tab\tand\nnewline",
    "-- drop table groups",
    "{{ 7 * 7 }} {% raw %}",
    "a-very-long-group-name-" * 8,
    "+групп\u0430-消费者-\U0001f600",
)
CAUSES = ("member_churn", "coordinator_move", "subscription_change", "unknown")

Rows = list[dict[str, Any]]


def _names(number: int) -> list[str]:
    ordinary = [f"billing-worker-{n}" for n in range(number)]
    return [HOSTILE[n // 2 % len(HOSTILE)] if n % 2 else ordinary[n] for n in range(number)]


def answers(rows: Mapping[str, Rows]) -> dict[str, Answer]:
    """Answers with these rows; every other figure has none."""
    found = {}
    for figure in FIGURES:
        mine: Sequence[Mapping[str, Any]] = rows.get(figure.name, [])
        columns = tuple(mine[0]) if mine else ()
        found[figure.name] = Answer(figure, columns, tuple(mine))
    return found


def a_day(seed: int = 1) -> dict[str, Answer]:
    """A day of a fleet with something of everything."""
    dice = random.Random(seed)
    return answers(
        {
            "overview": [
                {"groups": 1204, "members": 5310, "groups_behind": 212, "total_lag": 48_210_331,
                 "as_of": NOW}
            ],
            "states": [
                {"state": state, "type": kind, "groups": number}
                for state, kind, number in (
                    ("Stable", "classic", 801), ("Stable", "consumer", 240), ("Empty", "classic", 130),
                    ("PreparingRebalance", "classic", 21), ("Reconciling", "consumer", 12),
                )
            ],
            "lag_curves": _curves(dice),
            "backlog_curves": _curves(dice),
            "lag_now": [
                {"group_id": name, "lag": 9_000_000 // (n + 1), "lag_seconds": 31_000.0 / (n + 1),
                 "worst_partition": f"orders-{n}", "lagging_partitions": n, "partitions": 12,
                 "lost_records": n % 3 * 100, "at_least": n == 0, "all_of_them": 231}
                for n, name in enumerate(_names(15))
            ],
            **_rebalances(dice),
            **_rest(dice),
        }
    )  # fmt: skip


def _curves(dice: random.Random) -> Rows:
    rows: Rows = []
    for number, name in enumerate(sorted(_names(6))):
        level = 0.0
        for step in range(97):
            level = max(0.0, level + dice.gauss(80, 400) + 700 * math.sin(step / 9 + number))
            at = NOW - timedelta(minutes=15 * (96 - step))
            rows.append(
                {"group_id": name, "at": at, "lag": int(level * 40), "lag_seconds": level,
                 "at_least": number == 0}
            )  # fmt: skip
    return rows


def _rebalances(dice: random.Random) -> dict[str, Rows]:
    names = sorted(_names(12))
    timeline: Rows = []
    for name in names:
        times = sorted(
            NOW - timedelta(minutes=dice.uniform(0, 1440)) for _ in range(dice.randint(2, 30))
        )
        timeline += (
            {"group_id": name, "completed_at": at, "generation": n, "cause": dice.choice(CAUSES),
             "members": 4, "joined": 1, "left": None, "partitions_moved": 3, "duration_seconds": 2.5,
             "storm": n % 7 == 0, "rebalances": 4000, "marks": 2500 if name == names[0] else len(times)}
            for n, at in enumerate(times)
        )  # fmt: skip
    hours = [
        {
            "hour": NOW - timedelta(hours=24 - hour),
            "cause": cause,
            "rebalances": dice.randint(1, 40),
        }
        for hour in range(24)
        for cause in sorted(CAUSES)
    ]
    groups = [
        {"group_id": name, "rebalances": 40 - n, "in_storms": n, "most_frequent_cause": "member_churn",
         "moved": 12 * n, "stickiness": 0.83, "last": NOW, "all_of_them": 40}
        for n, name in enumerate(names)
    ]  # fmt: skip
    return {
        "rebalances_by_hour": hours,
        "rebalance_timeline": timeline,
        "rebalance_groups": groups,
    }


def _rest(dice: random.Random) -> dict[str, Rows]:
    names = _names(20)
    return {
        "stale_groups": [
            {"group_id": name, "state": "Empty", "idle_seconds": 86_400.0 * (20 - n), "last_commit": NOW,
             "last_member": None, "offsets": 12, "total_lag": 4_000_000, "family": None,
             "family_size": None, "expires_at": NOW + timedelta(days=2), "all_of_them": 130}
            for n, name in enumerate(names)
        ],
        "stale_families": [
            {"family": "console-consumer-*", "groups": 61, "longest_idle": 6e5, "all_of_them": 2},
            {"family": f"{HOSTILE[0]}-<uuid>", "groups": 12, "longest_idle": 3e5, "all_of_them": 2},
        ],
        "finding_counts": [
            {"severity": "critical", "rule": "stuck", "findings": 4, "groups": 3},
            {"severity": "warning", "rule": "hot_partition", "findings": 9, "groups": 9},
        ],
        "findings": [
            {"severity": "critical" if n < 8 else "warning", "rule": dice.choice(("stuck", "hot_partition")),
             "group_id": name, "topic": HOSTILE[0] if n % 3 == 0 else None, "partition": 3,
             "partitions": 12 if n == 0 else n % 2, "topics": n % 5, "total_lag": 31_415 if n == 0 else None,
             "stale": False,
             "evidence": f"{name}: no commit for 40 minutes while 12,000 records came in.",
             "next_step": "Look at the member's log; it may be stuck in one record.", "all_of_them": 77}
            for n, name in enumerate(names)
        ],
        "offset_resets": [
            {"time": NOW, "group_id": HOSTILE[0], "topic": "orders", "partition": 2, "from_offset": 900,
             "to_offset": 100, "moved_back": 800, "by": "administrator", "client_id": None,
             "all_of_them": 19}
        ],
        "trouble": [
            {"what": "not readable", "place": "partition 3, offset 7", "reason": HOSTILE[1],
             "read_until": None, "at": NOW, "all_of_them": 4000}
        ],
    }  # fmt: skip
