"""A Spark session for the data source: versions checked first, UTC, no page, little noise.

    from coterie.spark.session import session

    spark = session("local[*]")

Any other session does as well; this one saves looking up what Spark needs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coterie.errors import CoterieError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["PUSHDOWN", "REDACTION", "SETTINGS", "check_versions", "session"]

#: Whether Spark pushes filters to sources of Python.
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
#: What the data source wants of a session, whoever makes it.
SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # Spark's default. What is pushed stays with the DataFrame: its next query would be answered by that.
    PUSHDOWN: "false",
    # Spark's default. Without it the size of null is -1, and what overflows passes for a result.
    "spark.sql.ansi.enabled": "true",
}
#: What Spark hides when it shows the options of a view or a table that SQL has made (`OPTIONS (...)`): its
#: own words, and ours. A private key as text is told by what it is.
REDACTION: Final = {
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|credential|jaas|private key",
}
_QUIET: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}

_OLDEST_SPARK: Final = (4, 0)  # data sources in Python
_OLDEST_JAVA: Final = 17
_OLDEST_PYTHON: Final = (3, 11)
_JAVA_SECONDS: Final = 30.0


def session(
    master: str | None = None,
    *,
    app_name: str = "coterie",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session; the one that runs already, if there is one. `settings` overrule ours."""
    check_versions()
    # Spark would start whatever `python3` is on the PATH, which may have neither pyarrow nor us.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.sql import SparkSession as Session

    builder = Session.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in {**_QUIET, **SETTINGS, **REDACTION, **(settings or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def check_versions(*, java: bool = True) -> None:
    """Raise in one sentence what Spark would tell in a page, or not at all: a version that cannot work.

    To ask Java takes longest; who knows that it will do says so.
    """
    _check_python()
    _check_spark()
    if java and "SPARK_REMOTE" not in os.environ:
        _check_java()


def _check_python() -> None:
    if sys.version_info < _OLDEST_PYTHON:
        found = ".".join(map(str, sys.version_info[:2]))
        raise CoterieError(f"this is Python {found}, and Coterie needs 3.11 or newer")
    named = os.environ.get("PYSPARK_PYTHON")
    if named is None:
        return
    found_version = _output([named, "-c", "import sys; print(*sys.version_info[:2], sep='.')"])
    if found_version is None:
        raise CoterieError(
            f"PYSPARK_PYTHON names {named!r}, which does not run; unset it, or name a Python"
        )
    ours = ".".join(map(str, sys.version_info[:2]))
    if found_version.strip() != ours:
        raise CoterieError(
            f"PYSPARK_PYTHON names a Python {found_version.strip()}, and this is Python {ours};"
            " Spark needs the same on both sides"
        )


def _check_spark() -> None:
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        raise CoterieError("there is no Spark here: pip install 'coterie[spark]'") from None
    numbers = tuple(int(each) for each in re.findall(r"\d+", found)[:2])
    if numbers < _OLDEST_SPARK:
        wanted = ".".join(map(str, _OLDEST_SPARK))
        raise CoterieError(f"this is Spark {found}, and Coterie needs {wanted} or newer")


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise CoterieError(
            f"there is no Java on the PATH, and Spark needs {_OLDEST_JAVA} or newer; install it,"
            " or set JAVA_HOME"
        )
    said = _output([java, "-version"])
    if said is None:
        where = "JAVA_HOME names one that" if home else f"{java}"
        raise CoterieError(f"{where} does not run as Java; set JAVA_HOME to a Java {_OLDEST_JAVA}")
    # "17.0.15", "21-ea", and "1.8.0_392" from when the first number was always 1.
    named = re.search(r'version "(?:1\.)?(\d+)', said)
    if named is not None and int(named.group(1)) < _OLDEST_JAVA:
        raise CoterieError(
            f"{java} is Java {named.group(1)}, and Spark needs {_OLDEST_JAVA} or newer; set JAVA_HOME"
            " to one"
        )


def _output(command: list[str]) -> str | None:
    try:
        run = subprocess.run(  # noqa: S603 - what Spark is about to run itself
            command, check=True, capture_output=True, text=True, timeout=_JAVA_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout + run.stderr
