"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from __future__ import annotations

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.messages.data import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from coterie.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from coterie.protocol.types import Uuid
from tests.integration.server.background import BackgroundCluster
from tests.integration.server.talk import batch_of, fetch, list_offset, new_topic, produce
from tests.kit.wire_client import WireClient

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING = -1, -2, -3, -4, -5, -6


@pytest.fixture
def topic(client: WireClient) -> tuple[str, Uuid]:
    """Timestamps 1000, 3000, 2000 at offsets 0, 1, 2."""
    made = new_topic(client)
    for timestamp in (1000, 3000, 2000):
        produce(client, made, batch_of(b"a", timestamp=timestamp))
    return made


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (LATEST, (3, -1, 0)),
        (EARLIEST, (0, -1, 0)),
        (MAX_TIMESTAMP, (1, 3000, 0)),
        (EARLIEST_LOCAL, (0, -1, 0)),
        (LATEST_TIERED, (-1, -1, -1)),
        (PENDING, (-1, -1, -1)),
        (0, (0, 1000, 0)),
        (1001, (1, 3000, 0)),
        (3001, (-1, -1, -1)),
    ],
)
def test_list_offsets(
    client: WireClient, topic: tuple[str, Uuid], timestamp: int, found: tuple[int, int, int]
) -> None:
    answer = list_offset(client, topic, timestamp)
    assert answer.error_code == 0
    assert (answer.offset, answer.timestamp, answer.leader_epoch) == found


def test_every_version_of_list_offsets(client: WireClient, topic: tuple[str, Uuid]) -> None:
    assert client.versions(ApiKey.LIST_OFFSETS) == list(range(1, 12))
    for version in client.versions(ApiKey.LIST_OFFSETS):
        assert list_offset(client, topic, LATEST, version=version).offset == 3


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (PENDING, 10), (-7, 11)],
)
def test_questions_of_later_versions(
    client: WireClient, topic: tuple[str, Uuid], timestamp: int, version: int
) -> None:
    answer = list_offset(client, topic, timestamp, version=version)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_list_offsets_of_nothing(client: WireClient) -> None:
    empty = new_topic(client)
    assert list_offset(client, empty, MAX_TIMESTAMP).offset == -1
    assert list_offset(client, empty, EARLIEST).offset == 0
    unknown = list_offset(client, ("nowhere", Uuid.ZERO), LATEST)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def epoch_end(client: WireClient, topic: tuple[str, Uuid], epoch: int) -> tuple[int, int]:
    asked = OffsetForLeaderTopic(topic[0], (OffsetForLeaderPartition(0, leader_epoch=epoch),))
    results = [
        client.ask(
            OffsetForLeaderEpochRequest(topics=(asked,)), OffsetForLeaderEpochResponse, version
        )
        .topics[0]
        .partitions[0]
        for version in client.versions(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    ]
    assert len(results) == 3
    assert {each.error_code for each in results} == {0}
    (only,) = {(each.leader_epoch, each.end_offset) for each in results}
    return only


def test_where_leader_epochs_end() -> None:
    with BackgroundCluster(brokers=2) as cluster, WireClient(*cluster.address(1)) as client:
        topic = new_topic(client, replicas=2)
        if cluster.leaders(topic[0]) == [2]:  # leaders take turns
            topic = new_topic(client, replicas=2)
        produce(client, topic, batch_of(b"a", b"b"))
        assert epoch_end(client, topic, 0) == (0, 2)
        assert epoch_end(client, topic, 1) == (-1, -1)
        for step in (cluster.cluster.kill_broker, cluster.cluster.start_broker):
            cluster.run(step(1))
        with WireClient(*cluster.address(1)) as again:
            assert epoch_end(again, topic, 0) == (0, 2)
            produce(again, topic, batch_of(b"c"))
            assert epoch_end(again, topic, 0) == (0, 2)
            assert epoch_end(again, topic, 1) == (0, 2)
            assert epoch_end(again, topic, 2) == (2, 3)


def delete_before(
    client: WireClient, topic: str, offset: int, version: int = 2
) -> DeleteRecordsPartitionResult:
    request = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(topic, (DeleteRecordsPartition(0, offset),)),)
    )
    return client.ask(request, DeleteRecordsResponse, version).topics[0].partitions[0]


def test_delete_records(client: WireClient, topic: tuple[str, Uuid]) -> None:
    assert delete_before(client, topic[0], 1, version=0) == DeleteRecordsPartitionResult(0, 1)
    assert list_offset(client, topic, EARLIEST).offset == 1
    assert fetch(client, topic, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete_before(client, topic[0], 0, version=1).low_watermark == 1
    beyond = delete_before(client, topic[0], 4)
    assert (beyond.error_code, beyond.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_before(client, topic[0], -1).low_watermark == 3


def test_records_that_must_not_be_deleted(cluster: BackgroundCluster, client: WireClient) -> None:
    name, _ = new_topic(client, cleanup_policy="compact")
    assert delete_before(client, name, 0).error_code == ErrorCode.POLICY_VIOLATION
    cluster.ask(lambda c: c.partitions.offsets_partition("g"))
    internal = delete_before(client, "__consumer_offsets", 0)
    assert internal.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
