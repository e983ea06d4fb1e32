"""The servers that are measured, each a process of its own: ours, Apache Kafka, franz-go's kfake.

A server is started when it answers ListGroups without an error, which is also what its start is timed by.
Kafka gets the options that its own start script gives it, and nothing that the tests use to start it
sooner: without its second compiler it would answer slower than it does at its users'. Everything lies in one
temporary directory, so that all write to the same disk; TMPDIR says where that is.
"""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from coterie.console.directories import cache_directory
from coterie.protocol.api import ApiKey
from coterie.protocol.frames import decode_response, encode_request
from coterie.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from tests.kit import kafka_config, kafka_jars, processes
from tests.kit.kafka_config import HOST, Ports
from tests.kit.kafka_jars import KafkaRelease, KafkaUnavailable
from tests.kit.ports import free_ports

__all__ = [
    "MakeServer",
    "Server",
    "Unavailable",
    "build_go",
    "coterie",
    "kafka",
    "kfake",
]

KAFKA_VERSION = "4.3.0"
START_SECONDS = 120.0

#: From kafka-run-class.sh and kafka-server-start.sh.
_KAFKAS_OWN_OPTIONS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
)
#: What the kit sets otherwise, put back; of two the later one counts.
_KIT_OPTIONS_UNDONE = ("-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC")
_GROUPS_AT_ONCE = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "50",
}
_GO_SECONDS = 600.0
_LIST_GROUPS_VERSION = 4


class Unavailable(Exception):
    """A peer cannot be had on this machine; the reason is one line."""


@dataclass
class Server:
    """A server's command line and where it listens; `start` runs it, and it ends with this process."""

    name: str
    home: Path
    port: int
    argv: Sequence[str]
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def address(self) -> tuple[str, int]:
        return HOST, self.port

    @property
    def output(self) -> Path:
        return self.home / f"{self.name}.out"

    def launch(self) -> None:
        """Start the process and return at once."""
        self.process = processes.spawn(self.argv, self.output)

    def start(self, ready: Callable[[ListGroupsResponse], bool] = lambda _: True) -> float:
        """Start the process; the seconds until the first ListGroups that was answered without error."""
        begin = perf_counter()
        self.launch()
        self.wait(begin + START_SECONDS, ready)
        return perf_counter() - begin

    def wait(
        self, deadline: float, ready: Callable[[ListGroupsResponse], bool] = lambda _: True
    ) -> None:
        """Return when groups can be listed; RuntimeError when the process ends or time runs out."""
        while True:
            answer = self._ask()
            if answer is not None and answer.error_code == 0 and ready(answer):
                return
            if self.process is None or self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended while starting: {self._last_words()}")
            if perf_counter() > deadline:
                raise RuntimeError(f"{self.name} is not ready in time: {self._last_words()}")
            time.sleep(0.002)

    def _ask(self) -> ListGroupsResponse | None:
        """The groups that are Stable (few, so that asking does not cost), if there is an answer yet."""
        request = ListGroupsRequest(states_filter=("Stable",))
        data = encode_request(request, _LIST_GROUPS_VERSION, correlation_id=1, client_id="bench")
        try:
            with socket.create_connection(self.address, timeout=30) as link:
                link.sendall(data)
                with link.makefile("rb") as answers:
                    size = answers.read(4)
                    body = answers.read(int.from_bytes(size, "big"))
        except OSError:
            return None
        if len(size) < 4:
            return None
        _, answer = decode_response(ApiKey.LIST_GROUPS, _LIST_GROUPS_VERSION, body)
        return answer if isinstance(answer, ListGroupsResponse) else None

    def _last_words(self) -> str:
        text = self.output.read_text(errors="replace") if self.output.exists() else ""
        return text[-2000:] or "no output"

    def memory_mb(self) -> float:
        """The process's resident memory, as Linux counts it."""
        if self.process is None:
            raise RuntimeError(f"{self.name} is not started")
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        kilobytes = next(line.split()[1] for line in status.splitlines() if line[:6] == "VmRSS:")
        return int(kilobytes) / 1024

    def terminate(self) -> None:
        """End it in order; its data stays."""
        if self.process is not None:
            processes.terminate(self.process)

    def stop(self) -> None:
        """End it at once, and remove its data."""
        if self.process is not None:
            processes.end(self.process)
        shutil.rmtree(self.home, ignore_errors=True)


#: Makes a server in a directory of its own, ready to be started.
MakeServer = Callable[[Path], Server]


def coterie(home: Path, *, memory: bool = False) -> Server:
    """Ours, on disk with a sync before every answer, or in memory."""
    home.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    argv = [sys.executable, "-c", "from coterie.cli.main import main; main()", "server"]
    argv += ["--port", str(port)]
    argv += ["--memory"] if memory else ["--data-dir", str(home / "data")]
    for name, value in _GROUPS_AT_ONCE.items():
        argv += ["--set", f"{name}={value}"]
    return Server("coterie", home, port, argv)


def kafka(home: Path) -> Server:
    """Apache Kafka, one node that is broker and controller, its storage formatted."""
    try:
        jars = kafka_jars.resolve(KAFKA_VERSION)
    except KafkaUnavailable as error:
        raise Unavailable(error.reason) from error
    home.mkdir(parents=True)
    port, controller = free_ports(2)
    properties = home / "server.properties"
    properties.write_text(
        kafka_config.broker_properties(
            KafkaRelease(KAFKA_VERSION),
            0,
            Ports((port,), (controller,), 0),
            home / "data",
            _GROUPS_AT_ONCE,
        )
    )
    small = kafka_config.jvm_options(home / "format.log", "WARN", heap_mb=256)
    java = [jars.java, *small, "-cp", jars.classpath, "kafka.tools.StorageTool", "format"]
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    formatted = subprocess.run(
        processes.tethered([*java, f"--cluster-id={cluster_id}", "--config", str(properties)]),
        check=False,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
    )
    if formatted.returncode != 0:
        raise Unavailable(f"its storage was not formatted: {formatted.stderr[-300:]}")
    options = kafka_config.jvm_options(home / "kafka.log", "INFO", heap_mb=1024)
    options += [*_KIT_OPTIONS_UNDONE, *_KAFKAS_OWN_OPTIONS]
    argv = [jars.java, *options, "-cp", jars.classpath, "kafka.Kafka", str(properties)]
    return Server("kafka", home, port, argv)


def kfake(home: Path) -> Server:
    """franz-go's fake cluster, on disk with a sync before every answer."""
    program = build_go("kfake")
    home.mkdir(parents=True)
    (port,) = free_ports(1)
    argv = [str(program), "-port", str(port), "-data", str(home / "data")]
    return Server("kfake", home, port, argv)


def build_go(name: str) -> Path:
    """A program of ours in Go, built into a cache outside of the repository; Go knows if it is up to date."""
    go = shutil.which("go")
    if go is None:
        raise Unavailable("no go on the PATH")
    cache = cache_directory() / "bench"
    program = cache / name
    try:
        cache.mkdir(parents=True, exist_ok=True)
        built = subprocess.run(
            [go, "build", "-o", str(program), "."],
            cwd=Path(__file__).with_name(name),
            check=False,
            capture_output=True,
            text=True,
            timeout=_GO_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"go build: {error}") from error
    if built.returncode != 0:
        raise Unavailable(f"go build: {' '.join(built.stderr.split())[-300:]}")
    return program
