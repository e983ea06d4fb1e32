"""Produce: what is stored, what is refused and how, and what a repeated batch gets."""

from __future__ import annotations

import struct
import time

import msgspec
import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.frames import encode_request
from coterie.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.protocol.messages.data import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from coterie.protocol.records import CompressionType, decode_batches
from coterie.protocol.types import Uuid
from tests.integration.server.background import BackgroundCluster
from tests.integration.server.talk import (
    batch_of,
    fetch,
    init,
    list_offset,
    new_topic,
    produce,
    values,
)
from tests.kit.wire_client import WireClient

PRODUCER = (4_000, 0)


def error_of(answer: PartitionProduceResponse) -> ErrorCode:
    return ErrorCode.of(answer.error_code)


def test_every_version_appends(client: WireClient) -> None:
    topic = new_topic(client)
    versions = client.versions(ApiKey.PRODUCE)
    assert versions == list(range(3, 14))
    offsets = [
        produce(client, topic, batch_of(b"a", b"b"), version=version, acks=acks).base_offset
        for version in versions
        for acks in (-1, 1)
    ]
    assert offsets == list(range(0, 4 * len(versions), 2))


def test_versions_before_3_are_told_but_close_the_connection(client: WireClient) -> None:
    assert client.served[ApiKey.PRODUCE] == (0, 13)
    header = struct.pack(">hhih", ApiKey.PRODUCE, 2, 1, -1)
    client._socket.sendall(struct.pack(">i", len(header) + 10) + header + bytes(10))
    assert client._socket.recv(1) == b""


@pytest.mark.parametrize("codec", list(CompressionType))
def test_batches_are_stored_as_they_came(client: WireClient, codec: CompressionType) -> None:
    topic = new_topic(client)
    sent = batch_of(b"a" * 100, b"b" * 100, attributes=codec)
    assert produce(client, topic, sent).error_code == 0
    stored = decode_batches(fetch(client, topic).records or b"").batches[0]
    assert bytes(stored.payload) == sent.payload
    assert stored.compression is codec


def test_acks_0_gets_no_answer(client: WireClient) -> None:
    topic = new_topic(client)
    request = ProduceRequest(
        acks=0,
        topic_data=(TopicProduceData(*topic, (PartitionProduceData(0, batch_of(b"a").encode()),)),),
    )
    client._socket.sendall(encode_request(request, 13, correlation_id=1, client_id="test"))
    # Requests are answered in order: what comes next is the answer to the next one.
    assert values(fetch(client, topic, max_wait_ms=20_000)) == [b"a"]


def test_a_failure_with_acks_0_closes_the_connection(client: WireClient) -> None:
    request = ProduceRequest(
        acks=0, topic_data=(TopicProduceData(*new_topic(client), (PartitionProduceData(0, b""),)),)
    )
    client._socket.sendall(encode_request(request, 13, correlation_id=1, client_id="test"))
    assert client._socket.recv(1) == b""


def test_unknown_topics_and_partitions(client: WireClient) -> None:
    topic = new_topic(client)
    batch = batch_of(b"a")
    nowhere = ("nowhere", Uuid(bytes(15) + b"\x01"))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error_of(produce(client, nowhere, batch, version=12)) is unknown
    assert error_of(produce(client, nowhere, batch)) is ErrorCode.UNKNOWN_TOPIC_ID
    assert error_of(produce(client, topic, batch, partition=7)) is unknown


def test_internal_topics_are_not_for_clients(client: WireClient) -> None:
    client.ask(FindCoordinatorRequest(coordinator_keys=("g",)), FindCoordinatorResponse)
    answer = produce(client, ("__consumer_offsets", Uuid.ZERO), batch_of(b"a"), version=12)
    assert error_of(answer) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_acks_must_be_known(client: WireClient) -> None:
    answer = produce(client, new_topic(client), batch_of(b"a"), acks=2)
    assert error_of(answer) is ErrorCode.INVALID_REQUIRED_ACKS


def test_batches_that_are_refused(client: WireClient) -> None:
    topic = new_topic(client, max_message_bytes="1000")
    good = batch_of(b"a")
    damaged = bytearray(good.encode())
    damaged[-1] ^= 1
    control = batch_of(b"a", attributes=0x20)
    refused = {
        b"": ErrorCode.INVALID_RECORD,
        good.encode() * 2: ErrorCode.INVALID_RECORD,
        bytes(damaged): ErrorCode.CORRUPT_MESSAGE,
        batch_of(b"a" * 1000).encode(): ErrorCode.MESSAGE_TOO_LARGE,
        control.encode(): ErrorCode.INVALID_RECORD,
        msgspec.structs.replace(good, base_offset=5).encode(): ErrorCode.INVALID_RECORD,
        msgspec.structs.replace(good, records_count=2).encode(): ErrorCode.INVALID_RECORD,
        batch_of(b"a", producer=PRODUCER).encode(): ErrorCode.INVALID_RECORD,
        batch_of(b"a", attributes=0x08).encode(): ErrorCode.INVALID_TIMESTAMP,
        msgspec.structs.replace(
            good, attributes=7
        ).encode(): ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        msgspec.structs.replace(
            good, records_count=1_000, last_offset_delta=999
        ).encode(): ErrorCode.INVALID_RECORD,
        good.encode()[:-1]: ErrorCode.INVALID_RECORD,
        good.encode()[:16] + b"\x01" + good.encode()[17:]: ErrorCode.INVALID_RECORD,
        good.encode() + bytes(70): ErrorCode.INVALID_RECORD,
    }
    for data, error in refused.items():
        answer = produce(client, topic, data)
        assert error_of(answer) is error
        assert answer.base_offset == -1
    assert produce(client, topic, good).base_offset == 0
    assert produce(client, topic, good.encode() + b"cut").base_offset == 1


def test_zstd_needs_version_7(client: WireClient) -> None:
    topic = new_topic(client)
    batch = batch_of(b"a", attributes=CompressionType.ZSTD)
    answer = produce(client, topic, batch, version=6)
    assert error_of(answer) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(client, topic, batch, version=7).error_code == 0


def test_compacted_topics_need_keys(client: WireClient) -> None:
    topic = new_topic(client, cleanup_policy="compact")
    answer = produce(client, topic, batch_of(b"a", b"b", key=None))
    assert error_of(answer) is ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == [0, 1]
    assert produce(client, topic, batch_of(b"a")).error_code == 0


def test_timestamps_far_ahead_are_refused(client: WireClient) -> None:
    topic = new_topic(client)
    ahead = time.time_ns() // 1_000_000 + 2 * 3_600_000
    answer = produce(client, topic, batch_of(b"a", timestamp=ahead))
    assert error_of(answer) is ErrorCode.INVALID_TIMESTAMP


def test_log_append_time(client: WireClient) -> None:
    topic = new_topic(client, message_timestamp_type="LogAppendTime")
    before = time.time_ns() // 1_000_000
    answer = produce(client, topic, batch_of(b"a", timestamp=5))
    assert answer.log_append_time_ms >= before
    (stored,) = decode_batches(fetch(client, topic).records or b"").batches
    assert stored.is_log_append_time
    assert stored.records()[0].timestamp >= before
    assert list_offset(client, topic, before).offset == 0


# Idempotence


def test_a_producer_without_transactions_gets_a_new_id_each_time(client: WireClient) -> None:
    first, second = (init(client, None, version=version) for version in (0, 5))
    assert second.producer_id > first.producer_id
    assert (first.producer_epoch, second.producer_epoch) == (0, 0)


def test_a_repeated_batch_gets_its_first_offset(client: WireClient) -> None:
    topic = new_topic(client)
    batches = [batch_of(b"a", b"b", producer=PRODUCER, sequence=2 * i) for i in range(6)]
    assert [produce(client, topic, each).base_offset for each in batches] == [0, 2, 4, 6, 8, 10]
    # The last five are remembered.
    repeated = [produce(client, topic, each) for each in batches]
    assert error_of(repeated[0]) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [(each.error_code, each.base_offset) for each in repeated[1:]] == [
        (0, 2),
        (0, 4),
        (0, 6),
        (0, 8),
        (0, 10),
    ]
    assert list_offset(client, topic, -1).offset == 12


def test_sequences_must_follow(client: WireClient) -> None:
    topic = new_topic(client)
    # An unknown producer may begin anywhere (KIP-360), and sequences begin again after the largest.
    last = 2**31 - 1
    assert produce(client, topic, batch_of(b"a", producer=PRODUCER, sequence=last)).error_code == 0
    assert produce(client, topic, batch_of(b"b", producer=PRODUCER, sequence=0)).base_offset == 1
    gap = produce(client, topic, batch_of(b"c", producer=PRODUCER, sequence=2))
    assert error_of(gap) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_fences_the_old_one_and_begins_at_0(client: WireClient) -> None:
    topic = new_topic(client)
    assert produce(client, topic, batch_of(b"a", producer=(9, 0), sequence=0)).error_code == 0
    late = produce(client, topic, batch_of(b"b", producer=(9, 1), sequence=1))
    assert error_of(late) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(client, topic, batch_of(b"b", producer=(9, 1), sequence=0)).error_code == 0
    old = produce(client, topic, batch_of(b"c", producer=(9, 0), sequence=1))
    assert error_of(old) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_another_broker_leads() -> None:
    with BackgroundCluster(brokers=2) as cluster, WireClient(*cluster.address(1)) as client:
        topic = new_topic(client, partitions=2)
        leaders = cluster.leaders(topic[0])
        answers = [produce(client, topic, batch_of(b"a"), partition=each) for each in (0, 1)]
        for leader, answer in zip(leaders, answers, strict=True):
            if leader == 1:
                assert error_of(answer) is ErrorCode.NONE
            else:
                assert error_of(answer) is ErrorCode.NOT_LEADER_OR_FOLLOWER
                assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (
                    2,
                    0,
                )
        assert sorted(leaders) == [1, 2]


def test_one_request_for_several_partitions_of_two_topics(client: WireClient) -> None:
    first, second = new_topic(client, partitions=2), new_topic(client)
    data = batch_of(b"a").encode()
    request = ProduceRequest(
        acks=-1,
        topic_data=(
            TopicProduceData(*first, tuple(PartitionProduceData(i, data) for i in (0, 1, 2))),
            TopicProduceData(*second, (PartitionProduceData(0, data),)),
        ),
    )
    answer = client.ask(request, ProduceResponse)
    assert [[each.error_code for each in t.partition_responses] for t in answer.responses] == [
        [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [0],
    ]
