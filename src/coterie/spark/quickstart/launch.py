"""Starts Spark's JVM: by Spark's own script, and from then on by the command that the script came to.

`bin/spark-submit` starts a JVM only to find out how to start the other one. What it found out is read from
the process it became, kept beside the archive of classes, and used again as long as nothing that could change
it has changed: jars, JDK, settings, Spark's variables and its configuration files. The program that asked
goes on meanwhile: `Launch.gateway` is where it waits. Called by coterie.spark.quickstart.session.
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
#: Where the JVM is told to write its port and its secret; another one for each start.
_CONNECTION: Final = "_PYSPARK_DRIVER_CONN_INFO_PATH"


class Launch:
    """A JVM on its way."""

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
                start_new_session=True,  # Ctrl-C is for us; the JVM is asked in order
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
        """End a JVM that nobody waits for any more; at once, so that it archives nothing."""
        self.process.kill()
        self.process.communicate()
        shutil.rmtree(self._directory, ignore_errors=True)


def _connected(content: bytes, process: subprocess.Popen[bytes]) -> Any:
    """pyspark's gateway to a JVM that runs already, which it finds by two variables."""
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415  (only here is Spark needed)

    port, size = int.from_bytes(content[:4], "big"), int.from_bytes(content[4:8], "big")
    told = {
        "PYSPARK_GATEWAY_PORT": str(port),
        "PYSPARK_GATEWAY_SECRET": content[8 : 8 + size].decode(),
    }
    os.environ.update(told)
    try:
        gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in told:
            os.environ.pop(name, None)
    gateway.proc = process
    return gateway


class _Command:
    """The command line of a JVM, kept in a file that is named after all it depends on."""

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
        """Whether all that decides is known; a user's script, or arguments in a variable, do anything."""
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
        """The command and the variables that the script added; None if it is not known yet."""
        if self._file is None:
            return None
        try:
            kept = json.loads(self._file.read_bytes())
            return [str(each) for each in kept["argv"]], dict(kept["environment"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, pid: int) -> None:
        """Read from the process what the script has come to; where there is no /proc, nobody knows."""
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
