"""kill -9 in the middle of ingest and of build, each in its own process; a rerun gives the same tables.

The processes also show that the command works without a session around it, with Spark's logs out of the way,
and through spark-submit.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from coterie.simulation import simulate
from coterie.spark import submit as job
from coterie.spark.pipeline.store import TableStore
from tests.spark.test_pipeline import everything, pipeline

#: Runs `coterie` and ends as kill -9 would at the n-th sync of the step that is named.
KILLED = """
import os, signal, sys
from coterie.spark.pipeline import catalog, {step}
left = [{number}]
real = os.fsync
def fsync(descriptor):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    real(descriptor)
begin = {step}.{step}
def counted(*arguments, **named):
    os.fsync = fsync
    return begin(*arguments, **named)
{step}.{step} = counted
from coterie.cli.main import main
main(sys.argv[1:])
"""


def run(step: str, number: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`coterie pipeline`, killed."""
    code = KILLED.format(step=step, number=number)
    return _process([sys.executable, "-c", code, "pipeline", *arguments, "--master", "local[2]"])


def submit(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The same through spark-submit."""
    script = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    return _process([str(script), "--master", "local[2]", job.__file__, *arguments])


def _process(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("SPARK_HOME", None)
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=300, env=environment
    )


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("killed") / "segments"
    simulate(root, groups=12, hours=2, seed=5, partitions=3)
    return root


def test_killed_in_ingest_and_in_build_and_run_again(
    spark: SparkSession, segments: Path, tmp_path: Path
) -> None:
    undisturbed = tmp_path / "undisturbed"
    assert pipeline("run", "--segments", segments, "--out", undisturbed).exit_code == 0
    expected = everything(spark, undisturbed)

    out = tmp_path / "out"
    arguments = ("run", "--segments", str(segments), "--out", str(out))
    # In the middle of the commit: data files are there, and some manifests, but no catalog yet.
    killed = run("ingest", 5, *arguments)
    assert (killed.returncode, killed.stderr) == (-signal.SIGKILL, "")
    assert TableStore(out).tables == ["end_offsets"]
    assert list(out.glob("commits/*/*/*.parquet"))

    killed = run("build", 7, *arguments)
    assert (killed.returncode, killed.stderr) == (-signal.SIGKILL, "")
    assert "lag" not in TableStore(out).tables
    assert list(out.glob("lag/*/*.parquet"))

    done = submit(*arguments)
    assert done.returncode == 0, done.stderr
    assert "log: nothing new" in done.stdout
    assert everything(spark, out) == expected
    named = {path for name in expected for path in TableStore(out).paths(name)}
    assert {str(path) for path in out.rglob("*.parquet")} == named
