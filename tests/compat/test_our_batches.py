"""Batches that we compress are read by Apache Kafka and by a stock client."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.data import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from coterie.protocol.records import CompressionType, RecordBatch, build_batch
from tests.compat.clients.base import leaders
from tests.compat.clients.confluent import ConfluentClient
from tests.compat.scenarios import drain, unique
from tests.kit.kafka import KafkaCluster
from tests.kit.wire_client import WireClient

TIMESTAMP = 1_700_000_000_000


def payloads() -> dict[str, list[bytes]]:
    """Batches of one byte, of many blocks (lz4's and xerial's are of 64 and 32 KiB), and of noise."""
    noise = random.Random(7)
    return {
        "tiny": [b"x"],
        "many": [f"record {number} of many".encode() * 3 for number in range(3_000)],
        "large": [b"repeat after me " * 12_500],
        "noise": [noise.randbytes(20_000) for _ in range(5)],
    }


@pytest.mark.parametrize("codec", list(CompressionType), ids=lambda codec: codec.name.lower())
def test_kafka_reads_what_we_compress(
    codec: CompressionType, kafka_cluster: Callable[[str, int], KafkaCluster]
) -> None:
    cluster = kafka_cluster("4.3.0", 3)
    topic = unique(f"ours-{codec.name.lower()}")
    expected = [value for values in payloads().values() for value in values]
    with ConfluentClient(cluster.bootstrap) as client:
        assert client.create_topic(topic, 1) == "NONE"
        with WireClient(*cluster.addresses[0]) as wire:
            (leader,) = leaders(wire, topic)
        with WireClient(*cluster.addresses[leader]) as wire:
            for values in payloads().values():
                send(wire, topic, codec, values)
        with client.consumer(unique("reader"), topic) as consumer:
            read = drain([consumer], expected)
    assert [each.offset for each in read] == list(range(len(expected)))
    assert [each.value for each in read] == expected


def send(client: WireClient, topic: str, codec: CompressionType, values: list[bytes]) -> None:
    records = [(b"key", value, TIMESTAMP + number, ()) for number, value in enumerate(values)]
    batch = build_batch(records, RecordBatch(attributes=int(codec)))
    partition = PartitionProduceData(index=0, records=batch.encode())
    data = TopicProduceData(name=topic, partition_data=(partition,))
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(data,))
    deadline = time.monotonic() + 30
    while True:
        # By name: version 13 wants the topic's id.
        answer = client.ask(request, ProduceResponse, 12)
        (only,) = answer.responses[0].partition_responses
        code = ErrorCode.of(only.error_code)
        # A broker may learn later than others that it leads a new partition.
        if code is not ErrorCode.NOT_LEADER_OR_FOLLOWER or time.monotonic() > deadline:
            break
    assert code is ErrorCode.NONE
