"""What every Spark of the tests starts with: tests are short, so JVMs are young, and there are dozens.

What this is: a home of Spark and an archive of its classes (JEP 350) beside the installation that they belong
to; `make clean` takes them along. The first run leaves the archive when a session has been through the whole
pipeline. One home, one directory of settings, an empty one: the JDK takes an archive for one class path only.
What this is not: needed. Where the JDK cannot write an archive, JVMs load their classes themselves.
Who calls it: conftest.py for the session, engines.py for Sparks in processes of their own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from coterie.spark.quickstart.startup import home_of_links, stamp
from tests.kit.kafka_jars import find_java, locked

__all__ = ["LAUNCHER", "archive", "java_options", "leave_archive", "recording", "variables"]

_PLACE = Path(sys.prefix) / "spark-tests"
_SPARK = Path(pyspark.__file__).parent
#: Of the JVM that Spark's scripts ask for a command line.
LAUNCHER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: The second compiler would take the cores from the tests, and four collectors, too. The first alone has 48
#: MB for code, which the plans of the marts fill; then the JVM stops compiling. And Spark's classes are taken
#: as they are: to verify them takes a young JVM three seconds. Plans are trees all over the heap, for
#: which huge pages are quicker.
_SHORT = (
    f"{LAUNCHER} -XX:ReservedCodeCacheSize=256m -XX:+UseTransparentHugePages"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


@cache
def variables() -> dict[str, str]:
    """Where Spark is: without its zip of Python sources, so that workers import the compiled ones."""
    _PLACE.mkdir(exist_ok=True)
    home = home_of_links(_SPARK, _PLACE)
    # Executors look for settings there, whatever else is said.
    settings = home / "conf"
    settings.mkdir(exist_ok=True)
    return {"SPARK_HOME": str(home), "SPARK_CONF_DIR": str(settings)}


def archive() -> Path | None:
    """Spark's classes as a JVM maps them, if they are there."""
    return _archive() if _archive().exists() else None


def java_options() -> str:
    """For any JVM of Spark's but the launcher, whose class path is another."""
    found = archive()
    # An archive that does not fit is passed over, and nothing is said of it on stdout.
    return f"{_SHORT} -XX:SharedArchiveFile={found} -Xlog:disable" if found else _SHORT


def recording() -> str:
    """For a JVM that will be asked to leave the archive."""
    return "" if archive() else "-XX:+RecordDynamicDumpInfo -Xlog:disable"


def leave_archive(spark: SparkSession) -> None:
    """Have a session's JVM write down the classes that it has loaded, unless they are there."""
    jcmd = shutil.which("jcmd")
    if archive() or jcmd is None:
        return
    with locked(_archive().with_suffix(".lock")):
        if archive():
            return
        unfinished = _archive().with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        jvm: Any = spark.sparkContext._jvm
        pid = jvm.java.lang.ProcessHandle.current().pid()
        dump = [jcmd, str(pid), "VM.cds", "dynamic_dump", str(unfinished)]
        subprocess.run(dump, check=False, capture_output=True)
        if unfinished.exists():
            unfinished.replace(_archive())


@cache
def _archive() -> Path:
    """Named after the JDK and Spark's jars: another of either is another archive."""
    java = Path(find_java(os.environ)).resolve()
    facts = f"{java} {stamp(java)} {stamp(_SPARK / 'jars')}"
    return _PLACE / f"classes-{hashlib.sha256(facts.encode()).hexdigest()[:12]}.jsa"
