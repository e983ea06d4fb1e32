"""One Spark session for all tests that need one: starting it costs more than most of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from coterie.simulation import simulate
from coterie.spark.pipeline.session import remember_classes
from coterie.spark.session import PUSHDOWN, REDACTION, SETTINGS
from tests.spark.engines import Standalone
from tests.spark.pipeline_kit import Made, pipeline

# Before the session starts: workers are given their environment when they are made. Spark would else start
# whatever `python3` is on the PATH, and would not find the tests' own modules.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"


def _home_of_links(home: Path) -> Path:
    """Spark without its zip of Python sources: workers import the compiled ones, in a third of the time."""
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "python":
            (home / entry.name).symlink_to(entry)
    return home


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """local[2], as small and quiet as Spark can be."""
    home: Path = tmp_path_factory.mktemp("spark")
    os.environ["SPARK_HOME"] = str(_home_of_links(home / "home"))
    session = (
        SparkSession.builder.master("local[2]")
        .appName("coterie tests")
        # For test_source_security.py, which reads it.
        .config("spark.ui.enabled", "true")
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        # Tables of tests are short: compiling their plans would take longer than running them. The pipeline
        # compiles them for many rows alone; test_pipeline.py and test_marts_simulated.py do so, too.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        # Of each plan, after each of its stages, Spark writes a description for its page.
        .config("spark.sql.ui.explainMode", "simple")
        # Of each column that is written down PySpark would tell the JVM the line.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        .config(map={**SETTINGS, **REDACTION})
        # For the tests of filters.
        .config(PUSHDOWN, "true")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.local.dir", str(home / "local"))
        # C1 only: tests are short, and the second compiler would take the cores from them. Alone it has
        # 48 MB for code, which the plans of the marts fill; then the JVM stops compiling. And Spark's classes
        # are taken as they are: to verify them takes a young JVM three seconds.
        .config(
            "spark.driver.extraJavaOptions",
            "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -Duser.timezone=UTC"
            " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
        )
        .getOrCreate()
    )
    remember_classes(session)
    yield session
    session.stop()
    del os.environ["SPARK_HOME"]


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A Spark cluster for all tests that submit to one."""
    cluster = Standalone(tmp_path_factory.mktemp("standalone"))
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A simulated fleet through the whole pipeline, on local[2]. Tests that write take another directory."""
    home = tmp_path_factory.mktemp("pipeline")
    simulate(home / "segments", groups=24, hours=2, seed=6, partitions=4)
    done = pipeline("run", "--segments", home / "segments", "--out", home / "out")
    assert done.exit_code == 0, done.output
    return Made(home / "segments", home / "out", done.output)
