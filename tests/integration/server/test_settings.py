"""Settings that change while a cluster runs take effect, and settings of a start are checked."""

from __future__ import annotations

import logging

import pytest

from coterie.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from coterie.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.server.metadata.topics import TopicMetadata
from coterie.server.settings.catalog import catalog
from coterie.server.settings.config import ConfigError, ServerConfig
from coterie.server.settings.topics import log_config
from coterie.testing import EmbeddedCluster
from tests.integration.server.background import BackgroundCluster
from tests.integration.server.talk import batch_of, fetch, new_topic, produce, values
from tests.kit.wire_client import WireClient

TOPIC, BROKER, GROUP = 2, 4, 32
MESSAGE_TOO_LARGE = 10


def change(client: WireClient, kind: int, name: str, setting: str, value: str | None) -> None:
    operation = 1 if value is None else 0
    resource = AlterConfigsResource(kind, name, (AlterableConfig(setting, operation, value),))
    request = IncrementalAlterConfigsRequest((resource,))
    (answer,) = client.ask(request, IncrementalAlterConfigsResponse).responses
    assert (answer.error_code, answer.error_message) == (0, None)


def shown(
    client: WireClient, kind: int, name: str, setting: str
) -> DescribeConfigsResourceResult | None:
    request = DescribeConfigsRequest((DescribeConfigsResource(kind, name, (setting,)),))
    found = client.ask(request, DescribeConfigsResponse).results[0].configs
    return found[0] if found else None


def test_a_broker_setting_is_the_default_of_topics(client: WireClient) -> None:
    topic = new_topic(client)
    big = batch_of(b"v" * 5_000)
    change(client, BROKER, "", "message.max.bytes", "1000")
    assert produce(client, topic, big).error_code == MESSAGE_TOO_LARGE
    entry = shown(client, TOPIC, topic[0], "max.message.bytes")
    assert entry is not None
    assert (entry.value, entry.config_source) == ("1000", 3)
    change(client, BROKER, "1", "message.max.bytes", "9000")
    assert produce(client, topic, big).error_code == 0
    change(client, BROKER, "1", "message.max.bytes", None)
    change(client, BROKER, "", "message.max.bytes", None)
    assert produce(client, topic, big).error_code == 0


def heartbeat_interval(client: WireClient, group: str) -> int:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="m" * 22,
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=("orders",),
        topic_partitions=(),
    )
    answer = client.ask(request, ConsumerGroupHeartbeatResponse)
    assert answer.error_code == 0
    return answer.heartbeat_interval_ms


def test_settings_of_a_group_reach_the_coordinator(
    cluster: BackgroundCluster, client: WireClient
) -> None:
    client.ask(FindCoordinatorRequest(coordinator_keys=("quick",)), FindCoordinatorResponse)
    assert heartbeat_interval(client, "quick") == 5_000
    change(client, GROUP, "quick", "consumer.heartbeat.interval.ms", "7000")
    assert heartbeat_interval(client, "quick") == 7_000
    assert heartbeat_interval(client, "usual") == 5_000
    change(client, GROUP, "quick", "consumer.heartbeat.interval.ms", None)
    assert heartbeat_interval(client, "quick") == 5_000


def test_compaction_follows_the_settings_of_the_cleaner() -> None:
    config = {"log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "3600000"}
    with EmbeddedCluster(config=config) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            topic = new_topic(
                client,
                cleanup_policy="compact",
                internal_segment_bytes="200",
                min_cleanable_dirty_ratio="0.01",
            )
            for number in range(20):
                assert produce(client, topic, batch_of(b"%d" % number)).error_code == 0
            while len(values(fetch(client, topic))) > 5:
                pass  # until the cleaner has run; the test's time limit ends a cluster that never does


def test_settings_without_effect_are_accepted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "coterie.server")
    with EmbeddedCluster(config={"num.io.threads": "3", "log.retention.ms": "5000"}) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            threads = shown(client, BROKER, "1", "num.io.threads")
            topic, _ = new_topic(client)
            retention = shown(client, TOPIC, topic, "retention.ms")
    assert threads is not None
    assert retention is not None
    assert (threads.value, threads.config_source) == ("3", 4)
    assert (retention.value, retention.config_source) == ("5000", 4)
    lines = [each.getMessage() for each in caplog.records if "no effect" in each.getMessage()]
    assert lines == ["settings that are accepted and have no effect here: num.io.threads"]


def test_a_stored_value_that_is_refused_now_does_not_stop_a_start() -> None:
    defaults = {name: each.default or "" for name, each in catalog().topic.items()}
    topic = TopicMetadata("old", bytes(16), [], {"segment.bytes": "200"})
    assert log_config(topic, defaults | {"internal.segment.bytes": ""}).segment_bytes == 200


def test_settings_that_kafka_does_not_know_are_an_error() -> None:
    with pytest.raises(ConfigError, match=r"no setting 'log\.retentoin\.ms'; did you mean"):
        ServerConfig.from_properties({"log.retentoin.ms": "5"})
    with pytest.raises(ConfigError, match="Not a number of type INT"):
        ServerConfig.from_properties({"num.io.threads": "many"})
