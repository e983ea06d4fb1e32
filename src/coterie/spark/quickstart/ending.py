"""How Spark's JVM ends: in order, or with an error, which is reported instead of the errors it causes.

Called by coterie.spark.quickstart.session, for a JVM that we have started ourselves.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from coterie.spark.errors import last_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["end_of", "end_with_any_thread", "hushed", "stop"]

#: A connection is lost, and a task has failed, a moment before the process has ended.
_END_SECONDS: Final = 15.0
#: What Spark writes to its log before an uncaught error ends it.
_FATAL: Final = "SparkUncaughtExceptionHandler: Uncaught exception"
#: Loggers of pyspark that write a page of JSON to stderr for every failed query; we report it in one line.
_LOUD: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """Without the pages that pyspark and py4j write to stderr when a query fails, or a connection."""
    loud = [logging.getLogger(name) for name in _LOUD]
    for logger in loud:
        logger.disabled = True
    logging.root.addFilter(_is_not_py4j)
    try:
        yield
    finally:
        logging.root.removeFilter(_is_not_py4j)
        for logger in loud:
            logger.disabled = False


def _is_not_py4j(record: logging.LogRecord) -> bool:
    # It has a logger of its own, and uses the root's for this.
    return record.module != "java_gateway"


def end_with_any_thread(gateway: Any) -> None:
    """Have the JVM end when an uncaught error ends one of its threads, as executors do.

    A result that such a thread was to deliver never comes, and its caller would wait forever.
    """
    jvm = gateway.jvm
    handler = jvm.org.apache.spark.util.SparkUncaughtExceptionHandler(True)  # noqa: FBT003
    jvm.java.lang.Thread.setDefaultUncaughtExceptionHandler(handler)


def end_of(error: Exception, log: Path | None) -> str | None:
    """Why the JVM ended, if that is why something failed."""
    process = _process()
    if process is None or not (_is_lost(error) or _is_ending(error, log)):
        return None
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    words = last_words(log) or f"code {process.returncode}"
    more = "; give it more by --driver-memory" if "OutOfMemory" in words else ""
    return f"Spark's JVM has ended: {words}{more}"


def _is_lost(error: Exception) -> bool:
    """Whether the connection to the JVM failed, in contrast to an error that the JVM reports."""
    from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

    if isinstance(error, Py4JError):
        return not isinstance(error, Py4JJavaError)
    return isinstance(error, (ConnectionError, EOFError))


def _is_ending(error: Exception, log: Path | None) -> bool:
    """Whether the JVM is about to end: until then it may answer with a consequence of its error."""
    if "OutOfMemoryError" in str(error):
        return True
    return log is not None and _FATAL in log.read_text(encoding="utf-8", errors="replace")


def stop(spark: SparkSession) -> None:
    """Stop Spark, and the JVM if it is our child; what it dumps then, it dumps on its own."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # noqa: SLF001
    process = _process()
    try:
        spark.stop()
    except Exception as error:
        # A JVM that has ended of an error took all with it.
        if process is None or not _is_lost(error):
            raise
        process.kill()
        return
    if process is not None:
        gateway.shutdown()
        process.stdin.close()
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


def _process() -> Any:
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001
