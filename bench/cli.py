"""`kafka-consumer-groups`, cold: a new process each time, from its start to its last byte.

Beside it Kafka's own tool, a Go program on franz-go's kadm, and a Python script on confluent-kafka. All of
them ask the same Apache Kafka about the same groups, and have to print the same names and numbers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from confluent_kafka import Producer

from bench import servers
from bench.harness import Measurement, Round, must_equal
from bench.servers import Unavailable
from coterie.client import AdminClient, PartitionOffset, TopicPartition
from tests.kit import kafka_jars, processes

__all__ = ["measurements"]

VERSION_CPU_MS: Final = 80.0
MEMORY_MB: Final = 100.0

_TOPIC: Final = "orders"
_PARTITIONS: Final = 4
_RECORDS: Final = 10
#: How many groups one request of ours stores offsets for.
_AT_ONCE: Final = 1_000
#: From kafka-run-class.sh, for tools.
_JVM_OPTIONS: Final = (
    "-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true",
)  # fmt: skip
_OURS: Final = (
    sys.executable,
    "-c",
    "from coterie.cli.consumer_groups.main import main; main()",
)
_CONFLUENT: Final = """
import sys
from confluent_kafka.admin import AdminClient
admin = AdminClient({"bootstrap.servers": sys.argv[1]})
groups = admin.list_consumer_groups(request_timeout=30).result()
sys.stdout.write("".join(f"{group.group_id}\\n" for group in groups.valid))
"""


class _Ended(NamedTuple):
    """A process that has come to its end, and what it took."""

    output: str
    wall_ms: float
    cpu_ms: float
    memory_mb: float


def _run(argv: Sequence[str]) -> _Ended:
    begin = perf_counter()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall = (perf_counter() - begin) * 1e3
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{argv[0]} ended with {process.returncode}")
    cpu = (usage.ru_utime + usage.ru_stime) * 1e3
    return _Ended(output.decode(), wall, cpu, usage.ru_maxrss / 1024)


def measurements(*, tiny: bool = False) -> Iterator[Measurement]:
    """All of this part, on one server that gets more groups as it goes."""
    with (
        tempfile.TemporaryDirectory(prefix="coterie-bench-", ignore_cleanup_errors=True) as root,
        ExitStack() as until_the_end,
    ):
        yield _version()
        try:
            server = servers.kafka(Path(root) / "kafka")
        except Unavailable as error:
            print(f"NOT MEASURED: kafka cannot be had here: {error}", file=sys.stderr)
            return
        until_the_end.callback(server.stop)
        server.start()
        field = _Field(f"127.0.0.1:{server.port}")
        few, many = (20, 40) if tiny else (1_000, 10_000)
        field.fill(0, few)
        yield from field.describing(few, goal=15.0, rounds=3)
        field.fill(few, many)
        yield from field.listing(many)
        yield from field.describing(many, goal=25.0, rounds=1)
        yield field.memory(many)


def _version() -> Measurement:
    command = (*_OURS, "--version")
    return Measurement(
        name="cli.version_cpu",
        ours=lambda: _run(command).cpu_ms,
        peers={"budget": lambda: VERSION_CPU_MS},
        goal=1.0,
        agree=lambda: must_equal("version", _run(command).output, "4.3.0\n"),
    )


class _Field:
    """The tools, pointed at one server."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        jars = kafka_jars.resolve(servers.KAFKA_VERSION)
        self._jvm = processes.tethered(
            [
                jars.java, *_JVM_OPTIONS, "-cp", jars.classpath,
                "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
                "--bootstrap-server", bootstrap,
            ]
        )  # fmt: skip
        self._ours = [*_OURS, "--bootstrap-server", bootstrap]
        try:
            self._kadm: list[str] | None = [str(servers.build_go("kadm")), bootstrap]
        except Unavailable as error:
            print(f"NOT MEASURED: kadm cannot be had here: {error}", file=sys.stderr)
            self._kadm = None

    def fill(self, begin: int, end: int) -> None:
        """Groups that have committed to every partition of one topic."""
        with AdminClient.connect(bootstrap_servers=self._bootstrap) as admin:
            if begin == 0:
                admin.create_topics({_TOPIC: _PARTITIONS}).unwrap()
                _produce(self._bootstrap)
            for first in range(begin, end, _AT_ONCE):
                admin.alter_offsets(
                    {
                        f"group-{number:05d}": {
                            TopicPartition(_TOPIC, index): PartitionOffset(number % 7, 0)
                            for index in range(_PARTITIONS)
                        }
                        for number in range(first, min(end, first + _AT_ONCE))
                    }
                ).unwrap()

    def listing(self, groups: int) -> Iterator[Measurement]:
        ours = [*self._ours, "--list"]
        peers = {
            "jvm": ([*self._jvm, "--list"], 5.0, 5),
            "confluent": ([sys.executable, "-c", _CONFLUENT, self._bootstrap], 1.0, 10),
        }
        if self._kadm is not None:
            # Without a goal: a Go program needs no interpreter to start.
            peers["kadm"] = ([*self._kadm, "list"], 0.0, 10)
        for peer, (command, goal, rounds) in peers.items():
            yield self._measurement(
                f"list_{groups}_{peer}",
                ours,
                (peer, command),
                goal=goal,
                rounds=rounds,
                facts=_names,
            )

    def describing(self, groups: int, *, goal: float, rounds: int) -> Iterator[Measurement]:
        ours = [*self._ours, "--describe", "--all-groups"]
        jvm = [*self._jvm, "--describe", "--all-groups", "--timeout", "600000"]
        yield self._measurement(
            f"describe_{groups}_jvm", ours, ("jvm", jvm), goal=goal, rounds=rounds, facts=_offsets
        )
        if self._kadm is not None:
            kadm = [*self._kadm, "describe"]
            yield self._measurement(
                f"describe_{groups}_kadm", ours, ("kadm", kadm), goal=0.0, rounds=5, facts=_offsets
            )

    def memory(self, groups: int) -> Measurement:
        command = [*self._ours, "--describe", "--all-groups"]
        return Measurement(
            name=f"cli.describe_{groups}_memory",
            ours=lambda: _run(command).memory_mb,
            peers={"budget": lambda: MEMORY_MB},
            goal=1.0,
            unit="MB",
            agree=lambda: None,
            max_rounds=2,
        )

    def _measurement(
        self,
        name: str,
        ours: Sequence[str],
        peer: tuple[str, Sequence[str]],
        *,
        goal: float,
        rounds: int,
        facts: Callable[[str], object],
    ) -> Measurement:
        def agree() -> None:
            must_equal(name, facts(_run(ours).output), facts(_run(command).output))

        peer_name, command = peer
        timed: dict[str, Round] = {peer_name: partial(_wall, command)}
        return Measurement(
            name=f"cli.{name}",
            ours=partial(_wall, ours),
            peers=timed,
            goal=goal,
            agree=agree,
            max_rounds=rounds,
        )


def _produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for index in range(_PARTITIONS):
        for _ in range(_RECORDS):
            producer.produce(_TOPIC, b"x", partition=index)
    producer.flush(30)


def _wall(command: Sequence[str]) -> float:
    return _run(command).wall_ms


def _names(output: str) -> object:
    return sorted(output.split())


def _offsets(output: str) -> object:
    """Group, topic, partition, offset, end and lag of every row; kadm prints no more than that."""
    rows = [line.split() for line in output.splitlines() if line.strip()]
    return sorted(tuple(row[:6]) for row in rows if row[0] != "GROUP")
