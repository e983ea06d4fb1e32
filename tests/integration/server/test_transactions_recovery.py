"""Transactions survive the server: ids and epochs, sequences, and ends that were only decided."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.transactions import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from coterie.protocol.types import Uuid
from coterie.server.cluster import Cluster
from coterie.server.transactions.coordinator import TransactionCoordinator
from coterie.server.transactions.states import Transaction
from tests.integration.server.background import BackgroundCluster
from tests.integration.server.talk import (
    TRANSACTIONAL,
    add_partitions,
    batch_of,
    end,
    fetch,
    init,
    new_topic,
    produce,
    values,
)
from tests.kit.wire_client import WireClient

NAME = "tx"


def begin(
    client: WireClient, topic: tuple[str, Uuid], *, timeout_ms: int = 60_000
) -> tuple[int, int]:
    """A transaction with one record."""
    answer = init(client, NAME, timeout_ms=timeout_ms)
    producer = (answer.producer_id, answer.producer_epoch)
    assert add_partitions(client, NAME, producer, topic[0]) == [0]
    batch = batch_of(b"a", producer=producer, sequence=0, attributes=TRANSACTIONAL)
    assert produce(client, topic, batch, transactional_id=NAME, version=11).error_code == 0
    return producer


def as_if_killed(root: Path, to: Path) -> None:
    """What a directory holds while its server runs is what kill -9 would leave."""
    shutil.copytree(root, to)
    for lock in to.rglob(".lock"):
        lock.unlink()


def test_an_open_transaction_goes_on_after_a_restart(tmp_path: Path) -> None:
    with BackgroundCluster(root=tmp_path) as cluster, WireClient(*cluster.address()) as client:
        topic = new_topic(client)
        producer = begin(client, topic)
    with BackgroundCluster(root=tmp_path) as cluster, WireClient(*cluster.address()) as client:
        assert fetch(client, topic, committed=True).last_stable_offset == 0
        again = batch_of(b"a", producer=producer, sequence=0, attributes=TRANSACTIONAL)
        repeated = produce(client, topic, again, transactional_id=NAME, version=11)
        assert (repeated.error_code, repeated.base_offset) == (0, 0)
        assert end(client, NAME, producer, commit=True) is ErrorCode.NONE
        assert values(fetch(client, topic, committed=True)) == [b"a"]
    with BackgroundCluster(root=tmp_path) as cluster, WireClient(*cluster.address()) as client:
        found = fetch(client, topic, committed=True)
        assert (values(found), found.last_stable_offset) == ([b"a"], 2)
        answer = init(client, NAME)
        assert (answer.producer_id, answer.producer_epoch) == (producer[0], producer[1] + 1)
        assert init(client, None).producer_id > producer[0]


def test_a_transaction_times_out_across_a_restart(tmp_path: Path) -> None:
    with BackgroundCluster(root=tmp_path) as cluster, WireClient(*cluster.address()) as client:
        topic = new_topic(client)
        begin(client, topic, timeout_ms=300)
    with BackgroundCluster(root=tmp_path) as cluster, WireClient(*cluster.address()) as client:
        fetch(client, topic, 1, max_wait_ms=20_000)
        aborted = fetch(client, topic, committed=True).aborted_transactions
        assert [each.first_offset for each in aborted or ()] == [0]


def test_a_decided_end_is_completed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between PREPARE_COMMIT and the markers, of records and of offsets."""

    async def never(self: TransactionCoordinator, transaction: Transaction) -> None:
        return None

    root, copy = tmp_path / "first", tmp_path / "second"
    with BackgroundCluster(root=root) as cluster, WireClient(*cluster.address()) as client:
        topic = new_topic(client)
        producer = begin(client, topic)
        add_offsets = AddOffsetsToTxnRequest(NAME, *producer, "g")
        assert client.ask(add_offsets, AddOffsetsToTxnResponse).error_code == 0
        with monkeypatch.context() as patch:
            patch.setattr(TransactionCoordinator, "_finish", never)
            end(client, NAME, producer, commit=True)
        assert fetch(client, topic, committed=True).last_stable_offset == 0
        as_if_killed(root, copy)
    with BackgroundCluster(root=copy) as cluster, WireClient(*cluster.address()) as client:
        # The marker may come after the listener is open: wait for it as a reader would.
        fetch(client, topic, 1, max_wait_ms=20_000)
        assert values(fetch(client, topic, committed=True)) == [b"a"]
        while end(client, NAME, producer, commit=True) is ErrorCode.CONCURRENT_TRANSACTIONS:
            pass

        def offsets_log(running: Cluster) -> int:
            return running.partitions.offsets_partition("g").log.high_watermark

        assert cluster.ask(offsets_log) == 1


def test_leadership_moves_and_transactions_stay() -> None:
    with BackgroundCluster(brokers=2) as cluster:
        with WireClient(*cluster.address(1)) as client:
            name = next(
                each
                for each in "abcdefgh"
                if init(client, each).error_code != ErrorCode.NOT_COORDINATOR
            )
        cluster.run(cluster.cluster.kill_broker(1))
        with WireClient(*cluster.address(2)) as client:
            assert init(client, name).producer_epoch == 1
