"""The test suites of other projects that run against the cluster, and how each of them is set up.

Each suite has a directory here with a go.mod and a go.sum that pin its version and its dependencies. The
test binary is compiled once, into the cache that tests/compat/programs.py describes.
"""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.compat import programs

__all__ = ["EXPECTED", "SUITES", "TOXIPROXY", "Suite", "find_suite", "find_toxiproxy"]

_HERE: Final = Path(__file__).parent
EXPECTED: Final = _HERE / "expected"
TOXIPROXY: Final = "toxiproxy"


@dataclass(frozen=True, eq=False)
class Suite:
    """One suite: what is compiled, which cluster its tests assume, and what the short form runs."""

    name: str
    package: str
    brokers: int
    #: Where brokers listen: broker 1's port, the others follow it.
    port: int
    #: The port that clients see, if a proxy is in front of the brokers.
    advertised_port: int
    #: Settings of the cluster besides those of its listeners, with Kafka's names.
    settings: Mapping[str, str]
    environment: Mapping[str, str]
    #: The tests of the short form, as regular expressions for -test.run.
    short: tuple[str, ...]
    short_environment: Mapping[str, str] = field(default_factory=dict)
    tags: str = ""
    #: Files of the package that its tests read.
    data: tuple[str, ...] = ()
    #: A listener for SASL, if the tests log in.
    sasl_port: int | None = None

    @property
    def proxied(self) -> bool:
        return self.advertised_port != self.port


_COMMON: Final = {"group.initial.rebalance.delay.ms": "0"}

SUITES: Final = {
    suite.name: suite
    for suite in (
        Suite(
            "franz_go",
            "github.com/twmb/franz-go/pkg/kgo",
            brokers=3,
            port=9092,
            advertised_port=9092,
            settings=_COMMON,
            environment={
                "KGO_SEEDS": "localhost:9092",
                "KGO_TEST_RECORDS": "50000",
                "KGO_TEST_RF": "3",
                "KGO_LOG_LEVEL": "none",
            },
            short=("TestGroupETL", "TestTxnEtl", "TestGroupSimple"),
            short_environment={"KGO_TEST_RECORDS": "2000"},
            data=("config.go",),
        ),
        Suite(
            "sarama",
            "github.com/IBM/sarama",
            brokers=5,
            port=39091,
            advertised_port=29091,
            settings={
                **_COMMON,
                "auto.create.topics.enable": "false",
                "default.replication.factor": "2",
                "offsets.topic.replication.factor": "2",
                "transaction.state.log.replication.factor": "2",
            },
            environment={"TOXIPROXY_ADDR": "http://localhost:8474", "KAFKA_VERSION": "4.3.0"},
            short=(
                "TestFuncClientMetadata",
                "TestFuncClientCoordinator",
                "TestFuncConnectionFailure",
                "TestFuncAdminNetworkErrorClosesControllerConnection",
                "TestFuncProducingIdempotentWithBrokerFailure",
                "TestAsyncProducerRemoteBrokerClosed",
            ),
            tags="functional",
        ),
        Suite(
            "kafka_go",
            "github.com/segmentio/kafka-go",
            brokers=1,
            port=9092,
            advertised_port=9092,
            settings={**_COMMON, "message.max.bytes": "200000000"},
            environment={"KAFKA_VERSION": "4.0.0", "KAFKA_SKIP_NETTEST": "1"},
            short=(
                "TestConsumerGroup",
                "TestClientCreateTopics",
                "TestClientOffsetCommit",
                "TestClientFetch",
                "TestClientCreateACLs",
                "TestUnsupportedSASLMechanism",
            ),
            data=("fixtures",),
            sasl_port=9093,
        ),
    )
}


@functools.cache
def find_suite(suite: Suite) -> Path | str:
    """The directory with the compiled tests and their data, or the reason why there is none."""
    return programs.find_built(lambda: _build_suite(suite))


@functools.cache
def find_toxiproxy() -> Path | str:
    """The directory with the compiled proxy server, or the reason why there is none."""
    return programs.find_built(_build_toxiproxy)


def _build_suite(suite: Suite) -> Path:
    go = programs.on_path("go")
    source = _HERE / suite.name

    def build(into: Path) -> None:
        command = [
            go,
            "test",
            "-c",
            "-tags",
            suite.tags,
            "-o",
            str(into / "program"),
            suite.package,
        ]
        programs.run_build(command, source)
        if suite.data:
            package = _package_directory(go, suite.package, source)
            for name in suite.data:
                programs.copy_tree(package / name, into / name)

    return programs.built_once(_cache(suite.name), build)


def _build_toxiproxy() -> Path:
    go = programs.on_path("go")
    package = "github.com/Shopify/toxiproxy/v2/cmd/server"

    def build(into: Path) -> None:
        programs.run_build([go, "build", "-o", str(into / "program"), package], _HERE / TOXIPROXY)

    return programs.built_once(_cache(TOXIPROXY), build)


def _cache(name: str) -> Path:
    pinned = (_HERE / name / "go.mod", _HERE / name / "go.sum", Path(__file__))
    return programs.cache_directory(f"suite-{name}", *pinned)


def _package_directory(go: str, package: str, source: Path) -> Path:
    listed = subprocess.run(
        [go, "list", "-json=Dir", package], check=True, cwd=source, capture_output=True, text=True
    )
    return Path(json.loads(listed.stdout)["Dir"])
