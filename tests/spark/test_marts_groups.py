"""Marts about groups, on records written by hand: who set offsets back, and what log and snapshot know."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from coterie.spark.marts import Inputs, make_mart
from coterie.spark.marts.committed import committed_now
from tests.spark.marts_kit import (
    NOW,
    commit,
    frame,
    generation,
    mart,
    member,
    only,
    quick,
    with_marts,
)

DAY = 86_400


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    with quick(spark) as quick_session:
        yield quick_session


def event(
    offset: int, record: str, *, group: str, kind: str = "consumer", ago: float = 900, **more: Any
) -> dict[str, Any]:
    """A record of a KIP-848 group; without more than the member's id, its removal."""
    row = {
        "partition": 0,
        "offset": offset,
        "timestamp": NOW - timedelta(seconds=ago),
        "group_id": group,
        "group_type": kind,
        "record": f"{kind.title()}Group{record}",
        "tombstone": not more.keys() - {"member_id"},
    }
    return row | more


def has(offset: int, member_id: str, *places: tuple[str, int], **more: Any) -> dict[str, Any]:
    given = [{"topic_id": topic_id, "partitions": [index]} for topic_id, index in places]
    more = {"member_id": member_id, "assignment": given} | more
    return event(offset, "CurrentMemberAssignment", **more)


def knows(offset: int, topic: str, topic_id: str, *, group: str) -> dict[str, Any]:
    """The topics that a group subscribes to, with names and ids."""
    given = [{"topic": topic, "topic_id": topic_id, "partitions": [0, 1, 2]}]
    return event(offset, "PartitionMetadata", group=group, assignment=given)


def set_back(group: str, **more: Any) -> list[dict[str, Any]]:
    return [commit(100, 100, 60, group=group, **more), commit(101, 10, 50, group=group, **more)]


OWNERS: dict[str, tuple[list[dict[str, Any]], tuple[str, str | None, str | None]]] = {
    # What a member had when it went, nobody has.
    "left": (
        [
            has(1, "m", ("id-t", 0), group="left"),
            event(2, "CurrentMemberAssignment", group="left", member_id="m"),
        ],
        ("administrator", None, None),
    ),
    # Commits of transactions have no id of their topic.
    "by name": (
        [
            event(1, "MemberMetadata", group="by name", member_id="m", client_id="c"),
            has(2, "m", ("id-t", 0), group="by name"),
        ],
        ("member", "m", "c"),
    ),
    "handed over": (
        [
            has(1, "m", ("id-t", 0), ("id-t", 1), group="handed over"),
            has(2, "m", ("id-t", 1), group="handed over"),
            has(3, "n", ("id-t", 0), group="handed over"),
        ],
        ("member", "n", None),
    ),
    # One of the members is gone, and nobody has got its partition yet.
    "between": (
        [
            has(1, "m", ("id-t", 0), group="between"),
            has(2, "n", ("id-t", 1), group="between"),
            event(3, "MemberMetadata", group="between", member_id="m"),
        ],
        ("unknown", None, None),
    ),
    # The topic was deleted and made anew: the same partition by another id, in one record.
    "made anew": (
        [
            has(1, "m", ("id-t", 0), group="made anew"),
            has(2, "m", ("id-t-2", 0), group="made anew"),
        ],
        ("member", "m", None),
    ),
    # Tasks are no partitions of topics.
    "streams": (
        [
            event(
                1,
                "CurrentMemberAssignment",
                group="streams",
                kind="streams",
                member_id="s",
                assignment=[{"topic": "0", "topic_id": None, "partitions": [0]}],
            )
        ],
        ("unknown", None, None),
    ),
    # Generations before this one were compacted away.
    "compacted": ([generation(200, 7, member("a", 0), group="compacted")], ("unknown", None, None)),
    "joined later": (
        [generation(200, 1, member("a", 0), group="joined later")],
        ("administrator", None, None),
    ),
}


def resets(session: SparkSession, events: list[dict[str, Any]] | None) -> dict[str, Any]:
    commits = [row for group in OWNERS for row in set_back(group)]
    tables = {"commits": frame(session, "commits", commits)}
    if events is not None:
        tables["group_events"] = frame(session, "group_events", events)
    found = make_mart("offset_resets", tables)
    return {row.group_id: (row.by, row.member_id, row.client_id) for row in found.collect()}


def test_who_set_offsets_back_is_who_had_the_partition_then(session: SparkSession) -> None:
    names = [knows(0, "t", "id-t", group="any"), knows(1, "t", "id-t-2", group="any")]
    events = [row for rows, _ in OWNERS.values() for row in rows]
    assert resets(session, names + events) == {name: by for name, (_, by) in OWNERS.items()}


def test_without_group_events_nobody_knows_who_set_offsets_back(session: SparkSession) -> None:
    assert set(resets(session, None).values()) == {("unknown", None, None)}


# Whether the log or a snapshot knows better


def taken(group: str, members: int, **more: Any) -> dict[str, Any]:
    """A group in a snapshot of ten minutes ago."""
    row = {
        "snapshot_id": "s",
        "taken_at": NOW - timedelta(seconds=600),
        "group_id": group,
        "type": "classic",
        "state": "Stable" if members else "Empty",
        "protocol_type": "consumer",
        "member_count": members,
    }
    return row | more


def wrote(offset: int, ago: float, *members: dict[str, Any], group: str) -> dict[str, Any]:
    at = NOW - timedelta(seconds=ago)
    return generation(offset, offset, *members, group=group, timestamp=at, state_timestamp=at)


@pytest.fixture(scope="module")
def mixed(session: SparkSession) -> dict[str, list[Row]]:
    """Ten minutes after a snapshot the log was read: marts about groups and their members."""
    groups = [
        taken("came back", 0),
        taken("deleted", 1),
        taken("filled", 2),
        taken("busy", 2),
        taken("as it was", 0),
    ]
    member_of = {
        "snapshot_id": "s",
        "taken_at": NOW - timedelta(seconds=600),
        "subscription": ["t"],
    }
    people = [
        {**member_of, "group_id": group, "member_id": name, "client_id": name, "host": "/h"}
        for group, name in (("deleted", "x"), ("filled", "y"), ("filled", "z"), ("busy", "w"))
    ]
    events = [
        wrote(1, 3 * DAY, group="came back"),
        wrote(2, 300, member("a", 0), group="came back"),
        wrote(3, 300, group="deleted") | {"tombstone": True, "members": None},
        wrote(4, 3 * DAY, group="filled"),
        wrote(5, 3 * DAY, group="as it was"),
        wrote(6, 300, member("b", 1), group="new"),
        wrote(7, 3 * DAY, member("c", 1), group="not in the snapshot"),
    ]
    commits = [
        commit(20, 5, 3 * DAY, group="came back"),
        commit(21, 5, 100, group="busy"),
        commit(22, 5, 3 * DAY, group="as it was"),
        commit(23, 5, 100, group="new by hand"),
        commit(24, 5, 3 * DAY, group="old by hand"),
    ]
    tables = {
        "groups": frame(session, "groups", groups),
        "members": frame(session, "members", people),
        "group_events": frame(session, "group_events", events),
        "commits": frame(session, "commits", commits),
    }
    return about_groups(session, tables)


def about_groups(session: SparkSession, tables: dict[str, DataFrame]) -> dict[str, list[Row]]:
    """Marts that are made from groups and members as they are now."""
    made = ("lag", "groups_now", "members_now")
    known = with_marts(session, tables, NOW, *made) | summary_of_nothing(session)
    names = ("group_summary", "topic_subscribers", "stale_groups")
    return {name: make_mart(name, known, as_of=NOW).collect() for name in names}


def summary_of_nothing(session: SparkSession) -> dict[str, DataFrame]:
    """Marts without rows, for tests of what group_summary takes from others."""
    names = ("rebalances", "offset_resets", "commit_rates", "health")
    return {name: mart(session, name) for name in names}


def test_of_log_and_snapshot_the_later_decides(mixed: dict[str, list[Row]]) -> None:
    found = {row.group_id: row for row in mixed["group_summary"]}
    assert {name: (row.state, row.member_count) for name, row in found.items()} == {
        "came back": ("Stable", 1),
        "filled": ("Stable", 2),
        "busy": ("Stable", 2),
        "as it was": ("Empty", 0),
        "new": ("Stable", 1),
        "new by hand": ("Empty", 0),
    }
    assert [name for name, row in found.items() if row.empty_since is not None] == ["as it was"]
    assert [row.group_id for row in mixed["stale_groups"]] == ["as it was"]


def test_members_are_those_of_the_later(mixed: dict[str, list[Row]]) -> None:
    found = {
        row.group_id: row.subscribed_members
        for row in mixed["topic_subscribers"]
        if row.subscribed_members
    }
    assert found == {"came back": 1, "filled": 2, "busy": 1, "new": 1}


@pytest.mark.parametrize("scope", ["broker", "partition"])
def test_what_a_broker_did_not_tell_the_log_does(session: SparkSession, scope: str) -> None:
    at = NOW - timedelta(seconds=600)
    groups = [taken("shown", 1), taken("g", 1, taken_at=NOW - timedelta(days=9))]
    person = {"snapshot_id": "s", "taken_at": at, "member_id": "x", "client_id": "x", "host": "/h"}
    events = [
        wrote(1, DAY, member("a", 0), group="g"),
        wrote(2, DAY, member("a", 0), group="deleted"),
        wrote(3, DAY - 1, group="deleted") | {"tombstone": True, "members": None},
        wrote(4, DAY, member("b", 0), member("c", 1), group="shown"),
    ]
    commits = [commit(9, 5, 3 * DAY, group="by hand")]
    error = {"snapshot_id": "s", "taken_at": at, "scope": scope, "name": "3", "error": "no answer"}
    # An earlier snapshot, too, in which another broker was down: that is over.
    before = error | {"scope": "broker", "taken_at": at - timedelta(days=1)}
    tables = {
        "groups": frame(session, "groups", groups),
        "members": frame(
            session, "members", [person | {"group_id": "shown", "subscription": ["t"]}]
        ),
        "group_events": frame(session, "group_events", events),
        "commits": frame(session, "commits", commits),
        "errors": frame(session, "errors", [before, error]),
    }
    made = about_groups(session, tables)
    unseen = {"g": 1, "by hand": 0} if scope == "broker" else {}
    found = {row.group_id: row.member_count for row in made["group_summary"]}
    assert found == {"shown": 1} | unseen
    subscribed = {
        row.group_id: row.subscribed_members
        for row in made["topic_subscribers"]
        if row.subscribed_members
    }
    assert subscribed == {name: 1 for name in ("shown", "g") if name in found}
    assert [row.group_id for row in made["stale_groups"]] == [n for n in unseen if n == "by hand"]


def test_a_group_that_changed_its_protocol_is_one_group(session: SparkSession) -> None:
    """Its old record is still there, the removal of it is not."""
    events = [
        generation(1, 3, member("a", 0), member("b", 1), group="k"),
        event(2, "MemberMetadata", group="k", member_id="m", subscription=["t"]),
        event(3, "Metadata", group="k", generation=4),
        has(4, "m", ("id-t", 0), group="k"),
        knows(5, "t", "id-t", group="k"),
    ]
    known = frame(session, "group_events", events)
    tables = with_marts(session, {"group_events": known}, NOW, "groups_now", "members_now")
    row = only(tables["groups_now"].collect())
    assert (row.type, row.generation, row.member_count) == ("consumer", 4, 1)
    topic = only(make_mart("topic_subscribers", tables, as_of=NOW).collect())
    assert (topic.subscribed_members, topic.assigned_partitions) == (1, 1)


# Topics


def test_topics_have_their_names_from_any_record(session: SparkSession) -> None:
    events = [
        event(1, "Metadata", group="k", generation=1),
        knows(2, "t", "id-t", group="k"),
        event(3, "MemberMetadata", group="k", member_id="m", subscription=["t"]),
        has(4, "m", ("id-t", 0), ("id-t", 1), group="k"),
    ]
    commits = frame(session, "commits", [commit(9, 5, 60, group="k")])
    tables = {"group_events": frame(session, "group_events", events), "commits": commits}
    row = only(make_mart("topic_subscribers", tables).collect())
    assert (row.topic, row.subscribed_members, row.assigned_partitions) == ("t", 1, 2)


def test_streams_groups_read_what_their_topology_reads(session: SparkSession) -> None:
    streams: dict[str, Any] = {"group": "s", "kind": "streams"}
    tasks = [{"topic": "0", "topic_id": None, "partitions": [0, 1]}]
    events = [
        event(1, "Metadata", **streams, generation=1),
        event(2, "Topology", **streams, generation=1, subscription=["in", "other"]),
        event(3, "MemberMetadata", **streams, member_id="m", client_id="c"),
        event(4, "CurrentMemberAssignment", **streams, member_id="m", assignment=tasks),
    ]
    tables = {"group_events": frame(session, "group_events", events)}
    found = make_mart("topic_subscribers", tables).collect()
    assert {(row.topic, row.subscribed_members, row.assigned_partitions) for row in found} == {
        ("in", 1, 0),
        ("other", 1, 0),
    }


@pytest.fixture(params=["log", "snapshot"])
def by_pattern(session: SparkSession, request: pytest.FixtureRequest) -> dict[str, Any]:
    """Members that subscribe by a pattern, which the log has the topics of."""

    def pattern(offset: int, regex: str, *topics: str, **more: Any) -> dict[str, Any]:
        about = {"subscription_regex": regex, "subscription": list(topics)}
        return event(offset, "RegularExpression", group="k", **about | more)

    person: dict[str, Any] = {"group": "k", "client_id": "c"}
    by: dict[str, Any] = {"subscription": [], "subscription_regex": "t.*"}
    events = [
        event(1, "Metadata", group="k", generation=1),
        event(2, "MemberMetadata", **person, member_id="m", **by),
        event(3, "MemberMetadata", **person, member_id="n", **by | {"subscription": ["by name"]}),
        event(4, "MemberMetadata", **person, member_id="o", subscription=["t"]),
        pattern(5, "t.*", "t", "was"),
        pattern(6, "t.*", "t", "tea"),
        pattern(7, "z.*", "zoo"),
        pattern(8, "z.*", tombstone=True),
        has(9, "m", ("id-t", 0), group="k"),
        knows(10, "t", "id-t", group="k"),
    ]
    tables = {"group_events": frame(session, "group_events", events)}
    if request.param == "snapshot":
        people = [
            {"snapshot_id": "s", "taken_at": NOW, "group_id": "k", "member_id": name, **given}
            for name, given in (
                ("m", by),
                ("n", by | {"subscription": ["by name"]}),
                ("o", {"subscription": ["t"]}),
            )
        ]
        place = {"group_id": "k", "member_id": "m", "topic": "t", "partition": 0, "target": False}
        tables |= {
            "groups": frame(session, "groups", [taken("k", 3, taken_at=NOW, type="consumer")]),
            "members": frame(session, "members", people),
            "assignments": frame(session, "assignments", [{"taken_at": NOW, **place}]),
        }
    return tables


def test_members_that_subscribe_by_pattern_subscribe_to_what_it_matches(
    session: SparkSession, by_pattern: dict[str, Any]
) -> None:
    known = with_marts(session, by_pattern, NOW, "groups_now", "members_now")
    found = make_mart("topic_subscribers", known, as_of=NOW).collect()
    assert {(row.topic, row.subscribed_members, row.assigned_partitions) for row in found} == {
        ("t", 3, 1),
        ("tea", 2, 0),
        ("by name", 1, 0),
    }
    ends = [
        {"taken_at": NOW, "topic": topic, "partition": 0, "log_start": 0, "log_end": 1}
        for topic in ("t", "tea", "was", "zoo")
    ]
    known["end_offsets"] = frame(session, "end_offsets", ends)
    findings = make_mart("health", known, as_of=NOW).collect()
    unread = [row for row in findings if row.rule == "unassigned_partitions"]
    assert [(row.group_id, row.topic) for row in unread] == [("k", "tea")]


# Idle groups


def test_an_expiry_that_a_client_asked_for_counts(session: SparkSession) -> None:
    """Retention is for offsets without one."""
    asked = {"expire_timestamp": NOW - timedelta(days=1)}
    commits = [
        commit(1, 5, 2 * DAY, group="all asked", **asked),
        commit(2, 5, 2 * DAY, group="one asked", **asked),
        commit(3, 5, 3 * DAY, group="one asked", topic_partition=1),
    ]
    tables = {"commits": frame(session, "commits", commits)}
    found = make_mart("stale_groups", tables, as_of=NOW).collect()
    expiry = {row.group_id: NOW.replace(tzinfo=None) - row.expires_at for row in found}
    assert expiry == {"all asked": timedelta(days=1), "one asked": timedelta(days=-4)}


def test_the_last_commit_may_be_of_a_topic_that_is_gone(session: SparkSession) -> None:
    commits = [
        commit(1, 5, 40 * DAY),
        commit(2, 5, 2 * DAY, topic="gone"),
        commit(3, None, 1.5 * DAY, topic="gone"),
    ]
    known = {"commits": frame(session, "commits", commits)} | summary_of_nothing(session)
    for name in ("stale_groups", "group_summary"):
        row = only(make_mart(name, known, as_of=NOW).collect())
        assert (row.idle_seconds, row.topics) == (2 * DAY, ["t"])


def test_a_removal_is_no_commit(session: SparkSession) -> None:
    """The log ends with a removal; the snapshot has seen what was committed after it."""
    seen = {
        "snapshot_id": "s",
        "taken_at": NOW,
        "group_id": "g",
        "topic": "t",
        "partition": 0,
        "committed_offset": 7,
    }
    commits = frame(session, "commits", [commit(1, 5, 200), commit(2, None, 100)])
    tables = {"commits": commits, "offsets": frame(session, "offsets", [seen])}
    row = only(committed_now(Inputs.of(session, tables)).collect())
    assert (row.committed_offset, row.source, row.commit_timestamp) == (7, "snapshot", None)


# Figures of the summary


@pytest.mark.parametrize(("has_log", "counted"), [(False, None), (True, 0)])
def test_without_the_log_nothing_was_counted(
    session: SparkSession, has_log: bool, counted: int | None
) -> None:
    """The pipeline makes all marts, also those of which there are no rows."""
    tables = summary_of_nothing(session)
    tables["groups"] = frame(session, "groups", [taken("g", 1)])
    if has_log:
        tables["group_events"] = frame(session, "group_events", [])
    row = only(make_mart("group_summary", tables, as_of=NOW).collect())
    assert (row.rebalances_24h, row.resets_24h) == (counted, counted)


def test_epochs_that_were_compacted_away_were_not_today(session: SparkSession) -> None:
    row = {"completed_at": NOW, "rebalanced": True, "hidden_before": 39}
    rows = [
        row | {"group_id": "old", "group_type": "classic"},
        row | {"group_id": "new", "group_type": "consumer"},
    ]
    tables = summary_of_nothing(session) | {
        "groups": frame(session, "groups", [taken("old", 1), taken("new", 1)]),
        "rebalances": mart(session, "rebalances", rows),
    }
    found = make_mart("group_summary", tables, as_of=NOW).collect()
    assert {row.group_id: row.rebalances_24h for row in found} == {"old": 40, "new": 1}


def test_findings_count_the_verdict_unless_it_is_ok(session: SparkSession) -> None:
    rows = [
        ("bad", "burrow", None, "ERR", "critical"),
        ("bad", "burrow", "t", "STOP", "critical"),
        ("good", "burrow", None, "OK", "ok"),
    ]
    names = ("group_id", "rule", "topic", "status", "severity")
    health = [dict(zip(names, row, strict=True)) for row in rows]
    tables = summary_of_nothing(session) | {
        "groups": frame(session, "groups", [taken("bad", 1), taken("good", 1)]),
        "health": mart(session, "health", health),
    }
    found = make_mart("group_summary", tables, as_of=NOW).collect()
    assert {(row.group_id, row.status, row.findings) for row in found} == {
        ("bad", "ERR", 2),
        ("good", "OK", 0),
    }


def test_the_running_period_is_as_long_as_it_has_been(session: SparkSession) -> None:
    now = NOW + timedelta(minutes=5)
    commits = [
        *(commit(n, n, -n) for n in range(300)),
        *(commit(n, n, 3600 - n, group="an hour ago") for n in range(360)),
        commit(1, 5, 30 * DAY, group="a month ago"),
    ]
    tables = {"commits": frame(session, "commits", commits)}
    rates = make_mart("commit_rates", tables, as_of=now)
    assert {
        row.group_id: (row.period_seconds, row.commits_per_second) for row in rates.collect()
    } == {
        "g": (300.0, 1.0),
        "an hour ago": (3600.0, 0.1),
        "a month ago": (3600.0, 1 / 3600),
    }
    tables |= summary_of_nothing(session) | {"commit_rates": rates}
    summary = make_mart("group_summary", tables, as_of=now).collect()
    assert {row.group_id: row.commits_per_second for row in summary} == {
        "g": 1.0,
        "an hour ago": 0.1,
        "a month ago": 0.0,
    }


def test_who_is_in_a_part_of_the_log_that_was_not_read_is_not_stale(session: SparkSession) -> None:
    commits = [
        commit(1, 5, 10 * DAY, group="whole", partition=0),
        commit(1, 5, 10 * DAY, group="held", partition=1),
        commit(2, 5, 40 * DAY, group="held, and old", partition=1),
        commit(1, 5, 10 * DAY, group="lost", partition=2),
    ]
    read_until = NOW - timedelta(days=9, hours=12)
    gaps = session.createDataFrame(
        [(1, "waiting", read_until), (2, "lost", None)],
        "partition int, kind string, read_until timestamp",
    )
    tables = {"commits": frame(session, "commits", commits), "gaps": gaps}
    week = timedelta(days=7)
    found = make_mart("stale_groups", tables, as_of=NOW, idle_for=week).collect()
    idle = {row.group_id: row.idle_seconds / DAY for row in found}
    assert idle == {"whole": 10, "held, and old": 30.5, "lost": 10}
