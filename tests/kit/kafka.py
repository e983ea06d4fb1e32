"""A real Apache Kafka of one's choice of version, on loopback, for the length of a test run.

What this is: one to three brokers (KRaft, or ZooKeeper for lines before it), each a JVM of its
own, with free ports, data in a temporary directory, and no way to outlive the process that
started them. "Started" means that every broker ANSWERS and knows all the others.
What this is not: a client, and not a place for assertions about Kafka.
Who calls it: tests/kit/plugin.py for shared clusters; tests that need a cluster of their own.

Environment: COTERIE_KEEP=1 keeps the temporary directory (data, configuration, logs).
"""

from __future__ import annotations

import atexit
import base64
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kit import kafka_config, kafka_jars, probe, processes
from tests.kit.kafka_config import HOST, Ports
from tests.kit.kafka_jars import DEFAULT_VERSION, KafkaJars, KafkaRelease
from tests.kit.ports import hold_ports

_START_ATTEMPTS = 4
_POLL_S = 0.05
_TAIL_LINES = 25


class KafkaStartError(Exception):
    """A broker ended, or did not answer in time; the message ends with its last log lines."""


class _PortTaken(KafkaStartError):
    """Some other process took the port between our letting go of it and the broker's bind."""


@dataclass
class _Node:
    """One JVM: a broker, or the ZooKeeper some brokers need."""

    name: str
    main_class: str
    home: Path
    process: subprocess.Popen[bytes] | None = None
    # The log is appended to at a restart; only what this launch wrote is of interest.
    log_start: int = 0

    @property
    def properties(self) -> Path:
        return self.home / f"{self.name}.properties"

    @property
    def log(self) -> Path:
        return self.home / f"{self.name}.log"

    @property
    def output(self) -> Path:
        return self.home / f"{self.name}.out"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def launch(self, jars: KafkaJars, jvm_options: Sequence[str]) -> None:
        self.log_start = self.log.stat().st_size if self.log.exists() else 0
        self.output.unlink(missing_ok=True)
        options = kafka_config.jvm_options(self.log, "INFO", heap_mb=512)
        argv = [*jars.command(*options, *jvm_options), self.main_class, str(self.properties)]
        self.process = processes.spawn(argv, self.output)

    def end(self) -> None:
        if self.process is not None:
            processes.end(self.process)

    def written(self) -> str:
        """What this launch has logged, then what it wrote outside its log."""
        text = ""
        if self.log.exists():
            with self.log.open("rb") as handle:
                handle.seek(self.log_start)
                text = handle.read().decode(errors="replace")
        if self.output.exists():
            text += self.output.read_text(encoding="utf-8", errors="replace")
        return text

    def tail(self) -> str:
        lines = self.written().splitlines()[-_TAIL_LINES:]
        return "\n".join(["", f"--- last lines of {self.name}:", *lines])


class KafkaCluster:
    """One to three brokers of one Kafka version. Broker i has node.id i, counted from 0."""

    def __init__(
        self,
        version: str = DEFAULT_VERSION,
        brokers: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        listeners: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = (),
        ready_timeout: float = 120.0,
    ) -> None:
        if not 1 <= brokers <= 3:
            raise ValueError(f"brokers is 1 to 3, not {brokers}")
        self.version = version
        self.brokers = brokers
        self._release = KafkaRelease(version)
        self._config = dict(config or {})
        self._listeners = dict(listeners or {})
        self._jvm_options = tuple(jvm_options)
        self._ready_timeout = ready_timeout
        self._jars: KafkaJars | None = None
        self._home: Path | None = None
        self._ports = Ports((), (), 0)
        self._brokers: list[_Node] = []
        self._zookeeper: _Node | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The brokers' listeners; addresses[i] is broker i."""
        return [(HOST, port) for port in self._ports.brokers]

    @property
    def bootstrap(self) -> str:
        """bootstrap.servers for a client: "127.0.0.1:p0,127.0.0.1:p1"."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    def listener(self, name: str) -> tuple[str, int]:
        """The address of a further listener."""
        return HOST, self._ports.extra[name]

    @property
    def home(self) -> Path:
        """The temporary directory with everything of this cluster; there only while started."""
        if self._home is None:
            raise RuntimeError("the cluster is not started")
        return self._home

    @property
    def pids(self) -> list[int]:
        """Every process of the cluster that is running now: brokers, then ZooKeeper if any."""
        return [n.process.pid for n in self._nodes() if n.running and n.process is not None]

    def log_dir(self, i: int) -> Path:
        """Broker i's log.dirs: its partitions' segment files."""
        return self.home / f"data-{i}"

    def server_log(self, i: int) -> Path:
        """Broker i's log in the other sense: what it wrote about itself."""
        return self._brokers[i].log

    def start(self) -> None:
        """Start every broker and return when all of them answer.

        KafkaUnavailable when this machine cannot run Kafka at all; KafkaStartError when it can
        and Kafka did not start.
        """
        if self._home is not None:
            raise RuntimeError("the cluster is started already")
        self._jars = kafka_jars.resolve(self.version)
        _started.append(self)
        try:
            for attempt in range(1, _START_ATTEMPTS + 1):
                try:
                    self._start_once(self._jars)
                except _PortTaken:
                    if attempt == _START_ATTEMPTS:
                        raise
                    self._clear()
                else:
                    return
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process and remove the data. Stopping a stopped cluster does nothing.

        SIGKILL, with no orderly shutdown first: the data goes too, so nothing is gained by one.
        """
        try:
            self._clear()
        finally:
            if self in _started:
                _started.remove(self)

    def is_running(self, i: int) -> bool:
        """Whether broker i's process lives."""
        return self._brokers[i].running

    def kill_broker(self, i: int, *, orderly: bool = False) -> None:
        """End broker i: with SIGKILL, or by its own controlled shutdown. Its data stays."""
        process = self._brokers[i].process
        if process is None:
            raise RuntimeError("the cluster is not started")
        if orderly:
            processes.terminate(process)
        else:
            processes.end(process)

    def start_broker(self, i: int) -> None:
        """Start broker i again on its old data and port; returns when it answers and sees the
        other running brokers."""
        node = self._brokers[i]
        if node.running:
            raise RuntimeError(f"broker {i} is running")
        node.launch(self._ready_jars(), self._jvm_options)
        self._await([i], self._relaunch)

    def run_tool(
        self, main_class: str, *args: str, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a Java class of Kafka's, such as the consumer groups command, to its end.

        What it logs goes to tools.log beside the brokers' logs, so stdout is the tool's own.
        """
        jars = self._ready_jars()
        options = kafka_config.jvm_options(self.home / "tools.log", "WARN", heap_mb=256)
        return subprocess.run(
            processes.tethered([*jars.command(*options), main_class, *args]),
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def _ready_jars(self) -> KafkaJars:
        if self._jars is None:
            raise RuntimeError("the cluster is not started")
        return self._jars

    def _nodes(self) -> list[_Node]:
        return self._brokers + ([self._zookeeper] if self._zookeeper is not None else [])

    def _start_once(self, jars: KafkaJars) -> None:
        home = self._home = Path(tempfile.mkdtemp(prefix=f"coterie-kafka-{self.version}-"))
        held = hold_ports(2 * self.brokers + 1 + len(self._listeners))
        try:
            self._write_configuration(home, [s.getsockname()[1] for s in held])
            if self._release.kraft:
                self._format_storage(jars)
        finally:
            # Held up to here, so that nothing on this machine was given the same ports.
            for s in held:
                s.close()
        for node in self._nodes():
            node.launch(jars, self._jvm_options)
        self._await(range(self.brokers), self._give_up)

    def _write_configuration(self, home: Path, ports: Sequence[int]) -> None:
        n = self.brokers
        extra = dict(zip(self._listeners, ports[2 * n + 1 :], strict=True))
        self._ports = Ports(ports[:n], ports[n : 2 * n], ports[2 * n], extra)
        self._brokers = [_Node(f"broker-{i}", "kafka.Kafka", home) for i in range(n)]
        for i, node in enumerate(self._brokers):
            node.properties.write_text(
                kafka_config.broker_properties(
                    self._release,
                    i,
                    self._ports,
                    self.log_dir(i),
                    self._config,
                    listeners=self._listeners,
                ),
                encoding="utf-8",
            )
        if not self._release.kraft:
            main_class = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
            self._zookeeper = _Node("zookeeper", main_class, home)
            self._zookeeper.properties.write_text(
                kafka_config.zookeeper_properties(self._ports, home / "data-zookeeper"),
                encoding="utf-8",
            )

    def _format_storage(self, jars: KafkaJars) -> None:
        """Give every node's directory the same cluster id. The tool turns on every feature its
        version holds ready for production: in 4.x share groups and streams groups with it."""
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        formats: list[tuple[subprocess.Popen[bytes], Path]] = []
        for i, node in enumerate(self._brokers):
            options = kafka_config.jvm_options(self.home / f"format-{i}.log", "WARN", heap_mb=256)
            argv = [*jars.command(*options), "kafka.tools.StorageTool"]
            # The id as one word: it may begin with a dash.
            argv += ["format", f"--cluster-id={cluster_id}", "--config", str(node.properties)]
            output = self.home / f"format-{i}.out"
            formats.append((processes.spawn(argv, output), output))
        try:
            for process, output in formats:
                if process.wait(self._ready_timeout) != 0:
                    said = output.read_text(encoding="utf-8", errors="replace")
                    raise KafkaStartError(f"Kafka {self.version}: storage not formatted: {said}")
        finally:
            for process, _ in formats:
                processes.end(process)

    def _await(self, brokers: Sequence[int], on_exit: Callable[[_Node], None]) -> None:
        """Return when each of these brokers answers; on_exit raises or repairs a node's end."""
        deadline = time.monotonic() + self._ready_timeout
        waiting = list(brokers)
        last = "no answer yet"
        while waiting:
            for node in [self._brokers[i] for i in brokers] + self._nodes()[self.brokers :]:
                if not node.running:
                    on_exit(node)
            try:
                self._check_answers(waiting[0])
                waiting.pop(0)
                continue
            except probe.ProbeError as error:
                last = str(error)
            if time.monotonic() > deadline:
                tails = "".join(self._brokers[i].tail() for i in brokers)
                raise KafkaStartError(
                    f"Kafka {self.version} not ready in {self._ready_timeout:.0f} s: {last}{tails}"
                )
            time.sleep(_POLL_S)

    def _check_answers(self, i: int) -> None:
        """ProbeError unless broker i answers and sees a controller and all running brokers.

        A broker takes connections before the controller has admitted it; clients that come then
        are told of a cluster without it.
        """
        address = self.addresses[i]
        probe.api_versions(address)
        view = probe.cluster_view(address)
        expected = {j: self.addresses[j] for j in range(self.brokers) if self.is_running(j)}
        if view.controller_id < 0 or not expected.items() <= view.brokers.items():
            raise probe.ProbeError(f"broker {i} sees {view}, not yet {expected}")

    def _give_up(self, node: _Node) -> None:
        said = node.written()
        kind = _PortTaken if _bind_failed(said) else KafkaStartError
        raise kind(f"Kafka {self.version}: {node.name} ended while starting{node.tail()}")

    def _relaunch(self, node: _Node) -> None:
        """For a broker started again. Its port is fixed, so a port taken for a moment is waited
        out; and ZooKeeper holds its old registration until the old session runs out."""
        said = node.written()
        if not (_bind_failed(said) or "NodeExistsException" in said):
            raise KafkaStartError(
                f"Kafka {self.version}: {node.name} ended while starting{node.tail()}"
            )
        node.launch(self._ready_jars(), self._jvm_options)

    def _clear(self) -> None:
        nodes, home = self._nodes(), self._home
        self._brokers, self._zookeeper, self._home = [], None, None
        self._ports = Ports((), (), 0)
        try:
            # All signals before the first wait, so that a wait that fails spares no one.
            for node in nodes:
                if node.process is not None:
                    node.process.kill()
            for node in nodes:
                node.end()
        finally:
            if home is not None and os.environ.get("COTERIE_KEEP") != "1":
                shutil.rmtree(home, ignore_errors=True)


def _bind_failed(said: str) -> bool:
    return "BindException" in said or "Address already in use" in said


_started: list[KafkaCluster] = []


@atexit.register
def _stop_all() -> None:
    while _started:
        _started[-1].stop()
