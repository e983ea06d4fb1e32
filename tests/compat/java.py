"""Apache Kafka's own command line tools, run on a cluster of ours; no broker of Kafka's is needed for it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.kit import kafka_config, kafka_jars, processes
from tests.kit.cli_replay import Driver
from tests.kit.plugin import require_kafka

__all__ = ["JavaTools", "Said", "at_once"]

_TIMEOUT_S = 90.0
_CLASSES = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "configs": "kafka.admin.ConfigCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "producer-performance": "org.apache.kafka.tools.ProducerPerformance",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
}
# They do one thing and end. Others read from the terminal, or run until they are told to stop.
_DRIVEN = {"topics", "consumer-groups", "get-offsets", "configs", "broker-api-versions"}


class Said:
    """What a tool said, and how it ended."""

    def __init__(self, run: subprocess.CompletedProcess[str]) -> None:
        self.code = run.returncode
        self.out = run.stdout
        self.err = run.stderr

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.out.splitlines() if line.strip()]

    def table(self) -> list[dict[str, str]]:
        """The rows of a table, by the words of its first line that is in capitals."""
        rows: list[dict[str, str]] = []
        header: list[str] = []
        for line in self.lines:
            words = line.replace("COORDINATOR (ID)", "COORDINATOR").split()
            if not header:
                header = words if line.isupper() else []
            else:
                rows.append(dict(zip(header, words, strict=False)))
        return rows

    def __repr__(self) -> str:
        return f"exit {self.code}\n{self.out}\n{self.err}"


class JavaTools:
    """Tools of one Kafka version, pointed at one cluster."""

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        version: str = "4.3.0",
        *,
        driver: Driver | None = None,
    ) -> None:
        """With a driver, the tools of _DRIVEN share its JVM."""
        require_kafka(version)
        self._driver = driver
        self._jars = kafka_jars.resolve(version)
        self._bootstrap = bootstrap
        self._log = directory / "tools.log"

    def run(self, tool: str, *arguments: str, typed: str = "") -> Said:
        """Run a tool to its end; `typed` is what it reads from the terminal."""
        if tool != "dump-log":
            arguments = ("--bootstrap-server", self._bootstrap, *arguments)
        if self._driver is not None and tool in _DRIVEN:
            told = self._driver(_CLASSES[tool], arguments)
            return Said(subprocess.CompletedProcess(arguments, told.exit, told.stdout, told.stderr))
        options = kafka_config.jvm_options(self._log, "WARN", heap_mb=256)
        command = [*self._jars.command(*options), _CLASSES[tool], *arguments]
        return Said(
            subprocess.run(
                processes.tethered(command),
                check=False,
                input=typed,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
            )
        )


def at_once(*work: Callable[[], Said]) -> list[Said]:
    """Several tools at a time: most of each one's life is its JVM's start."""
    with ThreadPoolExecutor(max_workers=3) as pool:
        return [each.result() for each in [pool.submit(one) for one in work]]
