"""Coordinators that move while brokers are listed: their groups are in nobody's answer, yet not missed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.client import AdminClient
from coterie.errors import KafkaError
from coterie.protocol.messages.cluster import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie.protocol.messages.groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsResponse,
)
from tests.integration.client.talk import ScriptedBroker, counted, run


class Pair:
    """Two brokers and one partition of the offsets topic, with a group in it."""

    def __init__(self) -> None:
        self.leader = 1
        self.epoch = 5
        #: The broker that has loaded the partition, and lists its group; None while it is on its way.
        self.hosts: int | None = 1
        self.on_list: Callable[[int], None] = lambda _: None
        self.brokers = [self.broker(1), self.broker(2)]
        self.probed = 0

    def broker(self, node_id: int) -> ScriptedBroker:
        def list_groups(_: object) -> ListGroupsResponse:
            rows = (ListedGroup("orders"),) if self.hosts == node_id else ()
            self.on_list(node_id)
            return ListGroupsResponse(groups=rows)

        def describe(request: DescribeGroupsRequest) -> DescribeGroupsResponse:
            self.probed += 1
            code = 0 if self.hosts == node_id else 16
            return DescribeGroupsResponse(
                groups=tuple(DescribedGroup(code, None, each, "Dead") for each in request.groups)
            )

        return ScriptedBroker(
            node_id, ListGroups=list_groups, DescribeGroups=describe, Metadata=self.metadata
        )

    def metadata(self, _: object) -> MetadataResponse:
        row = MetadataResponsePartition(0, 0, self.leader, self.epoch)
        topic = MetadataResponseTopic(name="__consumer_offsets", partitions=(row,))
        brokers = tuple(
            MetadataResponseBroker(each.node_id, "127.0.0.1", each.port) for each in self.brokers
        )
        return MetadataResponse(brokers=brokers, topics=(topic,))

    def move(self, to: int) -> None:
        self.leader = self.hosts = to
        self.epoch += 1


async def play(pair: Pair, scene: Callable[[AdminClient], object]) -> None:
    one, two = pair.brokers
    async with one, two, AdminClient(bootstrap_servers=one.address) as admin:
        await scene(admin)  # type: ignore[misc]


def test_a_move_in_a_quick_first_list_is_no_gap() -> None:
    pair = Pair()
    pair.hosts = None  # broker 1 has given it up, broker 2 has not begun; both are asked just then

    def heard(node_id: int) -> None:
        if node_id == 2 and pair.hosts is None:
            pair.move(2)

    pair.on_list = heard

    async def scene(admin: AdminClient) -> None:
        listed = await admin.list_groups()
        assert listed.complete
        assert listed["orders"].coordinator_id == 2
        assert pair.probed == 1

    run(play(pair, scene))


def test_there_and_back_again_is_a_move_too() -> None:
    pair = Pair()

    async def scene(admin: AdminClient) -> None:
        assert len(await admin.list_groups()) == 1
        pair.hosts = None

        def heard(_: int) -> None:
            if pair.hosts is None:
                pair.move(1)

        pair.on_list = heard
        listed = await admin.list_groups()
        assert listed.complete
        assert list(listed.items) == ["orders"]

    run(play(pair, scene))


def test_a_move_between_two_lists_is_noticed_by_the_second() -> None:
    pair = Pair()

    async def scene(admin: AdminClient) -> None:
        assert len(await admin.list_groups()) == 1
        pair.move(2)
        pair.hosts = None  # broker 2 leads, and has not begun to load

        def heard(node_id: int) -> None:
            if node_id == 2:
                pair.hosts = 2

        pair.on_list = heard
        listed = await admin.list_groups()
        assert listed.complete
        assert listed["orders"].coordinator_id == 2

    run(play(pair, scene))


def test_if_it_does_not_end_in_time_the_answer_says_so() -> None:
    pair = Pair()

    def heard(_: int) -> None:
        pair.epoch += 1

    pair.on_list = heard

    async def scene(admin: AdminClient) -> None:
        listed = await admin.list_groups(timeout=0.5)
        assert not listed.complete
        with pytest.raises(KafkaError, match="coordinators have moved"):
            listed.unwrap()

    run(play(pair, scene))


def test_where_nothing_moves_a_list_costs_one_request_per_broker_and_one_more() -> None:
    pair = Pair()

    async def scene(admin: AdminClient) -> None:
        before = admin.requests.copy()
        await admin.list_groups()
        # The first also has to learn which brokers there are.
        assert counted(admin, before) == {"Metadata": 2, "ListGroups": 2}
        for _ in range(3):
            before = admin.requests.copy()
            assert len(await admin.list_groups()) == 1
            assert counted(admin, before) == {"Metadata": 1, "ListGroups": 2}

    run(play(pair, scene))
