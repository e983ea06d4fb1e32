"""Client quotas: our cluster gives the answers that Apache Kafka gives, and stock clients notice them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from coterie.protocol.messages.quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from coterie.testing import EmbeddedCluster
from tests.compat import quota_conversations as quotas
from tests.compat.conversations import Question, ask
from tests.compat.java import JavaTools
from tests.kit.kafka import KafkaCluster
from tests.kit.plugin import require_kafka
from tests.kit.wire_client import WireClient

pytestmark = pytest.mark.kafka

DEADLINE_SECONDS = 30
TOPIC = "orders"


def conversation(host: str, port: int) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    with WireClient(host, port) as client:

        def ask_all(questions: Iterable[Question]) -> None:
            answers.update((question[0], ask(client, question)) for question in questions)

        ask_all(quotas.wrong_alterations())
        wait_for_entities(client, 1)
        ask_all([("quotas after errors", DescribeClientQuotasRequest(), 0)])
        ask_all(quotas.alterations())
        wait_for_entities(client, 8)
        ask_all(quotas.descriptions())
        ask_all(quotas.removals())
        wait_for_entities(client, 1)
    return answers


def wait_for_entities(client: WireClient, count: int) -> None:
    """A Kafka broker describes what it has read of the controller's log, which may be a moment late."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        answer = client.ask(DescribeClientQuotasRequest(), DescribeClientQuotasResponse)
        if len(answer.entries or ()) == count:
            return
        assert time.monotonic() < deadline, answer


def test_every_answer_about_quotas_is_kafkas() -> None:
    require_kafka()
    # A Kafka of its own: quotas would slow other tests down.
    with KafkaCluster() as kafka:
        theirs = conversation(*kafka.addresses[0])
    with EmbeddedCluster() as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        ours = conversation(host, int(port))
    assert ours == theirs


def test_kafkas_tool_sets_a_quota_and_stock_producers_are_throttled(tmp_path: Path) -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic(TOPIC)
        tools = JavaTools(cluster.bootstrap_servers, tmp_path)
        for name in ("librdkafka", "java"):
            entity = ("--entity-type", "clients", "--entity-name", name)
            set_ = tools.run(
                "configs", "--alter", *entity, "--add-config", "producer_byte_rate=1000"
            )
            assert set_.lines == [f"Completed updating config for client {name}."], set_
        shown = tools.run("configs", "--describe", "--entity-type", "clients")
        assert [line.split(" are ")[-1] for line in shown.lines] == [
            "producer_byte_rate=1000.0"
        ] * 2
        assert librdkafka_throttle_ms(cluster.bootstrap_servers) > 0
        assert java_throttle_ms(tools) > 0


def librdkafka_throttle_ms(bootstrap: str) -> float:
    throttled: list[float] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "librdkafka",
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    producer.produce(TOPIC, b"x" * 10_500)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not throttled and time.monotonic() < deadline:
        producer.poll(0.1)
    producer.flush()
    return max(throttled)


def java_throttle_ms(tools: JavaTools) -> float:
    """The longest throttle time of a producer, by its own metric."""
    run = tools.run(
        "producer-performance", "--topic", TOPIC, "--num-records", "1", "--record-size", "10500",
        "--throughput", "-1", "--print-metrics", "--command-property", "client.id=java",
    )  # fmt: skip
    (line,) = (each for each in run.lines if "produce-throttle-time-max" in each)
    return float(line.rpartition(":")[2])
