"""Every dataset and mart on Apache Kafka 4.3.0: classic, KIP-848, share and streams groups, transactions.

One scene is set once, and looked at through Spark by every dataset; the log by Fetch and from the broker's
own segment files, which must say the same.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from pyspark.sql import DataFrame, SparkSession

from coterie.client import AdminClient, TopicPartition
from coterie.datasets.schemas import LOG
from tests.compat.servers import Member, Server, join_share, join_streams
from tests.kit.kafka import KafkaCluster
from tests.spark.pipeline_kit import must_agree, pipeline

Rows = list[dict[str, Any]]


class Scene(NamedTuple):
    bootstrap: str
    segments: str
    prefix: str
    topic: str

    def group(self, kind: str) -> str:
        return f"{self.prefix}-{kind}"


@pytest.fixture(scope="module")
def scene(kafka: KafkaCluster) -> Iterator[Scene]:
    prefix = f"spark-{uuid.uuid4().hex[:8]}"
    set_up = Scene(kafka.bootstrap, str(kafka.log_dir(0)), prefix, f"{prefix}-topic")
    server = Server("4.3.0", kafka.bootstrap, 1)
    with AdminClient.connect(bootstrap_servers=kafka.bootstrap) as admin:
        admin.create_topics({set_up.topic: 2}).unwrap()
        produce(set_up)
        where = admin.find_coordinators([set_up.group("share"), set_up.group("streams")]).unwrap()
        for kind, join in {"share": join_share, "streams": join_streams}.items():
            node = where[set_up.group(kind)]
            joined(join, (node.host, node.port), set_up.group(kind), set_up.topic)
        with (
            Member(server, set_up.group("classic"), set_up.topic) as classic,
            Member(
                server, set_up.group("new"), set_up.topic, **{"group.protocol": "consumer"}
            ) as new,
        ):
            for consumer in (classic, new):
                consumer.commit(
                    offsets=[Place(set_up.topic, number, 3) for number in (0, 1)],
                    asynchronous=False,
                )
            transact(set_up, admin)
            for offset in (6, 2):
                places = {TopicPartition(set_up.topic, 0): offset}
                admin.alter_offsets({set_up.group("reset"): places}, timeout=60).unwrap()
            yield set_up


def joined(
    join: Callable[[tuple[str, int], str, str], None],
    address: tuple[str, int],
    group: str,
    topic: str,
) -> None:
    """Join by hand, which a coordinator refuses while it loads."""
    deadline = time.monotonic() + 60
    while True:
        try:
            join(address, group, topic)
        except AssertionError:
            assert time.monotonic() < deadline
        else:
            return


def produce(scene: Scene) -> None:
    producer = Producer({"bootstrap.servers": scene.bootstrap, "log_level": 0})
    for number in range(20):
        producer.produce(scene.topic, b"x", partition=number % 2)
    assert producer.flush(30) == 0


def transact(scene: Scene, admin: Any) -> None:
    """An aborted transaction, then a committed one, with offsets of a third group."""
    group = scene.group("txn")
    properties = {"bootstrap.servers": scene.bootstrap, "log_level": 0}
    consumer = Consumer({**properties, "group.id": group, "enable.auto.commit": False})
    producer = Producer({**properties, "transactional.id": scene.group("id")})
    producer.init_transactions(30)
    for offset, end in ((4, producer.abort_transaction), (5, producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(scene.topic, b"y", partition=0)
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([Place(scene.topic, 0, offset)], metadata, 30)
        end(30)
    consumer.close()
    # Kafka answers a commit before the coordinators have written it.
    deadline = time.monotonic() + 30
    while not admin.list_offsets([group])[group].offsets:
        assert time.monotonic() < deadline


def load(spark: SparkSession, scene: Scene, dataset: str, **options: str) -> DataFrame:
    where = options or {"bootstrap.servers": scene.bootstrap}
    frame = spark.read.format("coterie").options(**where).load(dataset)
    return frame.where(f"group_id LIKE '{scene.prefix}%'")


def rows(frame: DataFrame) -> Rows:
    found: Rows = frame.toArrow().to_pylist()
    return found


def test_groups_of_every_kind(spark: SparkSession, scene: Scene) -> None:
    found = {row["group_id"]: row for row in rows(load(spark, scene, "groups"))}
    kinds = {"classic": "classic", "new": "consumer", "share": "share", "streams": "streams"}
    kinds |= {"txn": "classic", "reset": "classic"}
    assert {scene.group(kind): wanted for kind, wanted in kinds.items()} == {
        name: row["type"] for name, row in found.items()
    }
    assert found[scene.group("classic")]["state"] == "Stable"
    assert found[scene.group("new")]["generation"] >= 1
    assert found[scene.group("new")]["assignor"] in {"uniform", "range"}
    only_new = load(spark, scene, "groups").where("type = 'consumer'")
    assert [row["group_id"] for row in rows(only_new)] == [scene.group("new")]


def test_members_assignments_and_offsets(spark: SparkSession, scene: Scene) -> None:
    members = {row["group_id"]: row for row in rows(load(spark, scene, "members"))}
    assert set(members) == {scene.group(kind) for kind in ("classic", "new", "share", "streams")}
    assert members[scene.group("new")]["subscription"] == [scene.topic]
    assert members[scene.group("new")]["member_epoch"] >= 1
    assignments = rows(load(spark, scene, "assignments"))
    for kind, targets in {"classic": {False}, "new": {False, True}}.items():
        mine = [row for row in assignments if row["group_id"] == scene.group(kind)]
        assert {row["target"] for row in mine} == targets
        assert {(row["topic"], row["partition"]) for row in mine} == {
            (scene.topic, 0),
            (scene.topic, 1),
        }
    offsets = rows(load(spark, scene, "offsets").where(f"topic = '{scene.topic}'"))
    for kind in ("classic", "new"):
        mine = [row for row in offsets if row["group_id"] == scene.group(kind)]
        assert [row["committed_offset"] for row in mine] == [3, 3]
        assert all(row["lag"] == row["log_end"] - 3 for row in mine)
        assert {row["client_id"] for row in mine} == {"rdkafka"}
    (txn,) = (row for row in offsets if row["group_id"] == scene.group("txn"))
    assert txn["committed_offset"] == 5


def test_ends_and_errors(spark: SparkSession, scene: Scene) -> None:
    reader = spark.read.format("coterie").option("bootstrap.servers", scene.bootstrap)
    ends = reader.option("topics", scene.topic).load("end_offsets")
    assert {row.partition: row.log_end >= 10 for row in ends.collect()} == {0: True, 1: True}
    names = ",".join(scene.group(kind) for kind in ("classic", "new", "share", "txn"))
    assert reader.option("groups", names).load("errors").collect() == []


def test_commits_with_the_outcome_of_transactions(spark: SparkSession, scene: Scene) -> None:
    found = rows(load(spark, scene, "commits").orderBy("partition", "offset"))
    outcomes = [
        (row["committed_offset"], row["outcome"], row["producer_id"] is not None)
        for row in found
        if row["group_id"] == scene.group("txn")
    ]
    assert outcomes == [(4, "aborted", True), (5, "committed", True)]
    plain = [row for row in found if row["group_id"] == scene.group("new")]
    assert [(row["topic_partition"], row["committed_offset"]) for row in plain] == [(0, 3), (1, 3)]
    assert {row["outcome"] for row in plain} == {None}
    assert len({row["topic_id"] for row in plain} - {None}) == 1


def test_group_events_of_every_kind(spark: SparkSession, scene: Scene) -> None:
    found = rows(load(spark, scene, "group_events"))
    by_kind: dict[str, set[str]] = {}
    for row in found:
        by_kind.setdefault(row["group_type"], set()).add(row["record"])
    assert by_kind["classic"] == {"GroupMetadata"}
    assert {"ConsumerGroupMetadata", "ConsumerGroupMemberMetadata"} <= by_kind["consumer"]
    assert {"ShareGroupMetadata", "ShareGroupMemberMetadata"} <= by_kind["share"]
    assert {"StreamsGroupMetadata", "StreamsGroupTopology"} <= by_kind["streams"]
    generations = [row for row in found if row["group_id"] == scene.group("classic")]
    assert generations[-1]["members"][0]["subscription"] == [scene.topic]


@pytest.mark.parametrize("dataset", LOG)
def test_fetch_and_the_brokers_files_say_the_same(
    spark: SparkSession, scene: Scene, dataset: str
) -> None:
    fetched = rows(load(spark, scene, dataset).orderBy("partition", "offset"))
    files = rows(
        load(spark, scene, dataset, segments=scene.segments).orderBy("partition", "offset")
    )
    # Meanwhile a member may have come or gone: what was fetched is in the files, as it was fetched.
    written = {(row["partition"], row["offset"]): row for row in files}
    assert [written[row["partition"], row["offset"]] for row in fetched] == fetched
    assert fetched
    assert not any(row.get("reason") for row in fetched)


def test_every_mart(spark: SparkSession, scene: Scene, tmp_path: Path) -> None:
    """`coterie pipeline run` on all of it."""
    done = pipeline("run", "--bootstrap-server", scene.bootstrap, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    kinds = ("classic", "new", "share", "streams", "txn", "reset")
    rows = must_agree(tmp_path, {scene.group(kind) for kind in kinds})
    assert [
        (row["group_id"], row["from_offset"], row["to_offset"], row["by"])
        for row in rows["offset_resets"]
    ] == [(scene.group("reset"), 6, 2, "administrator")]
    document = json.loads((tmp_path / "report" / "report.json").read_text())
    assert document["source"].startswith("cluster ")
