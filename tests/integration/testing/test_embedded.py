"""EmbeddedCluster as a stranger's test would use it: brokers come and go, faults strike, clients see it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPartition

from coterie.error_codes import ErrorCode
from coterie.errors import CoterieError
from coterie.protocol.api import ApiKey
from coterie.protocol.messages.cluster import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from coterie.protocol.messages.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from coterie.protocol.messages.membership import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from coterie.testing import AsyncEmbeddedCluster, EmbeddedCluster
from tests.kit.wire_client import WireClient


@pytest.fixture(scope="module")
def three() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as cluster:
        yield cluster


def connect(cluster: EmbeddedCluster, broker: int = 1) -> WireClient:
    host, port = cluster.bootstrap_servers.split(",")[broker - 1].split(":")
    return WireClient(host, int(port))


def coordinator(client: WireClient, group: str) -> int:
    found = client.ask(FindCoordinatorRequest(coordinator_keys=(group,)), FindCoordinatorResponse)
    return found.coordinators[0].node_id


def test_the_fixture_is_there_by_itself(coterie_cluster: EmbeddedCluster) -> None:
    assert coterie_cluster.bootstrap_servers.startswith("127.0.0.1:")


@pytest.mark.coterie(brokers=2)
def test_the_marker_gives_arguments(coterie_cluster: EmbeddedCluster) -> None:
    assert len(coterie_cluster.bootstrap_servers.split(",")) == 2


def test_scenes_set_groups_in_every_state(three: EmbeddedCluster) -> None:
    three.scene("stable_group", "scene-stable", members=3)
    three.scene("empty_group", "scene-empty")
    three.scene("stale_group", "scene-stale")
    three.scene("rebalancing_group", "scene-rebalancing")
    states: dict[str, str] = {}
    for broker in (1, 2, 3):
        with connect(three, broker) as client:
            answer = client.ask(ListGroupsRequest(), ListGroupsResponse)
            states |= {group.group_id: group.group_state for group in answer.groups}
    assert {name: state for name, state in states.items() if name.startswith("scene-")} == {
        "scene-stable": "Stable",
        "scene-empty": "Empty",
        "scene-stale": "Empty",
        "scene-rebalancing": "CompletingRebalance",
    }


def test_a_lagging_group_is_behind_by_what_was_asked(three: EmbeddedCluster) -> None:
    three.scene("lagging_group", "behind", topic="slow-topic", lag=7)
    consumer = KafkaConsumer(
        bootstrap_servers=three.bootstrap_servers, group_id="behind", auto_offset_reset="earliest"
    )
    partitions = [KafkaPartition("slow-topic", i) for i in range(4)]
    ends = consumer.end_offsets(partitions)
    assert [ends[each] - (consumer.committed(each) or 0) for each in partitions] == [7] * 4
    consumer.close()


def test_kip181_is_told_to_those_who_can_hear_it(three: EmbeddedCluster) -> None:
    three.scene("stable_group", "told", members=2)
    with connect(three, three.coordinator_of("told")) as client:
        answer = client.ask(DescribeGroupsRequest(groups=("told",)), DescribeGroupsResponse)
    (group,) = answer.groups
    assert group.generation_id >= 1
    assert group.leader_id in {member.member_id for member in group.members}
    assert all(member.member_protocols == ("range",) for member in group.members)
    assert all(member.member_subscription for member in group.members)


def test_a_group_outlives_its_coordinator() -> None:
    with EmbeddedCluster(brokers=3) as cluster:
        cluster.scene("empty_group", "moving")
        first = cluster.coordinator_of("moving")
        others = [node for node in (1, 2, 3) if node != first]
        with connect(cluster, others[0]) as client:
            assert coordinator(client, "moving") == first
            cluster.kill_broker(first)
            second = coordinator(client, "moving")
            assert second in others
            cluster.start_broker(first)
            assert coordinator(client, "moving") == first
            cluster.move_coordinator("moving", second)
            assert coordinator(client, "moving") == second
        with connect(cluster, second) as client:
            found = client.ask(DescribeGroupsRequest(groups=("moving",)), DescribeGroupsResponse)
            assert found.groups[0].group_state == "Empty"
        with connect(cluster, first) as client:
            asked = client.ask(DescribeGroupsRequest(groups=("moving",)), DescribeGroupsResponse)
            assert asked.groups[0].error_code == ErrorCode.NOT_COORDINATOR


def test_metadata_follows_the_brokers() -> None:
    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=6)
        with connect(cluster, 1) as client:
            before = client.ask(MetadataRequest(topics=None), MetadataResponse)
            assert {broker.node_id for broker in before.brokers} == {1, 2, 3}
            assert {p.leader_id for p in before.topics[0].partitions} == {1, 2, 3}
            cluster.stop_broker(2)
            after = client.ask(MetadataRequest(topics=None), MetadataResponse)
            assert {broker.node_id for broker in after.brokers} == {1, 3}
            assert {p.leader_id for p in after.topics[0].partitions} == {1, 3}
            moved = [p for p in after.topics[0].partitions if p.leader_epoch > 0]
            assert len(moved) == 2


def test_a_parked_join_learns_that_the_coordinator_moved() -> None:
    """The first member of a group waits for others; the move must not leave it waiting."""
    with EmbeddedCluster(brokers=2, config={"group.initial.rebalance.delay.ms": 60_000}) as cluster:
        first = cluster.coordinator_of("parked")
        with connect(cluster, first) as client:
            request = JoinGroupRequest(
                group_id="parked",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=(JoinGroupRequestProtocol("range", b""),),
            )
            _, data = client._in_flight.send(request, 3)
            client._socket.sendall(data)
            while not cluster.requests("JoinGroup"):
                pass
            cluster.move_coordinator("parked", 3 - first)
            _, response = client._in_flight.receive(client._read_frame())
        assert isinstance(response, JoinGroupResponse)
        assert response.error_code == ErrorCode.NOT_COORDINATOR


def test_old_brokers_are_made_by_capping_versions() -> None:
    with (
        EmbeddedCluster(max_versions={"FindCoordinator": 3, "ListGroups": 3}) as cluster,
        connect(cluster) as client,
    ):
        assert client.versions(ApiKey.FIND_COORDINATOR)[-1] == 3
        assert client.versions(ApiKey.LIST_GROUPS)[-1] == 3
    with (
        pytest.raises(CoterieError, match="there is no API 'Nonsense'"),
        EmbeddedCluster(max_versions={"Nonsense": 1}),
    ):
        pass


def test_faults_strike_as_often_as_asked(three: EmbeddedCluster) -> None:
    three.inject("ListGroups", broker=1, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, times=2)
    with connect(three, 1) as client:
        codes = [client.ask(ListGroupsRequest(), ListGroupsResponse).error_code for _ in range(3)]
    assert codes == [15, 15, 0]
    three.inject("ListGroups", broker=1, close=True)
    with connect(three, 1) as client, pytest.raises(ConnectionError):
        client.ask(ListGroupsRequest(), ListGroupsResponse)
    three.inject("DescribeGroups", broker=1, error_code=30, match="'secret'", times=None)
    with connect(three, 1) as client:
        request = DescribeGroupsRequest(groups=("secret",))
        (group,) = client.ask(request, DescribeGroupsResponse).groups
        assert (group.group_id, group.error_code) == ("secret", 30)
    three.clear_faults()
    with connect(three, 1) as client:
        assert client.ask(request, DescribeGroupsResponse).groups[0].error_code != 30


def test_a_delayed_answer_keeps_its_place(three: EmbeddedCluster) -> None:
    """Answers leave in the order of the questions, however long one of them takes."""
    three.inject("ListGroups", broker=1, delay_ms=50)
    with connect(three, 1) as client:
        sent = [client._in_flight.send(ListGroupsRequest(), 5) for _ in range(3)]
        client._socket.sendall(b"".join(data for _, data in sent))
        frames: list[bytes] = []
        while len(frames) < 3:
            frames += client._frames.feed(client._socket.recv(65536))
        assert [client._in_flight.receive(frame)[0] for frame in frames] == [i for i, _ in sent]


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=2, data_dir=tmp_path) as cluster:
        cluster.create_topic("orders", partitions=4)
        cluster.scene("empty_group", "kept")
    with (
        EmbeddedCluster(brokers=2, data_dir=tmp_path) as cluster,
        connect(cluster, cluster.coordinator_of("kept")) as client,
    ):
        found = client.ask(DescribeGroupsRequest(groups=("kept",)), DescribeGroupsResponse)
        assert found.groups[0].group_state == "Empty"
        topics = client.ask(MetadataRequest(topics=None), MetadataResponse).topics
        assert {topic.name for topic in topics} == {"orders", "__consumer_offsets"}


def test_two_servers_do_not_share_a_directory(tmp_path: Path) -> None:
    with (
        EmbeddedCluster(data_dir=tmp_path),
        pytest.raises(CoterieError, match=r"pid|in use|locked"),
        EmbeddedCluster(data_dir=tmp_path),
    ):
        pass


def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """The second cluster finds its port taken; its directory must be free again at once."""
    with EmbeddedCluster() as first:
        port = int(first.bootstrap_servers.split(":")[1])
        with pytest.raises(OSError, match="in use"), EmbeddedCluster(data_dir=tmp_path, port=port):
            pass
    with EmbeddedCluster(data_dir=tmp_path):
        pass


def test_a_cluster_that_does_not_run_says_so() -> None:
    cluster = EmbeddedCluster()
    with pytest.raises(CoterieError, match="not running"):
        cluster.create_topic("t")
    with pytest.raises(CoterieError, match="at least one broker"), EmbeddedCluster(brokers=0):
        pass
    with pytest.raises(CoterieError, match="there is no setting 'nonsense'"):
        EmbeddedCluster(config={"nonsense": 1})
    with pytest.raises(CoterieError, match="takes a whole number"):
        EmbeddedCluster(config={"num.partitions": "many"})


def test_mistakes_about_brokers_and_topics_are_named(three: EmbeddedCluster) -> None:
    with pytest.raises(CoterieError, match="there is no broker 9"):
        three.stop_broker(9)
    with pytest.raises(CoterieError, match="broker 1 is running already"):
        three.start_broker(1)
    three.create_topic("twice")
    with pytest.raises(CoterieError, match="there is a topic 'twice' already"):
        three.create_topic("twice")


def test_a_paused_broker_answers_later() -> None:
    with EmbeddedCluster() as cluster, connect(cluster) as client:
        cluster.pause_broker(1)
        _, data = client._in_flight.send(ListGroupsRequest(), 5)
        client._socket.sendall(data)
        client._socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client._socket.recv(1)
        client._socket.settimeout(30)
        cluster.resume_broker(1)
        assert client._in_flight.receive(client._read_frame())[1] == ListGroupsResponse()


def test_the_asyncio_twin_does_the_same() -> None:
    async def play() -> int:
        async with AsyncEmbeddedCluster(brokers=2) as cluster:
            await cluster.scenes.stable_group("twin", members=2)
            await cluster.stop_broker(await cluster.coordinator_of("twin"))
            return await cluster.coordinator_of("twin")

    assert asyncio.run(play()) in (1, 2)
