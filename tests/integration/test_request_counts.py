"""Every row of docs/requests.md against three brokers that count what arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coterie.client import AdminClient
from coterie.datasets.live import LiveQuery, plan_live, read_task
from coterie.protocol.api import ApiKey
from coterie.spark.pipeline.origin import ClusterOrigin
from coterie.spark.pipeline.snapshot import snapshot
from coterie.spark.pipeline.store import TableStore
from coterie.testing import EmbeddedCluster
from coterie.testing.request_counts import ROWS, RequestRow, count
from tests.kit.cli_replay import our_tool
from tests.unit.cli.conftest import runner

#: Depend on the connections, on the amount of data, and on members that live meanwhile.
NOT_COUNTED = {ApiKey.API_VERSIONS, ApiKey.FETCH, ApiKey.HEARTBEAT}
IDLE = [f"idle-{number}" for number in range(9)]
VALUES = {"B": 3, "C": 3, "L": 3}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as running:
        running.create_topic("orders", partitions=6)
        running.scene("stable_group", "billing", topic="orders", members=2)
        for group in IDLE:
            running.scene("empty_group", group, topic="orders", offset=0)
        assert {running.coordinator_of(group) for group in IDLE} == {1, 2, 3}
        yield running


def counts(cluster: EmbeddedCluster) -> dict[str, int]:
    return {each.api_name: cluster.requests(each.api_name) for each in set(ApiKey) - NOT_COUNTED}


def drive(cluster: EmbeddedCluster, row: RequestRow, home: Path) -> None:
    runs: dict[str, Callable[[EmbeddedCluster, str, Path], None]] = {
        "groups": coterie_groups,
        "kafka-consumer-groups": kafka_consumer_groups,
        "pipeline": pipeline,
        "dataset": dataset,
    }
    runs[row.kind](cluster, row.arguments, home)


def coterie_groups(cluster: EmbeddedCluster, arguments: str, home: Path) -> None:
    done = runner(home, cluster.bootstrap_servers)("groups", *arguments.split())
    assert done.returncode == 0, done.stderr


def kafka_consumer_groups(cluster: EmbeddedCluster, arguments: str, home: Path) -> None:
    del home
    done = our_tool(["--bootstrap-server", cluster.bootstrap_servers, *arguments.split()])
    assert done.exit == 0


def pipeline(cluster: EmbeddedCluster, step: str, home: Path) -> None:
    properties = {"bootstrap.servers": cluster.bootstrap_servers}
    if step == "snapshot":
        assert not snapshot(TableStore(home / "tables"), properties).errors
        return
    # What `ingest` asks before it reads: how much there is, up to where, and which cluster it is.
    origin = ClusterOrigin(properties)
    assert origin.records() == origin.bounds().records
    assert origin.identity


def dataset(cluster: EmbeddedCluster, name: str, home: Path) -> None:
    """As Spark does: the driver plans, and each task has a client of its own."""
    del home
    properties = {"bootstrap.servers": cluster.bootstrap_servers}
    query = LiveQuery(name)
    with AdminClient.connect(dict(properties)) as admin:
        tasks = plan_live(admin, query)
    for task in tasks:
        with AdminClient.connect(dict(properties)) as admin:
            list(read_task(admin, query, task))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.kind} {row.arguments}")
def test_a_row_costs_what_the_document_says(
    cluster: EmbeddedCluster, row: RequestRow, tmp_path: Path
) -> None:
    if "spare" in row.arguments:
        cluster.scene("empty_group", "spare", topic="orders", offset=0)
    before = counts(cluster)
    drive(cluster, row, tmp_path)
    after = counts(cluster)
    found = {api: after[api] - before[api] for api in after if after[api] != before[api]}
    if "spare" in row.arguments:
        with AdminClient.connect(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.delete_groups(["spare"])
    assert found == {api: count(formula, VALUES) for api, formula in row.formulas.items()}
