"""The same job on other engines: local-cluster, a standalone cluster of processes, Spark Connect."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.datasets.log import LogQuery, SegmentSource, read_log
from coterie.testing import EmbeddedCluster
from tests.kit.offsets_log import golden_disk
from tests.spark.engines import SUBMIT, Standalone, environment, wait_for
from tests.spark.jobs.read_job import SECRET

JOB = Path(__file__).parent / "jobs" / "read_job.py"
_PATIENCE_S = 300.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as running:
        for number in range(3):
            running.scene("empty_group", f"idle-{number}")
        yield running


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(golden_disk(tmp_path_factory.mktemp("disk")))


@pytest.fixture(scope="module")
def expected(disk: str) -> dict[str, Any]:
    columns = ("partition", "offset", "group_id", "committed_offset")
    rows = [
        list(row.values())
        for batch in read_log(SegmentSource.at(disk), LogQuery("commits", columns))
        for row in batch.to_pylist()
        if row["group_id"].startswith("life-")
    ]
    return {"commits": sorted(rows), "groups": [f"idle-{number}" for number in range(3)]}


def result_of(command: list[str], directory: Path) -> dict[str, Any]:
    """What the job printed; its log if it printed nothing."""
    run = subprocess.run(
        command,
        check=False,
        env=environment(),
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
    )
    assert SECRET not in run.stdout + run.stderr
    return parsed(run.stdout, run.stderr)


def parsed(said: str, log: str) -> dict[str, Any]:
    lines = [line for line in said.splitlines() if line.startswith("RESULT ")]
    assert lines, log[-3000:]
    found: dict[str, Any] = json.loads(lines[-1].removeprefix("RESULT "))
    return found


def test_local_cluster(
    cluster: EmbeddedCluster, disk: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    """Two executors in processes of their own: everything that they need is sent to them."""
    submit = [SUBMIT, "--master", "local-cluster[2,1,1024]"]
    # Else it would write into its own installation.
    submit += ["--conf", f"spark.executorEnv.SPARK_WORKER_DIR={tmp_path}"]
    submit += ["--conf", "spark.eventLog.enabled=true", "--conf", "spark.eventLog.compress=false"]
    events = tmp_path / "events"
    events.mkdir()
    submit += ["--conf", f"spark.eventLog.dir={events.as_uri()}"]
    job = [*submit, str(JOB), disk, cluster.bootstrap_servers]
    assert result_of(job, tmp_path) == expected
    # Settings may be secrets: the history that Spark's page shows has none of them.
    written = [path.read_bytes() for path in events.rglob("*") if path.is_file()]
    assert any(b"SparkListenerJobStart" in each for each in written)
    assert not any(SECRET.encode() in each for each in written)


def test_spark_connect(
    cluster: EmbeddedCluster, disk: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    """The source is found by the server; the client knows nothing of it."""
    job = [sys.executable, str(JOB), disk, cluster.bootstrap_servers, "--remote", "local[2]"]
    assert result_of(job, tmp_path) == expected


def test_standalone_by_spark_submit_with_an_executor_killed_in_the_middle(
    standalone: Standalone,
    cluster: EmbeddedCluster,
    disk: str,
    expected: dict[str, Any],
    tmp_path: Path,
) -> None:
    hold = tmp_path / "hold"
    hold.mkdir()
    command = [SUBMIT, "--master", standalone.master]
    command += ["--conf", "spark.driver.host=127.0.0.1"]
    command += ["--executor-memory", "512m"]
    command += ["--py-files", str(JOB.parent / "__init__.py")]
    command += [str(JOB), disk, cluster.bootstrap_servers, "--hold", str(hold)]
    said, log = tmp_path / "job.out", tmp_path / "job.log"
    with said.open("wb") as out, log.open("wb") as err:
        job = subprocess.Popen(
            command,
            env=environment(),
            cwd=tmp_path,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    try:
        wait_for(lambda: list(hold.glob("begun-*")), job, log)
        victims = standalone.executors()
        assert victims, log.read_text()[-2000:]
        os.kill(victims[0], signal.SIGKILL)
        (hold / "go").touch()
        job.wait(_PATIENCE_S)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
    assert parsed(said.read_text(), log.read_text()) == expected
