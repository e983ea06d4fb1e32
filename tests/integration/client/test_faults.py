"""Trouble in the cluster: brokers that die, hang and load, coordinators that move, in the middle of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from coterie.client import AdminClient, Result, TopicPartition
from coterie.errors import DeadlineExceeded, KafkaError, PartialAnswer, UnsupportedVersion
from coterie.protocol.messages.cluster import (
    FindCoordinatorRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie.protocol.messages.groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsResponse,
)
from coterie.testing import EmbeddedCluster
from tests.integration.client.talk import ScriptedBroker, counted, played, run

GROUPS = [f"group-{number}" for number in range(12)]
ORDERS = TopicPartition("orders", 0)

Call = Callable[[AdminClient], Awaitable[Result[str, object]]]
CALLS: dict[str, Call] = {
    "describe": lambda admin: admin.describe_groups(GROUPS),  # type: ignore[dict-item,return-value]
    "offsets": lambda admin: admin.list_offsets(GROUPS),  # type: ignore[dict-item,return-value]
    "lag": lambda admin: admin.lag(GROUPS),  # type: ignore[dict-item,return-value]
    "alter": lambda admin: admin.alter_offsets(  # type: ignore[dict-item,return-value]
        {group: {ORDERS: 1} for group in GROUPS}
    ),
    "delete": lambda admin: admin.delete_groups(GROUPS),  # type: ignore[dict-item,return-value]
    "list": lambda admin: admin.list_groups(),  # type: ignore[dict-item,return-value]
}
APIS = {
    "describe": "DescribeGroups",
    "offsets": "OffsetFetch",
    "lag": "OffsetFetch",
    "alter": "OffsetCommit",
    "delete": "DeleteGroups",
    "list": "ListGroups",
}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as running:
        for group in GROUPS:
            running.scene("empty_group", group)
        yield running


@pytest.mark.parametrize("name", CALLS)
def test_a_killed_broker_is_no_gap(cluster: EmbeddedCluster, name: str) -> None:
    async def scene(admin: AdminClient) -> None:
        await admin.list_groups()
        await asyncio.to_thread(cluster.kill_broker, 2)
        result = await CALLS[name](admin)
        assert result.complete, result.errors
        assert len(result) == len(GROUPS)

    played(cluster, scene)


@pytest.mark.parametrize("name", CALLS)
def test_a_coordinator_that_moves_in_the_middle_is_followed(
    cluster: EmbeddedCluster, name: str
) -> None:
    # A list that takes long looks whether coordinators have moved meanwhile; the rest is told by brokers.
    cluster.inject(APIS[name], delay_ms=1100 if name == "list" else 150, times=3)

    async def scene(admin: AdminClient) -> None:
        await admin.find_coordinators(GROUPS)
        call = asyncio.ensure_future(CALLS[name](admin))
        await asyncio.sleep(0.05)
        for group in GROUPS[:4]:
            to = cluster.coordinator_of(group) % 3 + 1
            await asyncio.to_thread(cluster.move_coordinator, group, to)
        result = await call
        assert result.complete, result.errors
        assert len(result) == len(GROUPS)

    played(cluster, scene)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "list"])
@pytest.mark.parametrize("code", [14, 15, 16])
def test_loading_and_moving_are_waited_for(cluster: EmbeddedCluster, name: str, code: int) -> None:
    cluster.inject(APIS[name], error_code=code, times=1)

    async def scene(admin: AdminClient) -> None:
        result = await CALLS[name](admin)
        assert result.complete, result.errors

    played(cluster, scene)


def test_a_broker_that_loads_is_listed_when_it_has(cluster: EmbeddedCluster) -> None:
    cluster.inject("ListGroups", broker=2, error_code=14, times=2)
    cluster.inject("ListGroups", broker=3, error_code=15, times=1)

    async def scene(admin: AdminClient) -> None:
        listed = await admin.list_groups()
        assert listed.complete
        assert len(listed) == len(GROUPS)
        # Those who had answered were not asked again.
        assert admin.requests["ListGroups"] == 1 + 3 + 2

    played(cluster, scene)


def test_only_what_moved_is_looked_up_again() -> None:
    lookups: list[tuple[str, ...]] = []
    refused = {"b"}

    def describe(request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        rows = tuple(
            DescribedGroup(16 if group in refused else 0, None, group, "Empty")
            for group in request.groups
        )
        refused.clear()
        return DescribeGroupsResponse(groups=rows)

    async def scene() -> None:
        broker = ScriptedBroker(DescribeGroups=describe)
        find = broker.find_coordinator

        def watched(request: FindCoordinatorRequest) -> object:
            lookups.append(request.coordinator_keys)
            return find(request)

        broker.handlers["FindCoordinator"] = watched  # type: ignore[assignment]
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            assert (await admin.describe_groups(["a", "b", "c"])).complete
            assert lookups == [("a", "b", "c"), ("b",)]
            asked = [e.groups for e in broker.seen if isinstance(e, DescribeGroupsRequest)]
            assert asked == [("a", "b", "c"), ("b",)]

    run(scene())


@pytest.mark.parametrize("api", ["DescribeGroups", "FindCoordinator"])
def test_a_coordinator_that_never_comes_ends_at_the_deadline(
    cluster: EmbeddedCluster, api: str
) -> None:
    code = 16 if api == "DescribeGroups" else 15
    cluster.inject(api, error_code=code, times=None)

    async def scene(admin: AdminClient) -> None:
        described = await admin.describe_groups(GROUPS, timeout=1)
        assert not described.complete
        error = described.errors["group-1"]
        assert isinstance(error, DeadlineExceeded)
        assert "group 'group-1': no answer within 1 s and " in str(error)
        assert "tries; the last cause: group 'group-1'" in str(error)
        # The backoff grows: a second is good for a handful of tries, each at three brokers at most.
        assert 2 <= admin.requests[api] <= 24
        with pytest.raises(PartialAnswer):
            described.unwrap()

    played(cluster, scene)


def test_a_hanging_broker_is_reported_at_the_deadline_and_delays_nobody(
    cluster: EmbeddedCluster,
) -> None:
    async def scene(admin: AdminClient) -> None:
        await admin.list_groups()
        theirs = {g for g in GROUPS if cluster.coordinator_of(g) == 3}
        await asyncio.to_thread(cluster.pause_broker, 3)
        for name in ("list", "describe", "offsets", "lag"):
            result = await CALLS[name](admin)
            assert set(result.items) == set(GROUPS) - theirs, name
            assert not result.complete
            assert 3 in [each.node_id for each in result.broker_errors], name
            if name == "lag":
                # Of two of three brokers the ends of the logs are known all the same.
                rows = [row for item in result for row in item.partitions]  # type: ignore[attr-defined]
                known = {row.partition.partition for row in rows if row.error is None}
                assert 2 <= len(known) < 4
        await asyncio.to_thread(cluster.resume_broker, 3)
        assert (await admin.list_groups()).complete

    played(cluster, scene, default_api_timeout_ms=1500)


@pytest.mark.parametrize("name", ["list", "describe", "lag"])
def test_a_hanging_broker_is_left_when_its_groups_are_elsewhere(
    cluster: EmbeddedCluster, name: str
) -> None:
    async def scene(admin: AdminClient) -> None:
        await admin.list_groups()
        await asyncio.to_thread(cluster.pause_broker, 3)
        call = asyncio.ensure_future(CALLS[name](admin))
        await asyncio.sleep(0.6)
        # As after SIGSTOP: connections stay open and silent, and the others take over.
        for group in GROUPS:
            if cluster.coordinator_of(group) == 3:
                await asyncio.to_thread(cluster.move_coordinator, group, 1)
        if name == "list":
            await asyncio.to_thread(cluster.resume_broker, 3)
        if name == "lag":
            await asyncio.sleep(2.5)
            await asyncio.to_thread(cluster.resume_broker, 3)
        result = await call
        assert result.complete, result.errors
        assert len(result) == len(GROUPS)

    played(cluster, scene)


def test_a_refused_port_is_known_at_once_and_delays_nobody() -> None:
    def fine(_: object) -> ListGroupsResponse:
        return ListGroupsResponse()

    async def scene() -> None:
        gone = ScriptedBroker(2)
        async with gone:
            pass
        async with (
            ScriptedBroker(1, ListGroups=fine) as one,
            AdminClient(bootstrap_servers=one.address) as admin,
        ):
            one.peers = [one, gone]
            listed = await admin.list_groups(timeout=0.7)
            (failure,) = listed.broker_errors
            assert failure.node_id == 2
            assert "connection refused" in failure.cause
            assert str(gone.port) in str(failure)

    run(scene())


def test_a_throttled_client_waits_and_no_longer_than_its_deadline() -> None:
    throttle = {"ms": 300}

    def answer(request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        rows = tuple(DescribedGroup(group_id=each) for each in request.groups)
        return DescribeGroupsResponse(throttle["ms"], rows)

    async def scene() -> None:
        async with (
            ScriptedBroker(DescribeGroups=answer) as broker,
            AdminClient(bootstrap_servers=broker.address) as admin,
        ):
            await admin.describe_groups(["a"])
            throttle["ms"] = 2_000_000_000
            waiting = asyncio.ensure_future(admin.describe_groups(["a"]))
            for _ in range(100):
                await asyncio.sleep(0)
            # Nothing is sent while the broker wants to be left alone.
            assert broker.asked("DescribeGroups") == 1
            assert (await waiting).complete
            assert broker.asked("DescribeGroups") == 2
            described = await admin.describe_groups(["a"], timeout=0.3)
            assert isinstance(described.errors["a"], DeadlineExceeded)
            assert broker.asked("DescribeGroups") == 2

    run(scene())


def test_a_negative_throttle_is_no_reason_to_wait() -> None:
    def answer(request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(-5, tuple(DescribedGroup(group_id=e) for e in request.groups))

    async def scene() -> None:
        async with (
            ScriptedBroker(DescribeGroups=answer) as broker,
            AdminClient(bootstrap_servers=broker.address) as admin,
        ):
            for _ in range(3):
                assert (await admin.describe_groups(["a"], timeout=1)).complete

    run(scene())


def test_a_delete_whose_answer_was_lost_is_done_if_the_group_is_gone() -> None:
    times = iter(range(10))

    def delete(request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        if next(times) == 0:
            raise ConnectionError
        rows = tuple(DeletableGroupResult(each, 69) for each in request.groups_names)
        return DeleteGroupsResponse(results=rows)

    async def scene() -> None:
        async with (
            ScriptedBroker(DeleteGroups=delete) as broker,
            AdminClient(bootstrap_servers=broker.address) as admin,
        ):
            assert (await admin.delete_groups(["a"])).complete
            assert not (await admin.delete_groups(["a"])).complete

    run(scene())


def test_a_broker_that_forgets_a_group_in_its_answer_is_told_so() -> None:
    async def scene() -> None:
        broker = ScriptedBroker(DescribeGroups=lambda _: DescribeGroupsResponse())
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            described = await admin.describe_groups(["a"])
            assert "leaves it out" in str(described.errors["a"])

    run(scene())


def test_a_broker_that_knows_of_no_brokers_is_asked_again() -> None:
    async def scene() -> None:
        broker = ScriptedBroker(ListGroups=lambda _: ListGroupsResponse())
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            broker.peers = []
            with pytest.raises(DeadlineExceeded, match="the brokers: no answer within"):
                await admin.list_groups(timeout=0.3)
            asyncio.get_running_loop().call_later(0.2, broker.peers.append, broker)
            assert (await admin.list_groups()).complete

    run(scene())


def test_groups_whose_coordinator_is_nobody_are_missed_aloud() -> None:
    def metadata(_: object) -> MetadataResponse:
        rows = tuple(MetadataResponsePartition(0, index, index) for index in (1, -1))
        topic = MetadataResponseTopic(name="__consumer_offsets", partitions=rows)
        me = MetadataResponseBroker(1, "127.0.0.1", broker.port)
        return MetadataResponse(brokers=(me,), topics=(topic,))

    broker = ScriptedBroker(ListGroups=lambda _: ListGroupsResponse(), Metadata=metadata)

    async def scene() -> None:
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            listed = await admin.list_groups(timeout=0.5)
            assert list(listed.errors) == ["__consumer_offsets--1"]
            with pytest.raises(KafkaError, match="it has no leader, and its groups are in no list"):
                listed.unwrap()

    run(scene())


def test_an_api_that_is_not_served_is_named() -> None:
    async def scene() -> None:
        async with (
            ScriptedBroker() as broker,
            AdminClient(bootstrap_servers=broker.address) as admin,
        ):
            with pytest.raises(UnsupportedVersion, match="serves ListGroups not at all"):
                await admin.list_groups()
            described = await admin.describe_groups(["a"])
            with pytest.raises(UnsupportedVersion, match=f"{broker.address} serves DescribeGroups"):
                described.unwrap()
            deleted = await admin.delete_groups(["a"])
            with pytest.raises(UnsupportedVersion, match="serves DeleteGroups not at all"):
                deleted.unwrap()

    run(scene())


def test_a_slow_call_does_not_hold_up_another(cluster: EmbeddedCluster) -> None:
    cluster.inject("DescribeGroups", delay_ms=400, times=3)

    async def scene(admin: AdminClient) -> None:
        await admin.find_coordinators(GROUPS)
        before = admin.requests.copy()
        slow = asyncio.ensure_future(admin.describe_groups(GROUPS))
        await asyncio.sleep(0.05)
        fast = await admin.describe_groups(GROUPS)
        assert fast.complete
        assert (await slow).complete
        assert counted(admin, before) == {"DescribeGroups": 6}

    played(cluster, scene)
