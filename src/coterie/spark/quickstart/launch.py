"""Starts Spark's JVM by Spark's own script, in parallel with the program that is going to use it.

pyspark starts the JVM when a session is made, and waits for it. `Launch` starts it as pyspark does, but at
once; the program imports pyspark meanwhile, and waits in `Launch.gateway`. Called by
coterie.spark.quickstart.session.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from coterie.errors import CoterieError
from coterie.spark.quickstart.startup import QuickStart, spark_home

__all__ = ["Launch"]

_POLL_SECONDS: Final = 0.01
#: Names the file in which the JVM writes its port and secret; a new file for each start.
_CONNECTION: Final = "_PYSPARK_DRIVER_CONN_INFO_PATH"


class Launch:
    """A JVM that is starting."""

    def __init__(self, settings: Mapping[str, str], quick: QuickStart, log: Path | None) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="coterie-spark-"))
        self._connection = self._directory / "connection"
        environment = {**os.environ, **quick.environment, "SPARK_CONNECT_MODE": "0"}
        home = quick.environment.get("SPARK_HOME") or spark_home()
        pairs = [part for each in settings.items() for part in ("--conf", "=".join(each))]
        last = shlex.split(environment.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        with log.open("wb") if log else contextlib.nullcontext() as file:
            self.process = subprocess.Popen(  # noqa: S603 - Spark
                [f"{home}/bin/spark-submit", *pairs, *last],
                stdin=subprocess.PIPE,  # the JVM ends when this pipe does
                stdout=file,
                stderr=file,
                env={**environment, _CONNECTION: str(self._connection)},
                start_new_session=True,  # Ctrl-C stops us, and we stop the JVM in order
            )

    def gateway(self) -> Any:
        """Wait for the JVM; pyspark's connection to it."""
        try:
            while not self._connection.exists():
                if self.process.poll() is not None:
                    self.cancel()
                    raise CoterieError(f"its JVM ended with code {self.process.returncode}")
                time.sleep(_POLL_SECONDS)
            content = self._connection.read_bytes()
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)
        return _connected(content, self.process)

    def cancel(self) -> None:
        """Kill a JVM that is no longer needed, so that it writes no archive."""
        self.process.kill()
        self.process.communicate()
        shutil.rmtree(self._directory, ignore_errors=True)


def _connected(content: bytes, process: subprocess.Popen[bytes]) -> Any:
    """pyspark's gateway to a running JVM, which pyspark finds by two variables."""
    from pyspark.java_gateway import launch_gateway

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
