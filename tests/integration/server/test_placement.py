"""Manual placement of new partitions: whom they are given to, and what is refused in Kafka's words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from coterie.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from coterie.server.metadata.replicas import BadPlacement, check_placement
from coterie.testing import EmbeddedCluster
from tests.kit.wire_client import WireClient


@pytest.fixture
def client() -> Iterator[WireClient]:
    with EmbeddedCluster(3) as cluster:
        host, port = cluster.bootstrap_servers.split(",")[0].split(":")
        with WireClient(host, int(port)) as connected:
            yield connected


def create(client: WireClient, *placed: tuple[int, Sequence[int]]) -> CreatableTopicResult:
    wanted = tuple(CreatableReplicaAssignment(index, tuple(ids)) for index, ids in placed)
    request = CreateTopicsRequest(topics=(CreatableTopic("topic", -1, -1, wanted),))
    (result,) = client.ask(request, CreateTopicsResponse, 7).topics
    return result


def leaders(client: WireClient) -> list[int]:
    request = MetadataRequest(topics=(MetadataRequestTopic(name="topic"),))
    (topic,) = client.ask(request, MetadataResponse, 12).topics
    return [each.leader_id for each in topic.partitions]


def test_partitions_go_where_they_are_wanted(client: WireClient) -> None:
    assert create(client, (1, (2, 1)), (0, (3, 1))).error_code == ErrorCode.NONE
    assert leaders(client) == [3, 2]
    placed = (CreatePartitionsAssignment((2, 3)), CreatePartitionsAssignment((2, 1)))
    grow = CreatePartitionsRequest(topics=(CreatePartitionsTopic("topic", 4, placed),))
    assert client.ask(grow, CreatePartitionsResponse, 3).results[0].error_code == ErrorCode.NONE
    assert leaders(client) == [3, 2, 2, 2]


@pytest.mark.parametrize(
    ("placed", "says"),
    [
        ([(0, (1, 1))], "the broker 1 more than once"),
        ([(0, (1,)), (1, (2, 3))], "which have 1 replica(s)"),
        ([(0, (1,)), (0, (1,))], "multiple manual partition assignments for partition 0"),
        ([(0, (1,)), (2, (1,))], "consecutive 0-based"),
        ([(0, (-1,))], "broker -1, but no such broker"),
    ],
)
def test_placements_that_cannot_be(
    client: WireClient, placed: list[tuple[int, Sequence[int]]], says: str
) -> None:
    refused = create(client, *placed)
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert says in (refused.error_message or "")


def test_brokers_that_are_down() -> None:
    assert check_placement([(2, 1)], 0, (1, 2), (1,)) == [(2, 1)]
    with pytest.raises(BadPlacement, match="partition 5 are fenced"):
        check_placement([(2,)], 5, (1, 2), (1,))
