"""Marts: tables that answer questions, each made by a function from DataFrames to a DataFrame.

    commits.transform(commit_rates)
    lag(commits, end_offsets=end_offsets)

`MARTS` has them all, in an order in which each comes after those that it is made from:

    for mart in MARTS.values():
        tables[mart.name] = mart.make(**{name: tables.get(name) for name in mart.needs}, as_of=None)
"""

from __future__ import annotations

from coterie.spark.marts.commit_rates import COMMIT_RATES, commit_rates
from coterie.spark.marts.group_summary import GROUP_SUMMARY, group_summary
from coterie.spark.marts.groups_now import GROUPS_NOW, groups_now
from coterie.spark.marts.health import HEALTH, health
from coterie.spark.marts.lag import LAG, lag
from coterie.spark.marts.lag_history import LAG_HISTORY, lag_history
from coterie.spark.marts.members_now import MEMBERS_NOW, members_now
from coterie.spark.marts.offset_resets import OFFSET_RESETS, offset_resets
from coterie.spark.marts.rebalances import REBALANCES, rebalances
from coterie.spark.marts.schemas import Mart
from coterie.spark.marts.stale import STALE_GROUPS, delete_plan, stale_groups
from coterie.spark.marts.topic_subscribers import TOPIC_SUBSCRIBERS, topic_subscribers

__all__ = [
    "MARTS",
    "Mart",
    "commit_rates",
    "delete_plan",
    "group_summary",
    "groups_now",
    "health",
    "lag",
    "lag_history",
    "members_now",
    "offset_resets",
    "rebalances",
    "stale_groups",
    "topic_subscribers",
]

MARTS: dict[str, Mart] = {
    mart.name: mart
    for mart in (
        Mart(
            "lag",
            "How far each group is behind in each partition, in offsets and in time.",
            LAG,
            ("commits", "end_offsets", "offsets", "groups"),
            lag,
        ),
        Mart(
            "groups_now",
            "Every group that there is, and its state.",
            GROUPS_NOW,
            ("group_events", "groups", "errors", "lag"),
            groups_now,
        ),
        Mart(
            "members_now",
            "Who is in which group, what they subscribe to and what they have.",
            MEMBERS_NOW,
            ("group_events", "commits", "groups", "members", "assignments", "errors"),
            members_now,
        ),
        Mart(
            "rebalances",
            "Every rebalance, with who came and went, what moved, and why.",
            REBALANCES,
            ("group_events",),
            rebalances,
        ),
        Mart(
            "offset_resets",
            "Committed offsets that moved backwards, and who moved them.",
            OFFSET_RESETS,
            ("commits", "group_events"),
            offset_resets,
        ),
        Mart(
            "commit_rates",
            "How often groups commit, and how much they read, per topic and hour.",
            COMMIT_RATES,
            ("commits",),
            commit_rates,
        ),
        Mart(
            "stale_groups",
            "Groups without members that nobody has used for long.",
            STALE_GROUPS,
            ("commits", "group_events", "lag", "gaps", "groups_now"),
            stale_groups,
        ),
        Mart(
            "lag_history",
            "Curves of lag over time, of the groups that are furthest behind.",
            LAG_HISTORY,
            ("commits", "end_offsets", "offsets", "lag", "stale_groups"),
            lag_history,
        ),
        Mart(
            "health",
            "Findings about groups, each with its evidence and what to do next.",
            HEALTH,
            (
                "commits",
                "end_offsets",
                "offsets",
                "lag",
                "rebalances",
                "gaps",
                "groups_now",
                "members_now",
            ),
            health,
        ),
        Mart(
            "topic_subscribers",
            "Which groups have to do with which topics, to be read both ways.",
            TOPIC_SUBSCRIBERS,
            ("group_events", "lag", "groups_now", "members_now"),
            topic_subscribers,
        ),
        Mart(
            "group_summary",
            "One row per group with the figures people ask for first.",
            GROUP_SUMMARY,
            (
                "lag",
                "commits",
                "group_events",
                "groups_now",
                "rebalances",
                "offset_resets",
                "commit_rates",
                "health",
            ),
            group_summary,
        ),
    )
}
