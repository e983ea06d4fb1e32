"""Transactions, request by request: what readers see before and after, and who is refused."""

from __future__ import annotations

import itertools

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.group_state import partition_for
from coterie.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from coterie.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TopicData,
    TopicRequest,
    TransactionState,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from coterie.protocol.records import ControlRecordType, decode_batches, decode_control_record
from coterie.protocol.types import Uuid
from coterie.server.cluster import Cluster
from tests.integration.server.background import BackgroundCluster
from tests.integration.server.talk import (
    TRANSACTIONAL,
    add_partitions,
    batch_of,
    end,
    fetch,
    init,
    list_offset,
    new_topic,
    produce,
    values,
)
from tests.kit.wire_client import WireClient

_names = itertools.count()
OFFSETS = ("__consumer_offsets", Uuid.ZERO)
Topic = tuple[str, Uuid]
Producer = tuple[int, int]


@pytest.fixture
def name() -> str:
    """A transactional id that no other test has."""
    return f"tx-{next(_names)}"


def begin(client: WireClient, name: str) -> Producer:
    answer = init(client, name)
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


def write(
    client: WireClient, name: str, producer: Producer, topic: Topic, sequence: int
) -> ErrorCode:
    """One record, whose value is its sequence."""
    content = b"%d" % sequence
    batch = batch_of(content, producer=producer, sequence=sequence, attributes=TRANSACTIONAL)
    answer = produce(client, topic, batch, transactional_id=name, version=11)
    return ErrorCode.of(answer.error_code)


def describe(client: WireClient, name: str) -> TransactionState:
    request = DescribeTransactionsRequest((name,))
    return client.ask(request, DescribeTransactionsResponse).transaction_states[0]


def test_committed_records_are_read_when_they_are(client: WireClient, name: str) -> None:
    topic, producer = new_topic(client), begin(client, name)
    assert add_partitions(client, name, producer, topic[0]) == [0]
    assert write(client, name, producer, topic, 0) is ErrorCode.NONE
    produce(client, topic, batch_of(b"plain"))
    before = fetch(client, topic, committed=True)
    assert (before.high_watermark, before.last_stable_offset, values(before)) == (2, 0, [])
    assert values(fetch(client, topic)) == [b"0", b"plain"]
    assert list_offset(client, topic, -1, committed=True).offset == 0
    assert end(client, name, producer, commit=True) is ErrorCode.NONE
    after = fetch(client, topic, committed=True)
    assert (after.high_watermark, after.last_stable_offset) == (3, 3)
    assert values(after) == [b"0", b"plain"]
    assert after.aborted_transactions == ()
    marker = decode_batches(after.records or b"").batches[-1]
    assert (marker.producer_id, marker.producer_epoch) == producer
    assert decode_control_record(marker.records()[0]).type is ControlRecordType.COMMIT


def test_aborted_records_are_told(client: WireClient, name: str) -> None:
    topic, producer = new_topic(client), begin(client, name)
    for number, commit in enumerate((False, True, False)):
        add_partitions(client, name, producer, topic[0])
        write(client, name, producer, topic, number)
        assert end(client, name, producer, commit=commit) is ErrorCode.NONE
    found = fetch(client, topic, committed=True)
    aborted = found.aborted_transactions or ()
    assert [(each.producer_id, each.first_offset) for each in aborted] == [
        (producer[0], 0),
        (producer[0], 4),
    ]
    # From behind the first transaction on, only the last is of interest.
    later = fetch(client, topic, 2, committed=True).aborted_transactions or ()
    assert [each.first_offset for each in later] == [4]
    assert fetch(client, topic).aborted_transactions is None


def test_partitions_that_are_not_in_the_transaction(client: WireClient, name: str) -> None:
    topic, producer = new_topic(client, partitions=2), begin(client, name)
    batch = batch_of(b"a", producer=producer, sequence=0, attributes=TRANSACTIONAL)
    for version, error in (
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
    ):
        answer = produce(client, topic, batch, transactional_id=name, version=version)
        assert answer.error_code == error
    anonymous = produce(client, topic, batch, version=11)
    assert anonymous.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    unknown = add_partitions(client, name, producer, topic[0], (0, 5))
    assert unknown == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    add_partitions(client, name, producer, topic[0])
    assert write(client, name, producer, topic, 0) is ErrorCode.NONE
    plain = produce(client, topic, batch_of(b"b", producer=producer, sequence=1))
    assert plain.error_code == ErrorCode.INVALID_TXN_STATE


def test_a_new_producer_fences_the_old_one_and_aborts_its_transaction(
    client: WireClient, name: str
) -> None:
    topic, old = new_topic(client), begin(client, name)
    add_partitions(client, name, old, topic[0])
    write(client, name, old, topic, 0)
    assert init(client, name).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    new = begin_when_possible(client, name)
    assert (new.producer_id, new.producer_epoch) == (old[0], old[1] + 2)
    assert write(client, name, old, topic, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert add_partitions(client, name, old, topic[0]) == [ErrorCode.PRODUCER_FENCED]
    assert add_partitions(client, name, old, topic[0], version=1) == [
        ErrorCode.INVALID_PRODUCER_EPOCH
    ]
    assert end(client, name, old, commit=True) is ErrorCode.PRODUCER_FENCED
    assert end(client, name, old, commit=True, version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    aborted = fetch(client, topic, committed=True).aborted_transactions
    assert [each.first_offset for each in aborted or ()] == [0]


def begin_when_possible(client: WireClient, name: str) -> InitProducerIdResponse:
    """Ask until the transaction before has ended; each question waits for an answer, so no clock."""
    while (answer := init(client, name)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
        pass
    return answer


def test_a_producer_asks_for_a_new_epoch(client: WireClient, name: str) -> None:
    first = begin(client, name)
    assert first[1] == 0
    for _ in range(2):  # the second time is a retry, and gets the same
        second = init(client, name, holds=first)
        assert (second.producer_id, second.producer_epoch) == (first[0], 1)
    assert init(client, name, holds=(first[0], 1)).producer_epoch == 2
    fenced = init(client, name, holds=first)
    assert (fenced.error_code, fenced.producer_id) == (ErrorCode.PRODUCER_FENCED, -1)
    assert init(client, name, holds=first, version=3).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert init(client, name, holds=(first[0] + 1, 2)).error_code == ErrorCode.PRODUCER_FENCED


def test_an_exhausted_epoch_brings_a_new_producer_id(
    cluster: BackgroundCluster, client: WireClient, name: str
) -> None:
    topic, first = new_topic(client), begin(client, name)
    last = 2**15 - 2

    def wear_out(running: Cluster) -> None:
        transaction = running.brokers[1].services.transactions.get(name)
        assert transaction is not None
        transaction.producer_epoch = last

    cluster.ask(wear_out)
    # The last epoch of all is for aborting, so that an open transaction can still be fenced.
    assert add_partitions(client, name, (first[0], last), topic[0]) == [0]
    assert init(client, name).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    answer = begin_when_possible(client, name)
    assert answer.producer_id > first[0]
    assert answer.producer_epoch == 0


def test_requests_that_make_no_sense(client: WireClient, name: str) -> None:
    assert init(client, "").error_code == ErrorCode.INVALID_REQUEST
    assert init(client, name, holds=(1, -1)).error_code == ErrorCode.INVALID_REQUEST
    for timeout_ms in (0, 900_001):
        answer = init(client, name, timeout_ms=timeout_ms)
        assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert end(client, name, (1, 0), commit=True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer = begin(client, name)
    assert end(client, name, producer, commit=True) is ErrorCode.INVALID_TXN_STATE
    other = (producer[0] + 1, 0)
    assert end(client, name, other, commit=True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_end_may_be_asked_for_twice(client: WireClient, name: str) -> None:
    topic, producer = new_topic(client), begin(client, name)
    add_partitions(client, name, producer, topic[0])
    for version in (3, 4):
        assert end(client, name, producer, commit=True, version=version) is ErrorCode.NONE
    assert end(client, name, producer, commit=False) is ErrorCode.INVALID_TXN_STATE


def test_every_version(client: WireClient, name: str) -> None:
    topic = new_topic(client)
    for version in client.versions(ApiKey.INIT_PRODUCER_ID):
        answer = init(client, name, version=version)
        assert (answer.error_code, answer.producer_epoch) == (0, version)
    producer = (answer.producer_id, answer.producer_epoch)
    for version in (0, 1, 2, 3):
        assert add_partitions(client, name, producer, topic[0], version=version) == [0]
    for version in client.versions(ApiKey.ADD_OFFSETS_TO_TXN):
        request = AddOffsetsToTxnRequest(name, *producer, "g")
        assert client.ask(request, AddOffsetsToTxnResponse, version).error_code == 0
    for version in client.versions(ApiKey.END_TXN):
        assert end(client, name, producer, commit=False, version=version) is ErrorCode.NONE


def test_many_transactions_at_once(client: WireClient, name: str) -> None:
    topic, producer = new_topic(client, partitions=2), begin(client, name)

    def ask(version: int, *, verify: bool, partition: int) -> int:
        asked = AddPartitionsToTxnTransaction(
            name, *producer, verify, (AddPartitionsToTxnTopic(topic[0], (partition,)),)
        )
        request = AddPartitionsToTxnRequest(transactions=(asked,))
        answer = client.ask(request, AddPartitionsToTxnResponse, version)
        (result,) = answer.results_by_transaction
        return result.topic_results[0].results_by_partition[0].partition_error_code

    assert ask(5, verify=False, partition=0) == 0
    assert ask(5, verify=True, partition=0) == 0
    assert ask(4, verify=True, partition=1) == ErrorCode.TRANSACTION_ABORTABLE
    assert ask(5, verify=True, partition=1) == ErrorCode.TRANSACTION_ABORTABLE


def test_time_ends_a_transaction(client: WireClient, name: str) -> None:
    topic = new_topic(client)
    answer = init(client, name, timeout_ms=50)
    producer = (answer.producer_id, answer.producer_epoch)
    add_partitions(client, name, producer, topic[0])
    write(client, name, producer, topic, 0)
    # The marker is what a reader behind the record waits for.
    found = fetch(client, topic, 1, max_wait_ms=20_000)
    (marker,) = decode_batches(found.records or b"").batches
    assert decode_control_record(marker.records()[0]).type is ControlRecordType.ABORT
    assert marker.producer_epoch == producer[1] + 1
    assert end(client, name, producer, commit=True) is ErrorCode.PRODUCER_FENCED


def committed_offset(client: WireClient, group: str, topic: str) -> int:
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),))
    answer = client.ask(request, OffsetFetchResponse, 9)
    found = {
        (each.name, partition.partition_index): partition.committed_offset
        for each in answer.groups[0].topics
        for partition in each.partitions
    }
    return found.get((topic, 0), -1)


def commit_in(
    client: WireClient, name: str, producer: Producer, topic: str, offset: int
) -> list[int]:
    """The answers of the versions that do not add the partition, for the group of the transactional id."""
    partitions = (TxnOffsetCommitRequestPartition(0, offset),)
    request = TxnOffsetCommitRequest(
        name,
        f"group-of-{name}",
        *producer,
        topics=(TxnOffsetCommitRequestTopic(topic, partitions),),
    )
    return [
        client.ask(request, TxnOffsetCommitResponse, version).topics[0].partitions[0].error_code
        for version in client.versions(ApiKey.TXN_OFFSET_COMMIT)[:-1]
    ]


def test_offsets_are_part_of_a_transaction(client: WireClient, name: str) -> None:
    (topic, _), producer, group = new_topic(client), begin(client, name), f"group-of-{name}"
    client.ask(FindCoordinatorRequest(coordinator_keys=(group,)), FindCoordinatorResponse)
    index = partition_for(group, 50)
    early = commit_in(client, name, producer, topic, 5)
    assert early == [ErrorCode.INVALID_TXN_STATE] * 4 + [ErrorCode.TRANSACTION_ABORTABLE]
    for offset, commit, seen in ((5, True, 5), (6, False, 5), (7, True, 7)):
        before = committed_offset(client, group, topic)
        request = AddOffsetsToTxnRequest(name, *producer, group)
        assert client.ask(request, AddOffsetsToTxnResponse).error_code == 0
        assert commit_in(client, name, producer, topic, offset) == [0] * 5
        log = fetch(client, OFFSETS, committed=True, version=12, partition=index)
        assert log.last_stable_offset < log.high_watermark
        assert committed_offset(client, group, topic) == before
        assert end(client, name, producer, commit=commit) is ErrorCode.NONE
        assert committed_offset(client, group, topic) == seen
        log = fetch(client, OFFSETS, committed=True, version=12, partition=index)
        assert log.last_stable_offset == log.high_watermark
    zombie = commit_in(client, name, (producer[0], producer[1] - 1), topic, 9)
    assert set(zombie) == {ErrorCode.INVALID_PRODUCER_EPOCH}


def test_what_tools_see(client: WireClient, name: str) -> None:
    topic, producer = new_topic(client), begin(client, name)
    assert describe(client, name).transaction_state == "Empty"
    assert describe(client, "nobody").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    add_partitions(client, name, producer, topic[0])
    write(client, name, producer, topic, 0)
    ongoing = describe(client, name)
    assert (ongoing.transaction_state, ongoing.producer_id) == ("Ongoing", producer[0])
    assert ongoing.topics == (TopicData(topic[0], (0,)),)
    request = DescribeProducersRequest((TopicRequest(topic[0], (0, 9)),))
    partitions = client.ask(request, DescribeProducersResponse).topics[0].partitions
    assert partitions[1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (active,) = partitions[0].active_producers
    assert (active.producer_id, active.producer_epoch) == producer
    assert (active.last_sequence, active.current_txn_start_offset) == (0, 0)
    end(client, name, producer, commit=True)
    assert describe(client, name).transaction_state == "CompleteCommit"


def listed(client: WireClient, request: ListTransactionsRequest) -> list[str]:
    answer = client.ask(request, ListTransactionsResponse)
    assert answer.error_code == 0
    names = sorted(each.transactional_id for each in answer.transaction_states)
    return [name for name in names if name.startswith("list-")]


def test_transactions_are_listed(cluster: BackgroundCluster, client: WireClient) -> None:
    topic = new_topic(client)
    open_one, empty_one = begin(client, "list-open"), begin(client, "list-empty")
    add_partitions(client, "list-open", open_one, topic[0])
    both = ["list-empty", "list-open"]
    assert listed(client, ListTransactionsRequest()) == both
    by_state = ListTransactionsRequest(("Ongoing",))
    assert listed(client, by_state) == ["list-open"]
    by_producer = ListTransactionsRequest(producer_id_filters=(empty_one[0],))
    assert listed(client, by_producer) == ["list-empty"]
    long = ListTransactionsRequest(duration_filter=3_600_000)
    # One that was never begun has lasted since ever, in Kafka too.
    assert listed(client, long) == ["list-empty"]
    answer = client.ask(ListTransactionsRequest(("Odd",)), ListTransactionsResponse)
    assert answer.unknown_state_filters == ("Odd",)


def test_another_broker_coordinates() -> None:
    with BackgroundCluster(brokers=2) as cluster, WireClient(*cluster.address(1)) as client:
        asked = FindCoordinatorRequest(key_type=1, coordinator_keys=tuple("abcdefgh"))
        found = client.ask(asked, FindCoordinatorResponse).coordinators
        assert {each.node_id for each in found} == {1, 2}
        for each in found:
            error = init(client, each.key).error_code
            assert error == (0 if each.node_id == 1 else ErrorCode.NOT_COORDINATOR)
