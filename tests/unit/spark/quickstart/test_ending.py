"""What is told when Spark's JVM has ended, whichever error comes of it first."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

from coterie.spark.quickstart import ending
from coterie.spark.quickstart.ending import end_of

#: As Spark writes it before it ends the JVM.
FATAL = """\
26/11/16 22:59:25 ERROR SparkUncaughtExceptionHandler: Uncaught exception in thread Thread[task 0,5,main]
java.lang.OutOfMemoryError: Java heap space
\tat org.apache.spark.unsafe.types.UTF8String.copy(UTF8String.java:2052)
26/11/16 22:59:25 ERROR TaskSetManager: Task 0 in stage 0.0 failed 1 times; aborting job
"""

Ended = Callable[[str], Path]


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ended]:
    """A JVM that has ended with a log."""
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(52)"])
    monkeypatch.setattr(ending, "_process", lambda: process)

    def end(said: str) -> Path:
        log = tmp_path / "spark.log"
        log.write_text(said)
        return log

    yield end
    process.wait()


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        ConnectionResetError("Connection reset by peer"),
        RuntimeError("Job aborted: java.lang.OutOfMemoryError: Java heap space"),
        # While it ends it still answers, and says what follows from its end.
        RuntimeError(
            "An error occurred while calling o65.getResult.\n: SparkContext was shut down"
        ),
    ],
    ids=["network", "reset", "memory", "shut down"],
)
def test_the_cause_is_told(ended: Ended, error: Exception) -> None:
    text = end_of(error, ended(FATAL)) or ""
    assert text.startswith("Spark's JVM has ended: OutOfMemoryError: Java heap space (all of it: ")
    assert text.endswith("; give it more by --driver-memory")


def test_an_error_of_a_query_is_not_the_end(ended: Ended) -> None:
    log = ended("26/11/16 22:59:25 ERROR Executor: Exception in task 0.0 in stage 0.0 (TID 0)\n")
    assert end_of(RuntimeError("Division by zero"), log) is None
    assert end_of(RuntimeError("Division by zero"), None) is None
