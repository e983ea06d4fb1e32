"""Reassignments, elections, log directories and unregistered brokers of the embedded cluster."""

from __future__ import annotations

from pathlib import Path

from coterie.error_codes import ErrorCode
from coterie.protocol.group_state import partition_for
from coterie.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.protocol.messages.controller import UnregisterBrokerRequest, UnregisterBrokerResponse
from coterie.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicPartitions,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from coterie.protocol.types import Uuid
from coterie.testing import EmbeddedCluster
from tests.integration.server.talk import batch_of, connect, partitions, place, produce
from tests.kit.wire_client import WireClient


def reassign(client: WireClient, topic: str, *replicas: int) -> int:
    rows = (ReassignablePartition(0, replicas or None),)
    request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(topic, rows),))
    answer = client.ask(request, AlterPartitionReassignmentsResponse)
    return answer.responses[0].partitions[0].error_code


def moves(client: WireClient) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    answer = client.ask(ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse)
    return [
        (topic.name, each.adding_replicas, each.removing_replicas)
        for topic in answer.topics
        for each in topic.partitions
    ]


def log_dir(client: WireClient) -> DescribeLogDirsResult:
    (result,) = client.ask(DescribeLogDirsRequest(None), DescribeLogDirsResponse).results
    return result


def test_a_moved_partition_keeps_its_data_also_after_a_restart(tmp_path: Path) -> None:
    with EmbeddedCluster(3, data_dir=tmp_path) as cluster, connect(cluster, 1) as client:
        place(client, "topic", (1, 2))
        assert produce(client, ("topic", Uuid.ZERO), batch_of(b"a"), version=12).error_code == 0
        assert reassign(client, "topic", 3) == 0
        assert moves(client) == []
        (row,) = partitions(client, "topic")
        assert (row.leader_id, row.replica_nodes, row.isr_nodes) == (3, (3,), (3,))
        elsewhere = produce(client, ("topic", Uuid.ZERO), batch_of(b"b"), version=12)
        assert elsewhere.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    with EmbeddedCluster(3, data_dir=tmp_path) as cluster, connect(cluster, 3) as client:
        assert partitions(client, "topic")[0].replica_nodes == (3,)
        assert produce(client, ("topic", Uuid.ZERO), batch_of(b"b"), version=12).base_offset == 1


def test_a_move_to_a_broker_that_is_down_ends_when_it_returns() -> None:
    with EmbeddedCluster(3) as cluster, connect(cluster, 1) as client:
        place(client, "topic", (1, 2))
        cluster.kill_broker(3)
        assert reassign(client, "topic", 3, 1) == 0
        assert moves(client) == [("topic", (3,), (2,))]
        assert reassign(client, "topic") == 0
        assert reassign(client, "topic") == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert reassign(client, "topic", 3, 1) == 0
        cluster.start_broker(3)
        assert moves(client) == []
        (row,) = partitions(client, "topic")
        assert (row.leader_id, row.replica_nodes, row.isr_nodes) == (3, (3, 1), (1, 3))


def test_an_unclean_election_takes_any_live_replica() -> None:
    with EmbeddedCluster(3) as cluster, connect(cluster, 1) as client:
        place(client, "topic", (2, 3))
        for node_id in (2, 3):
            cluster.kill_broker(node_id)
        request = ElectLeadersRequest(1, (ElectLeadersTopicPartitions("topic", (0,)),))

        def elect() -> int:
            answer = client.ask(request, ElectLeadersResponse)
            return answer.replica_election_results[0].partition_result[0].error_code

        assert elect() == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        cluster.start_broker(2)
        assert partitions(client, "topic")[0].leader_id == -1
        assert elect() == 0
        (row,) = partitions(client, "topic")
        assert (row.leader_id, row.isr_nodes) == (2, (2,))


def test_the_coordinator_moves_with_its_partition() -> None:
    with EmbeddedCluster(3) as cluster, connect(cluster, 1) as client:
        cluster.scene("empty_group", "group")
        before = cluster.coordinator_of("group")
        to = 1 + before % 3
        index = partition_for("group", 50)
        rows = (ReassignablePartition(index, (to,)),)
        request = AlterPartitionReassignmentsRequest(
            topics=(ReassignableTopic("__consumer_offsets", rows),)
        )
        client.ask(request, AlterPartitionReassignmentsResponse)
        found = client.ask(
            FindCoordinatorRequest(coordinator_keys=("group",)), FindCoordinatorResponse
        )
        assert found.coordinators[0].node_id == to


def test_log_directories_show_the_size_of_every_replica(tmp_path: Path) -> None:
    with EmbeddedCluster(2, data_dir=tmp_path) as cluster, connect(cluster, 1) as client:
        place(client, "both", (1, 2))
        place(client, "one", (1,))
        batch = batch_of(b"a" * 100)
        produce(client, ("both", Uuid.ZERO), batch, version=12)
        shown = log_dir(client)
        assert shown.log_dir == str(tmp_path / "broker-1")
        assert 0 < shown.usable_bytes < shown.total_bytes
        assert [each.name for each in shown.topics] == ["both", "one"]
        with connect(cluster, 2) as other:
            (topic,) = log_dir(other).topics
        assert topic.partitions[0].partition_size == len(batch.encode())
        here = AlterReplicaLogDir(shown.log_dir, (AlterReplicaLogDirTopic("one", (0,)),))
        request = AlterReplicaLogDirsRequest((here,))
        moved = client.ask(request, AlterReplicaLogDirsResponse)
        assert moved.results[0].partitions[0].error_code == 0


def test_without_a_disk_its_size_is_unknown() -> None:
    with EmbeddedCluster() as cluster, connect(cluster, 1) as client:
        shown = log_dir(client)
        assert (shown.log_dir, shown.total_bytes) == ("/memory/broker-1", -1)


def test_a_live_broker_that_is_unregistered_is_out_until_it_restarts() -> None:
    with EmbeddedCluster(3) as cluster, connect(cluster, 1) as client:
        place(client, "topic", (2, 1))
        assert not client.ask(UnregisterBrokerRequest(2), UnregisterBrokerResponse).error_code
        (row,) = partitions(client, "topic")
        assert (row.leader_id, row.isr_nodes, row.offline_replicas) == (1, (1,), (2,))
        again = client.ask(UnregisterBrokerRequest(2), UnregisterBrokerResponse)
        assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        cluster.stop_broker(2)
        cluster.start_broker(2)
        assert partitions(client, "topic")[0].isr_nodes == (1, 2)
