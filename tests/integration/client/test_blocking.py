"""The client for code that blocks: the same calls with the same arguments, in notebooks as well."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from typing import assert_type

import pytest

from coterie.client import (
    AdminClient,
    FetchedRecords,
    GroupListing,
    Node,
    Result,
    To,
    TopicPartition,
)
from coterie.client.blocking import BlockingAdminClient
from coterie.client.results import LagResult
from coterie.errors import BrokerUnreachable, InvalidArgument, InvalidSetting
from coterie.testing import EmbeddedCluster


def public(cls: type) -> dict[str, object]:
    return {
        # Only what `fetch` gives is another type: one to iterate over without `await`.
        name: inspect.signature(value).replace(return_annotation="")
        if name == "fetch"
        else inspect.signature(value)
        for name, value in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_") and name != "connect"
    }


def test_every_call_is_there_with_the_same_signature() -> None:
    assert public(BlockingAdminClient) == public(AdminClient)


def test_every_call_is_documented() -> None:
    for name in public(BlockingAdminClient):
        theirs = inspect.getdoc(getattr(AdminClient, name))
        assert theirs
        assert name == "close" or inspect.getdoc(getattr(BlockingAdminClient, name)) == theirs


def test_types_of_arguments_and_results_are_known(coterie_cluster: EmbeddedCluster) -> None:
    """What mypy says of the calls: an ignored line that has no error is an error."""
    with AdminClient.connect(bootstrap_servers=coterie_cluster.bootstrap_servers) as admin:
        assert_type(admin.list_groups(states={"Empty"}), Result[str, GroupListing])
        assert_type(admin.lag([], log_start=True), LagResult)
        assert_type(admin.brokers(timeout=9), list[Node])
        assert_type(next(admin.fetch({}), None), FetchedRecords | None)
        with pytest.raises(TypeError):
            admin.list_groups(colour="red")  # type: ignore[call-arg]
        with pytest.raises(InvalidArgument):
            admin.describe_groups([7])  # type: ignore[list-item]


def test_calls_block_and_the_thread_ends(coterie_cluster: EmbeddedCluster) -> None:
    coterie_cluster.scene("empty_group", "orders-app", offset=0)
    partition = TopicPartition("orders", 0)
    with AdminClient.connect(bootstrap_servers=coterie_cluster.bootstrap_servers) as admin:
        assert list(admin.list_groups().items) == ["orders-app"]
        assert admin.describe_groups(["orders-app"])["orders-app"].state == "Empty"
        assert admin.find_coordinators(["orders-app"])["orders-app"].node_id == 1
        assert admin.lag(["orders-app"])["orders-app"].total == 0
        assert admin.alter_offsets({"orders-app": {partition: 3}}).complete
        assert admin.list_offsets(["orders-app"])["orders-app"].offsets[partition].offset == 3
        assert admin.reset_offsets(admin.plan_reset("orders-app", To.earliest())).complete
        assert admin.delete_offsets({"orders-app": [partition]}).complete
        assert admin.remove_members("orders-app").complete
        assert admin.create_topics({"more": 1}).complete
        assert admin.describe_topics(["more"]).complete
        assert admin.log_offsets([TopicPartition("more", 0)]).complete
        assert admin.delete_topics(["more"]).complete
        assert len(admin.brokers()) == 1
        assert admin.delete_groups(["orders-app"]).complete
        assert admin.requests["DeleteGroups"] == 1
        assert admin.single_lookups == 0
        assert admin.cluster_id
        assert "BlockingAdminClient" in repr(admin)
    assert not [each for each in threading.enumerate() if each.name == "coterie-admin"]
    admin.close()
    with pytest.raises(BrokerUnreachable, match="the client is closed"):
        admin.list_groups()


def test_it_works_where_a_loop_is_running(coterie_cluster: EmbeddedCluster) -> None:
    async def cell() -> int:
        with AdminClient.connect(bootstrap_servers=coterie_cluster.bootstrap_servers) as admin:
            return len(admin.list_groups())

    assert asyncio.run(cell()) == 0


def test_wrong_settings_start_no_thread() -> None:
    with pytest.raises(InvalidSetting):
        AdminClient.connect(bootstrap_servers="nowhere")
    assert not [each for each in threading.enumerate() if each.name == "coterie-admin"]


def test_importing_the_client_starts_no_server_and_loads_nothing_heavy() -> None:
    heavy = [
        "coterie.server",
        "coterie.coordinator",
        "coterie.storage",
        "numpy",
        "pyarrow",
        "click",
    ]
    code = f"import coterie.client, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
