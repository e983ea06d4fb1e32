"""The cluster that a suite runs on: Coterie, or Apache Kafka 4.3.0 to verify the lists of differences.

Both get the settings that the suite's own CI gives its brokers. The ports are fixed; see network.py.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.compat.suites.catalog import Suite, find_toxiproxy
from tests.kit import kafka_config, kafka_jars, probe, processes

__all__ = ["COTERIE", "KAFKA", "SERVERS"]

COTERIE: Final = "coterie"
KAFKA: Final = "kafka"
_CONTROLLER_PORT: Final = 49091
_TOXIPROXY_PORT: Final = 8474
_READY_S: Final = 180.0
_POLL_S: Final = 0.1
_CLUSTER_ID: Final = "c3VpdGVzLWNsdXN0ZXItMQ"
_SCRAM_USERS: Final = {"adminscram256": "admin-secret-256", "adminscram512": "admin-secret-512"}
_PLAIN_USERS: Final = {"adminplain": "admin-secret"}
_PROTOCOLS: Final = "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT"


@contextlib.contextmanager
def _coterie(suite: Suite, home: Path) -> Iterator[None]:
    """A `coterie server`, with its data in memory."""
    main = "from coterie.cli.main import main; main()"
    command = [sys.executable, "-c", main, "server", "--memory", "--brokers", str(suite.brokers)]
    command += ["--listener", f"PLAINTEXT://127.0.0.1:{suite.port}"]
    command += ["--advertised", f"PLAINTEXT://localhost:{suite.advertised_port}"]
    settings = dict(suite.settings)
    if suite.sasl_port is not None:
        command += ["--listener", f"SASL://127.0.0.1:{suite.sasl_port}"]
        command += ["--advertised", f"SASL://localhost:{suite.sasl_port}"]
        for user, password in {**_SCRAM_USERS, **_PLAIN_USERS}.items():
            command += ["--user", f"{user}:{password}"]
        settings |= _sasl_settings()
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    with _running(command, home / "coterie.out") as process:
        _await_brokers(suite, process, home / "coterie.out")
        yield


@contextlib.contextmanager
def _kafka(suite: Suite, home: Path) -> Iterator[None]:
    """Brokers of Apache Kafka, numbered from 1, each also a controller."""
    jars = kafka_jars.resolve(kafka_jars.DEFAULT_VERSION)
    nodes = range(1, suite.brokers + 1)
    with contextlib.ExitStack() as stack:
        started = []
        for node in nodes:
            properties = home / f"broker-{node}.properties"
            properties.write_text(
                kafka_config.as_properties(_kafka_properties(suite, node, home)), encoding="utf-8"
            )
            options = kafka_config.jvm_options(home / f"broker-{node}.log", "INFO", heap_mb=768)
            java = jars.command(*options)
            storage = ["kafka.tools.StorageTool", "format", "--config", str(properties)]
            subprocess.run(
                [*java, *storage, "--cluster-id", _CLUSTER_ID, *_scram_arguments(suite)],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            started.append(([*java, "kafka.Kafka", str(properties)], home / f"broker-{node}.out"))
        brokers = [(stack.enter_context(_running(*each)), each[1]) for each in started]
        for process, output in brokers:
            _await_brokers(suite, process, output)
        yield


def _sasl_settings() -> dict[str, str]:
    """The settings of users and ACLs that are the same on both servers."""
    users = (*_SCRAM_USERS, *_PLAIN_USERS)
    return {
        "listener.security.protocol.map": _PROTOCOLS,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": ";".join(f"User:{user}" for user in users),
    }


def _scram_arguments(suite: Suite) -> list[str]:
    if suite.sasl_port is None:
        return []
    arguments = []
    for user, password in _SCRAM_USERS.items():
        mechanism = f"SCRAM-SHA-{user[-3:]}"
        arguments += ["--add-scram", f"{mechanism}=[name={user},password={password}]"]
    return arguments


def _kafka_properties(suite: Suite, node: int, home: Path) -> dict[str, str]:
    port = suite.port + node - 1
    controller = _CONTROLLER_PORT + node - 1
    voters = (f"{n}@127.0.0.1:{_CONTROLLER_PORT + n - 1}" for n in range(1, suite.brokers + 1))
    replicas = str(min(suite.brokers, 3))
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "log.dirs": str(home / f"data-{node}"),
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://localhost:{suite.advertised_port + node - 1}",
        "listener.security.protocol.map": f"{_PROTOCOLS},CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": "1",
        "log.cleaner.dedupe.buffer.size": "4194304",
    }
    if suite.proxied:
        # Brokers talk to each other without the proxy, whose faults are for clients only.
        properties["listeners"] += f",INTERNAL://127.0.0.1:{port + 100}"
        properties["advertised.listeners"] += f",INTERNAL://127.0.0.1:{port + 100}"
        properties["listener.security.protocol.map"] += ",INTERNAL:PLAINTEXT"
        properties["inter.broker.listener.name"] = "INTERNAL"
        properties["broker.rack"] = str(node)
        selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        properties["replica.selector.class"] = selector
    if suite.sasl_port is not None:
        properties |= _kafka_sasl(suite.sasl_port, properties)
    return properties | dict(suite.settings)


def _kafka_sasl(port: int, properties: Mapping[str, str]) -> dict[str, str]:
    modules = "org.apache.kafka.common.security"
    users = " ".join(f'user_{name}="{password}"' for name, password in _PLAIN_USERS.items())
    return {
        "listeners": f"{properties['listeners']},SASL://127.0.0.1:{port}",
        "advertised.listeners": f"{properties['advertised.listeners']},SASL://localhost:{port}",
        **_sasl_settings(),
        "listener.security.protocol.map": properties["listener.security.protocol.map"],
        "listener.name.sasl.plain.sasl.jaas.config": (
            f"{modules}.plain.PlainLoginModule required {users};"
        ),
        **{
            f"listener.name.sasl.scram-sha-{size}.sasl.jaas.config": (
                f"{modules}.scram.ScramLoginModule required;"
            )
            for size in (256, 512)
        },
    }


@contextlib.contextmanager
def _with_proxies(suite: Suite, home: Path) -> Iterator[None]:
    """The proxy server that sarama's tests put faults into, with one proxy for each broker."""
    if not suite.proxied:
        yield
        return
    found = find_toxiproxy()
    assert isinstance(found, Path), found
    config = home / "toxiproxy.json"
    proxies = [
        {
            "name": f"kafka{node + 1}",
            "listen": f"127.0.0.1:{suite.advertised_port + node}",
            "upstream": f"127.0.0.1:{suite.port + node}",
            "enabled": True,
        }
        for node in range(suite.brokers)
    ]
    config.write_text(json.dumps(proxies), encoding="utf-8")
    output = home / "toxiproxy.out"
    command = [str(found / "program"), "-host", "localhost", "-config", str(config)]
    with _running(command, output) as process:
        _await(process, output, _proxies_answer)
        yield


def _proxies_answer() -> None:
    with urllib.request.urlopen(f"http://localhost:{_TOXIPROXY_PORT}/version", timeout=5) as answer:
        answer.read()


@contextlib.contextmanager
def _running(command: list[str], output: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = processes.spawn(command, output)
    try:
        yield process
    finally:
        processes.end(process)


def _await_brokers(suite: Suite, process: subprocess.Popen[bytes], output: Path) -> None:
    def check() -> None:
        for node in range(suite.brokers):
            view = probe.cluster_view(("127.0.0.1", suite.port + node))
            if view.controller_id < 0 or len(view.brokers) < suite.brokers:
                raise probe.ProbeError(f"broker {node + 1} sees {view}")

    _await(process, output, check)


def _await(process: subprocess.Popen[bytes], output: Path, check: Callable[[], None]) -> None:
    """Return when `check` does not raise; fail with the program's output if it ends before that."""
    deadline = time.monotonic() + _READY_S
    while True:
        try:
            return check()
        except (OSError, probe.ProbeError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                said = output.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise RuntimeError(f"{output.stem} is not ready: {error}\n{said}") from None
        time.sleep(_POLL_S)


def _check_ports_free(suite: Suite) -> None:
    wanted = {suite.port + node for node in range(suite.brokers)}
    if suite.sasl_port is not None:
        wanted.add(suite.sasl_port)
    if suite.proxied:
        wanted |= {suite.advertised_port + node for node in range(suite.brokers)} | {
            _TOXIPROXY_PORT
        }
    for port in sorted(wanted):
        with socket.socket() as probing:
            probing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probing.bind(("127.0.0.1", port))
            except OSError as error:
                raise RuntimeError(
                    f"port {port}, which the tests of {suite.name} assume, is in use: {error};"
                    " end the program that uses it"
                ) from None


@contextlib.contextmanager
def _served(
    start: Callable[[Suite, Path], contextlib.AbstractContextManager[None]],
    suite: Suite,
    home: Path,
) -> Iterator[None]:
    _check_ports_free(suite)
    with start(suite, home), _with_proxies(suite, home):
        yield


#: By name: a context in which the suite's cluster runs.
SERVERS: Final[dict[str, Callable[[Suite, Path], contextlib.AbstractContextManager[None]]]] = {
    COTERIE: lambda suite, home: _served(_coterie, suite, home),
    KAFKA: lambda suite, home: _served(_kafka, suite, home),
}
