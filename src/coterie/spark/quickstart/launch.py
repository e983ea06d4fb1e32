"""Starts Spark's JVM: the first time by Spark's own script, then by the command line that the script made.

`bin/spark-submit` starts one JVM only to build the command line of another. That command line is read from
the running process, stored next to the class archive, and used again until something that it depends on
changes: jars, JDK, settings, Spark's variables or configuration files. The JVM starts in parallel with the
program, which waits for it in `Launch.gateway`. Called by coterie.spark.quickstart.session.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from coterie.errors import CoterieError
from coterie.files import replace_file
from coterie.spark.quickstart.startup import QuickStart, stamp

__all__ = ["Launch"]

_POLL_SECONDS: Final = 0.01
#: Variables that Spark's scripts and the JVM look at begin with one of these.
_TELLING: Final = (
    "SPARK_",
    "PYSPARK_",
    "JAVA_",
    "JDK_",
    "_JAVA_",
    "HADOOP_",
    "YARN_",
    "PYTHONHASHSEED",
)
#: Names the file in which the JVM writes its port and secret; a new file for each start.
_CONNECTION: Final = "_PYSPARK_DRIVER_CONN_INFO_PATH"


class Launch:
    """A JVM that is starting."""

    def __init__(self, settings: Mapping[str, str], quick: QuickStart, log: Path | None) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="coterie-spark-"))
        self._connection = self._directory / "connection"
        environment = {**os.environ, **quick.environment, "SPARK_CONNECT_MODE": "0"}
        self._command = _Command(settings, quick, environment)
        known = self._command.read()
        self._is_new = known is None
        argv, more = known or (self._command.by_script(), {})
        with log.open("wb") if log else contextlib.nullcontext() as file:
            self.process = subprocess.Popen(  # noqa: S603 - Spark
                argv,
                stdin=subprocess.PIPE,  # the JVM ends when this pipe does
                stdout=file,
                stderr=file,
                env={**environment, **more, _CONNECTION: str(self._connection)},
                start_new_session=True,  # Ctrl-C stops us, and we stop the JVM in order
            )

    def gateway(self) -> Any:
        """Wait for the JVM; pyspark's connection to it."""
        try:
            while not self._connection.exists():
                if self.process.poll() is not None:
                    self._command.forget()
                    self.cancel()
                    raise CoterieError(f"its JVM ended with code {self.process.returncode}")
                time.sleep(_POLL_SECONDS)
            content = self._connection.read_bytes()
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)
        if self._is_new:
            self._command.keep(self.process.pid)
        return _connected(content, self.process)

    def cancel(self) -> None:
        """Kill a JVM that is no longer needed, so that it writes no archive."""
        self.process.kill()
        self.process.communicate()
        shutil.rmtree(self._directory, ignore_errors=True)


def _connected(content: bytes, process: subprocess.Popen[bytes]) -> Any:
    """pyspark's gateway to a running JVM, which pyspark finds by two variables."""
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415  (only here is Spark needed)

    port, size = int.from_bytes(content[:4], "big"), int.from_bytes(content[4:8], "big")
    variables = {
        "PYSPARK_GATEWAY_PORT": str(port),
        "PYSPARK_GATEWAY_SECRET": content[8 : 8 + size].decode(),
    }
    os.environ.update(variables)
    try:
        gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in variables:
            os.environ.pop(name, None)
    gateway.proc = process
    return gateway


class _Command:
    """The command line of a JVM, stored in a file whose name is a hash of everything it depends on."""

    def __init__(
        self, settings: Mapping[str, str], quick: QuickStart, environment: Mapping[str, str]
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._home = Path(environment.get("SPARK_HOME") or quick.home or _find_spark_home())
        self._file: Path | None = None
        if quick.archive is not None and self._is_plain():
            facts = "\n".join(self._facts())
            digest = hashlib.sha256(facts.encode()).hexdigest()[:16]
            self._file = quick.archive.with_name(f"{quick.archive.stem}-{digest}.command")

    @property
    def _conf(self) -> Path:
        return Path(self._environment.get("SPARK_CONF_DIR") or self._home / "conf")

    def _is_plain(self) -> bool:
        """Whether all dependencies are known: a user's script or arguments in a variable may do anything."""
        script = self._conf / "spark-env.sh"
        return not script.exists() and "PYSPARK_SUBMIT_ARGS" not in self._environment

    def _facts(self) -> Iterator[str]:
        yield json.dumps(dict(self._settings))
        for name, value in sorted(self._environment.items()):
            if name.startswith(_TELLING):
                yield f"{name}={value}"
        if self._conf.is_dir():
            yield from (f"{each} {stamp(each)}" for each in sorted(self._conf.iterdir()))

    def by_script(self) -> list[str]:
        """As pyspark starts it."""
        pairs = [part for each in self._settings.items() for part in ("--conf", "=".join(each))]
        last = shlex.split(self._environment.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        return [str(self._home / "bin" / "spark-submit"), *pairs, *last]

    def read(self) -> tuple[list[str], dict[str, str]] | None:
        """The command and the variables that the script added; None if it is not stored yet."""
        if self._file is None:
            return None
        try:
            kept = json.loads(self._file.read_bytes())
            return [str(each) for each in kept["argv"]], dict(kept["environment"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, pid: int) -> None:
        """Store the command line of the running process; without /proc, store nothing."""
        if self._file is None:
            return
        with contextlib.suppress(OSError, ValueError):
            argv = _strings(f"/proc/{pid}/cmdline")
            now = dict(each.split("=", 1) for each in _strings(f"/proc/{pid}/environ"))
            added = {
                name: now[name]
                for name in now.keys() - self._environment.keys() - {"_", _CONNECTION}
            }
            if "org.apache.spark.deploy.SparkSubmit" not in argv:
                return
            kept = json.dumps({"argv": argv, "environment": added})
            replace_file(self._file, kept.encode(), mode=0o600)

    def forget(self) -> None:
        if self._file is not None:
            self._file.unlink(missing_ok=True)


def _find_spark_home() -> str:
    from pyspark.find_spark_home import _find_spark_home as find  # noqa: PLC0415

    return str(find())


def _strings(path: str) -> list[str]:
    return os.fsdecode(Path(path).read_bytes()).split("\0")[:-1]
