"""Listeners of the embedded cluster with stock clients: proxies, mapped ports, several protocols, IPv6."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient as ConfluentAdmin
from kafka import KafkaConsumer, KafkaProducer

from coterie.addresses import parse_address
from coterie.client import AdminClient
from coterie.errors import CoterieError
from coterie.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from coterie.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from coterie.security.plain import PlainClient
from coterie.security.scram import ScramClient, ScramMechanism
from coterie.security.secrets import Secret
from coterie.security.tls import Store, TlsSettings, client_context
from coterie.server.connections.connection import Connection
from coterie.testing import EmbeddedCluster
from coterie.testing.certificates import Authority
from tests.compat.java import JavaTools
from tests.integration.server.talk import batch_of
from tests.kit.tcp_proxy import Proxies
from tests.kit.wire_client import WireClient

BROKERS = 3
USER = {"alice": "wonderland"}


# -- proxies ----------------------------------------------------------------------------------------------


class Mapped:
    """A cluster that clients reach only through proxies: the advertised addresses are theirs."""

    def __init__(self, proxies: Proxies, cluster: EmbeddedCluster, peers: list[int]) -> None:
        self.proxies = proxies
        self.cluster = cluster
        #: The client's port of each connection that brokers accepted.
        self.peers = peers


@pytest.fixture(scope="module")
def mapped() -> Iterator[Mapped]:
    running: list[EmbeddedCluster] = []
    peers: list[int] = []

    def broker(index: int) -> tuple[str, int]:
        return running[0]._twin.cluster.brokers[index + 1].address

    made = Connection.connection_made

    def counted(self: Connection, transport: asyncio.BaseTransport) -> None:
        if running and self.server in running[0]._twin.cluster.brokers.values():
            peers.append(transport.get_extra_info("peername")[1])
        made(self, transport)

    with pytest.MonkeyPatch.context() as patch, Proxies(BROKERS, broker) as proxies:
        patch.setattr(Connection, "connection_made", counted)
        config: dict[str, str | int | bool] = {
            f"coterie.broker.{i}.advertised.listeners": f"PLAINTEXT://localhost:{port}"
            for i, (_, port) in enumerate(proxies.addresses, 1)
        }
        config["offsets.topic.num.partitions"] = 3
        with EmbeddedCluster(brokers=BROKERS, config=config) as cluster:
            running.append(cluster)
            cluster.create_topic("orders", partitions=BROKERS)
            yield Mapped(proxies, cluster, peers)


@pytest.fixture
def all_through_the_proxy(mapped: Mapped) -> Iterator[str]:
    """The addresses to bootstrap from; afterwards, brokers saw connections of proxies only."""
    mapped.peers.clear()
    yield mapped.cluster.bootstrap_servers
    assert mapped.peers
    assert set(mapped.peers) <= mapped.proxies.outgoing


def test_proxies_are_what_is_advertised(mapped: Mapped) -> None:
    advertised = [f"localhost:{port}" for _, port in mapped.proxies.addresses]
    assert mapped.cluster.bootstrap_servers == ",".join(advertised)


def test_confluent_kafka_through_proxies(all_through_the_proxy: str) -> None:
    base = {"bootstrap.servers": all_through_the_proxy.split(",", maxsplit=1)[0], "log_level": 0}
    producer = Producer(base)
    for partition in range(BROKERS):
        producer.produce("orders", b"confluent", partition=partition)
    assert producer.flush(30) == 0
    consumer = Consumer(base | {"group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    seen: set[int] = set()
    while len(seen) < BROKERS:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        seen.add(message.partition() or 0)
    consumer.commit(asynchronous=False)
    consumer.close()


def test_kafka_python_through_proxies(all_through_the_proxy: str) -> None:
    first = all_through_the_proxy.split(",", maxsplit=1)[0]
    producer = KafkaProducer(bootstrap_servers=first)
    for partition in range(BROKERS):
        producer.send("orders", b"python", partition=partition).get(timeout=30)
    producer.close()
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=first,
        group_id="python",
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    )
    seen: set[int] = set()
    for message in consumer:
        seen.add(message.partition)
        if len(seen) == BROKERS:
            break
    consumer.close()
    assert len(seen) == BROKERS


def test_java_through_proxies(all_through_the_proxy: str, tmp_path: Path) -> None:
    java = JavaTools(all_through_the_proxy.split(",", maxsplit=1)[0], tmp_path)
    said = java.run("console-producer", "--topic", "orders", typed="one\ntwo\nthree\n")
    assert said.code == 0, said
    arguments = ("--topic", "orders", "--group", "java", "--from-beginning", "--max-messages", "3")
    said = java.run("console-consumer", *arguments, "--timeout-ms", "30000")
    assert "3 messages" in said.err, said
    assert java.run("consumer-groups", "--describe", "--group", "java").code == 0


def test_our_client_through_proxies(all_through_the_proxy: str) -> None:
    with AdminClient.connect(
        bootstrap_servers=all_through_the_proxy.split(",", maxsplit=1)[0]
    ) as admin:
        found = admin.brokers()
        admin.list_groups()
    assert ",".join(each.address for each in found) == all_through_the_proxy


# -- several listeners ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def three(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedCluster]:
    keystore = authority.issue("localhost").write(tmp_path_factory.mktemp("tls")).keystore
    config = {
        "listeners": "INSIDE://127.0.0.1:0,TLS://localhost:0,LOGIN://127.0.0.1:0,BOTH://localhost:0",
        "advertised.listeners": "LOGIN://127.0.0.1:0,BOTH://localhost:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,TLS:SSL,LOGIN:SASL_PLAINTEXT,BOTH:SASL_SSL",
        "inter.broker.listener.name": "INSIDE",
        "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.both.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.tls.ssl.keystore.location": str(keystore),
        "listener.name.both.ssl.keystore.location": str(keystore),
    }
    with EmbeddedCluster(brokers=2, config=config, users=USER) as cluster:
        cluster.create_topic("orders", partitions=2)
        yield cluster


def login(name: str, authority: Authority) -> dict[str, Any]:
    """librdkafka's settings for a listener."""
    secured = {"ssl.ca.pem": authority.pem}
    who = {"sasl.username": "alice", "sasl.password": USER["alice"]}
    return {
        "INSIDE": {},
        "TLS": {"security.protocol": "SSL", **secured},
        "LOGIN": {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", **who},
        "BOTH": {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", **who, **secured},
    }[name]


LISTENERS = ("INSIDE", "TLS", "LOGIN", "BOTH")


@pytest.mark.parametrize("name", LISTENERS)
def test_clients_of_each_listener_stay_on_it(
    three: EmbeddedCluster, authority: Authority, name: str
) -> None:
    servers = three.bootstrap_servers_of(name)
    base: dict[str, Any] = {"bootstrap.servers": servers, "log_level": 0} | login(name, authority)
    metadata = ConfluentAdmin(base).list_topics(timeout=30)
    assert {f"{each.host}:{each.port}" for each in metadata.brokers.values()} == set(
        servers.split(",")
    )
    producer = Producer(base)
    for partition in (0, 1):
        producer.produce("orders", name.encode(), partition=partition)
    assert producer.flush(30) == 0
    del base["log_level"]
    with AdminClient.connect(base) as admin:
        assert ",".join(each.address for each in admin.brokers()) == servers


def test_listeners_have_ports_of_their_own(three: EmbeddedCluster) -> None:
    everything = [three.bootstrap_servers_of(name).split(",") for name in LISTENERS]
    assert len({address for servers in everything for address in servers}) == 2 * len(LISTENERS)
    assert three.bootstrap_servers == three.bootstrap_servers_of("inside")


@contextmanager
def connected(cluster: EmbeddedCluster, authority: Authority, name: str) -> Iterator[WireClient]:
    """A connection to broker 1, by a listener."""
    address = parse_address(cluster.bootstrap_servers_of(name).split(",")[0])
    assert address is not None
    trust = Store(setting="ssl.truststore.certificates", certificates=authority.pem)
    secured = name in ("TLS", "BOTH")
    tls = client_context(TlsSettings(truststore=trust)) if secured else None
    with WireClient(*address, tls=tls) as client:
        password = Secret(USER["alice"])
        if name == "LOGIN":
            scram = ScramClient(ScramMechanism.SHA_256, "alice", password)
            assert client.authenticate(scram).error_code == 0
        elif name == "BOTH":
            assert client.authenticate(PlainClient("alice", password)).error_code == 0
        yield client


@pytest.mark.parametrize("name", LISTENERS)
def test_every_answer_names_addresses_of_the_clients_listener(
    three: EmbeddedCluster, authority: Authority, name: str
) -> None:
    servers = three.bootstrap_servers_of(name).split(",")

    def spelled(nodes: Iterable[Any]) -> list[str]:
        return [f"{each.host}:{each.port}" for each in nodes]

    with connected(three, authority, name) as client:
        metadata = client.ask(
            MetadataRequest(topics=(MetadataRequestTopic(name="orders"),)), MetadataResponse
        )
        assert spelled(metadata.brokers) == servers
        described = client.ask(DescribeClusterRequest(), DescribeClusterResponse)
        assert spelled(described.brokers) == servers
        keys = tuple(f"g-{i}" for i in range(20))
        found = client.ask(FindCoordinatorRequest(coordinator_keys=keys), FindCoordinatorResponse)
        assert set(spelled(found.coordinators)) == set(servers)
        # Broker 2 leads this partition, which is what the answers of broker 1 say (KIP-951).
        topic = metadata.topics[0]
        (index,) = (each.partition_index for each in topic.partitions if each.leader_id == 2)
        asked = FetchPartition(partition=index, partition_max_bytes=1000)
        fetch = FetchRequest(
            max_wait_ms=0, min_bytes=1, topics=(FetchTopic("", topic.topic_id, (asked,)),)
        )
        assert spelled(client.ask(fetch, FetchResponse).node_endpoints) == servers[1:]
        data = (PartitionProduceData(index, batch_of(b"x").encode()),)
        produce = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=(TopicProduceData("", topic.topic_id, data),)
        )
        assert spelled(client.ask(produce, ProduceResponse).node_endpoints) == servers[1:]


@pytest.mark.parametrize(("name", "offers"), [("LOGIN", "SCRAM-SHA-256"), ("BOTH", "PLAIN")])
def test_each_listener_offers_its_own_mechanisms(
    three: EmbeddedCluster, authority: Authority, name: str, offers: str
) -> None:
    other = "PLAIN" if name == "LOGIN" else "SCRAM-SHA-256"
    settings = login(name, authority) | {"sasl.mechanism": other}
    settings["bootstrap.servers"] = three.bootstrap_servers_of(name)
    with AdminClient.connect(settings) as admin, pytest.raises(CoterieError, match=offers):
        admin.list_groups()


# -- hosts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_the_host_is_advertised_as_given(host: str) -> None:
    with EmbeddedCluster(host=host) as cluster:
        start = "[::1]:" if host == "::1" else f"{host}:"
        assert cluster.bootstrap_servers.startswith(start)
        base: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        (broker,) = ConfluentAdmin(base).list_topics(timeout=30).brokers.values()
        assert f"{broker.host}" == host
        producer = Producer(base)
        producer.produce("orders", b"one")
        assert producer.flush(30) == 0
        with AdminClient.connect(bootstrap_servers=cluster.bootstrap_servers) as admin:
            assert [each.host for each in admin.brokers()] == [host]


def test_members_that_use_ipv6_have_hosts_as_java_spells_them() -> None:
    config = {"listeners": "PLAINTEXT://[::1]:0"}
    with EmbeddedCluster(config=config) as cluster:
        cluster.create_topic("orders")
        cluster.scene("stable_group", "g")
        with AdminClient.connect(bootstrap_servers=cluster.bootstrap_servers) as admin:
            (group,) = admin.describe_groups(["g"]).items.values()
        assert {member.host for member in group.members} == {"/0:0:0:0:0:0:0:1"}


@pytest.mark.parametrize("host", ["", "[::]"])
def test_every_interface(host: str) -> None:
    """One socket accepts IPv4 and IPv6; an IPv4 client is shown with its IPv4 address."""
    config = {
        "listeners": f"PLAINTEXT://{host}:0",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:0",
    }
    with EmbeddedCluster(config=config) as cluster:
        cluster.scene("stable_group", "g")
        port = cluster.bootstrap_servers.rpartition(":")[2]
        for address in ("127.0.0.1", "[::1]"):
            with AdminClient.connect(bootstrap_servers=f"{address}:{port}") as admin:
                assert [each.host for each in admin.brokers()] == ["127.0.0.1"]


def test_a_listener_without_a_host_advertises_the_name_of_this_machine() -> None:
    with EmbeddedCluster(config={"listeners": "PLAINTEXT://:0"}) as cluster:
        assert cluster.bootstrap_servers.rpartition(":")[0] == socket.getfqdn()


def test_all_listeners_keep_their_ports_across_a_restart(three: EmbeddedCluster) -> None:
    before = [three.bootstrap_servers_of(name) for name in LISTENERS]
    three.stop_broker(2)
    three.start_broker(2)
    assert [three.bootstrap_servers_of(name) for name in LISTENERS] == before


def test_a_port_that_is_taken_is_named_and_nothing_stays_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = {
            "listeners": f"A://127.0.0.1:0,B://127.0.0.1:{port}",
            "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
        }
        cluster = EmbeddedCluster(config=config)
        with pytest.raises(
            OSError, match=f"cannot listen on B://127.0.0.1:{port}: address already"
        ):
            cluster.start()
