"""Transactions of clients with transaction.version 2 (KIP-890), request by request.

The expected answers are those of Apache Kafka 4.3.0 to the same requests.
"""

from __future__ import annotations

import itertools

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from coterie.protocol.records import decode_batches
from coterie.protocol.types import Uuid
from coterie.server.cluster import Cluster
from tests.integration.server.background import BackgroundCluster
from tests.integration.server.talk import (
    TRANSACTIONAL,
    batch_of,
    fetch,
    init,
    new_topic,
    produce,
    values,
)
from tests.kit.wire_client import WireClient

_names = itertools.count()
Producer = tuple[int, int]


@pytest.fixture
def name() -> str:
    """A transactional id that no other test has."""
    return f"tx2-{next(_names)}"


def begin(client: WireClient, name: str) -> Producer:
    while (answer := init(client, name)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
        pass
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


def write(
    client: WireClient, name: str, producer: Producer, topic: tuple[str, Uuid], sequence: int
) -> int:
    batch = batch_of(b"x", producer=producer, sequence=sequence, attributes=TRANSACTIONAL)
    return produce(client, topic, batch, transactional_id=name, version=12).error_code


def end(
    client: WireClient, name: str, producer: Producer, *, commit: bool, version: int = 5
) -> tuple[int, int, int]:
    request = EndTxnRequest(name, *producer, commit)
    answer = client.ask(request, EndTxnResponse, version)
    return answer.error_code, answer.producer_id, answer.producer_epoch


def describe(client: WireClient, name: str) -> TransactionState:
    request = DescribeTransactionsRequest((name,))
    return client.ask(request, DescribeTransactionsResponse).transaction_states[0]


def test_produce_adds_the_partition_and_every_end_raises_the_epoch(
    client: WireClient, name: str
) -> None:
    topic, (producer_id, epoch) = new_topic(client), begin(client, name)
    for commit in (True, False, True):
        producer = (producer_id, epoch)
        assert [write(client, name, producer, topic, sequence) for sequence in (0, 1)] == [0, 0]
        assert describe(client, name).transaction_state == "Ongoing"
        epoch += 1
        # A retry returns the same outcome, and the other outcome is refused.
        for _ in range(2):
            assert end(client, name, producer, commit=commit) == (0, producer_id, epoch)
        assert end(client, name, producer, commit=not commit)[0] == ErrorCode.INVALID_TXN_STATE
    found = fetch(client, topic, committed=True)
    assert len(values(found)) == 6
    assert [each.first_offset for each in found.aborted_transactions or ()] == [3]
    markers = [each for each in decode_batches(found.records or b"").batches if each.is_control]
    assert [each.producer_epoch for each in markers] == [1, 2, 3]


def test_an_empty_transaction_can_be_aborted_but_not_committed(
    client: WireClient, name: str
) -> None:
    producer_id, epoch = begin(client, name)
    refused = (ErrorCode.INVALID_TXN_STATE, -1, -1)
    assert end(client, name, (producer_id, epoch), commit=True) == refused
    for aborted in range(1, 4):
        assert end(client, name, (producer_id, epoch), commit=False) == (0, producer_id, aborted)
        assert describe(client, name).transaction_state == "CompleteAbort"
        epoch = aborted


def test_an_old_epoch_is_fenced(client: WireClient, name: str) -> None:
    topic, old = new_topic(client), begin(client, name)
    assert write(client, name, old, topic, 0) == 0
    new = begin(client, name)
    assert new == (old[0], old[1] + 2)
    assert write(client, name, old, topic, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(client, name, old, commit=True)[0] == ErrorCode.PRODUCER_FENCED
    assert write(client, name, new, topic, 0) == 0
    future = (new[0], new[1] + 1)
    assert write(client, name, future, topic, 0) == ErrorCode.INVALID_PRODUCER_EPOCH
    before = (new[0], new[1] - 1)
    assert end(client, name, before, commit=True)[0] == ErrorCode.PRODUCER_FENCED


def test_the_holder_of_an_open_transaction_asks_for_a_new_epoch(
    client: WireClient, name: str
) -> None:
    topic, producer = new_topic(client), begin(client, name)
    assert write(client, name, producer, topic, 0) == 0
    while (answer := init(client, name, holds=producer)).error_code:
        assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert (answer.producer_id, answer.producer_epoch) == (producer[0], producer[1] + 1)
    assert init(client, name, holds=producer).producer_epoch == producer[1] + 1


def test_an_exhausted_epoch_brings_a_new_producer_id(
    cluster: BackgroundCluster, client: WireClient, name: str
) -> None:
    topic, (producer_id, _) = new_topic(client), begin(client, name)

    def wear_out(running: Cluster) -> None:
        transaction = running.brokers[1].services.transactions.get(name)
        assert transaction is not None
        transaction.producer_epoch = 2**15 - 2

    cluster.ask(wear_out)
    producer = (producer_id, 2**15 - 2)
    assert write(client, name, producer, topic, 0) == 0
    error, new_id, epoch = end(client, name, producer, commit=True)
    assert (error, epoch) == (0, 0)
    assert new_id > producer_id
    assert end(client, name, producer, commit=True) == (0, new_id, 0)
    assert write(client, name, (new_id, 0), topic, 0) == 0
    assert end(client, name, (new_id, 0), commit=True) == (0, new_id, 1)


def test_an_old_end_keeps_the_epoch(client: WireClient, name: str) -> None:
    topic, producer = new_topic(client), begin(client, name)
    assert write(client, name, producer, topic, 0) == 0
    for _ in range(2):
        assert end(client, name, producer, commit=True, version=4)[0] == 0
    assert describe(client, name).producer_epoch == producer[1]
    assert write(client, name, producer, topic, 1) == 0
    assert end(client, name, producer, commit=False) == (0, producer[0], producer[1] + 1)


def test_offsets_are_added_with_their_commit(client: WireClient, name: str) -> None:
    (topic, _), producer = new_topic(client), begin(client, name)
    partitions = (TxnOffsetCommitRequestPartition(0, 5),)
    topics = (TxnOffsetCommitRequestTopic(topic, partitions),)
    request = TxnOffsetCommitRequest(name, f"group-of-{name}", *producer, topics=topics)
    answer = client.ask(request, TxnOffsetCommitResponse, 5)
    assert answer.topics[0].partitions[0].error_code == 0
    assert [each.topic for each in describe(client, name).topics] == ["__consumer_offsets"]
    assert end(client, name, producer, commit=True) == (0, producer[0], producer[1] + 1)
    stale = client.ask(request, TxnOffsetCommitResponse, 5).topics[0].partitions[0].error_code
    assert stale == ErrorCode.INVALID_PRODUCER_EPOCH


def mark(
    client: WireClient, producer: Producer, topic: str, *, version: int = 2, coordinator: int = 0
) -> int:
    """Abort a transaction in partition 0 of a topic by WriteTxnMarkers."""
    topics = (WritableTxnMarkerTopic(topic, (0,)),)
    marker = WritableTxnMarker(
        *producer, topics=topics, coordinator_epoch=coordinator, transaction_version=version
    )
    answer = client.ask(WriteTxnMarkersRequest((marker,)), WriteTxnMarkersResponse, 2)
    return answer.markers[0].topics[0].partitions[0].error_code


def test_markers_are_written_for_tools(client: WireClient, name: str) -> None:
    topic, (producer_id, epoch) = new_topic(client), begin(client, name)
    assert write(client, name, (producer_id, epoch), topic, 0) == 0
    assert fetch(client, topic, committed=True).last_stable_offset == 0
    # With protocol 2 a marker needs a higher epoch than the open transaction.
    same = mark(client, (producer_id, epoch), topic[0])
    assert same == ErrorCode.INVALID_PRODUCER_EPOCH
    for _ in range(2):
        assert mark(client, (producer_id, epoch + 1), topic[0], coordinator=3) == 0
    found = fetch(client, topic, committed=True)
    assert found.last_stable_offset == found.high_watermark == 3
    fenced = mark(client, (producer_id, epoch + 1), topic[0], coordinator=2)
    assert fenced == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    old = mark(client, (producer_id, epoch), topic[0], version=0, coordinator=3)
    assert old == ErrorCode.INVALID_PRODUCER_EPOCH
    nowhere = mark(client, (producer_id, epoch + 1), "nothing")
    assert nowhere == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_transactional_ids_are_listed_by_pattern(client: WireClient, name: str) -> None:
    begin(client, name)

    def listed(pattern: str | None) -> tuple[int, bool]:
        request = ListTransactionsRequest(transactional_id_pattern=pattern)
        answer = client.ask(request, ListTransactionsResponse, 2)
        return answer.error_code, name in {
            each.transactional_id for each in answer.transaction_states
        }

    for pattern in (None, "", name, "tx2-[0-9]+"):
        assert listed(pattern) == (0, True)
    assert listed("tx2") == (0, False)
    for unreadable in ("[", "(?=a)b"):
        assert listed(unreadable) == (ErrorCode.INVALID_REGULAR_EXPRESSION, False)
