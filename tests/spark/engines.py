"""Sparks in processes of their own, as users have them: a standalone cluster, and jobs that are submitted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyspark

from tests.kit import processes
from tests.kit.ports import free_port
from tests.spark import quick_start

__all__ = ["SPARK", "SUBMIT", "Standalone", "environment", "wait_for"]

SPARK = Path(pyspark.__file__).parent
SUBMIT = str(SPARK / "bin" / "spark-submit")
#: Nobody looks at their pages, and a description of each plan would be written after each of its stages.
_QUIET = "-Dspark.ui.enabled=false -Dspark.sql.ui.explainMode=simple"
_PATIENCE_S = 300.0


def environment(**more: str) -> dict[str, str]:
    """What a user's shell has, without the session of the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK")}
    options = quick_start.java_options()
    return kept | {
        **quick_start.variables(),
        "SPARK_LAUNCHER_OPTS": quick_start.LAUNCHER,
        # Of drivers, which tell executors.
        "SPARK_SUBMIT_OPTS": f'{options} {_QUIET} "-Dspark.executor.extraJavaOptions={options}"',
        "SPARK_DAEMON_JAVA_OPTS": options,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        # With a blank, which no option of a JVM survives: nobody spends half a minute on an archive.
        "XDG_CACHE_HOME": str(Path(tempfile.gettempdir()) / "coterie tests"),
        **more,
    }


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
        command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.{name}"]
        port = ["--webui-port", str(free_port())]
        with (self._directory / f"{name}-{len(self._processes)}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    processes.tethered([*command, *port, *arguments]),
                    env=environment(),
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
            if entry.name.isdigit() and _is_executor(entry, self._directory)
        ]

    def stop(self) -> None:
        for process in self._processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _is_executor(entry: Path, directory: Path) -> bool:
    try:
        command = (entry / "cmdline").read_bytes()
        return b"CoarseGrainedExecutorBackend" in command and (
            entry / "cwd"
        ).readlink().is_relative_to(directory)
    except OSError:  # it has ended, or is another user's
        return False


def wait_for(condition: Callable[[], object], job: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert job.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.05)
