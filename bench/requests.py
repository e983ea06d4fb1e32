"""Requests per operation, counted at the brokers: ours, those of Kafka's tool and Java client, and of kadm.

Each operation is that of a new client on an embedded cluster of three brokers, with groups on all of them.
ApiVersions is not counted: every client sends it once per connection.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from bench.client import Contestant, commands
from bench.harness import Measurement, Round, must_equal
from coterie.protocol.api import ApiKey
from coterie.testing import EmbeddedCluster
from coterie.testing.request_counts import ROWS
from tests.kit.cli_replay import Tool, java_tool, our_tool
from tests.kit.kafka_jars import KafkaUnavailable

__all__ = ["measurements"]

_OURS: Final = "coterie"
_PEERS: Final = ("Java", "kadm")
#: Greetings of connections, and members that live meanwhile.
_NOT_COUNTED: Final = {ApiKey.API_VERSIONS, ApiKey.FETCH, ApiKey.HEARTBEAT}
_SPARE: Final = "spare"


def measurements(*, tiny: bool = False) -> Iterator[Measurement]:
    """Clients first, then each drop-in command of docs/requests.md."""
    with ExitStack() as until_the_end:
        cluster = until_the_end.enter_context(EmbeddedCluster(brokers=3))
        cluster.create_topic("orders", partitions=6)
        cluster.scene("stable_group", "billing", topic="orders", members=2)
        for number in range(9):
            cluster.scene("empty_group", f"idle-{number}", topic="orders", offset=0)
        yield from _clients(cluster)
        directory = Path(until_the_end.enter_context(tempfile.TemporaryDirectory()))
        try:
            tool = until_the_end.enter_context(java_tool(directory))
        except KafkaUnavailable as error:
            print(f"NOT MEASURED: kafka cannot be had here: {error.reason}", file=sys.stderr)
            return
        yield from _tool(cluster, tool, tiny=tiny)


def _clients(cluster: EmbeddedCluster) -> Iterator[Measurement]:
    found = commands()
    here = [name for name in _PEERS if name in found]
    for order in ("list", "describe", "lag", f"delete {_SPARE}"):
        counts: dict[str, Round] = {
            name: partial(_counted, cluster, partial(_new_client, cluster, found[name], order))
            for name in (_OURS, *here)
        }
        yield _measurement(order.partition(" ")[0], counts)


def _new_client(cluster: EmbeddedCluster, command: list[str], order: str) -> None:
    client = Contestant(command, cluster.bootstrap_servers)
    try:
        client.obey(order)
    finally:
        client.close()


def _tool(cluster: EmbeddedCluster, java: Tool, *, tiny: bool) -> Iterator[Measurement]:
    rows = [row.arguments for row in ROWS if row.kind == "kafka-consumer-groups"]
    for arguments in rows[:1] if tiny else rows:
        argv = ["--bootstrap-server", cluster.bootstrap_servers, *arguments.split()]
        counts: dict[str, Round] = {
            name: partial(_counted, cluster, partial(_run, tool, argv))
            for name, tool in {_OURS: our_tool, "Java": java}.items()
        }
        words = re.sub(r"[^a-z]+", "_", arguments.replace("idle-0", "")).strip("_")
        yield _measurement(f"tool_{words}", counts)


def _run(tool: Tool, argv: list[str]) -> None:
    must_equal(f"exit code of {' '.join(argv)}", tool(argv).exit, 0)


def _measurement(name: str, counts: dict[str, Round]) -> Measurement:
    ours = counts.pop(_OURS)
    return Measurement(
        name=f"requests.{name}",
        ours=ours,
        peers=counts,
        goal=1.0,
        agree=lambda: None,
        unit="req",
        max_rounds=1,
    )


def _counted(cluster: EmbeddedCluster, work: Callable[[], None]) -> float:
    cluster.scene("empty_group", _SPARE, topic="orders", offset=0)
    before = _total(cluster)
    work()
    return float(_total(cluster) - before)


def _total(cluster: EmbeddedCluster) -> int:
    return sum(cluster.requests(api.api_name) for api in set(ApiKey) - _NOT_COUNTED)
