"""The pipeline on running clusters: the embedded one, with a broker that dies; and Apache Kafka 4.3.0."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coterie.client import AdminClient, TopicPartition
from coterie.errors import CoterieError
from coterie.spark.pipeline.ingest import ingest
from coterie.spark.pipeline.origin import ClusterOrigin
from coterie.spark.pipeline.query import run_query
from coterie.spark.pipeline.snapshot import snapshot
from coterie.spark.pipeline.store import TableStore
from coterie.testing import EmbeddedCluster
from tests.kit.kafka import KafkaCluster
from tests.spark.pipeline_kit import pipeline
from tests.unit.spark.tables import rows_of

HOSTILE = "<img src=x onerror=alert(1)>'; DROP TABLE groups; --"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2) as running:
        running.create_topic("orders", partitions=4)
        running.scene("stable_group", "billing", topic="orders", members=2)
        running.scene("lagging_group", "reports", topic="orders", lag=50)
        running.scene("empty_group", HOSTILE, topic="orders", offset=0)
        yield running


def test_run_on_the_embedded_cluster(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    where = ("--bootstrap-server", cluster.bootstrap_servers, "--out", tmp_path)
    done = pipeline("run", *where)
    assert done.exit_code == 0, done.output
    assert "3 groups" in done.output
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


def test_a_dead_broker_is_named_and_the_rest_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("orders", partitions=2)
        for number in range(4):
            cluster.scene("empty_group", f"idle-{number}", topic="orders", offset=0)
        settings = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "default.api.timeout.ms": "1000",
        }
        store = TableStore(tmp_path)
        cluster.pause_broker(2)
        taken = snapshot(store, settings)
        assert taken.errors
        assert any(row["scope"] == "broker" for row in rows_of(store, "errors"))
        with pytest.raises(CoterieError, match="is not whole, and was not kept"):
            snapshot(store, settings, strict=True)
        assert len({row["snapshot_id"] for row in rows_of(store, "errors")}) == 1
        cluster.resume_broker(2)
        assert ingest(spark, store, ClusterOrigin(settings)).failures == {}


def test_run_on_apache_kafka(spark: SparkSession, kafka: KafkaCluster, tmp_path: Path) -> None:
    prefix = f"pipeline-{uuid.uuid4().hex[:8]}"
    with AdminClient.connect(bootstrap_servers=kafka.bootstrap) as admin:
        admin.create_topics({prefix: 2}).unwrap()
        places = [TopicPartition(prefix, number) for number in (0, 1)]
        for group in (f"{prefix}-a", f"{prefix}-{HOSTILE}"):
            admin.alter_offsets({group: dict.fromkeys(places, 0)}, timeout=60).unwrap()
        done = pipeline("run", "--bootstrap-server", kafka.bootstrap, "--out", tmp_path)
        assert done.exit_code == 0, done.output
        live = {each.group_id for each in admin.list_groups()}
    document = json.loads((tmp_path / "report" / "report.json").read_text())
    assert document["source"].startswith("cluster ")
    names = "SELECT group_id FROM group_summary"
    _, rows = run_query(spark, TableStore(tmp_path), names)
    found = {str(name) for (name,) in rows}
    assert {name for name in live if name.startswith(prefix)} <= found
    mine = [row for row in rows_of(TableStore(tmp_path), "commits") if row["topic"] == prefix]
    assert len(mine) == 4
