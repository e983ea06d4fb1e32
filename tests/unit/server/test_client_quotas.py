"""Client quotas of the embedded cluster: what is stored, and what a restart keeps."""

from __future__ import annotations

from pathlib import Path

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    OpData,
)
from coterie.testing import EmbeddedCluster
from tests.kit.wire_client import WireClient

ALICE = (EntityData("user", "alice"),)
DEFAULT = (EntityData("client-id", None), EntityData("user", "alice"))
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
