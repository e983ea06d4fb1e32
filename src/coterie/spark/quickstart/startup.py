"""Files in the user's cache that make Spark start faster: a class archive, and a Spark home of links.

The JVM of the first run writes an archive of its loaded classes (AppCDS) when it ends; later JVMs map it.
The Spark home of links lacks the `python` directory, whose zip has no compiled code: workers import pyspark
from site-packages instead, in a third of the time. The names of both depend on the JDK, the jars and the
class path. Whatever fails here, Spark still starts, only slower. Called by coterie.spark.quickstart.session.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from coterie.console.directories import cache_directory

__all__ = ["QuickStart", "home_of_links", "prepare", "spark_home", "stamp"]

#: A dump that failed this often is not tried again: the class path may be one that cannot be archived.
_TRIES: Final = 3
#: Archives of Spark are above 50 MB; a much smaller file is an incomplete dump.
_LEAST_BYTES: Final = 1_000_000
_KEEP_SECONDS: Final = 30 * 86_400
#: What else goes into a JVM's class path, by Spark's own scripts.
_CLASS_PATH_SETTINGS: Final = (
    "HADOOP_CONF_DIR",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "YARN_CONF_DIR",
)


@dataclass
class QuickStart:
    """What to start Spark with; empty for a plain start."""

    environment: dict[str, str] = field(default_factory=dict)
    java_options: list[str] = field(default_factory=list)
    #: The archive that is mapped: the same Java has run the same Spark before.
    archive: Path | None = None
    #: Where the JVM will dump its classes at its end, if it was asked to.
    dump: Path | None = None

    def started(self, pid: int | None) -> None:
        """Record the process that writes the archive: the archive is complete when that process has ended."""
        if self.dump is not None and pid is not None:
            with contextlib.suppress(OSError):
                self.dump.with_suffix(".pid").write_text(str(pid), encoding="ascii")


def prepare(*, local: bool, cache: Path | None = None) -> QuickStart:
    """What makes the next start faster; nothing if the cache cannot be used."""
    quick = QuickStart()
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started the JVM already
        return quick
    try:
        _prepare(quick, cache or cache_directory(), local=local)
    except (OSError, ValueError):
        return QuickStart()
    return quick


def _prepare(quick: QuickStart, cache: Path, *, local: bool) -> None:
    java, spark = _java(), spark_home()
    if java is None or spark is None:
        return
    cache.mkdir(parents=True, exist_ok=True)
    home = spark
    if local and "SPARK_HOME" not in os.environ:
        home = home_of_links(spark, cache)
        quick.environment["SPARK_HOME"] = str(home)
    archive = cache / f"spark-{_key(java, home)}.jsa"
    if any(character in str(archive) for character in " '\"\\"):
        return  # these would not survive Spark's own quoting
    dump = archive.with_suffix(".new")
    _promote(dump, archive)
    if archive.exists():
        quick.java_options = [f"-XX:SharedArchiveFile={archive}"]
        quick.archive = archive
        os.utime(archive)
    elif _may_try(dump):
        quick.java_options = [f"-XX:ArchiveClassesAtExit={dump}"]
        quick.dump = dump
        _remove_unused(cache)


def _java() -> Path | None:
    """The JVM that Spark's scripts will find."""
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java")
    return Path(found).resolve() if found and Path(found).exists() else None


def spark_home() -> Path | None:
    """Where Spark is; None if it cannot be found."""
    given = os.environ.get("SPARK_HOME")
    if given:
        return Path(given)
    spec = find_spec("pyspark")
    return Path(spec.origin).parent if spec and spec.origin else None


def _key(java: Path, home: Path) -> str:
    """A name for this JDK with these jars: a change of either needs another archive."""
    return hashlib.sha256("\n".join(_facts(java, home)).encode()).hexdigest()[:16]


def _facts(java: Path, home: Path) -> Iterator[str]:
    for path in (java, java.parents[1] / "lib" / "server" / "libjvm.so"):
        yield f"{path} {stamp(path)}"
    yield str(home)
    yield from (f"{jar.name} {stamp(jar)}" for jar in sorted((home / "jars").iterdir()))
    yield from (f"{name}={os.environ.get(name, '')}" for name in _CLASS_PATH_SETTINGS)


def stamp(path: Path) -> str:
    """What changes when a file does."""
    with contextlib.suppress(OSError):
        status = path.stat()
        return f"{status.st_size} {status.st_mtime_ns}"
    return "-"


def home_of_links(spark: Path, cache: Path) -> Path:
    """A directory of links to all of a Spark home except `python`; created under another name and renamed."""
    digest = hashlib.sha256(f"{spark} {stamp(spark)}".encode()).hexdigest()[:16]
    home = cache / f"spark-home-{digest}"
    if _leads_to_spark(home):
        return home
    made = Path(tempfile.mkdtemp(prefix="spark-home-", dir=cache))
    for entry in spark.iterdir():
        if entry.name != "python":
            (made / entry.name).symlink_to(entry)
    if home.exists() and not _leads_to_spark(home):  # links into a Spark that has gone
        shutil.rmtree(home, ignore_errors=True)
    try:
        made.rename(home)
    except OSError:  # another run was quicker, and its JVM may be at work there
        shutil.rmtree(made, ignore_errors=True)
    return home


def _leads_to_spark(home: Path) -> bool:
    return (home / "bin" / "spark-submit").exists() and (home / "jars").exists()


def _promote(dump: Path, archive: Path) -> None:
    """Use a dump as the archive if the JVM that wrote it has ended and the dump is complete."""
    if archive.exists() or not dump.exists():
        return
    note = dump.with_suffix(".pid")
    pid = int(note.read_text(encoding="ascii") or 0) if note.exists() else 0
    if pid and _alive(pid):
        return
    with dump.open("rb") as file:
        begun = any(file.read(4))  # the JVM writes the header last
    if begun and dump.stat().st_size >= _LEAST_BYTES:
        dump.replace(archive)
    else:
        dump.unlink()
    note.unlink(missing_ok=True)


def _remove_unused(cache: Path) -> None:
    """Remove archives, which are large, that have not been used for a month."""
    for archive in cache.glob("spark-*.jsa"):
        if time.time() - archive.stat().st_mtime > _KEEP_SECONDS:
            for path in cache.glob(f"{archive.stem}[.-]*"):
                path.unlink(missing_ok=True)


def _may_try(dump: Path) -> bool:
    """Whether to ask this JVM for a dump: not while another writes one, nor after repeated failures."""
    note = dump.with_suffix(".pid")
    if note.exists() and _alive(int(note.read_text(encoding="ascii") or 0)):
        return False
    tries = dump.with_suffix(".tries")
    made = int(tries.read_text(encoding="ascii")) if tries.exists() else 0
    if made >= _TRIES:
        return False
    tries.write_text(str(made + 1), encoding="ascii")
    return True


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
