"""Fetch: what is read, how much of it, and how long it is waited for."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from coterie.protocol.records import decode_batches
from coterie.protocol.types import Uuid
from tests.integration.server.background import BackgroundCluster
from tests.integration.server.talk import batch_of, fetch, new_topic, produce, values
from tests.kit.wire_client import WireClient


def ask_for(
    *topics: tuple[str, Uuid],
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    session_epoch: int = -1,
    offsets: tuple[int, ...] = (0, 0),
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_epoch=session_epoch,
        topics=tuple(
            FetchTopic(*topic, (FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20),))
            for topic, offset in zip(topics, offsets, strict=False)
        ),
    )


def sizes(answer: FetchResponse) -> list[int]:
    return [len(topic.partitions[0].records or b"") for topic in answer.responses]


def test_every_version_reads_the_same(client: WireClient) -> None:
    topic = new_topic(client)
    produce(client, topic, batch_of(b"a", b"b"))
    produce(client, topic, batch_of(b"c"))
    assert client.versions(ApiKey.FETCH) == list(range(4, 19))
    for version in client.versions(ApiKey.FETCH):
        found = fetch(client, topic, version=version)
        assert values(found) == [b"a", b"b", b"c"]
        assert (found.high_watermark, found.last_stable_offset) == (3, 3)
        assert found.aborted_transactions is None
        if version >= 5:
            assert found.log_start_offset == 0


def test_offsets_inside_a_batch_get_the_whole_batch(client: WireClient) -> None:
    topic = new_topic(client)
    produce(client, topic, batch_of(b"a", b"b"))
    produce(client, topic, batch_of(b"c"))
    (first, _) = decode_batches(fetch(client, topic, 1).records or b"").batches
    assert first.base_offset == 0
    assert values(fetch(client, topic, 2)) == [b"c"]
    assert values(fetch(client, topic, 3)) == []


@pytest.mark.parametrize("offset", [-1, 2, 100])
def test_offsets_outside_of_the_log(client: WireClient, offset: int) -> None:
    topic = new_topic(client)
    produce(client, topic, batch_of(b"a"))
    found = fetch(client, topic, offset)
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (found.high_watermark, found.records) == (-1, b"")


def test_leader_epochs_are_checked(client: WireClient) -> None:
    topic = new_topic(client)
    assert fetch(client, topic, leader_epoch=0).error_code == 0
    assert fetch(client, topic, leader_epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_stale_leader_epoch_is_fenced_and_another_leader_is_named() -> None:
    with BackgroundCluster(brokers=2) as cluster, WireClient(*cluster.address(1)) as client:
        topic = new_topic(client, partitions=2, replicas=2)
        partition = cluster.leaders(topic[0]).index(2)
        elsewhere = fetch(client, topic, partition=partition)
        assert elsewhere.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert elsewhere.current_leader.leader_id == 2
        cluster.run(cluster.cluster.kill_broker(2))
        stale = fetch(client, topic, partition=partition, leader_epoch=0)
        assert stale.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert fetch(client, topic, partition=partition, leader_epoch=1).error_code == 0


def test_unknown_topics(client: WireClient) -> None:
    nowhere = ("nowhere", Uuid(bytes(15) + b"\x01"))
    assert fetch(client, nowhere, version=12).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(client, nowhere).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_limits_are_soft_for_the_first_batch_only(client: WireClient) -> None:
    first, second = new_topic(client), new_topic(client)
    for topic in (first, second):
        produce(client, topic, batch_of(b"a" * 1000))
        produce(client, topic, batch_of(b"b" * 1000))
    assert values(fetch(client, first, partition_max_bytes=1)) == [b"a" * 1000]
    size = len(batch_of(b"a" * 1000).encode())
    assert sizes(client.ask(ask_for(first, second, max_bytes=1), FetchResponse)) == [size, 0]
    both = client.ask(ask_for(first, second, max_bytes=3 * size + 1), FetchResponse)
    assert sizes(both) == [2 * size, size]


def test_sessions_are_refused(client: WireClient) -> None:
    topic = new_topic(client)
    assert client.ask(ask_for(topic, session_epoch=0), FetchResponse).session_id == 0
    answer = client.ask(ask_for(topic, session_epoch=1), FetchResponse)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_fetch_that_finds_nothing_waits_its_time(client: WireClient) -> None:
    topic = new_topic(client)
    begun = time.monotonic()
    answer = client.ask(ask_for(topic, max_wait_ms=200), FetchResponse)
    assert sizes(answer) == [0]
    assert time.monotonic() - begun >= 0.2


def test_an_error_ends_the_wait(client: WireClient) -> None:
    first, shorter = new_topic(client), new_topic(client)
    request = ask_for(first, shorter, max_wait_ms=60_000, offsets=(0, 5))
    answer = client.ask(request, FetchResponse)
    assert answer.responses[1].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_topic_that_is_not_there_does_not_end_the_wait_for_others(client: WireClient) -> None:
    nowhere = ("nowhere", Uuid(bytes(15) + b"\x01"))
    alone = client.ask(ask_for(nowhere, max_wait_ms=60_000), FetchResponse)
    assert alone.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    begun = time.monotonic()
    answer = client.ask(ask_for(new_topic(client), nowhere, max_wait_ms=200), FetchResponse)
    assert answer.responses[1].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert time.monotonic() - begun >= 0.2


def test_a_waiting_fetch_is_woken_when_there_is_enough(
    cluster: BackgroundCluster, client: WireClient
) -> None:
    topics = [new_topic(client), new_topic(client)]
    size = len(batch_of(b"a").encode())
    answers: list[FetchResponse] = []

    def wait() -> None:
        with WireClient(*cluster.address()) as waiting:
            waiting._socket.settimeout(60)
            request = ask_for(*topics, max_wait_ms=50_000, min_bytes=2 * size)
            answers.append(waiting.ask(request, FetchResponse))

    before = cluster.ask(lambda c: c.brokers[1].requests[ApiKey.FETCH])
    thread = threading.Thread(target=wait)
    thread.start()
    while cluster.ask(lambda c: c.brokers[1].requests[ApiKey.FETCH]) == before:
        pass
    for topic in topics:
        produce(client, topic, batch_of(b"a"))
    thread.join(30)
    assert [sizes(each) for each in answers] == [[size, size]]


def test_a_batch_that_is_staged_when_the_wait_begins_ends_it(client: WireClient) -> None:
    """Produce and Fetch in one write: the batch is in no log yet when the Fetch is looked at."""
    topic = new_topic(client)
    fetch(client, topic)
    begun = time.monotonic()
    produce_and_fetch = [
        (_produce_request(topic), 13),
        (ask_for(topic, max_wait_ms=20_000), 18),
    ]
    data = b"".join(client._in_flight.send(*each)[1] for each in produce_and_fetch)
    client._socket.sendall(data)
    frames: list[bytes] = []
    while len(frames) < 2:
        frames += client._frames.feed(client._socket.recv(65536))
    answers = [client._in_flight.receive(each)[1] for each in frames]
    assert isinstance(answers[1], FetchResponse)
    assert sizes(answers[1]) == [len(batch_of(b"a").encode())]
    assert time.monotonic() - begun < 10


def _produce_request(topic: tuple[str, Uuid]) -> ProduceRequest:
    data = batch_of(b"a").encode()
    return ProduceRequest(
        acks=-1, topic_data=(TopicProduceData(*topic, (PartitionProduceData(0, data),)),)
    )


def test_a_partition_that_is_named_twice_is_answered_once(client: WireClient) -> None:
    topic = new_topic(client)
    fetch_twice = ask_for(topic, topic, max_wait_ms=20_000)
    with WireClient(*client._socket.getpeername()) as waiting:
        _, data = waiting._in_flight.send(fetch_twice, 18)
        waiting._socket.sendall(data)
        client.ask(_produce_request(topic), ProduceResponse, 13)
        _, answer = waiting._in_flight.receive(waiting._read_frame())
        assert isinstance(answer, FetchResponse)
        size = len(batch_of(b"a").encode())
        assert sizes(answer) == [size, size]
        assert sizes(waiting.ask(fetch_twice, FetchResponse)) == [size, size]


def test_a_client_that_goes_away_while_it_waits_harms_nobody(
    cluster: BackgroundCluster, client: WireClient
) -> None:
    topic = new_topic(client)
    gone = WireClient(*cluster.address())
    _, data = gone._in_flight.send(ask_for(topic, max_wait_ms=50_000), 18)
    gone._socket.sendall(data)
    gone._socket.shutdown(socket.SHUT_RDWR)
    gone.close()
    assert produce(client, topic, batch_of(b"a")).error_code == 0
    assert values(fetch(client, topic)) == [b"a"]


def test_the_offsets_topic_can_be_read(cluster: BackgroundCluster) -> None:
    with WireClient(*cluster.address()) as client:
        cluster.ask(lambda c: c.partitions.offsets_partition("g"))
        found = fetch(client, ("__consumer_offsets", Uuid.ZERO), version=12)
        assert found.error_code == 0
