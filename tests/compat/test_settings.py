"""Settings are validated, changed and shown as Apache Kafka does it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from coterie.protocol.kafka_json import to_json
from coterie.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    ListConfigResourcesRequest,
)
from coterie.protocol.schema import Response
from coterie.server.settings.catalog import catalog
from coterie.testing import EmbeddedCluster
from tests.compat import setting
from tests.compat.settings_conversations import settings_questions
from tests.kit.kafka import KafkaCluster
from tests.kit.plugin import require_kafka
from tests.kit.wire_client import WireClient

pytestmark = pytest.mark.kafka

#: What differs between any two brokers, or from run to run.
_VOLATILE = {"throttleTimeMs", "topicId"}

#: Requests that return what a broker has applied of the controller's log.
_READS = (DescribeConfigsRequest, ListConfigResourcesRequest)
#: How long a broker of Kafka may take to apply a change.
_APPLIED_S = 60

#: Settings of brokers whose value or source differs here, with the reason.
DIFFERENT = {
    "advertised.listeners": "an address",
    "broker.id": "brokers count from 1",
    "controller.listener.names": "there is no listener of controllers",
    "controller.quorum.voters": "there is no quorum",
    "group.consumer.max.size": "1000: a client must not fill the memory",
    "group.max.size": "1000: a client must not fill the memory",
    "inter.broker.listener.name": "brokers share a process",
    "listener.security.protocol.map": "there is no listener of controllers",
    "listeners": "an address",
    "log.dirs": "a path",
    "max.connections": "10000: a client must not use up the files",
    "max.connections.per.ip": "1000: a client must not use up the files",
    "node.id": "brokers count from 1",
    "sasl.server.max.receive.size": "131072: less memory for strangers",
}


def steady(value: Any, broker: int) -> Any:
    """An answer without what may differ; `B` for the broker's id."""
    if isinstance(value, dict):
        kept = {key: steady(item, broker) for key, item in value.items() if key not in _VOLATILE}
        if kept.get("resourceName") == str(broker):
            kept["resourceName"] = "B"
        message = kept.get("errorMessage") or ""
        for word in ("expected", "Expected"):
            message = message.replace(f"{word} {broker}", f"{word} B")
        return kept | ({"errorMessage": message} if message else {})
    if isinstance(value, list):
        return sorted((steady(item, broker) for item in value), key=json.dumps)
    return value


def conversation(
    client: WireClient, broker: int, expected: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Every answer by its title; a request that only reads is repeated until its answer is as expected.

    Kafka's controller answers a change before its brokers have applied it, so a request that reads at
    once can still return the old value.
    """
    setting.create_topic(client)
    answers: dict[str, Any] = {}
    for title, request, version in settings_questions(broker):
        deadline = time.monotonic() + _APPLIED_S
        while True:
            answers[title] = steady(
                to_json(client.ask(request, Response, version), version), broker
            )
            if expected is None or answers[title] == expected[title]:
                break
            if not isinstance(request, _READS) or time.monotonic() > deadline:
                break
    return answers


def described(client: WireClient, broker: int) -> dict[str, Any]:
    resource = DescribeConfigsResource(4, str(broker), None)
    request = DescribeConfigsRequest((resource,), include_synonyms=True, include_documentation=True)
    answer = client.ask(request, DescribeConfigsResponse, 4)
    return {each.name: each for each in answer.results[0].configs}


@pytest.fixture(scope="module")
def kafka_client() -> Iterator[WireClient]:
    require_kafka()
    with KafkaCluster() as kafka, WireClient(*kafka.addresses[0]) as client:
        yield client


@pytest.fixture(scope="module")
def static(kafka_client: WireClient) -> dict[str, str]:
    """What the Kafka of the tests was started with, as far as it is not about its addresses."""
    found = described(kafka_client, 0).items()
    return {
        name: each.value
        for name, each in found
        if each.config_source == 4 and name not in DIFFERENT and name != "process.roles"
    }


def test_settings_are_changed_and_refused_as_by_kafka(
    kafka_client: WireClient, static: dict[str, str]
) -> None:
    with EmbeddedCluster(config=static) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            ours = conversation(client, 1)
    theirs = conversation(kafka_client, 0, ours)
    different = {
        title: {"ours": ours[title], "Kafka": theirs[title]}
        for title in theirs
        if ours[title] != theirs[title]
    }
    assert not different


def test_the_settings_of_a_broker_are_kafkas(
    kafka_client: WireClient, static: dict[str, str]
) -> None:
    theirs = described(kafka_client, 0)
    with EmbeddedCluster(config=static) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            ours = described(client, 1)
    shown = {name for name in ours if not name.startswith("coterie.")}
    assert shown == set(theirs)
    different = {name for name in theirs if ours[name] != theirs[name]}
    dynamic = {name for name in theirs if theirs[name].config_source in (2, 3)}
    assert different - dynamic == set(DIFFERENT)


def test_the_catalog_has_every_setting_that_kafka_shows(kafka_client: WireClient) -> None:
    for name, entry in described(kafka_client, 0).items():
        known = catalog().broker[name]
        assert (known.wire_type, known.documentation) == (entry.config_type, entry.documentation)
