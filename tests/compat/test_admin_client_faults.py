"""The admin client while brokers of Apache Kafka die, hang and leave. On our cluster: see the unit tests.

The gap that a broker leaves is filled: its groups are asked for where they go, as soon as they are there.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from coterie.client import AdminClient, GroupLag, Result, TopicPartition
from tests.kit.kafka import KafkaCluster
from tests.kit.plugin import require_kafka

T = TypeVar("T")

pytestmark = [pytest.mark.kafka, pytest.mark.campaign]

GROUPS = [f"group-{number}" for number in range(30)]
CALLS: dict[str, Callable[[AdminClient, float], Awaitable[Result[str, object]]]] = {
    "list": lambda admin, t: admin.list_groups(timeout=t),  # type: ignore[dict-item,return-value]
    "describe": lambda admin, t: admin.describe_groups(GROUPS, timeout=t),  # type: ignore[dict-item,return-value]
    "lag": lambda admin, t: admin.lag(GROUPS, timeout=t),  # type: ignore[dict-item,return-value]
}


@pytest.fixture(scope="module", params=["4.3.0", "3.9.1"])
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A cluster of its own: these tests kill brokers. Topics are replicated, so that nothing is lost."""
    require_kafka(request.param)
    config = {
        "default.replication.factor": "3",
        # Leaders go home to a broker that is back within seconds, not minutes.
        "leader.imbalance.check.interval.seconds": "1",
        "leader.imbalance.per.broker.percentage": "0",
    }
    with KafkaCluster(request.param, 3, config) as cluster:
        play(cluster, prepare)
        yield cluster


@pytest.fixture(autouse=True)
def whole(kafka: KafkaCluster) -> Iterator[None]:
    """Every test begins with three brokers that coordinate something."""
    yield
    for broker in range(3):
        if not kafka.is_running(broker):
            kafka.start_broker(broker)
    play(kafka, balanced)


def play(kafka: KafkaCluster, scene: Callable[[AdminClient], Awaitable[T]]) -> T:
    async def run() -> T:
        async with AdminClient(bootstrap_servers=kafka.bootstrap) as admin:
            return await scene(admin)

    return asyncio.run(run())


async def prepare(admin: AdminClient) -> None:
    (await admin.create_topics({"orders": 3}, replication_factor=3)).unwrap()
    partition = TopicPartition("orders", 0)
    while not (await admin.log_offsets([partition])).complete:  # noqa: ASYNC110 - nobody tells when
        await asyncio.sleep(0.2)
    (await admin.alter_offsets({group: {partition: 0} for group in GROUPS})).unwrap()


async def seen_by(address: str) -> dict[TopicPartition, tuple[int | None, int]]:
    """Leader and number of replicas in sync of each partition, as one broker sees it."""
    async with AdminClient(bootstrap_servers=address) as admin:
        topics = await admin.describe_topics(["orders", "__consumer_offsets"])
    return {
        TopicPartition(topic.name, each.partition): (each.leader, len(each.in_sync))
        for topic in topics
        for each in topic.partitions
    }


async def balanced(admin: AdminClient) -> None:
    """Wait until all three are back, have everything, and lead something.

    All three have to say so: one that was stopped and goes on sees the cluster as it was before.
    """
    while True:
        views = [await seen_by(each) for each in admin.settings.bootstrap_servers.split(",")]
        leaders = {leader for leader, _ in views[0].values()}
        in_sync = {count for _, count in views[0].values()}
        if views[0] == views[1] == views[2] and leaders == {0, 1, 2} and in_sync == {3}:
            break
        await asyncio.sleep(0.2)
    (await admin.describe_groups(GROUPS)).unwrap()


async def busiest(admin: AdminClient) -> int:
    """The broker that coordinates the most groups."""
    found = await admin.find_coordinators(GROUPS)
    nodes = [each.node_id for each in found]
    return max(set(nodes), key=nodes.count)


def true_at_once(result: Result[str, object], victim: int) -> None:
    """With a short deadline there is what could be had, and who is missing is named.

    Kafka gives a broker up some seconds after its last heartbeat, which on a busy machine may be sooner
    after its end than the deadline; an answer that is whole by then has to be whole.
    """
    if result.complete:
        whole_again(result)
        return
    assert 0 < len(result) < len(GROUPS)
    assert victim in [each.node_id for each in result.broker_errors]


def whole_again(result: Result[str, object]) -> None:
    assert result.complete, (result.errors, result.broker_errors)
    assert set(GROUPS) <= set(result.items)
    for each in result:
        if isinstance(each, GroupLag):
            assert each.complete, each


@pytest.mark.parametrize("name", CALLS)
def test_with_a_broker_killed_the_whole_answer_comes_as_soon_as_it_can(
    kafka: KafkaCluster, name: str
) -> None:
    async def scene(admin: AdminClient) -> None:
        await admin.list_groups()
        victim = await busiest(admin)
        await asyncio.to_thread(kafka.kill_broker, victim)
        true_at_once(await CALLS[name](admin, 1.5), victim)
        whole_again(await CALLS[name](admin, 60))

    play(kafka, scene)


@pytest.mark.parametrize("name", CALLS)
def test_with_a_broker_stopped_the_whole_answer_comes_as_soon_as_it_can(
    kafka: KafkaCluster, name: str
) -> None:
    async def scene(admin: AdminClient) -> None:
        await admin.list_groups()
        victim = await busiest(admin)
        pid = kafka.pids[victim]
        os.kill(pid, signal.SIGSTOP)
        try:
            true_at_once(await CALLS[name](admin, 2), victim)
            whole_again(await CALLS[name](admin, 60))
        finally:
            os.kill(pid, signal.SIGCONT)

    play(kafka, scene)


@pytest.mark.parametrize("name", CALLS)
def test_with_a_broker_leaving_in_order_nothing_is_missed(kafka: KafkaCluster, name: str) -> None:
    async def scene(admin: AdminClient) -> None:
        await admin.list_groups()
        victim = await busiest(admin)
        leaving = asyncio.create_task(asyncio.to_thread(kafka.kill_broker, victim, orderly=True))
        results = []
        while not leaving.done():
            results.append(await CALLS[name](admin, 30))
        await leaving
        results.append(await CALLS[name](admin, 30))
        for result in results:
            whole_again(result)

    play(kafka, scene)
