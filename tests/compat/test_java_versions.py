"""Kafka's Java client of every minor version from 2.0 to 4.3 works on our cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from coterie.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from coterie.testing import EmbeddedCluster
from tests.compat.scenarios import unique
from tests.kit import processes
from tests.kit.kafka_clients import VERSIONS, KafkaClients
from tests.kit.kafka_jars import KafkaRelease
from tests.kit.plugin import require_kafka_clients
from tests.kit.wire_client import WireClient

pytestmark = pytest.mark.kafka

_SOURCE = Path(__file__).parent / "clients" / "EveryVersion.java"
_BROKERS = 3
_TIMEOUT_S = 120.0
_OPTIONS = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:+UseSerialGC", "-Xmx128m")
_FINALIZED = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "metadata.version": 30,
    "transaction.version": 2,
}
# Clients before 3.9 cannot read a range that begins at 0, so ApiVersions below 4 has no such features.
_SUPPORTED_BEFORE_3_9 = {"metadata.version": [7, 30]}
_SUPPORTED = _SUPPORTED_BEFORE_3_9 | {
    "eligible.leader.replicas.version": [0, 1],
    "group.version": [0, 1],
    "kraft.version": [0, 1],
    "transaction.version": [0, 2],
}


class Runs:
    """The program with the client of every version, on one cluster, all begun at once."""

    def __init__(self, clients: KafkaClients, classes: Path, bootstrap: str) -> None:
        self._clients = clients
        self._classes = classes
        self._bootstrap = bootstrap
        # A JVM's start keeps a core busy; more at a time would be no faster on two.
        self._pool = ThreadPoolExecutor(max_workers=2)
        self.topics = {version: unique(f"java-{version}") for version in VERSIONS}
        self._runs: dict[str, Future[dict[str, Any]]] = {
            version: self._pool.submit(self._run, version) for version in VERSIONS
        }

    def _run(self, version: str) -> dict[str, Any]:
        classpath = f"{self._classes}:{self._clients.classpath(version)}"
        topic = self.topics[version]
        words = ["EveryVersion", self._bootstrap, topic, f"{topic}-group", str(_BROKERS)]
        return _said([self._clients.java, *_OPTIONS, "-cp", classpath, *words])

    def result(self, version: str) -> dict[str, Any]:
        return self._runs[version].result()

    def producer_epoch(self, version: str) -> int:
        """The epoch of the program's transactional producer, when all its transactions have ended."""
        host, port = self._bootstrap.split(",")[0].split(":")
        with WireClient(host, int(port)) as client:
            topic = self.topics[version]
            find = FindCoordinatorRequest(key_type=1, coordinator_keys=(topic,))
            (found,) = client.ask(find, FindCoordinatorResponse).coordinators
        with WireClient(found.host, found.port) as client:
            describe = DescribeTransactionsRequest((topic,))
            (state,) = client.ask(describe, DescribeTransactionsResponse).transaction_states
        return state.producer_epoch

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _said(command: list[str]) -> dict[str, Any]:
    run = subprocess.run(
        processes.tethered(command),
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    said = json.loads(run.stdout or "{}")
    assert isinstance(said, dict)
    return said


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    clients = require_kafka_clients(VERSIONS[0])
    classes = tmp_path_factory.mktemp("classes")
    compiler = [clients.java, "-m", "jdk.compiler/com.sun.tools.javac.Main", "--release", "11"]
    compiler += ["-Xlint:all", "-Werror", "-d", str(classes)]
    _said([*compiler, "-cp", clients.classpath(VERSIONS[0]), str(_SOURCE)])
    with EmbeddedCluster(_BROKERS) as cluster:
        every = Runs(clients, classes, cluster.bootstrap_servers)
        try:
            yield every
        finally:
            every.close()


@pytest.fixture
def client(request: pytest.FixtureRequest) -> str:
    """A version of the client that can be had here."""
    version: str = request.param
    require_kafka_clients(version)
    return version


@pytest.mark.parametrize("client", VERSIONS, indirect=True)
def test_works_on_our_cluster(client: str, runs: Runs) -> None:
    line = KafkaRelease(client).line
    said = runs.result(client)
    assert said.pop("cluster id")
    assert said == {
        "version": client,
        "brokers": _BROKERS,
        "controller is a broker": True,
        "partitions": 2,
        "replicas": _BROKERS,
        "in sync": _BROKERS,
        "by id": f"{runs.topics[client]}/2" if line >= (3, 1) else None,
        "state": "Stable",
        "members": 1,
        "assigned": 2,
        "group listed": True,
        "read": [f"value {number}" for number in range(10)],
        "committed": {"0": 5, "1": 5},
        "read committed": ["first", "last"],
        "state after": "Empty",
        "group listed after": False,
        "topic listed after": False,
        "finalized": _FINALIZED if line >= (2, 7) else None,
        "supported": _supported(line),
    }
    # Since 4.0 the end of each transaction bumps the epoch (KIP-890), and before that an abort may.
    assert runs.producer_epoch(client) == 3 if line >= (4, 0) else runs.producer_epoch(client) < 3


def _supported(line: tuple[int, int]) -> dict[str, list[int]] | None:
    if line < (2, 7):
        return None
    return _SUPPORTED if line >= (3, 9) else _SUPPORTED_BEFORE_3_9


def test_every_minor_version_is_there() -> None:
    lines = [KafkaRelease(version).line for version in VERSIONS]
    last = {2: 8, 3: 9, 4: 3}
    assert lines == [(major, minor) for major in last for minor in range(last[major] + 1)]
