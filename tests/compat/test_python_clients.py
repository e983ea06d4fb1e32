"""Stock Python clients live on our cluster as they do on Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from coterie.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.testing import EmbeddedCluster
from tests.compat.clients.aio import AioKafkaClient
from tests.compat.clients.base import Client, GroupConsumer, Read, Refused, until
from tests.compat.clients.confluent import ConfluentClient
from tests.compat.clients.kafka_python import KafkaPythonClient
from tests.compat.scenarios import SCENARIOS, drain, joined, unique, values
from tests.kit.kafka import KafkaCluster
from tests.kit.wire_client import WireClient

# Clients may leave something open: kafka-python, say, the socket of a connection that is refused.
pytestmark = pytest.mark.filterwarnings("ignore:.*[uU]nclosed:ResourceWarning")

CLIENTS: list[type[Client]] = [ConfluentClient, AioKafkaClient, KafkaPythonClient]
Play = tuple[type[Client], str]
PLAYS = [
    pytest.param(client, name, id=f"{client.name}-{name}")
    for client in CLIENTS
    for name, scenario in SCENARIOS.items()
    if scenario.needs <= client.can
]
PARTITIONS = 6


class Stage:
    """A cluster on which every wanted scenario is played once, some at a time; most of each is waiting."""

    def __init__(self, bootstrap: str, wanted: set[Play]) -> None:
        self._bootstrap = bootstrap
        self._pool = ThreadPoolExecutor(max_workers=4)
        self._plays = {play: self._pool.submit(self._play, *play) for play in wanted}

    def _play(self, client: type[Client], scenario: str) -> dict[str, Any]:
        with client(self._bootstrap) as player:
            return SCENARIOS[scenario].play(player)

    def result(self, client: type[Client], scenario: str) -> dict[str, Any]:
        return self._plays[client, scenario].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def wanted(request: pytest.FixtureRequest) -> set[Play]:
    """The scenarios of all tests of this run, so that each is begun before its test asks for it."""
    parameters = [getattr(item, "callspec", None) for item in request.session.items]
    return {
        (each.params["client"], each.params["scenario"])
        for each in parameters
        if each is not None and each.params.keys() == {"client", "scenario"}
    }


@pytest.fixture(scope="module")
def our_stage(wanted: set[Play]) -> Iterator[Stage]:
    with EmbeddedCluster(3) as cluster, closing(Stage(cluster.bootstrap_servers, wanted)) as stage:
        yield stage


@pytest.fixture(scope="module")
def kafka_stage(
    wanted: set[Play], kafka_cluster: Callable[[str, int], KafkaCluster]
) -> Iterator[Stage]:
    cluster = kafka_cluster("4.3.0", 3)
    with WireClient(*cluster.addresses[0]) as client:
        until(lambda: has_coordinators(client), "Kafka's coordinators")
    with closing(Stage(cluster.bootstrap, wanted)) as stage:
        yield stage


def has_coordinators(client: WireClient) -> bool:
    """Whether a fresh Kafka has made its internal topics; aiokafka's admin does not wait for them."""
    keys = tuple(f"key-{number}" for number in range(20))
    for kind in (0, 1):
        request = FindCoordinatorRequest(coordinator_keys=keys, key_type=kind)
        answer = client.ask(request, FindCoordinatorResponse)
        if any(each.error_code for each in answer.coordinators):
            return False
    return True


@pytest.mark.parametrize(("client", "scenario"), PLAYS)
def test_works_on_our_cluster(client: type[Client], scenario: str, our_stage: Stage) -> None:
    result = our_stage.result(client, scenario)
    assert result.items() >= EXPECTED.get(scenario, {}).items()


@pytest.mark.parametrize(("client", "scenario"), PLAYS)
def test_looks_as_on_kafka(
    client: type[Client], scenario: str, our_stage: Stage, kafka_stage: Stage
) -> None:
    assert our_stage.result(client, scenario) == kafka_stage.result(client, scenario)


#: What must come out for every client, so that much is known without a Kafka to compare with.
EXPECTED: dict[str, dict[str, Any]] = {
    "idempotence": {"ends": dict.fromkeys(range(4), 249)},
    "group_life": {"shares": [2, 2], "alone": [4], "offsets": {0: 506, 1: 506, 2: 504, 3: 504}},
    "static_membership": {"shares": [2, 2], "same partitions": (True, True)},
    "cooperation": {"kept": True, "offsets": dict.fromkeys(range(4), 250)},
    "administration": {"offsets": {0: 10, 1: 10}},
    "transactions": {
        "offsets after abort": {},
        "offsets after commit": {0: 5},
        # A marker ends each of the four transactions.
        "committed": [*range(10), *range(33, 43)],
        "all": [*range(10), *range(11, 21), *range(22, 32), *range(33, 43)],
    },
}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One to break: not shared."""
    with EmbeddedCluster(3) as cluster:
        yield cluster


def kill(cluster: EmbeddedCluster, group: str) -> None:
    cluster.kill_broker(cluster.coordinator_of(group))


def stop(cluster: EmbeddedCluster, group: str) -> None:
    cluster.stop_broker(cluster.coordinator_of(group))


def move(cluster: EmbeddedCluster, group: str) -> None:
    cluster.move_coordinator(group, to=cluster.coordinator_of(group) % 3 + 1)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@pytest.mark.parametrize("disturb", [kill, stop, move])
def test_members_go_on_with_another_coordinator(
    client: type[Client], disturb: Callable[[EmbeddedCluster, str], None], cluster: EmbeddedCluster
) -> None:
    topic, group = unique("moved"), unique("moved")
    # On all brokers: a topic with one replica would be offline after a kill.
    cluster.create_topic(topic, PARTITIONS)
    with (
        client(cluster.bootstrap_servers) as player,
        player.consumer(group, topic) as one,
        player.consumer(group, topic) as two,
    ):
        members = [one, two]
        found: list[Read] = []
        joined(members, PARTITIONS, found)
        player.produce(topic, values(300, "before"), PARTITIONS)
        drain(members, values(300, "before"), found)
        until(lambda: committed(player, group, members) == 300, "300 committed")
        before = cluster.coordinator_of(group)
        disturb(cluster, group)
        assert cluster.coordinator_of(group) != before
        player.produce(topic, values(300, "after"), PARTITIONS)
        after: list[Read] = []
        until(lambda: go_on(members, after) == set(values(300, "after")), "the rest is read")
        # A new client, since an admin of librdkafka or kafka-python does not outlive a move: FINDINGS.md.
        with client(cluster.bootstrap_servers) as fresh:
            until(lambda: committed(fresh, group, members) == 600, "600 committed")
            until(lambda: fresh.describe(group).state == "Stable", "stable again")
            assert fresh.describe(group).members == 2


def go_on(members: list[GroupConsumer], read: list[Read]) -> set[bytes]:
    """What was read so far. A rebalance may bring some of it twice, but nothing that was committed."""
    for member in members:
        read.extend(member.poll())
    return {each.value for each in read}


def committed(client: Client, group: str, members: list[GroupConsumer]) -> int:
    """Commit all positions, and the sum that the group then has; a group that rebalances refuses."""
    for member in members:
        member.poll()
        try:
            member.commit()
        except Refused:
            continue
    return sum(client.offsets(group).values())
