"""One Spark session for all tests that need one: starting it costs more than most of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coterie.simulation import simulate
from coterie.spark.pipeline import settings
from coterie.spark.quickstart.session import remember_classes
from coterie.spark.session import PUSHDOWN, REDACTION, SETTINGS
from tests.spark import preloaded, quick_start
from tests.spark.engines import Standalone
from tests.spark.killed import cache_with_archive, run_killed
from tests.spark.pipeline_kit import Made, pipeline

#: Spark compiles plans, as it does for users with many rows.
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}

# Before the session starts: workers are given their environment when they are made. Spark would else start
# whatever `python3` is on the PATH, and would not find the tests' own modules.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """local[2], as small and quiet as Spark can be."""
    home: Path = tmp_path_factory.mktemp("spark")
    os.environ.update(quick_start.variables())
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
        # compiles them for many rows alone; `made` and test_marts_simulated.py do so, too.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        # Of each plan, after each of its stages, Spark writes a description for its page.
        .config("spark.sql.ui.explainMode", "simple")
        # Of each column that is written down PySpark would tell the JVM the line, and that look for its own.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        .config("spark.sql.dataFrameQueryContext.enabled", "false")
        .config("spark.python.daemon.module", preloaded.__name__)
        .config(map={**SETTINGS, **REDACTION})
        # For the tests of filters.
        .config(PUSHDOWN, "true")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.local.dir", str(home / "local"))
        .config(
            "spark.driver.extraJavaOptions",
            f"{quick_start.java_options()} {quick_start.recording()} -Duser.timezone=UTC",
        )
        .getOrCreate()
    )
    remember_classes(session)
    yield session
    session.stop()
    for name in quick_start.variables():
        del os.environ[name]


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A Spark cluster for all tests that submit to one."""
    cluster = Standalone(tmp_path_factory.mktemp("standalone"))
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A simulated fleet through the whole pipeline, killed in ingest, killed in build, then run on local[2].

    The last run is by the way that is for many rows. Tests that write take another directory.
    """
    home = tmp_path_factory.mktemp("pipeline")
    segments, out, cache = home / "segments", home / "out", cache_with_archive(home)
    simulate(segments, groups=24, hours=2, seed=6, partitions=4)
    source = ("--segments", segments)
    in_ingest = run_killed(cache, out, "ingest", "os.fsync", 5, "ingest", *source)
    in_build = run_killed(cache, out, "build", "store.Transaction.replace", 2, "run", *source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "_FEW_ROWS", 0)
        patch.setattr(settings, "_WRITING", settings._WRITING | COMPILED)
        done = pipeline("run", *source, "--out", out)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("log: nothing new\n")
    quick_start.leave_archive(spark)
    said = in_build.said + done.output.removeprefix("log: nothing new\n")
    return Made(segments, out, said, in_ingest, in_build)
