"""The source on the embedded cluster: fewer requests for narrower queries; streams that lose nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from coterie.client import AdminClient, TopicPartition
from coterie.datasets.schemas import DATASETS, LIVE
from coterie.error_codes import ErrorCode
from coterie.spark.errors import sentence
from coterie.testing import EmbeddedCluster
from tests.spark.engines import environment

JOB = Path(__file__).parent / "jobs" / "stream_job.py"
_PATIENCE_S = 240.0


@contextmanager
def world() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as running:
        running.create_topic("orders", partitions=4)
        running.scene("stable_group", "billing", topic="orders", members=2)
        running.scene("lagging_group", "reports", topic="orders", lag=50)
        for number in range(6):
            running.scene("empty_group", f"idle-{number}", topic="orders", offset=0)
        yield running


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Shared, so that tests only look at it."""
    with world() as running:
        yield running


@pytest.fixture
def busy_cluster() -> Iterator[EmbeddedCluster]:
    """A test's own, to commit to."""
    with world() as running:
        yield running


def load(spark: SparkSession, cluster: EmbeddedCluster, dataset: str, **options: str) -> DataFrame:
    reader = spark.read.format("coterie").option("bootstrap.servers", cluster.bootstrap_servers)
    return reader.options(**options).load(dataset)


def test_every_dataset_can_be_read(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    found = {name: load(spark, cluster, name).count() for name in DATASETS}
    assert found["groups"] == 8
    assert (found["members"], found["assignments"]) == (2, 4)
    assert found["offsets"] == 4 * 8
    assert found["end_offsets"] == 4
    assert found["errors"] == 0
    assert found["commits"] == 4 * 7
    assert found["log"] == found["commits"] + found["group_events"]
    assert set(found) > set(LIVE)


@pytest.mark.parametrize(
    ("condition", "groups", "most"),
    [
        ("state = 'Stable'", ["billing"], {"ListGroups": 3, "DescribeGroups": 1}),
        ("state IN ('Stable', 'Dead') AND type = 'classic'", ["billing"], {"DescribeGroups": 1}),
        ("group_id = 'reports'", ["reports"], {"ListGroups": 0, "DescribeGroups": 1}),
        (
            "group_id IN ('idle-1', 'idle-2', 'nobody')",
            ["idle-1", "idle-2"],
            {"ListGroups": 0, "DescribeGroups": 3},
        ),
        ("group_id LIKE 'rep%'", ["reports"], {"DescribeGroups": 1}),
        ("group_id RLIKE 'ports$'", ["reports"], {"ListGroups": 3}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_filters_narrow_the_requests(
    spark: SparkSession,
    cluster: EmbeddedCluster,
    condition: str,
    groups: list[str],
    most: dict[str, int],
) -> None:
    before = {api: cluster.requests(api) for api in most}
    rows = load(spark, cluster, "groups").where(condition).collect()
    assert sorted(row.group_id for row in rows) == groups
    for api, limit in most.items():
        assert cluster.requests(api) - before[api] <= limit, api


def test_a_group_that_may_not_be_seen(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    cluster.inject(
        "DescribeGroups",
        error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
        times=None,
        match="billing",
    )
    try:
        with pytest.raises(PySparkException) as caught:
            load(spark, cluster, "groups", groups="billing").collect()
        allowed = load(spark, cluster, "groups", groups="billing", partial="allow").collect()
        (error,) = load(spark, cluster, "errors", groups="billing").collect()
    finally:
        cluster.clear_faults()
    said = sentence(caught.value)
    assert said is not None
    assert "billing" in said
    assert "GROUP_AUTHORIZATION_FAILED" in said
    assert allowed == []
    assert (error.scope, error.name) == ("group", "billing")


@pytest.mark.parametrize("api", ["ListOffsets", "Fetch"])
def test_a_log_that_may_not_be_read(
    spark: SparkSession, cluster: EmbeddedCluster, api: str
) -> None:
    cluster.inject(api, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=None)
    try:
        with pytest.raises(PySparkException) as caught:
            load(spark, cluster, "commits").collect()
        assert load(spark, cluster, "commits", partial="allow").collect() == []
        lost = {row.name for row in load(spark, cluster, "errors").collect()}
    finally:
        cluster.clear_faults()
    said = str(sentence(caught.value))
    assert "READ and DESCRIBE on topic __consumer_offsets" in said
    assert "option partial=allow gives what there is" in said
    assert any(name.startswith("__consumer_offsets-") for name in lost)


def test_a_stream_goes_on_where_it_was_when_it_was_killed(
    spark: SparkSession, busy_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    cluster = busy_cluster
    commit_many(cluster, rounds=8)
    with (tmp_path / "job.log").open("wb") as log:
        job = subprocess.Popen(
            [sys.executable, str(JOB), cluster.bootstrap_servers, str(tmp_path)],
            stdout=log,
            stderr=log,
            env=environment(),
            start_new_session=True,
        )
    try:
        await_batches(tmp_path / "checkpoint", 2, job)
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    commit_many(cluster, rounds=2)
    written = drain(spark, cluster, tmp_path)
    expected = load(spark, cluster, "commits").select("partition", "offset")
    assert sorted(map(tuple, written.select("partition", "offset").collect())) == sorted(
        map(tuple, expected.collect())
    )
    assert drain(spark, cluster, tmp_path).count() == written.count()


def commit_many(cluster: EmbeddedCluster, rounds: int) -> None:
    with AdminClient.connect(bootstrap_servers=cluster.bootstrap_servers) as admin:
        for offset in range(rounds):
            wanted = {TopicPartition("orders", index): offset for index in range(4)}
            admin.alter_offsets({f"idle-{number}": wanted for number in range(6)}).unwrap()


def await_batches(checkpoint: Path, count: int, job: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while len(list(checkpoint.glob("commits/[0-9]*"))) < count:
        assert job.poll() is None, (checkpoint.parent / "job.log").read_text()[-2000:]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def drain(spark: SparkSession, cluster: EmbeddedCluster, directory: Path) -> DataFrame:
    """Stream what is there and end; then what was written."""
    query = (
        spark.readStream.format("coterie")
        .option("bootstrap.servers", cluster.bootstrap_servers)
        .option("maxOffsetsPerTrigger", "100")
        .load("commits")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(directory / "rows"))
    )
    query.awaitTermination()
    assert query.exception() is None
    assert all(each["numInputRows"] <= 100 for each in query.recentProgress)
    return spark.read.parquet(str(directory / "rows"))


@pytest.mark.breaks("I9", reason="Spark's worker prints a traceback of its own after our sentence")
def test_a_live_dataset_is_no_stream(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    stream = spark.readStream.format("coterie").option("bootstrap.servers", "127.0.0.1:1")
    checkpointed = stream.load("groups").writeStream.format("noop")
    with pytest.raises(PySparkException) as caught:
        checkpointed.start().awaitTermination()
    assert "is no stream" in str(sentence(caught.value))
