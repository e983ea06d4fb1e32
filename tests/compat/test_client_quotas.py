"""Client quotas: our cluster gives the answers that Apache Kafka gives."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pytest

from coterie.protocol.messages.quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from coterie.testing import EmbeddedCluster
from tests.compat import quota_conversations as quotas
from tests.compat.conversations import Question, ask
from tests.kit.kafka import KafkaCluster
from tests.kit.plugin import require_kafka
from tests.kit.wire_client import WireClient

pytestmark = pytest.mark.kafka

DEADLINE_SECONDS = 30


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
