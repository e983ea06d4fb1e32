"""Client quotas are enforced as by Apache Kafka: every test runs on both, with the same expectations.

Usage is measured in 11 samples of 10 s, so the window is 100 s at the first request of a client, and up to
110 s later. A machine that is slow does not change the outcome.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.codec import encode
from coterie.protocol.frames import encode_request
from coterie.protocol.kafka_json import to_json
from coterie.protocol.messages.cluster import (
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
from coterie.protocol.messages.quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    OpData,
)
from coterie.protocol.messages.session import ApiVersionsRequest, ApiVersionsResponse
from coterie.protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from coterie.protocol.schema import Request, Response
from coterie.protocol.types import Uuid
from coterie.testing import EmbeddedCluster
from tests.integration.server.talk import batch_of, new_topic
from tests.kit.kafka import KafkaCluster
from tests.kit.plugin import require_kafka
from tests.kit.wire_client import WireClient

pytestmark = pytest.mark.kafka

DEADLINE_SECONDS = 30
WINDOW_MS = 100_000
SAMPLE_MS = 10_000
SIZE_BYTES = 4
TIMEOUT_MS = 30_000
_CONFIG = {"quota.window.size.seconds": "10", "group.initial.rebalance.delay.ms": "0"}
_numbers = itertools.count()

Topic = tuple[str, Uuid]


class Server:
    """A broker, and connections to it."""

    def __init__(self, host: str, port: int) -> None:
        self.address = host, port
        self._stack = ExitStack()
        self.admin = self.connect("admin")

    def connect(self, client_id: str) -> WireClient:
        return self._stack.enter_context(WireClient(*self.address, client_id=client_id))

    def close(self) -> None:
        self._stack.close()

    def limit(self, key: str, rate: float | None, **entity: str | None) -> None:
        """Set or remove a quota, and return when it is in force.

        A broker of Kafka shows what it has read of the controller's log a moment before it acts on it. It
        reads the next change after that.
        """
        self._alter(key, rate, **entity)
        self._alter("producer_byte_rate", 1e12, client_id=f"marker-{next(_numbers)}")

    def _alter(self, key: str, rate: float | None, **names: str | None) -> None:
        entity = tuple(EntityData(kind.replace("_", "-"), name) for kind, name in names.items())
        op = OpData(key, rate or 0.0, remove=rate is None)
        request = AlterClientQuotasRequest((AlterClientQuotasEntry(entity, (op,)),))
        (result,) = self.admin.ask(request, AlterClientQuotasResponse).entries
        assert result.error_code == 0, result
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self._described(frozenset(entity), key) != rate:
            assert time.monotonic() < deadline, entity

    def _described(self, entity: frozenset[EntityData], key: str) -> float | None:
        answer = self.admin.ask(DescribeClientQuotasRequest(), DescribeClientQuotasResponse)
        for each in answer.entries or ():
            if frozenset(each.entity) == entity:
                return {value.key: value.value for value in each.values}.get(key)
        return None


@pytest.fixture(scope="module")
def kafka_server() -> Iterator[Server]:
    require_kafka()
    with KafkaCluster(config=_CONFIG) as kafka:
        server = Server(*kafka.addresses[0])
        yield server
        server.close()


@pytest.fixture(scope="module")
def our_server() -> Iterator[Server]:
    with EmbeddedCluster(config=_CONFIG) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        server = Server(host, int(port))
        yield server
        server.close()


@pytest.fixture(params=["our_server", "kafka_server"])
def server(request: pytest.FixtureRequest) -> Server:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Server)
    return found


def client_id(prefix: str) -> str:
    return f"{prefix}-{next(_numbers)}"


def produce_request(topic: Topic, size: int, acks: int = -1) -> ProduceRequest:
    records = batch_of(b"x" * size).encode()
    data = (TopicProduceData(*topic, (PartitionProduceData(0, records),)),)
    return ProduceRequest(None, acks, 30_000, data)


def produce(client: WireClient, topic: Topic, size: int) -> tuple[int, int]:
    """The throttle time, and the bytes that the broker counts."""
    request = produce_request(topic, size)
    answer = client.ask(request, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == 0
    version = client.versions(ApiKey.PRODUCE)[-1]
    sent = encode_request(request, version, correlation_id=0, client_id=client.client_id)
    return answer.throttle_time_ms, len(sent) - SIZE_BYTES


def throttle_ms(used: float, rate: float) -> int:
    """The throttle time when all was used at once."""
    return int(used / rate * 1_000 - WINDOW_MS + 0.5)


def test_a_producer_is_throttled_by_the_bytes_of_its_requests(server: Server) -> None:
    name, topic = client_id("producer"), new_topic(server.admin)
    server.limit("producer_byte_rate", 100.0, client_id=name)
    with WireClient(*server.address, client_id=name) as client:
        assert produce(client, topic, 9_000)[0] == 0
    with WireClient(*server.address, client_id=name) as client:
        throttled, size = produce(client, topic, 9_000)
    used_ms = throttle_ms(9_000 + size, 100.0)
    assert used_ms - SAMPLE_MS < throttled <= used_ms + 5_000
    other = server.connect(client_id("other"))
    assert produce(other, topic, 50_000)[0] == 0


def test_the_first_throttle_time_is_exact(server: Server) -> None:
    name, topic = client_id("producer"), new_topic(server.admin)
    server.limit("producer_byte_rate", 100.0, client_id=name)
    throttled, size = produce(server.connect(name), topic, 30_000)
    assert throttled == throttle_ms(size, 100.0)


def test_a_throttled_connection_is_not_read_for_the_throttle_time(server: Server) -> None:
    name, topic = client_id("producer"), new_topic(server.admin)
    server.limit("producer_byte_rate", 1_000.0, client_id=name)
    client = server.connect(name)
    began = time.monotonic()
    throttled, size = produce(client, topic, 100_200)
    assert throttled == throttle_ms(size, 1_000.0)
    client.ask(ApiVersionsRequest("x", "1"), ApiVersionsResponse)
    assert time.monotonic() - began >= throttled / 1_000


def test_a_producer_without_acks_is_counted(server: Server) -> None:
    name, topic = client_id("producer"), new_topic(server.admin)
    server.limit("producer_byte_rate", 100.0, client_id=name)
    server.connect(name).send(produce_request(topic, 30_000, acks=0))
    deadline = time.monotonic() + DEADLINE_SECONDS
    with WireClient(*server.address, client_id=name) as client:
        while not (throttled := produce(client, topic, 10)[0]):
            assert time.monotonic() < deadline
    assert throttled > throttle_ms(30_000, 100.0) - SAMPLE_MS


def test_a_throttled_fetch_has_no_records_and_counts_none(server: Server) -> None:
    name, topic = client_id("consumer"), new_topic(server.admin)
    assert produce(server.admin, topic, 4_000)[0] == 0
    server.limit("consumer_byte_rate", 50.0, client_id=name)
    seen = []
    for _ in range(6):
        with WireClient(*server.address, client_id=name) as client:
            version = client.versions(ApiKey.FETCH)[-1]
            answer = fetch(client, topic)
        taken = sum(
            len(each.records or b"") for found in answer.responses for each in found.partitions
        )
        seen.append((answer.throttle_time_ms > 0, taken > 0))
        if answer.throttle_time_ms:
            assert answer.responses == ()
        else:
            size = len(encode(answer, version)) + SIZE_BYTES
    assert seen == [(False, True)] + [(True, False)] * 5
    used_ms = throttle_ms(2 * size, 50.0)
    assert used_ms - SAMPLE_MS < answer.throttle_time_ms <= used_ms


def fetch(client: WireClient, topic: Topic) -> FetchResponse:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=(FetchTopic(*topic, (partition,)),)
    )
    return client.ask(request, FetchResponse)


def test_request_time_is_limited_and_throttled_for_one_sample_at_most(server: Server) -> None:
    name = client_id("busy")
    client = server.connect(name)
    server.limit("request_percentage", 0.000001, client_id=name)  # a microsecond in the window
    assert client.ask(MetadataRequest(), MetadataResponse).throttle_time_ms == SAMPLE_MS


def test_the_most_specific_quota_limits_a_client(server: Server) -> None:
    topic = new_topic(server.admin)
    levels: list[dict[str, str | None]] = [
        {"client_id": None},
        {"client_id": "?"},
        {"user": None},
        {"user": None, "client_id": None},
        {"user": None, "client_id": "?"},
        {"user": "ANONYMOUS"},
        {"user": "ANONYMOUS", "client_id": None},
        {"user": "ANONYMOUS", "client_id": "?"},
    ]
    entities: list[dict[str, str | None]] = []
    try:
        check_levels(server, topic, levels, entities)
    finally:
        for entity in entities:
            server.limit("producer_byte_rate", None, **entity)
    assert produce(server.connect(client_id("free")), topic, 50_000)[0] == 0


def check_levels(
    server: Server,
    topic: Topic,
    levels: Sequence[Mapping[str, str | None]],
    entities: list[dict[str, str | None]],
) -> None:
    """Add one quota after the other, each more specific; `?` is the client id."""
    used_by_user = 0
    for rate, level in enumerate(levels, start=2):
        name = client_id("level")
        entities.append({kind: name if each == "?" else each for kind, each in level.items()})
        server.limit("producer_byte_rate", float(rate), **entities[-1])
        with WireClient(*server.address, client_id=name) as client:
            throttled, used = produce(client, topic, 20_000)
        if level.keys() == {"user"}:
            used_by_user += used
            used = used_by_user
        used_ms = throttle_ms(used, float(rate))
        assert used_ms - SAMPLE_MS < throttled <= used_ms, level


def create(*names: str, only_check: bool = False) -> CreateTopicsRequest:
    topics = tuple(CreatableTopic(name, 1, 1) for name in names)
    return CreateTopicsRequest(topics, TIMEOUT_MS, only_check)


def grow(name: str, *, only_check: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest((CreatePartitionsTopic(name, 3, None),), TIMEOUT_MS, only_check)


def delete(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(tuple(map(DeleteTopicState, names)), timeout_ms=TIMEOUT_MS)


def find(name: str, *, may_create: bool) -> MetadataRequest:
    return MetadataRequest((MetadataRequestTopic(name=name),), may_create)


def changes_of_partitions(server: Server) -> list[Any]:
    """What a client may still change whose first request exceeds its quota."""
    name = client_id("mutator")
    old = [f"{name}-old-{number}" for number in range(4)]
    answer = server.admin.ask(create(*old), CreateTopicsResponse)
    assert not any(each.error_code for each in answer.topics)
    server.limit("controller_mutation_rate", 0.01, client_id=name)
    seen: list[Any] = []

    def ask(request: Request, version: int, client_id: str = name) -> None:
        with WireClient(*server.address, client_id=client_id) as client:
            answer = to_json(client.ask(request, Response, version), version)
        lists = {key: each for key, each in answer.items() if isinstance(each, list)}
        rows = lists.pop("topics", None) or next(iter(lists.values()))
        seen.append([type(request).__name__, version, answer["throttleTimeMs"] > 0])
        for row in sorted(rows, key=lambda each: str(each["name"])):
            thing = str(row.get("name", "")).removeprefix(name)
            seen[-1] += [thing, row["errorCode"], row.get("errorMessage")]

    ask(create(f"{name}-a"), 7)
    ask(create(f"{name}-b", "/"), 7)
    ask(create(f"{name}-b", only_check=True), 6)
    ask(create(f"{name}-c"), 5)
    ask(find(f"{name}-auto", may_create=True), 12)
    ask(grow(old[0]), 3)
    ask(grow(old[0], only_check=True), 3)
    ask(grow(f"{name}-missing"), 3)
    ask(grow(old[1]), 2)
    ask(delete(old[0], f"{name}-missing"), 6)
    ask(DeleteTopicsRequest(topic_names=(old[0],), timeout_ms=TIMEOUT_MS), 5)
    ask(DeleteTopicsRequest(topic_names=(old[2],), timeout_ms=TIMEOUT_MS), 4)
    ask(create(f"{name}-d"), 7, "another client")
    for each in ("-a", "-b", "-c", "-d", "-auto", "-old-0", "-old-2"):
        ask(find(f"{name}{each}", may_create=False), 12, "another client")
    return seen


def test_changes_of_partitions_are_limited_as_by_kafka(
    our_server: Server, kafka_server: Server
) -> None:
    """Versions that know the error are refused (KIP-599); older ones are served and throttled."""
    ours, theirs = changes_of_partitions(our_server), changes_of_partitions(kafka_server)
    assert [each for each in zip(ours, theirs, strict=True) if each[0] != each[1]] == []
    assert [ErrorCode.THROTTLING_QUOTA_EXCEEDED in each for each in ours].count(True) > 3


def connect_often(server: Server) -> None:
    with ExitStack() as stack:
        for _ in range(1_000):
            stack.enter_context(WireClient(*server.address))


def test_new_connections_of_an_address_are_limited(server: Server) -> None:
    server.limit("connection_creation_rate", 1, ip="127.0.0.1")
    try:
        with pytest.raises(ConnectionError):
            connect_often(server)
    finally:
        server.limit("connection_creation_rate", None, ip="127.0.0.1")
    WireClient(*server.address).close()
