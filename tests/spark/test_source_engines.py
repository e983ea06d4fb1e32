"""The same job on other engines: local-cluster, a standalone cluster of processes, Spark Connect."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from coterie.datasets.log import LogQuery, SegmentSource, read_log
from coterie.testing import EmbeddedCluster
from tests.kit import processes
from tests.kit.offsets_log import golden_disk
from tests.spark.jobs.read_job import SECRET

JOB = Path(__file__).parent / "jobs" / "read_job.py"
SPARK = Path(pyspark.__file__).parent
_PATIENCE_S = 300.0
_SMALL = "-XX:TieredStopAtLevel=1"


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


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK")}
    return kept | {
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        **more,
    }


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
    submit = [str(SPARK / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]"]
    submit += ["--driver-java-options", _SMALL, "--conf", "spark.ui.enabled=false"]
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


class Standalone:
    """A master and two workers, each a process of its own, on loopback."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = f"spark://127.0.0.1:{free_port()}"

    def start(self) -> None:
        port = self.master.rpartition(":")[2]
        self._spawn("deploy.master.Master", "--host", "127.0.0.1", "--port", port)
        for number in (1, 2):
            work = self._directory / f"worker-{number}"
            arguments = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
            self._spawn("deploy.worker.Worker", *arguments, "--work-dir", str(work), self.master)

    def _spawn(self, name: str, *arguments: str) -> None:
        command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.{name}", *arguments]
        port = ["--webui-port", str(free_port())]
        with (self._directory / f"{name}-{len(self._processes)}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    processes.tethered([command[0], command[1], *port, *arguments]),
                    env=environment(SPARK_DAEMON_JAVA_OPTS="-XX:TieredStopAtLevel=1"),
                    cwd=self._directory,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def executors(self) -> list[int]:
        """Processes that run tasks for this cluster's workers: they run below its directory."""
        return [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and is_executor(entry, self._directory)
        ]

    def stop(self) -> None:
        for process in self._processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def is_executor(entry: Path, directory: Path) -> bool:
    try:
        command = (entry / "cmdline").read_bytes()
        return b"CoarseGrainedExecutorBackend" in command and (
            entry / "cwd"
        ).readlink().is_relative_to(directory)
    except OSError:  # it has ended, or is another user's
        return False


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


def test_standalone_by_spark_submit_with_an_executor_killed_in_the_middle(
    cluster: EmbeddedCluster, disk: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    standalone = Standalone(tmp_path)
    hold = tmp_path / "hold"
    hold.mkdir()
    command = [str(SPARK / "bin" / "spark-submit"), "--master", standalone.master]
    command += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false"]
    command += ["--driver-java-options", _SMALL, "--executor-memory", "512m"]
    command += ["--py-files", str(JOB.parent / "__init__.py")]
    command += [str(JOB), disk, cluster.bootstrap_servers, "--hold", str(hold)]
    standalone.start()
    said, log = tmp_path / "job.out", tmp_path / "job.log"
    try:
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
    finally:
        standalone.stop()
    assert parsed(said.read_text(), log.read_text()) == expected


def wait_for(condition: Any, job: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert job.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.05)
