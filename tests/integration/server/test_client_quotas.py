"""Client quotas of the embedded cluster: what is stored, what a restart keeps, whom a quota limits."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.cluster import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from coterie.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from coterie.protocol.messages.membership import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from coterie.protocol.messages.quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    OpData,
)
from coterie.protocol.messages.session import ApiVersionsRequest
from coterie.protocol.schema import Request, Response
from coterie.server.clock import SystemClock
from coterie.server.connections.connection import Connection
from coterie.server.metadata.client_quotas import ClientQuotas, Limit
from coterie.server.metadata.cluster_log import ClusterLog
from coterie.storage.data_directory import DataDirectory
from coterie.storage.files import MemoryFileSystem
from coterie.testing import EmbeddedCluster
from tests.integration.server.talk import batch_of, new_topic, produce
from tests.kit.wire_client import WireClient

ALICE = (EntityData("user", "alice"),)
DEFAULT = (EntityData("client-id", None), EntityData("user", "alice"))
PROTOCOL = JoinGroupRequestProtocol("range", b"")
Quotas = dict[tuple[EntityData, ...], dict[str, float]]


def connect(cluster: EmbeddedCluster) -> WireClient:
    host, port = cluster.bootstrap_servers.split(":")
    return WireClient(host, int(port))


def alter(cluster: EmbeddedCluster, *entries: AlterClientQuotasEntry) -> list[int]:
    with connect(cluster) as client:
        request = AlterClientQuotasRequest(entries)
        return [each.error_code for each in client.ask(request, AlterClientQuotasResponse).entries]


def quotas(cluster: EmbeddedCluster) -> Quotas:
    with connect(cluster) as client:
        answer = client.ask(DescribeClientQuotasRequest(), DescribeClientQuotasResponse)
    entries = answer.entries or ()
    return {each.entity: {value.key: value.value for value in each.values} for each in entries}


def test_a_restart_keeps_quotas_and_removals(tmp_path: Path) -> None:
    with EmbeddedCluster(data_dir=tmp_path) as cluster:
        rates = (OpData("producer_byte_rate", 100.0), OpData("request_percentage", 2.5))
        default = AlterClientQuotasEntry(DEFAULT, rates)
        assert alter(cluster, AlterClientQuotasEntry(ALICE, rates), default) == [0, 0]
        gone = AlterClientQuotasEntry(ALICE, (OpData("producer_byte_rate", remove=True),))
        assert alter(cluster, gone) == [0]
    with EmbeddedCluster(data_dir=tmp_path) as cluster:
        assert quotas(cluster) == {
            ALICE: {"request_percentage": 2.5},
            DEFAULT: {"producer_byte_rate": 100.0, "request_percentage": 2.5},
        }
        rest = AlterClientQuotasEntry(ALICE, (OpData("request_percentage", remove=True),))
        assert alter(cluster, rest) == [0]
        assert list(quotas(cluster)) == [DEFAULT]


def test_an_entry_with_an_error_does_not_stop_the_others() -> None:
    with EmbeddedCluster() as cluster:
        wrong = AlterClientQuotasEntry(ALICE, (OpData("producer_byte_rate", -1.0),))
        right = AlterClientQuotasEntry(DEFAULT, (OpData("producer_byte_rate", 1.0),))
        assert alter(cluster, wrong, right) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
        assert quotas(cluster) == {DEFAULT: {"producer_byte_rate": 1.0}}


@pytest.fixture
def stored() -> ClientQuotas:
    """Quotas without a server."""
    directory = DataDirectory.open(Path("memory"), MemoryFileSystem())
    return ClientQuotas(ClusterLog(directory, SystemClock()))


def change(
    quotas: ClientQuotas, entity: Mapping[str, str | None], key: str, rate: float | None
) -> None:
    quotas.alter([(frozenset(entity.items()), {key: rate})])


def limit(quotas: ClientQuotas, user: str = "alice", client_id: str = "app") -> Limit | None:
    return quotas.limit("producer_byte_rate", user, client_id)


def test_the_most_specific_quota_applies_and_says_who_shares_it(stored: ClientQuotas) -> None:
    """From the least specific entity to the most specific, in Kafka's order of precedence."""
    levels: list[tuple[dict[str, str | None], tuple[str | None, str | None]]] = [
        ({"client-id": None}, (None, "app")),
        ({"client-id": "app"}, (None, "app")),
        ({"user": None}, ("alice", None)),
        ({"user": None, "client-id": None}, ("alice", "app")),
        ({"user": None, "client-id": "app"}, ("alice", "app")),
        ({"user": "alice"}, ("alice", None)),
        ({"user": "alice", "client-id": None}, ("alice", "app")),
        ({"user": "alice", "client-id": "app"}, ("alice", "app")),
    ]
    assert limit(stored) is None
    for rate, (entity, shared_by) in enumerate(levels, start=1):
        change(stored, entity, "producer_byte_rate", rate)
        assert limit(stored) == Limit(rate, shared_by)
    assert limit(stored, "bob", "other") == Limit(4, ("bob", "other"))
    assert limit(stored, "alice", "") == Limit(7, ("alice", ""))
    assert stored.limit_clients
    for rate, (entity, _) in reversed(list(enumerate(levels, start=1))):
        assert (limit(stored) or Limit(0, (None, None))).rate == rate
        change(stored, entity, "producer_byte_rate", None)
    assert limit(stored) is None
    assert not stored.limit_clients


def test_quotas_of_addresses(stored: ClientQuotas) -> None:
    rates = {None: 3.0, "::1": 2.0, "10.0.0.1": 1.0}
    for name, rate in rates.items():
        change(stored, {"ip": name}, "connection_creation_rate", rate)
    assert stored.connection_rate("10.0.0.1") == 1
    assert stored.connection_rate("0:0:0:0:0:0:0:1") == 2
    assert stored.connection_rate("10.0.0.2") == 3
    assert not stored.limit_clients
    for name in rates:
        change(stored, {"ip": name}, "connection_creation_rate", None)
    assert stored.connection_rate("10.0.0.1") is None
    assert not stored.limit_connections


BUSY = AlterClientQuotasEntry(
    (EntityData("user", "ANONYMOUS"),), (OpData("request_percentage", 1e-9),)
)
REQUESTS: list[Request] = [
    ApiVersionsRequest("test", "1"),
    MetadataRequest(),
    ListGroupsRequest(),
    FindCoordinatorRequest(coordinator_keys=("g",)),
    DescribeGroupsRequest(("g",)),
    OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g"),)),
    JoinGroupRequest("g", 10_000, 10_000, protocol_type="consumer", protocols=(PROTOCOL,)),
    DeleteGroupsRequest(("g",)),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_every_kind_of_answer_is_throttled(request_: Request) -> None:
    """Answers that a coordinator encodes, answers that wait, and all others."""
    with EmbeddedCluster() as cluster:
        with connect(cluster) as client:
            client.ask(FindCoordinatorRequest(coordinator_keys=("g",)), FindCoordinatorResponse)
            # Request time is throttled for a second at most.
            assert alter(cluster, BUSY) == [0]
            answer: Any = client.ask(request_, Response)
        assert answer.throttle_time_ms == 1_000


def test_nothing_is_throttled_after_a_quota_is_removed() -> None:
    with EmbeddedCluster() as cluster, connect(cluster) as client, connect(cluster) as other:
        assert alter(cluster, BUSY) == [0]
        assert client.ask(MetadataRequest(), MetadataResponse).throttle_time_ms == 1_000
        removal = (OpData("request_percentage", remove=True),)
        assert alter(cluster, AlterClientQuotasEntry(BUSY.entity, removal)) == [0]
        assert other.ask(MetadataRequest(), MetadataResponse).throttle_time_ms == 0


def connections() -> list[Connection]:
    return [each for each in gc.get_objects() if isinstance(each, Connection)]


def test_a_throttled_connection_is_closed_and_forgotten_when_it_is_idle() -> None:
    others = weakref.WeakSet(connections())
    with EmbeddedCluster(config={"connections.max.idle.ms": 100}) as cluster:
        rate = AlterClientQuotasEntry(BUSY.entity, (OpData("producer_byte_rate", 1.0),))
        with connect(cluster) as client:
            topic = new_topic(client)
        assert alter(cluster, rate) == [0]
        with connect(cluster) as client:
            produce(client, topic, batch_of(b"x" * 100_000))  # throttled for a minute
            client.send(MetadataRequest())
            with pytest.raises(ConnectionError):
                client.receive(MetadataResponse)
        deadline = time.monotonic() + 30
        while any(each not in others for each in connections()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
