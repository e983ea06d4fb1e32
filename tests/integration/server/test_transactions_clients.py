"""Stock clients with transactions: consume, transform, produce; commits, aborts and fencing."""

from __future__ import annotations

import asyncio

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.integration.server.background import BackgroundCluster

# aiokafka and kafka-python may leave a socket open on a busy machine.
pytestmark = pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning")


def new_producer(servers: str, transactional_id: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        # Fencing makes librdkafka tell on stderr what the test expects.
        {"bootstrap.servers": servers, "transactional.id": transactional_id, "log_level": 0}
    )
    producer.init_transactions(30)
    return producer


def read(servers: str, topic: str, isolation: str) -> list[bytes | None]:
    """All that a consumer of this isolation gets, up to the end of the only partition."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"{isolation}-of-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if error := message.error():
            assert error.code() == KafkaError._PARTITION_EOF
            break
        found.append(message.value())
    consumer.close()
    return found


@pytest.mark.parametrize("brokers", [1, 3])
def test_consume_transform_produce(brokers: int) -> None:
    with BackgroundCluster(brokers=brokers) as cluster:
        servers = cluster.bootstrap_servers
        source = confluent_kafka.Producer({"bootstrap.servers": servers})
        for number in range(10):
            source.produce("in", b"%d" % number)
        assert source.flush(30) == 0
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "transformers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe(["in"])
        messages = [consumer.poll(30) for _ in range(10)]
        producer = new_producer(servers, "transformer")
        for number, message in enumerate(messages):
            assert message is not None
            commit = number % 3 != 0
            producer.begin_transaction()
            producer.produce("out", message.value())
            assert producer.flush(30) == 0
            producer.send_offsets_to_transaction(
                [TopicPartition("in", 0, number + 1)],
                consumer.consumer_group_metadata(),
                30,
            )
            if commit:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
            (position,) = consumer.committed([TopicPartition("in", 0)], 30)
            expected = number + 1 if commit else number
            assert position.offset == (expected or confluent_kafka.OFFSET_INVALID)
        consumer.close()
        assert read(servers, "out", "read_committed") == [b"1", b"2", b"4", b"5", b"7", b"8"]
        assert len(read(servers, "out", "read_uncommitted")) == 10


def test_a_zombie_is_fenced(cluster: BackgroundCluster) -> None:
    servers = cluster.bootstrap_servers
    zombie = new_producer(servers, "fenced")
    zombie.begin_transaction()
    zombie.produce("fencing", b"zombie")
    assert zombie.flush(30) == 0
    heir = new_producer(servers, "fenced")
    heir.begin_transaction()
    heir.produce("fencing", b"heir")
    heir.commit_transaction(30)
    with pytest.raises(KafkaException) as caught:
        zombie.commit_transaction(30)
    assert caught.value.args[0].code() == KafkaError._FENCED
    assert read(servers, "fencing", "read_committed") == [b"heir"]


def test_aiokafka(cluster: BackgroundCluster) -> None:
    asyncio.run(asyncio.wait_for(_aiokafka(cluster.bootstrap_servers), 60))
    assert read(cluster.bootstrap_servers, "aio", "read_committed") == [b"first", b"third"]


async def _aiokafka(servers: str) -> None:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, transactional_id="aio")
    await producer.start()
    for value, commit in ((b"first", True), (b"second", False), (b"third", True)):
        await producer.begin_transaction()
        await producer.send_and_wait("aio", value)
        if commit:
            await producer.commit_transaction()
        else:
            await producer.abort_transaction()
    await producer.stop()
