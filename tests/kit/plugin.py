"""The pytest plugin that lends tests a real Apache Kafka.

What this is: fixtures for shared clusters (kafka, kafka_cluster), the marker kafka on every test
that uses one, and the one place that decides what happens where Kafka cannot be had: the tests
are skipped with the reason, and the run ends with one line that says so.
What this is not: a way to start a cluster of one's own; that is KafkaCluster, after a call of
require_kafka.
Who calls it: tests/conftest.py names it in pytest_plugins.

Environment: COTERIE_REQUIRE_KAFKA=1 makes a missing Kafka a failure instead of a skip.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest

from tests.kit import kafka_archive, kafka_clients, kafka_jars
from tests.kit.kafka import KafkaCluster, KafkaStartError
from tests.kit.kafka_clients import KafkaClients
from tests.kit.kafka_jars import DEFAULT_VERSION, MINIMUM_JAVA, KafkaUnavailable

KafkaClusterFactory = Callable[[str, int], KafkaCluster]

_FIXTURES = {"kafka", "kafka_cluster"}
# The skip reason is also how the summary finds these tests again among all skipped ones: of a
# report that came from another process, only its text is left.
_REASON = "needs a real Apache Kafka {version}: {reason}"
_REASON_PATTERN = re.compile(r"needs a real Apache Kafka (\S+): (.*)", re.DOTALL)


def require_kafka(version: str = DEFAULT_VERSION) -> None:
    """Skip the test that calls this, or fail it under COTERIE_REQUIRE_KAFKA=1, where this
    version of Kafka cannot be had."""
    if (reason := _why_unavailable(version)) is not None:
        _not_run(version, reason)


def require_kafka_clients(version: str) -> KafkaClients:
    """Kafka's Java clients of all versions; without them the test of this version is skipped, or
    fails, as by require_kafka."""
    found = _kafka_clients()
    if isinstance(found, str):
        _not_run(version, found)
    return found


def _not_run(version: str, reason: str) -> NoReturn:
    message = _REASON.format(version=version, reason=reason)
    if os.environ.get("COTERIE_REQUIRE_KAFKA") == "1":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """A socket that somebody's client leaves open is told of in the test that expects it, not later."""
    marks = item.iter_markers("filterwarnings")
    if any("ResourceWarning" in str(each) for mark in marks for each in mark.args):
        gc.collect()


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[KafkaClusterFactory]:
    """A function (version, brokers) -> KafkaCluster; clusters are shared by the whole run."""
    clusters = _SharedClusters()
    try:
        yield clusters.get
    finally:
        clusters.stop()


@pytest.fixture(scope="session")
def kafka(kafka_cluster: KafkaClusterFactory) -> KafkaCluster:
    """The shared single broker of the default version."""
    return kafka_cluster(DEFAULT_VERSION, 1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kafka: needs a real Apache Kafka; given to every test that uses the fixtures"
        " kafka or kafka_cluster",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("kafka")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    line = not_run_line(terminalreporter.stats.get("skipped", []))
    if line is not None:
        terminalreporter.write_line("")
        terminalreporter.write_line(line, red=True, bold=True)


def not_run_line(skipped: list[pytest.TestReport]) -> str | None:
    """The one line about tests that did not run for want of Kafka, or None if there are none."""
    tests: set[str] = set()
    versions: dict[str, None] = {}
    reasons: dict[str, None] = {}
    for report in skipped:
        said = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        if found := _REASON_PATTERN.search(said):
            tests.add(report.nodeid)
            versions[found.group(1)] = None
            reasons[found.group(2).strip()] = None
    if not tests:
        return None
    count = "1 test needs" if len(tests) == 1 else f"{len(tests)} tests need"
    return (
        f"NOT RUN: {count} a real Apache Kafka {', '.join(versions)}: {'; '.join(reasons)}"
        f" (install Java {MINIMUM_JAVA} and Maven;"
        " COTERIE_REQUIRE_KAFKA=1 makes this a failure)"
    )


class _SharedClusters:
    """The clusters of one run, each started at first use."""

    def __init__(self) -> None:
        self._clusters: dict[tuple[str, int], KafkaCluster] = {}
        self._failed: dict[tuple[str, int], KafkaStartError] = {}

    def get(self, version: str, brokers: int) -> KafkaCluster:
        require_kafka(version)
        key = (version, brokers)
        if key in self._failed:
            # A start that failed once is not waited for again by every other test.
            raise self._failed[key]
        cluster = self._clusters.get(key)
        if cluster is None:
            cluster = KafkaCluster(version, brokers)
            try:
                cluster.start()
            except KafkaStartError as error:
                self._failed[key] = error
                raise
            self._clusters[key] = cluster
        for i in range(brokers):
            # A test may have killed a broker and failed before it started it again.
            if not cluster.is_running(i):
                cluster.start_broker(i)
        return cluster

    def stop(self) -> None:
        with contextlib.ExitStack() as all_of_them:
            for cluster in self._clusters.values():
                all_of_them.callback(cluster.stop)


@functools.cache
def _kafka_clients() -> KafkaClients | str:
    """The clients, or why there are none; asked once per run."""
    try:
        return kafka_clients.resolve()
    except KafkaUnavailable as error:
        return error.reason


@functools.cache
def _why_unavailable(version: str) -> str | None:
    """Asked once per run: a Maven that cannot reach its repository may take its time to say."""
    try:
        jars = kafka_jars.resolve(version)
    except KafkaUnavailable as error:
        return error.reason
    with contextlib.suppress(KafkaStartError):  # which a test that needs a cluster will tell
        kafka_archive.ensure(jars)
    return None
