"""The pipeline on the embedded cluster, also with a broker that dies; test_source_kafka.py has Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from pyspark.sql import SparkSession

from coterie.client import AdminClient, TopicPartition
from coterie.error_codes import ErrorCode
from coterie.errors import CoterieError
from coterie.spark.marts import make_mart
from coterie.spark.pipeline.build import inputs_of
from coterie.spark.pipeline.frames import read_table
from coterie.spark.pipeline.gaps import known_gaps
from coterie.spark.pipeline.ingest import ingest
from coterie.spark.pipeline.origin import ClusterOrigin
from coterie.spark.pipeline.query import run_query
from coterie.spark.pipeline.report.figures import FIGURES
from coterie.spark.pipeline.snapshot import snapshot
from coterie.spark.pipeline.store import TableStore
from coterie.testing import EmbeddedCluster
from tests.spark.pipeline_kit import must_agree, pipeline
from tests.unit.spark.tables import rows_of

HOSTILE = "<img src=x onerror=alert(1)>'; DROP TABLE groups; --"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2) as running:
        running.create_topic("orders", partitions=4)
        running.scene("stable_group", "billing", topic="orders", members=2)
        running.scene("lagging_group", "reports", topic="orders", lag=50)
        running.scene("empty_group", HOSTILE, topic="orders", offset=0)
        with AdminClient.connect(bootstrap_servers=running.bootstrap_servers) as admin:
            place = TopicPartition("orders", 1)
            for offset in (40, 15):
                admin.alter_offsets({HOSTILE: {place: offset}}).unwrap()
        yield running


def test_run_on_the_embedded_cluster(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    where = ("--bootstrap-server", cluster.bootstrap_servers, "--out", tmp_path)
    done = pipeline("run", *where)
    assert done.exit_code == 0, done.output
    assert "3 groups" in done.output
    must_agree(tmp_path, {HOSTILE, "billing", "reports"})
    assert pipeline("ingest", *where).output == "log: nothing new\n"
    assert pipeline("snapshot", *where).exit_code == 0
    store = TableStore(tmp_path)
    assert len({row["snapshot_id"] for row in rows_of(store, "groups")}) == 2
    _, rows = run_query(
        spark, store, "SELECT group_id, state, total_lag FROM group_summary ORDER BY group_id"
    )
    assert [tuple(row)[:2] for row in rows] == [
        (HOSTILE, "Empty"),
        ("billing", "Stable"),
        ("reports", "Empty"),
    ]
    assert rows[2][2] == 4 * 50
    [reset] = rows_of(store, "offset_resets")
    assert (reset["group_id"], reset["from_offset"], reset["to_offset"]) == (HOSTILE, 40, 15)
    assert reset["by"] == "administrator"
    assert "<img" not in (tmp_path / "report" / "report.html").read_text()


def test_a_snapshot_is_taken_once(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    settings = {"bootstrap.servers": cluster.bootstrap_servers}
    first = snapshot(store, settings, snapshot_id="nightly")
    again = snapshot(store, settings, snapshot_id="nightly")
    assert (first.is_new, again.is_new, again.taken_at) == (True, False, first.taken_at)
    assert len(rows_of(store, "groups")) == 3
    assert len(rows_of(store, "end_offsets")) == 4
    with EmbeddedCluster() as other, pytest.raises(CoterieError, match="choose another --out"):
        snapshot(store, {"bootstrap.servers": other.bootstrap_servers})


def test_an_id_that_nobody_chose_is_none_to_choose(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    store = TableStore(tmp_path)
    settings = {"bootstrap.servers": cluster.bootstrap_servers}
    taken = snapshot(store, settings)
    with pytest.raises(CoterieError, match="looks like an id that was not chosen"):
        snapshot(store, settings, snapshot_id=taken.snapshot_id)
    with pytest.raises(CoterieError, match="--snapshot-id is empty"):
        snapshot(store, settings, snapshot_id=" ")


def test_the_log_of_another_cluster_is_refused_where_a_snapshot_is(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    store = TableStore(tmp_path)
    snapshot(store, {"bootstrap.servers": cluster.bootstrap_servers})
    with EmbeddedCluster() as other, pytest.raises(CoterieError, match="choose another --out"):
        ingest(spark, store, ClusterOrigin({"bootstrap.servers": other.bootstrap_servers}))


def test_where_no_group_is_left_none_is_shown(spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=1)
        cluster.scene("empty_group", "last", topic="orders", offset=0)
        settings = {"bootstrap.servers": cluster.bootstrap_servers}
        store = TableStore(tmp_path)
        snapshot(store, settings)
        with AdminClient.connect(settings) as admin:
            admin.delete_groups(["last"]).unwrap()
        snapshot(store, settings)
        with store.write() as transaction:
            found = inputs_of(spark, transaction, ("groups", "offsets", "end_offsets"))
        counts = {name: frame.count() for name, frame in found.tables.items()}
        assert counts == {"groups": 0, "offsets": 0, "end_offsets": 2}


def test_a_transaction_that_hangs_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=1)
        cluster.scene("empty_group", "billing", topic="orders", offset=0)
        where = {"bootstrap.servers": cluster.bootstrap_servers}
        producer = Producer({**where, "transactional.id": "slow", "log_level": 0})
        consumer = Consumer({**where, "group.id": "slow", "log_level": 0})
        producer.init_transactions(30)
        producer.begin_transaction()
        places = [Place("orders", 0, 7)]
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 30)
        store = TableStore(tmp_path)
        first = ingest(spark, store, ClusterOrigin(where)).waiting
        assert len(first) == 1
        # Nothing is new, and that is not all there is to say.
        assert ingest(spark, store, ClusterOrigin(where)).waiting == first
        trouble = next(each.sql for each in FIGURES if each.name == "trouble")
        names, [values] = run_query(spark, store, trouble)
        row = dict(zip(names, values, strict=True))
        [(partition, offset)] = first.items()
        assert (row["what"], row["place"]) == ("held back", f"partition {partition} of the log")
        assert row["reason"] == f"waits at offset {offset} for the end of a transaction"
        producer.abort_transaction(30)
        consumer.close()
        assert ingest(spark, store, ClusterOrigin(where)).waiting == {}
        assert known_gaps(store) == []


def test_a_snapshot_needs_no_permission_for_the_log(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    cluster.inject("Fetch", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=None)
    try:
        where = {"bootstrap.servers": cluster.bootstrap_servers}
        assert not snapshot(TableStore(tmp_path), where, strict=True).errors
    finally:
        cluster.clear_faults()


def test_a_dead_broker_is_named_and_the_rest_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("orders", partitions=2)
        for number in range(4):
            cluster.scene("empty_group", f"idle-{number}", topic="orders", offset=0)
        where = {"bootstrap.servers": cluster.bootstrap_servers}
        settings = {**where, "default.api.timeout.ms": "500"}
        store = TableStore(tmp_path)
        cluster.pause_broker(2)
        taken = snapshot(store, settings)
        assert taken.errors
        assert any(row["scope"] == "broker" for row in rows_of(store, "errors"))
        with pytest.raises(CoterieError, match="is not whole, and was not kept"):
            snapshot(store, settings, strict=True)
        assert len({row["snapshot_id"] for row in rows_of(store, "errors")}) == 1
        cluster.resume_broker(2)
        assert ingest(spark, store, ClusterOrigin(where)).failures == {}
        # The log has those of whom the broker did not tell.
        names = ("commits", "group_events", "groups", "errors")
        now = make_mart("groups_now", {name: read_table(spark, store, name) for name in names})
        told = {row["group_id"] for row in rows_of(store, "groups")}
        found = {row.group_id for row in now.collect()}
        assert told < found == {f"idle-{number}" for number in range(4)}
