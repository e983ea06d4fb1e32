"""The plan that marts make of stale groups, executed on the embedded cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from coterie.client import AdminClient, TopicPartition
from coterie.plans.execution import Execution, Outcome
from coterie.plans.model import Plan, PlannedOffset, load_plan
from coterie.spark.marts import delete_plan, make_mart
from coterie.testing import EmbeddedCluster
from tests.spark.marts_kit import commit, frame, generation, quick

#: What the groups have committed when the plan is made.
BEFORE = {
    "as it was": {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 7},
    "gone on": {TopicPartition("orders", 0): 5},
    "elsewhere": {TopicPartition("orders", 0): 5},
}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    with quick(spark) as quick_session:
        yield quick_session


def planned(session: SparkSession, cluster: EmbeddedCluster) -> Plan:
    """A plan to delete all groups without members, by the cluster's log."""
    read = session.read.format("coterie").option("bootstrap.servers", cluster.bootstrap_servers)
    # Once for all that is made from them.
    commits, events = (read.load(name).cache() for name in ("commits", "group_events"))
    tables = {"commits": commits, "group_events": events}
    tables["lag"] = make_mart("lag", tables)
    stale = make_mart("stale_groups", tables, idle_for=timedelta(0))
    plan = delete_plan(stale, tables["lag"])
    commits.unpersist()
    events.unpersist()
    return plan


def executed(cluster: EmbeddedCluster, plan: Plan, undo: Path) -> dict[str, Outcome]:
    async def work() -> list[Outcome]:
        async with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            return await Execution(admin, plan, undo).run()

    return {each.group: each for each in asyncio.run(work())}


def test_a_group_that_has_committed_since_the_plan_is_not_deleted(
    session: SparkSession, tmp_path: Path
) -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=2)
        with AdminClient.connect(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.alter_offsets(BEFORE).unwrap()
            planned(session, cluster).save(tmp_path / "plan.json")
            plan = load_plan(tmp_path / "plan.json")
            assert {each.group for each in plan.groups} == set(BEFORE)
            admin.alter_offsets({"gone on": {TopicPartition("orders", 0): 6}}).unwrap()
            admin.alter_offsets({"elsewhere": {TopicPartition("orders", 1): 1}}).unwrap()
            found = executed(cluster, plan, tmp_path / "undo.json")
            left = {each.group_id for each in admin.list_groups()}
    assert {name: each.result for name, each in found.items()} == {
        "as it was": "done",
        "gone on": "refused",
        "elsewhere": "refused",
    }
    assert found["gone on"].detail == "orders-0 was 5 in the plan and is 6 now; make a new plan"
    assert "orders-1 was committed since" in found["elsewhere"].detail
    assert left == {"gone on", "elsewhere"}


def test_a_plan_has_what_each_group_keeps(session: SparkSession) -> None:
    commits = frame(
        session,
        "commits",
        [
            commit(1, 5, 90_000, group="keeps", topic_partition=1),
            commit(2, 7, 90_000, group="keeps", topic="another"),
            commit(3, 9, 90_000, group="keeps", topic_partition=2),
            # An offset that was removed, and one that Kafka does not tell of.
            commit(4, None, 90_000, group="keeps", topic_partition=2),
            commit(5, -1, 90_000, group="keeps", topic_partition=3),
            commit(6, 5, 30, group="in use"),
        ],
    )
    share: dict[str, Any] = {"group": "shares", "group_type": "share"}
    went: dict[str, Any] = {
        "record": "ShareGroupMemberMetadata",
        "member_id": "m",
        "tombstone": True,
    }
    events = [
        generation(1, 3, group="kept nothing"),
        generation(2, 3, **share, record="ShareGroupMetadata"),
        generation(3, 3, **share, **went),
    ]
    tables = {"commits": commits, "group_events": frame(session, "group_events", events)}
    tables["lag"] = make_mart("lag", tables)
    stale = make_mart("stale_groups", tables, idle_for=timedelta(minutes=1))
    found = {each.group: each.offsets for each in delete_plan(stale, tables["lag"]).groups}
    assert found == {
        "keeps": (PlannedOffset("another", 0, 7), PlannedOffset("t", 1, 5)),
        # Nothing is committed: whatever is later is new.
        "kept nothing": (),
        # What it has read is not in the log of offsets.
        "shares": None,
    }
