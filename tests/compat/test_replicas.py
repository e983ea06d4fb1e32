"""Replicas, ISR, elections and reassignments of three brokers: what Apache Kafka shows, step by step."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest

from coterie.protocol.api import ApiKey
from coterie.protocol.kafka_json import to_json
from coterie.protocol.messages.cluster import (
    DescribeClusterRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from coterie.protocol.messages.controller import UnregisterBrokerRequest
from coterie.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    ElectLeadersTopicPartitions,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)
from coterie.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from coterie.protocol.schema import Request, Response
from coterie.protocol.types import Uuid
from coterie.testing import EmbeddedCluster
from tests.integration.server.talk import batch_of, produce
from tests.kit.kafka import KafkaCluster
from tests.kit.kafka_jars import DEFAULT_VERSION
from tests.kit.plugin import KafkaClusterFactory
from tests.kit.wire_client import WireClient

pytestmark = pytest.mark.kafka

TOPICS = ("r-three", "r-two", "r-one", "r-strict")
_DEADLINE_S = 60.0
_VOLATILE = {
    "throttleTimeMs", "topicId", "host", "port", "configs", "logDir", "totalBytes", "usableBytes",
    "controllerId", "clusterId",
}  # fmt: skip


class Servers(Protocol):
    """Three brokers with the ids 0 to 2."""

    def address(self, node_id: int) -> tuple[str, int]: ...

    def kill_broker(self, node_id: int) -> None: ...

    def start_broker(self, node_id: int) -> None: ...


class Ours:
    """Our cluster, numbered as Kafka's is."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._addresses = cluster.bootstrap_servers.split(",")
        self.kill_broker = cluster.kill_broker
        self.start_broker = cluster.start_broker

    def address(self, node_id: int) -> tuple[str, int]:
        host, port = self._addresses[node_id].split(":")
        return host, int(port)


class Theirs:
    """Apache Kafka."""

    def __init__(self, kafka: KafkaCluster) -> None:
        self._kafka = kafka
        self.kill_broker = kafka.kill_broker
        self.start_broker = kafka.start_broker

    def address(self, node_id: int) -> tuple[str, int]:
        return self._kafka.addresses[node_id]


def steady(value: Any) -> Any:
    """An answer without what differs between any two clusters, its lists of structs in one order."""
    if isinstance(value, dict):
        return {key: steady(item) for key, item in value.items() if key not in _VOLATILE}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return sorted((steady(item) for item in value), key=repr)
    return value


def ask(servers: Servers, request: Request, node_id: int = 0, version: int | None = None) -> Any:
    with WireClient(*servers.address(node_id)) as client:
        used = client.versions(ApiKey(type(request).__key__))[-1] if version is None else version
        return steady(to_json(client.ask(request, Response, used), used))


def state(servers: Servers) -> Any:
    """The four topics as all versions of Metadata and DescribeTopicPartitions show them."""
    named = tuple(MetadataRequestTopic(name=name) for name in TOPICS)
    request = MetadataRequest(named, allow_auto_topic_creation=False)
    shown = {f"v{v}": ask(servers, request, version=v) for v in (4, 5, 7, 9, 12, 13)}
    shown["v0"] = ask(servers, MetadataRequest(named), version=0)
    described = tuple(TopicRequest(name) for name in TOPICS)
    shown["partitions"] = ask(servers, DescribeTopicPartitionsRequest(described))
    shown["cluster"] = ask(servers, DescribeClusterRequest())
    shown["fenced"] = ask(servers, DescribeClusterRequest(include_fenced_brokers=True))
    return shown


def create(servers: Servers) -> Any:
    strict = (CreatableTopicConfig("min.insync.replicas", "2"),)
    placed = {
        "r-three": (((0, 1, 2), (1, 2, 0)), ()),
        "r-two": (((2, 0), (0, 2)), ()),
        "r-one": (((2,), (1,)), ()),
        "r-strict": (((0, 2),), strict),
    }
    topics = tuple(
        CreatableTopic(
            name, -1, -1, tuple(CreatableReplicaAssignment(i, r) for i, r in enumerate(rows)), more
        )
        for name, (rows, more) in placed.items()
    )
    return ask(servers, CreateTopicsRequest(topics), version=6)


def grow(*replicas: int) -> CreatePartitionsRequest:
    placed = (CreatePartitionsAssignment(replicas),)
    return CreatePartitionsRequest((CreatePartitionsTopic("r-two", 3, placed),), 30_000)


def too_many(factor: int) -> CreateTopicsRequest:
    return CreateTopicsRequest((CreatableTopic("r-many", 1, factor),))


def reassign(
    replicas: tuple[int, ...] | None, topic: str = "r-two", index: int = 0, *, same: bool = False
) -> AlterPartitionReassignmentsRequest:
    rows = (ReassignablePartition(index, replicas),)
    return AlterPartitionReassignmentsRequest(30_000, not same, (ReassignableTopic(topic, rows),))


def elect(
    kind: int, topic: str = "r-two", partitions: tuple[int, ...] = (0,)
) -> ElectLeadersRequest:
    return ElectLeadersRequest(kind, (ElectLeadersTopicPartitions(topic, partitions),), 30_000)


def list_moves(topic: str = "r-two") -> ListPartitionReassignmentsRequest:
    return ListPartitionReassignmentsRequest(
        30_000, (ListPartitionReassignmentsTopics(topic, (0, 1, 9)),)
    )


def log_dirs(topic: str) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest((DescribableLogDirTopic(topic, (0, 1, 9)),))


def move_log(path: str) -> AlterReplicaLogDirsRequest:
    topics = (AlterReplicaLogDirTopic("r-two", (0,)), AlterReplicaLogDirTopic("r-none", (0,)))
    return AlterReplicaLogDirsRequest((AlterReplicaLogDir(path, topics),))


def sent(servers: Servers) -> Any:
    with WireClient(*servers.address(0)) as client:
        batch = batch_of(b"x", timestamp=int(time.time()) * 1000)
        answer = produce(client, ("r-strict", Uuid.ZERO), batch, version=12)
    return answer.error_code, answer.base_offset, answer.log_start_offset


#: A title, and a request for broker 0 or something to do; after each the state is compared.
Step = tuple[str, Request | Callable[[Servers], Any]]


def while_all_live() -> Iterator[Step]:
    yield "create", create
    yield "more replicas than brokers", too_many(4)
    yield "grow with one replica", grow(1)
    yield "grow", grow(1, 2)
    yield "produce", sent
    yield "log dirs", log_dirs("r-strict")
    yield "log dirs of nothing", log_dirs("r-none")
    yield "move a log nowhere", move_log("/nowhere")
    yield "swap", reassign((0, 2))
    yield "elect", elect(0)
    yield "elect again", elect(0)
    yield "elect no partition", elect(0, partitions=(9, 0))
    yield "elect no topic", elect(0, "r-none")
    yield "elect uncleanly", elect(1)
    yield "elect in an unknown way", elect(7)
    yield "move", reassign((1, 2))
    yield "widen", reassign((0, 1, 2))
    yield "narrow with the same factor", reassign((0, 1), same=True)
    yield "narrow", reassign((2, 0))
    for replicas in ((), (1, 1), (99,), (-1,), None):
        yield f"reassign to {replicas}", reassign(replicas)
    yield "reassign no partition", reassign((0,), index=9)
    yield "reassign no topic", reassign((0,), "r-none")
    yield "list moves", list_moves()
    yield "list moves of nothing", list_moves("r-none")
    yield "unregister an unknown broker", UnregisterBrokerRequest(99)


def while_one_is_down() -> Iterator[Step]:
    yield "kill", lambda servers: servers.kill_broker(2)
    yield "produce below min.insync.replicas", sent
    yield "elect one that is down", elect(0)
    yield "elect the only one, that is down", elect(0, "r-one")
    yield "elect it uncleanly", elect(1, "r-one")
    yield "more replicas than registered brokers", too_many(4)
    yield "move to one that is down", reassign((2, 1), "r-three", 1)
    yield "list waiting moves", list_moves("r-three")
    yield "cancel", reassign(None, "r-three", 1)
    yield "cancel again", reassign(None, "r-three", 1)
    yield "widen to one that is down", reassign((1, 0, 2), "r-two", 1)
    yield "unregister", UnregisterBrokerRequest(2)
    yield "unregister again", UnregisterBrokerRequest(2)
    yield "more replicas than are left", too_many(3)
    yield "reassign to one that is unregistered", reassign((2,))
    yield "return", lambda servers: servers.start_broker(2)
    yield "elect one that is back", elect(0)


def run(servers: Servers, step: Step) -> Any:
    _, action = step
    return ask(servers, action) if isinstance(action, Request) else action(servers)


def test_kafka_shows_the_same(kafka_cluster: KafkaClusterFactory) -> None:
    theirs = Theirs(kafka_cluster(DEFAULT_VERSION, 3))
    config = {"auto.leader.rebalance.enable": "false"}
    with EmbeddedCluster(3, first_broker_id=0, config=config) as cluster:
        ours = Ours(cluster)
        for step in (*while_all_live(), *while_one_is_down()):
            title = step[0]
            assert run(ours, step) == run(theirs, step), title
            settle(title, state(ours), lambda: state(theirs))


def settle(title: str, expected: Any, found: Callable[[], Any]) -> None:
    """Wait until Kafka's controller and its brokers have come to the same state."""
    deadline = time.monotonic() + _DEADLINE_S
    while (shown := found()) != expected and time.monotonic() < deadline:
        time.sleep(0.1)
    assert expected == shown, title


def test_kafka_topics_prints_the_same(kafka_cluster: KafkaClusterFactory) -> None:
    kafka = kafka_cluster(DEFAULT_VERSION, 3)
    rows = tuple(CreatableReplicaAssignment(i, r) for i, r in enumerate(((2, 0), (1, 2), (0, 1))))
    wanted = CreateTopicsRequest((CreatableTopic("r-printed", -1, -1, rows),))

    def printed(bootstrap: str) -> str:
        tool = "org.apache.kafka.tools.TopicCommand"
        arguments = ("--bootstrap-server", bootstrap, "--describe", "--topic", "r-printed")
        done = kafka.run_tool(tool, *arguments)
        assert done.returncode == 0, done.stderr
        return re.sub(r"TopicId: \S+|Configs: \S*", "", done.stdout)

    with EmbeddedCluster(3, first_broker_id=0) as cluster:
        ask(Ours(cluster), wanted)
        ask(Theirs(kafka), wanted)
        assert printed(cluster.bootstrap_servers) == printed(kafka.bootstrap)
