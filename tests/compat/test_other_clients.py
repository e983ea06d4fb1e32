"""Clients in other languages live on our cluster as they do on Apache Kafka: franz-go and kafkajs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from coterie.testing import EmbeddedCluster
from tests.compat.missing_programs import not_run_line
from tests.compat.programs import Program, find_program, require_program
from tests.compat.scenarios import unique
from tests.kit.kafka import KafkaCluster

COMMON = {
    "delete live": "NON_EMPTY_GROUP",
    "deleted": "NONE",
    "deleted again": "GROUP_ID_NOT_FOUND",
}
EXPECTED: dict[str, dict[str, Any]] = {
    "franz_go": {
        "created again": "TOPIC_ALREADY_EXISTS",
        "protocol": "cooperative-sticky",
        "read alone": True,
        "resumed": True,
        "offsets": [252, 252, 253, 253],
        "described no more": ["Dead", "GROUP_ID_NOT_FOUND"],
        # Five records aborted and a marker, then these.
        "committed": [6, 7, 8, 9, 10],
    },
    "kafkajs": {
        "created again": False,
        "protocol": "RoundRobinAssigner",
        "read alone": [1000, 1000],
        "resumed": [f"second {number}" for number in range(10)],
        "after altering": [3, 252, 252, 253],
        "described no more": ["Dead", 0],
        "committed ones": [[3, "commit 1"], [4, "commit 2"]],
    },
}


class Runs:
    """Every program on one cluster, all begun at once; most of their time is waiting."""

    def __init__(self, bootstrap: str, names: list[str]) -> None:
        self._pool = ThreadPoolExecutor()
        self._runs = {name: self._pool.submit(self._run, name, bootstrap) for name in names}

    def _run(self, name: str, bootstrap: str) -> dict[str, Any]:
        program = find_program(name)
        assert isinstance(program, Program)
        return program.run(bootstrap, unique(name), unique(name))

    def result(self, name: str) -> dict[str, Any]:
        return self._runs[name].result()

    def close(self) -> None:
        self._pool.shutdown()


@pytest.fixture(scope="module")
def available() -> list[str]:
    return [name for name in EXPECTED if isinstance(find_program(name), Program)]


@pytest.fixture(scope="module")
def our_runs(available: list[str]) -> Iterator[Runs]:
    with EmbeddedCluster(3) as cluster, closing(Runs(cluster.bootstrap_servers, available)) as runs:
        yield runs


@pytest.fixture(scope="module")
def kafka_runs(
    available: list[str], kafka_cluster: Callable[[str, int], KafkaCluster]
) -> Iterator[Runs]:
    with closing(Runs(kafka_cluster("4.3.0", 3).bootstrap, available)) as runs:
        yield runs


@pytest.mark.parametrize("name", EXPECTED)
def test_works_on_our_cluster(name: str, our_runs: Runs) -> None:
    require_program(name)
    assert our_runs.result(name).items() >= (COMMON | EXPECTED[name]).items()


@pytest.mark.parametrize("name", EXPECTED)
def test_looks_as_on_kafka(name: str, our_runs: Runs, kafka_runs: Runs) -> None:
    require_program(name)
    assert our_runs.result(name) == kafka_runs.result(name)


def test_says_what_did_not_run() -> None:
    reason = "Skipped: needs a client in another language: franz_go: no go on the PATH"
    skipped: Any = [SimpleNamespace(longrepr=("file", 1, reason), nodeid="test")]
    assert not_run_line(skipped) == (
        "NOT RUN: 1 test needs a client in another language: franz_go: no go on the PATH"
        " (COTERIE_REQUIRE_CLIENTS=1 makes this a failure)"
    )
    assert not_run_line([]) is None
