"""Replicas, in-sync replicas and elections, as clients of a cluster of three brokers see them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.error_codes import ErrorCode
from coterie.errors import CoterieError
from coterie.protocol.messages.cluster import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
)
from coterie.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from coterie.protocol.types import Uuid
from coterie.server.cluster import Cluster
from coterie.server.metadata.replicas import place_replicas
from coterie.testing import EmbeddedCluster
from tests.integration.server.talk import batch_of, connect, metadata, partitions, place, produce
from tests.kit.wire_client import WireClient


@pytest.fixture
def three() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, config={"default.replication.factor": 1}) as cluster:
        yield cluster


def create(
    client: WireClient, name: str, partitions: int = 1, factor: int = -1, **configs: str
) -> CreatableTopicResult:
    settings = tuple(
        CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()
    )
    wanted = CreatableTopic(name, partitions, factor, configs=settings)
    (result,) = client.ask(CreateTopicsRequest(topics=(wanted,)), CreateTopicsResponse).topics
    return result


def described(client: WireClient, name: str) -> DescribeTopicPartitionsResponsePartition:
    request = DescribeTopicPartitionsRequest(topics=(TopicRequest(name),))
    (topic,) = client.ask(request, DescribeTopicPartitionsResponse).topics
    return topic.partitions[0]


def test_replicas_are_spread_and_leaders_take_turns() -> None:
    placed = place_replicas(1, 7, 2, (1, 2, 3), (1, 2, 3))
    assert [each[0] for each in placed] == [2, 3, 1, 2, 3, 1, 2]
    assert all(len(set(each)) == 2 for each in placed)
    assert {tuple(each) for each in placed} == {
        (a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b
    }
    assert place_replicas(0, 2, 3, (1, 3), (1, 2, 3)) == [[1, 3, 2], [3, 1, 2]]
    assert place_replicas(5, 1, 1, (1,), (1,)) == [[1]]


def test_the_replication_factor_is_honoured(three: EmbeddedCluster) -> None:
    with connect(three, 1) as client:
        assert create(client, "default").replication_factor == 1
        assert create(client, "all", 3, 3).replication_factor == 3
        rows = partitions(client, "all")
        assert sorted(each.leader_id for each in rows) == [1, 2, 3]
        for each in rows:
            assert each.leader_id == each.replica_nodes[0]
            assert sorted(each.replica_nodes) == [1, 2, 3]
            assert each.isr_nodes == each.replica_nodes
        assert create(client, "many", 1, 4).error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        grow = CreatePartitionsRequest(topics=(CreatePartitionsTopic("all", 5, None),))
        assert not client.ask(grow, CreatePartitionsResponse).results[0].error_code
        assert {len(each.replica_nodes) for each in partitions(client, "all")} == {3}


def test_the_default_factor_is_a_setting() -> None:
    config = {"default.replication.factor": 2}
    with EmbeddedCluster(3, config=config) as cluster, connect(cluster, 1) as client:
        assert create(client, "two").replication_factor == 2
        assert metadata(client, "auto").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert len(partitions(client, "auto")[0].replica_nodes) == 2


def test_a_broker_that_is_down_can_be_a_replica(three: EmbeddedCluster) -> None:
    three.kill_broker(2)
    with connect(three, 1) as client:
        assert create(client, "new", 1, 3).error_code == 0
        (row,) = partitions(client, "new")
        assert row.replica_nodes[-1] == 2
        assert sorted(row.isr_nodes) == [1, 3]
        assert row.offline_replicas == (2,)


def test_the_isr_follows_the_brokers(three: EmbeddedCluster) -> None:
    with connect(three, 1) as client:
        place(client, "topic", (2, 1, 3), (3, 2, 1))
        three.kill_broker(2)
        first, second = partitions(client, "topic")
        assert first == MetadataResponsePartition(0, 0, 1, 1, (2, 1, 3), (1, 3), (2,))
        assert second == MetadataResponsePartition(0, 1, 3, 0, (3, 2, 1), (3, 1), (2,))
        old = metadata(client, "topic", version=0).partitions[0]
        assert (old.error_code, old.replica_nodes) == (ErrorCode.REPLICA_NOT_AVAILABLE, (1, 3))
        three.start_broker(2)
        first, second = partitions(client, "topic")
        assert first == MetadataResponsePartition(0, 0, 2, 2, (2, 1, 3), (1, 2, 3), ())
        assert second == MetadataResponsePartition(0, 1, 3, 0, (3, 2, 1), (1, 2, 3), ())


def test_leaders_stay_where_they_are_without_the_rebalance() -> None:
    config = {"auto.leader.rebalance.enable": "false"}
    with EmbeddedCluster(3, config=config) as cluster, connect(cluster, 1) as client:
        place(client, "topic", (2, 1))
        cluster.stop_broker(2)
        cluster.start_broker(2)
        assert partitions(client, "topic") == (
            MetadataResponsePartition(0, 0, 1, 1, (2, 1), (1, 2), ()),
        )


def test_a_partition_without_live_replicas_is_offline(three: EmbeddedCluster) -> None:
    with connect(three, 1) as client:
        place(client, "topic", (2,))
        three.kill_broker(2)
        error = ErrorCode.LEADER_NOT_AVAILABLE
        assert partitions(client, "topic") == (
            MetadataResponsePartition(error, 0, -1, 1, (2,), (), (2,)),
        )
        row = described(client, "topic")
        assert (row.error_code, row.leader_id, row.isr_nodes) == (0, -1, ())
        assert (row.eligible_leader_replicas, row.last_known_elr) == ((2,), (2,))
        refused = produce(client, ("topic", metadata(client, "topic").topic_id), batch_of(b"x"))
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        three.start_broker(2)
        assert partitions(client, "topic") == (
            MetadataResponsePartition(0, 0, 2, 2, (2,), (2,), ()),
        )
        assert described(client, "topic").last_known_elr == ()


def test_only_replicas_in_sync_lead_unless_unclean_elections_are_allowed(
    three: EmbeddedCluster,
) -> None:
    with connect(three, 1) as client:
        place(client, "clean", (2, 3))
        place(client, "unclean", (2, 3), unclean_leader_election_enable="true")
        three.kill_broker(2)
        three.kill_broker(3)
        three.start_broker(2)
        assert partitions(client, "clean")[0].leader_id == -1
        assert described(client, "clean").eligible_leader_replicas == (3,)
        (row,) = partitions(client, "unclean")
        assert (row.leader_id, row.isr_nodes) == (2, (2,))
        three.start_broker(3)
        assert partitions(client, "clean")[0].isr_nodes == (2, 3)


def test_acks_all_needs_enough_replicas_in_sync(three: EmbeddedCluster) -> None:
    with connect(three, 1) as client:
        place(client, "topic", (1, 2, 3), min_insync_replicas="3")
        place(client, "small", (1,), min_insync_replicas="3")
        topic, small = (("topic", Uuid.ZERO), ("small", Uuid.ZERO))
        assert produce(client, topic, batch_of(b"x"), version=12).error_code == 0
        assert produce(client, small, batch_of(b"x"), version=12).error_code == 0
        three.kill_broker(3)
        assert described(client, "topic").eligible_leader_replicas == (3,)
        refused = produce(client, topic, batch_of(b"x"), version=12)
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (refused.base_offset, refused.log_start_offset) == (-1, 0)
        assert produce(client, topic, batch_of(b"x"), acks=1, version=12).error_code == 0
        three.start_broker(3)
        assert produce(client, topic, batch_of(b"x"), version=12).base_offset == 2


def test_min_insync_replicas_of_the_broker() -> None:
    with (
        EmbeddedCluster(2, config={"min.insync.replicas": 2}) as cluster,
        connect(cluster, 1) as client,
    ):
        place(client, "topic", (1, 2))
        cluster.kill_broker(2)
        refused = produce(client, ("topic", Uuid.ZERO), batch_of(b"x"), version=12)
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS


def test_internal_topics_have_as_many_replicas_as_there_are_brokers_up_to_three(
    three: EmbeddedCluster,
) -> None:
    with connect(three, 1) as client:
        for name in ("__consumer_offsets", "__transaction_state"):
            missing = metadata(client, name)
            assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert missing.is_internal
            assert {len(each.replica_nodes) for each in partitions(client, name)} == {3}
        assert len(partitions(client, "__consumer_offsets")) == 50


def test_a_topic_id_wins_over_the_name(three: EmbeddedCluster) -> None:
    with connect(three, 1) as client:
        topic_id = create(client, "topic").topic_id
        assert metadata(client, "", topic_id=topic_id).name == "topic"
        nowhere = metadata(client, "", topic_id=Uuid(bytes(15) + b"\1"))
        assert nowhere.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_files_from_before_there_were_replicas(tmp_path: Path) -> None:
    with EmbeddedCluster(2, data_dir=tmp_path) as cluster:
        cluster.create_topic("topic", 2)
    file = tmp_path / "broker-1" / "cluster.json"
    saved = json.loads(file.read_text(encoding="utf-8"))
    for topic in saved["topics"]:
        topic["partitions"] = [
            {"preferred_leader": each["home"], "leader": each["leader"], "home": each["home"]}
            for each in topic["partitions"]
        ]
    del saved["unregistered"]
    file.write_text(json.dumps(saved), encoding="utf-8")
    with EmbeddedCluster(2, data_dir=tmp_path) as cluster, connect(cluster, 1) as client:
        rows = partitions(client, "topic")
        assert sorted(each.replica_nodes for each in rows) == [(1,), (2,)]
        assert all(each.isr_nodes == each.replica_nodes for each in rows)


def test_epochs_and_replicas_survive_a_restart(tmp_path: Path) -> None:
    with EmbeddedCluster(3, data_dir=tmp_path) as cluster, connect(cluster, 1) as client:
        place(client, "topic", (2, 1))
        cluster.kill_broker(2)
    with EmbeddedCluster(3, data_dir=tmp_path) as cluster, connect(cluster, 1) as client:
        (row,) = partitions(client, "topic")
        assert row == MetadataResponsePartition(0, 0, 2, 2, (2, 1), (1, 2), ())


def test_brokers_are_numbered_from_any_id(tmp_path: Path) -> None:
    with EmbeddedCluster(2, first_broker_id=0, data_dir=tmp_path) as cluster:
        host, port = cluster.bootstrap_servers.split(",")[0].split(":")
        with WireClient(host, int(port)) as client:
            answer = client.ask(MetadataRequest(topics=None), MetadataResponse)
            assert [each.node_id for each in answer.brokers] == [0, 1]
    for brokers, first in ((2, 1), (1, 0)):
        with pytest.raises(CoterieError, match="belongs to a cluster with brokers 0 to 1"):
            EmbeddedCluster(brokers, first_broker_id=first, data_dir=tmp_path).start()
    with EmbeddedCluster(3, first_broker_id=0, data_dir=tmp_path):
        pass
    with pytest.raises(CoterieError, match="broker ids start at 0"):
        Cluster(first_broker_id=-1)
