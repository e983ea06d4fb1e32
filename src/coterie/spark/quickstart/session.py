"""The Spark session of the pipeline: fast to start, silent, in UTC; its log is kept if something fails.

Called by coterie.spark.pipeline.steps. Under spark-submit, Spark itself has created the session.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coterie.console.directories import cache_directory
from coterie.console.progress import StepProgress
from coterie.errors import CoterieError
from coterie.spark.errors import explained, last_words
from coterie.spark.quickstart import is_plain
from coterie.spark.quickstart.ending import end_of, end_with_any_thread, hushed, stop
from coterie.spark.quickstart.launch import Launch
from coterie.spark.quickstart.master import must_answer
from coterie.spark.quickstart.startup import QuickStart, prepare
from coterie.spark.session import SETTINGS, check_versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DEFAULT_MASTER", "Starting", "pipeline_session", "remember_classes"]

DEFAULT_MASTER: Final = "local[*]"
_KEEP_LOGS_SECONDS: Final = 7 * 86_400

#: Settings of every session, whatever spark-submit or spark-defaults.conf say: tables must be the same.
_SETTINGS: Final = {
    **SETTINGS,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
#: What a command line needs: no web page, no progress bar of Spark's, a name.
_STARTING: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.app.name": "coterie pipeline",
}
_QUICK: Final = {
    # PySpark would send the source line of each column to the JVM, for error messages: six more calls for
    # each of the thousands of columns in the marts.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # The JVM would search its stack for the line of each column and each step, for the same messages.
    "spark.sql.dataFrameQueryContext.enabled": "false",
}
#: Up to so many rows, a JVM is done before its second compiler has repaid the time it takes from the cores: a
#: third of the time of a small run, a fifth at a million rows, nothing any more at four million.
_ONE_COMPILER_ROWS: Final = 2_000_000
#: The first compiler alone. It would have 48 MB for code then, which the plans of the marts fill: compiling
#: ends, and a thread of Spark's may end with it, for which Spark waits for ever.
_ONE_COMPILER: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m")


#: What PySpark asks the JVM for at every column and every list of them: classes as it names them, and what it
#: calls of each most often.
_CLASSES: Final = {
    "functions": ("col", "lit", "when"),
    "org.apache.spark.sql.functions": ("col", "lit", "when"),
    "PythonUtils": ("toSeq",),
    "PythonSQLUtils": (),
}


class Starting:
    """A Spark that is starting: versions are checked, and a JVM is launched unless there is one.

    The program can continue meanwhile. A caller that does not enter `pipeline_session` with it cancels it.
    """

    def __init__(
        self,
        *,
        master: str | None = None,
        memory: str | None = None,
        verbose: bool = False,
        rows: int = 0,
    ) -> None:
        """`rows` is how many rows will be processed, as far as is known."""
        self.verbose = verbose
        self.log: Path | None = None
        self._launch: Launch | None = None
        self._quick = QuickStart()
        self.borrowed = _borrowed()
        if self.borrowed is not None:
            return
        chosen = master or (None if _submitted() else DEFAULT_MASTER)
        if chosen and not _submitted():
            must_answer(chosen)
        local = bool(chosen and chosen.startswith("local"))
        plain = is_plain()
        self._quick = QuickStart() if plain else prepare(local=local)
        check_versions(java=self._quick.archive is None)
        # Workers are started by this name; the python3 on the PATH may have neither pyarrow nor coterie.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        if local:
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        java_options = [
            *self._quick.java_options,
            *(_ONE_COMPILER if rows <= _ONE_COMPILER_ROWS and not plain else ()),
        ]
        self._settings = _settings(chosen, memory, java_options)
        if not _submitted():
            self.log = None if verbose or plain else _log_file()
            if not (plain or _has_jvm()):
                self._launch = Launch(self._settings, self._quick, self.log)
                self._quick.started(self._launch.process.pid)

    def cancel(self) -> None:
        """End the JVM: no session is needed."""
        if self._launch is not None:
            self._launch.cancel()
            self._launch = None
            if self.log is not None:
                self.log.unlink(missing_ok=True)

    def session(self) -> SparkSession:
        """Wait for it."""
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession as Session

        conf = SparkConf().setAll(list(self._settings.items()))
        launch, self._launch = self._launch, None
        try:
            with _environment(self._quick.environment):
                if launch is not None:
                    gateway = launch.gateway()
                    SparkContext(conf=conf, gateway=gateway)
                spark = Session.builder.config(conf=conf).getOrCreate()
        except Exception as error:  # noqa: BLE001  (py4j, Spark and Java have no common base)
            if launch is not None:
                launch.cancel()
                SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
            raise CoterieError(f"Spark did not start: {last_words(self.log) or error}") from None
        spark.sparkContext.setLogLevel("ERROR" if self.log else "WARN")
        if not is_plain():
            remember_classes(spark)
        if launch is not None:
            end_with_any_thread(gateway)
        return spark


@contextlib.contextmanager
def pipeline_session(progress: StepProgress, starting: Starting) -> Iterator[SparkSession]:
    """The session for a command. Its log goes to a file that is named if the command fails."""
    if starting.borrowed is not None:
        yield starting.borrowed
        return
    log, verbose = starting.log, starting.verbose
    with progress.step("Starting Spark"):
        spark = starting.session()
    progress.poll = lambda: _tasks(spark)
    with contextlib.nullcontext() if verbose else hushed():
        try:
            yield spark
        except Exception as error:
            text = end_of(error, log)
            if text is None and isinstance(error, CoterieError):
                raise
            raise CoterieError(text or explained(error, log)) from (error if verbose else None)
        else:
            if log is not None:
                log.unlink(missing_ok=True)
        finally:
            progress.poll = None
            stop(spark)


def _borrowed() -> SparkSession | None:
    """A new session on the JVM of the calling program, if it has one; it is not ours to end."""
    if "pyspark" not in sys.modules or _submitted():
        return None
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:  # noqa: SLF001
        return None
    from pyspark.sql import SparkSession as Session

    spark = Session.builder.getOrCreate().newSession()
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    remember_classes(spark)
    return spark


def remember_classes(spark: SparkSession) -> None:
    """Let py4j keep the classes that PySpark asks for again and again.

    Otherwise it asks the JVM each time, which searches every imported package for a short name, and all of
    Spark's jars for each of them: a fifth of the time of building small marts.
    """
    jvm = spark.sparkContext._jvm  # noqa: SLF001
    for name, members in _CLASSES.items():
        found = getattr(jvm, name)
        for member in members:
            setattr(found, member, getattr(found, member))
        setattr(jvm, name, found)


def _has_jvm() -> bool:
    """Whether this program still has the JVM of a stopped session."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    return SparkContext._gateway is not None  # noqa: SLF001


def _submitted() -> bool:
    """Whether spark-submit runs us: its JVM, its master, its logs."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _settings(
    master: str | None, memory: str | None, java_options: Sequence[str]
) -> dict[str, str]:
    settings = {**_SETTINGS, **_STARTING, **({} if is_plain() else _QUICK)}
    if master:
        settings["spark.master"] = master
        if master.startswith("local") and not is_plain():
            # 200, Spark's default, is for clusters: here most of them would be empty.
            settings["spark.sql.shuffle.partitions"] = str(max(8, 4 * (os.cpu_count() or 1)))
    if memory:
        settings["spark.driver.memory"] = memory
    if java_options:
        settings["spark.driver.defaultJavaOptions"] = " ".join(java_options)
    return settings


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set variables for the start only: a user's later spark-submit must not see our home of links."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _log_file() -> Path | None:
    try:
        directory = cache_directory()
        directory.mkdir(parents=True, exist_ok=True)
        _remove_old_logs(directory)
        descriptor, name = tempfile.mkstemp(prefix="spark-", suffix=".log", dir=directory)
    except OSError:
        return None
    os.close(descriptor)
    return Path(name)


def _remove_old_logs(directory: Path) -> None:
    """Logs of runs that failed or were killed are kept for a week."""
    for path in directory.glob("spark-*.log"):
        if time.time() - path.stat().st_mtime > _KEEP_LOGS_SECONDS:
            path.unlink(missing_ok=True)


def _tasks(spark: SparkSession) -> tuple[int, int] | None:
    """Finished and all tasks of the stages that run now."""
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # noqa: BLE001  (a figure for the eye; py4j raises anything while Spark stops)
        return None
    known = [stage for stage in stages if stage is not None]
    return sum(each.numCompletedTasks for each in known), sum(each.numTasks for each in known)
