"""Probing coordinators: names that fall into each partition, and brokers that are not ready."""

from __future__ import annotations

import asyncio

import pytest

from coterie.client import AdminClient
from coterie.client.probing import probes
from coterie.protocol.group_state import partition_for
from coterie.testing import EmbeddedCluster
from tests.integration.client.talk import played


@pytest.mark.parametrize(
    ("group", "number"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("é", 233),
        ("polygenelubricants", 0),
        ("zzzzzz", 685785664),
    ],
)
def test_the_hash_is_javas(group: str, number: int) -> None:
    assert partition_for(group, 2**31) == number


@pytest.mark.parametrize("partitions", [1, 4, 50])
def test_every_partition_has_its_probe(partitions: int) -> None:
    names = probes(partitions)
    assert [partition_for(name, partitions) for name in names] == list(range(partitions))


def test_our_cluster_puts_groups_where_kafka_does() -> None:
    with EmbeddedCluster(brokers=3) as cluster:

        async def scene(admin: AdminClient) -> None:
            await admin.find_coordinators(["orders"])  # the first look-up makes the topic
            topic = (await admin.describe_topics(["__consumer_offsets"]))["__consumer_offsets"]
            for group in ("orders", "billing", "ünïcödé"):
                index = partition_for(group, len(topic.partitions))
                assert topic.partitions[index].leader == cluster.coordinator_of(group)

        played(cluster, scene)


def test_a_list_waits_for_coordinators_that_are_not_ready() -> None:
    with EmbeddedCluster(brokers=3) as cluster:
        cluster.scene("empty_group", "orders")

        async def scene(admin: AdminClient) -> None:
            await asyncio.to_thread(cluster.inject, "ListGroups", delay_ms=600, times=1)
            await asyncio.to_thread(
                cluster.inject, "DescribeGroups", error_code=14, match="coterie-probe", times=2
            )
            call = asyncio.ensure_future(admin.list_groups())
            await asyncio.sleep(0.2)
            to = cluster.coordinator_of("orders") % 3 + 1
            await asyncio.to_thread(cluster.move_coordinator, "orders", to)
            listed = await call
            assert listed.complete
            assert list(listed.items) == ["orders"]
            assert listed["orders"].coordinator_id == to
            # Asked until nobody was loading any more: twice in vain, once to the end.
            assert admin.requests["DescribeGroups"] == 9

        played(cluster, scene)
