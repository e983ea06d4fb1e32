"""All that Spark shows of what a session does: pages, REST API, log and event log, kept as files.

Of a session that other tests use as well, only what is new is looked at, beside the pages that list all.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

__all__ = ["SparkShows", "watched"]

_PAGES: Final = ("", "jobs/", "stages/", "storage/", "environment/", "executors/", "SQL/")
_LISTS: Final = ("environment", "jobs", "stages", "executors", "allexecutors", "storage/rdd")
_EVERYTHING: Final = "sql?details=false&planDescription=false&length=100000"


class SparkShows:
    """What there was before, and where to keep what comes."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._root = str(spark.sparkContext.uiWebUrl)
        self._api = f"api/v1/applications/{spark.sparkContext.applicationId}"
        self._directory = directory
        self._kept = 0
        self._before = self._ids()

    def _ids(self) -> dict[str, set[int]]:
        """Queries, jobs and stages by number."""
        asked = {
            "sql": (_EVERYTHING, "id"),
            "jobs": ("jobs", "jobId"),
            "stages": ("stages", "stageId"),
        }
        return {
            kind: {each[name] for each in self._json(path)} for kind, (path, name) in asked.items()
        }

    def _json(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._fetch(f"{self._api}/{path}"))
        return found

    def _fetch(self, path: str) -> str:
        with urllib.request.urlopen(f"{self._root}/{path}", timeout=60) as page:
            text: str = page.read().decode()
        self._kept += 1
        (self._directory / f"page-{self._kept:03d}.txt").write_text(f"{path}\n{text}")
        return text

    def keep_pages(self, *streams: str) -> None:
        """The pages and answers about everything that was done since, and about streams by their run ids."""
        new = {kind: sorted(ids - self._before[kind]) for kind, ids in self._ids().items()}
        paths = [*_PAGES, *(f"{self._api}/{each}" for each in _LISTS), "StreamingQuery/"]
        paths += [f"StreamingQuery/statistics/?id={each}" for each in streams]
        paths += [f"SQL/execution/?id={each}" for each in new["sql"]]
        paths += [
            f"{self._api}/sql/{each}?details=true&planDescription=true" for each in new["sql"]
        ]
        paths += [f"jobs/job/?id={each}" for each in new["jobs"]]
        paths += [f"stages/stage/?id={each}&attempt=0" for each in new["stages"]]
        for path in paths:
            self._fetch(path)

    def keep(self, name: str, text: str) -> None:
        (self._directory / name).write_text(text)


@contextmanager
def watched(spark: SparkSession, directory: Path) -> Iterator[SparkShows]:
    """Keep the event log and the driver's log, which in a local session is its executors' too."""
    jvm: Any = spark._jvm
    context = spark._jsc.sc()
    conf = context.getConf().set("spark.eventLog.compress", "false")
    none = getattr(jvm.scala, "None$").__getattr__("MODULE$")
    events = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "events", none, jvm.java.net.URI(directory.as_uri()), conf
    )
    events.start()
    context.addSparkListener(events)
    log4j = jvm.org.apache.logging.log4j
    logging = log4j.LogManager.getContext(False)  # noqa: FBT003 - Java has no names for arguments
    configuration = logging.getConfiguration()
    builder = log4j.core.appender.FileAppender.newBuilder()
    builder.setName("watched")
    builder.withFileName(str(directory / "driver.log"))
    builder.setLayout(log4j.core.layout.PatternLayout.createDefaultLayout(configuration))
    appender = builder.build()
    appender.start()
    root = configuration.getRootLogger()
    quiet = root.getLevel()
    root.addAppender(appender, log4j.Level.INFO, None)
    root.setLevel(log4j.Level.INFO)
    logging.updateLoggers()
    try:
        yield SparkShows(spark, directory)
    finally:
        context.listenerBus().waitUntilEmpty()
        context.removeSparkListener(events)
        events.stop()
        root.setLevel(quiet)
        root.removeAppender("watched")
        logging.updateLoggers()
        appender.stop()
