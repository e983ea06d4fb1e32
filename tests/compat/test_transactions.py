"""Transactions of protocol 2 and features: our cluster gives the answers of Apache Kafka 4.3.0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from coterie.protocol.messages.controller import FeatureUpdateKey, UpdateFeaturesRequest
from coterie.protocol.schema import Response
from coterie.testing import EmbeddedCluster
from tests.compat.consumer_conversations import beat
from tests.compat.transaction_conversations import TransactionScript
from tests.kit.kafka import KafkaCluster
from tests.kit.plugin import require_kafka
from tests.kit.wire_client import WireClient

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def kafka() -> Iterator[WireClient]:
    require_kafka()
    with KafkaCluster() as running, WireClient(*running.addresses[0]) as client:
        yield client


@pytest.fixture(scope="module")
def ours() -> Iterator[WireClient]:
    config = {"offsets.topic.num.partitions": 4}  # as in the kit's Kafka
    with EmbeddedCluster(config=config) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            yield client


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    assert list(ours) == list(theirs)
    return {
        title: {"ours": ours[title], "Kafka": theirs[title]}
        for title in theirs
        if ours[title] != theirs[title]
    }


def test_transactions_are_answered_as_by_kafka(ours: WireClient, kafka: WireClient) -> None:
    assert not differences(TransactionScript(ours).run(), TransactionScript(kafka).run())


def test_group_version_0_turns_the_consumer_protocol_off(
    ours: WireClient, kafka: WireClient
) -> None:
    for client in (kafka, ours):
        change = FeatureUpdateKey("group.version", 0, upgrade_type=2)
        client.ask(UpdateFeaturesRequest(60_000, (change,)), Response, 1)
        # Kafka's broker learns of the new level after its controller has answered.
        answer = client.ask(beat("g", "m", 0), ConsumerGroupHeartbeatResponse, 1)
        while client is kafka and answer.error_code != ErrorCode.UNSUPPORTED_VERSION:
            answer = client.ask(beat("g", "m", 0), ConsumerGroupHeartbeatResponse, 1)
        assert answer == ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
