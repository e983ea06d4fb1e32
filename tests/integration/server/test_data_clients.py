"""Stock clients against the embedded cluster: produce in every compression, consume in a group."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from coterie.coordinator.config import GroupConfig
from coterie.server.settings.config import ServerConfig
from tests.integration.server.background import BackgroundCluster

# aiokafka and kafka-python may leave a socket open on a busy machine.
pytestmark = pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning")

COUNT = 200
_names = itertools.count()


@pytest.fixture
def topic() -> str:
    return f"clients-{next(_names)}"


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundCluster]:
    """Three brokers with an fsync for every acknowledgement."""
    config = ServerConfig(num_partitions=3, group=GroupConfig(initial_rebalance_delay_ms=0))
    root = tmp_path_factory.mktemp("durable")
    with BackgroundCluster(brokers=3, root=root, config=config) as running:
        yield running


def consume_all(servers: str, topic: str, count: int) -> list[bytes | None]:
    """What a librdkafka consumer in a group of its own gets."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"group-of-{topic}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    while len(found) < count:
        messages = consumer.consume(count, 20)
        assert messages, f"{len(found)} of {count} messages came"
        for message in messages:
            assert message.error() is None
            found.append(message.value())
    consumer.close()
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_librdkafka(
    cluster: BackgroundCluster, topic: str, codec: str, *, idempotent: bool
) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "compression.type": codec,
            "enable.idempotence": idempotent,
        }
    )
    failed: list[Any] = []
    sent = [b"%d" % number * 20 for number in range(COUNT)]
    for value in sent:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(30) == 0
    assert set(failed) == {None}
    assert consume_all(cluster.bootstrap_servers, topic, COUNT) == sent


def test_librdkafka_with_three_brokers(durable: BackgroundCluster, topic: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": durable.bootstrap_servers, "enable.idempotence": True}
    )
    sent = [b"%d" % number for number in range(COUNT)]
    for value in sent:
        producer.produce(topic, value, key=value)
    assert producer.flush(30) == 0
    assert set(consume_all(durable.bootstrap_servers, topic, COUNT)) == set(sent)


def test_kafka_python(cluster: BackgroundCluster, topic: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    sent = [b"%d" % number for number in range(COUNT)]
    for value in sent:
        producer.send(topic, value)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=f"group-of-{topic}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    assert [message.value for message in itertools.islice(consumer, COUNT)] == sent
    consumer.close()


@pytest.mark.parametrize("servers", ["cluster", "durable"])
def test_aiokafka(request: pytest.FixtureRequest, topic: str, servers: str) -> None:
    bootstrap = request.getfixturevalue(servers).bootstrap_servers
    sent = [b"%d" % number for number in range(COUNT)]
    found = asyncio.run(asyncio.wait_for(_aiokafka(bootstrap, topic, sent), 60))
    assert sorted(found) == sorted(sent)


async def _aiokafka(bootstrap: str, topic: str, sent: list[bytes]) -> list[bytes]:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    await producer.start()
    for acknowledged in [await producer.send(topic, value) for value in sent]:
        await acknowledged
    await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=f"group-of-{topic}",
        auto_offset_reset="earliest",
    )
    await consumer.start()
    found: list[bytes] = []
    while len(found) < len(sent):
        for messages in (await consumer.getmany(timeout_ms=20_000)).values():
            found += [message.value for message in messages]
    await consumer.stop()
    return found
