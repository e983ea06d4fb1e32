"""`coterie pipeline` on a Spark cluster: a master and two workers as processes; the tables of local[2]."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coterie.spark import submit
from coterie.testing import EmbeddedCluster
from tests.spark.engines import SUBMIT, Standalone, environment
from tests.spark.pipeline_kit import Made, everything, pipeline

_PATIENCE_S = 300.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2) as running:
        running.create_topic("orders", partitions=4)
        running.scene("stable_group", "billing", topic="orders", members=2)
        running.scene("lagging_group", "reports", topic="orders", lag=50)
        yield running


def run(*command: str | Path) -> str:
    """What a program said that a user started from a shell."""
    done = subprocess.run(
        [str(each) for each in command],
        check=False,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_segment_files_on_a_standalone_cluster(
    spark: SparkSession, standalone: Standalone, made: Made, tmp_path: Path
) -> None:
    """By `--master`, which starts the driver itself."""
    out = tmp_path / "out"
    coterie = (sys.executable, "-c", "from coterie.cli.main import main; main()")
    where = ("--segments", made.segments, "--out", out, "--master", standalone.master)
    said = run(*coterie, "pipeline", "run", *where)
    assert said.replace(str(out), str(made.out)) == made.said
    assert everything(out) == everything(made.out)


def test_a_live_cluster_through_spark_submit(
    spark: SparkSession, standalone: Standalone, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """The snapshot, the log and the marts of a running cluster, with master and memory from spark-submit."""
    out, again, other = (tmp_path / name for name in ("out", "again", "other"))
    where = ("--bootstrap-server", cluster.bootstrap_servers)
    said = run(
        *(SUBMIT, "--master", standalone.master, "--executor-memory", "512m"),
        *("--conf", "spark.ui.enabled=false"),
        *(submit.__file__, "run", *where, "--out", out),
    )
    assert "2 groups" in said
    tables = everything(out)
    assert tables["members"]
    # The same snapshot and the same log, built here.
    shutil.copytree(out, again)
    assert pipeline("build", "--out", again).exit_code == 0
    assert everything(again) == tables
    # The same log, read here.
    assert pipeline("ingest", *where, "--out", other).exit_code == 0
    for name, rows in everything(other).items():
        assert rows == tables[name], name
