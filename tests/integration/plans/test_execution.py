"""Executing a plan: every partition has a line, and a cluster that is gone is not asked again and again."""

from __future__ import annotations

import asyncio
from typing import Any

from coterie.client.admin import AdminClient
from coterie.client.results import Done, GroupDescription, Result
from coterie.plans.execution import Execution, Outcome
from coterie.plans.model import Plan, PlannedGroup, PlannedOffset
from coterie.testing import AsyncEmbeddedCluster, EmbeddedCluster


def told(outcomes: list[Outcome]) -> list[tuple[int | None, str, str]]:
    return [(each.partition, each.result, each.detail) for each in outcomes]


def execute(cluster: EmbeddedCluster, plan: Plan) -> list[Outcome]:
    async def work() -> list[Outcome]:
        async with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
            return await Execution(admin, plan, None).run()

    return asyncio.run(work())


def test_every_partition_of_a_plan_has_a_line() -> None:
    offsets = (
        PlannedOffset("orders", 3, 5, 4),
        PlannedOffset("orders", 0, 5, 3),
        PlannedOffset("orders", 1, 5, None, note="group 'other' has no offset here"),
        PlannedOffset("orders", 2, 5, 5),
    )
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=4)
        cluster.scene("empty_group", "g", topic="orders", offset=5)
        outcomes = execute(cluster, Plan.of("set_offsets", (PlannedGroup("g", offsets=offsets),)))
    assert told(outcomes) == [
        (0, "done", ""),
        (1, "refused", "group 'other' has no offset here"),
        (2, "unchanged", "it is where the plan wants it"),
        (3, "done", ""),
    ]
    assert [(each.before, each.after) for each in outcomes] == [(5, 3), (5, 5), (5, 5), (5, 4)]


def test_partitions_that_stay_for_different_reasons_have_a_line_each() -> None:
    stays = PlannedOffset("orders", 0, 5, 5)
    cannot = PlannedOffset("orders", 1, 5, None, note="the ends of its log are not known")
    groups = (
        PlannedGroup("both", offsets=(stays, cannot)),
        PlannedGroup("one", offsets=(stays,)),
        PlannedGroup("other", offsets=(cannot,)),
    )
    with EmbeddedCluster() as cluster:
        outcomes = execute(cluster, Plan.of("set_offsets", groups))
    assert told(outcomes) == [
        (0, "unchanged", "it is where the plan wants it"),
        (1, "refused", "the ends of its log are not known"),
        (None, "unchanged", "it is where the plan wants it"),
        (None, "refused", "the ends of its log are not known"),
    ]


class Leaving(AdminClient):
    """A client whose cluster goes away as soon as something was deleted."""

    cluster: AsyncEmbeddedCluster
    asked_since: int | None = None

    async def describe_groups(self, *args: Any, **more: Any) -> Result[str, GroupDescription]:
        if self.asked_since is not None:
            self.asked_since += 1
        return await super().describe_groups(*args, **more)

    async def delete_groups(self, *args: Any, **more: Any) -> Result[str, Done]:
        done = await super().delete_groups(*args, **more)
        await self.cluster.stop()
        self.asked_since = 0
        return done


def test_a_cluster_that_goes_away_is_not_asked_for_every_chunk() -> None:
    names = [f"g{number:03}" for number in range(500)]
    steps: list[int] = []

    async def work() -> tuple[list[Outcome], int | None]:
        cluster = await AsyncEmbeddedCluster().start()
        await cluster.create_topic("orders")
        for name in names:
            await cluster.scenes.empty_group(name, topic="orders")
        plan = Plan.of("delete_groups", tuple(PlannedGroup(name) for name in names))
        where = cluster.bootstrap_servers
        async with Leaving({"bootstrap.servers": where, "default.api.timeout.ms": 1000}) as admin:
            admin.cluster = cluster
            return await Execution(admin, plan, None).run(steps.append), admin.asked_since

    outcomes, asked = asyncio.run(work())
    assert asked == 1
    assert [each.group for each in outcomes] == names
    assert [each.result for each in outcomes] == ["done"] * 100 + ["failed"] * 400
    assert "no broker can be reached" in outcomes[-1].detail
    assert sum(steps) == 500
