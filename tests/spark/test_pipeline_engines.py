"""`coterie pipeline` on a Spark cluster: a master and two workers as processes; the tables of local[2]."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from coterie.spark import submit
from coterie.testing import EmbeddedCluster
from tests.spark.engines import SUBMIT, Standalone, environment
from tests.spark.pipeline_kit import Made, everything, pipeline

_PATIENCE_S = 300.0


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


def test_segment_files_through_spark_submit(
    spark: SparkSession, standalone: Standalone, made: Made, tmp_path: Path
) -> None:
    """The whole pipeline, with master and memory from spark-submit.

    What is there in the end is what is there after two runs that were killed and one with compiled plans.
    """
    out = tmp_path / "out"
    said = run(
        *(SUBMIT, "--master", standalone.master, "--executor-memory", "512m"),
        *(submit.__file__, "run", "--segments", made.segments, "--out", out),
    )
    assert said.replace(str(out), str(made.out)) == made.said
    assert everything(out) == everything(made.out)


def test_the_log_of_a_live_cluster_by_master(
    spark: SparkSession, standalone: Standalone, tmp_path: Path
) -> None:
    """The command starts the driver itself, and executors ask the brokers."""
    there, here = tmp_path / "there", tmp_path / "here"
    coterie = (sys.executable, "-c", "from coterie.cli.main import main; main()")
    with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("orders", partitions=4)
        cluster.scene("stable_group", "billing", topic="orders", members=2)
        cluster.scene("lagging_group", "reports", topic="orders", lag=50)
        where = ("--bootstrap-server", cluster.bootstrap_servers)
        run(*coterie, "pipeline", "ingest", *where, "--out", there, "--master", standalone.master)
        assert pipeline("ingest", *where, "--out", here).exit_code == 0
    found = everything(there)
    assert found["commits"]
    assert found["group_events"]
    assert found == everything(here)
