"""Raw partitions: read to a pinned end, many at once, followed where leaders go, never half in silence."""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient as ConfluentAdmin

from coterie.client import AdminClient, FetchedRecords, TopicPartition
from coterie.client.connection import RequestNote
from coterie.client.fetching import Fetching
from coterie.client.record_batches import Budget, cut
from coterie.errors import (
    BrokerUnreachable,
    CoterieError,
    DeadlineExceeded,
    InvalidArgument,
    KafkaError,
    PartialAnswer,
    RecordBatchError,
    UnknownTopicOrPartition,
)
from coterie.protocol.messages.data import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from coterie.protocol.records import RecordBatch, build_batch
from coterie.testing import EmbeddedCluster
from tests.integration.client.talk import ScriptedBroker, counted, played, run

ORDERS = [TopicPartition("orders", index) for index in range(6)]
EACH = 500  # records of each partition


def batch_at(offset: int, *values: bytes) -> bytes:
    parts = [(None, value, 0, ()) for value in values]
    return build_batch(parts, RecordBatch(base_offset=offset)).encode()


def fill(cluster: EmbeddedCluster, topic: str = "orders", count: int = EACH) -> None:
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "log_level": 0,
        # Many small batches, so that a reading has steps.
        "batch.num.messages": 20,
    }
    producer = Producer(config)
    for number in range(count):
        for index in range(6):
            producer.produce(topic, f"{index}:{number}".encode(), partition=index)
        producer.poll(0)
    assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as running:
        running.create_topic("orders", partitions=6)
        fill(running)
        yield running


def delete_records(cluster: EmbeddedCluster, before: int) -> None:
    """Delete the records of the first partition before an offset."""
    admin = ConfluentAdmin({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for future in admin.delete_records([Place("orders", 0, before)]).values():
        future.result(30)


def values(batches: list[FetchedRecords]) -> dict[TopicPartition, list[str]]:
    """The values of all records by partition, through the columnar reader."""
    found: dict[TopicPartition, list[str]] = {}
    for batch in batches:
        columns = batch.columns()
        rows = zip(columns.value_start.tolist(), columns.value_length.tolist(), strict=True)
        texts = [bytes(columns.buffer[start : start + size]).decode() for start, size in rows]
        found.setdefault(batch.partition, []).extend(texts)
    return found


async def read(
    admin: AdminClient,
    spans: Mapping[TopicPartition, int | tuple[int | None, int | None]],
    **options: object,
) -> list[FetchedRecords]:
    async with admin.fetch(spans, **options) as reading:  # type: ignore[arg-type]
        return [batch async for batch in reading]


async def collect(reading: Fetching, batches: list[FetchedRecords]) -> None:
    """Keep what comes, also before an error."""
    async for batch in reading:
        batches.append(batch)  # noqa: PERF401 - see above


def test_all_partitions_are_read_to_their_ends(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        found = values(await read(admin, dict.fromkeys(ORDERS, 0)))
        wanted = {key: [f"{key.partition}:{n}" for n in range(EACH)] for key in ORDERS}
        assert found == wanted
        asked = counted(admin, Counter())
        # All partitions of a leader go into one request, and all is there with the first.
        assert asked == {"Metadata": 1, "Fetch": 3}

    played(cluster, scene)


@pytest.mark.parametrize("version", [4, 6, 11, 12, 13, 15])
def test_old_brokers_are_read_by_name_and_newer_ones_by_id(version: int) -> None:
    with EmbeddedCluster(max_versions={"Fetch": version}) as cluster:
        cluster.create_topic("orders", partitions=6)
        fill(cluster, count=10)
        seen: list[int] = []

        async def scene() -> None:
            def note(request: object) -> None:
                if request.api == "Fetch":  # type: ignore[attr-defined]
                    seen.append(request.version)  # type: ignore[attr-defined]

            servers = cluster.bootstrap_servers
            async with AdminClient(bootstrap_servers=servers, on_request=note) as admin:
                assert sum(map(len, values(await read(admin, dict.fromkeys(ORDERS, 0))).values()))

        run(scene())
        assert set(seen) == {version}


def test_a_pinned_end_and_a_start_within_a_batch(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        spans = {ORDERS[0]: (33, 77), ORDERS[1]: (490, None), ORDERS[2]: (5, 5)}
        batches = await read(admin, spans)
        assert values(batches) == {
            ORDERS[0]: [f"0:{n}" for n in range(33, 77)],
            ORDERS[1]: [f"1:{n}" for n in range(490, EACH)],
        }
        first = next(each for each in batches if each.partition == ORDERS[0])
        assert first.start == 33
        assert first.base_offset <= 33
        assert first.high_watermark == EACH

    played(cluster, scene)


def test_from_the_beginning_wherever_that_is(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        found = values(await read(admin, {ORDERS[3]: (None, 10)}))
        assert found == {ORDERS[3]: [f"3:{n}" for n in range(10)]}

    played(cluster, scene)


@pytest.mark.parametrize("option", ["max_bytes", "max_records"])
def test_a_budget_ends_it_and_positions_say_where(cluster: EmbeddedCluster, option: str) -> None:
    async def scene(admin: AdminClient) -> None:
        reading = admin.fetch({ORDERS[0]: 0}, **{option: 100})  # type: ignore[arg-type]
        found = values([batch async for batch in reading])
        read_to = reading.positions[ORDERS[0]]
        assert 0 < read_to < EACH
        assert len(found[ORDERS[0]]) == read_to
        rest = values(await read(admin, {ORDERS[0]: read_to}))
        assert found[ORDERS[0]] + rest[ORDERS[0]] == [f"0:{n}" for n in range(EACH)]

    played(cluster, scene)


def test_little_of_a_large_log_is_not_paid_for_with_all_of_it() -> None:
    size = 200 << 10  # of a record, and of a batch

    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=6)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        for number in range(6 * 10):
            producer.produce("orders", b"x" * size, partition=number % 6)
            assert producer.flush(30) == 0
        received: list[int] = []

        async def scene() -> None:
            def note(request: RequestNote) -> None:
                if request.api == "Fetch":
                    received.append(request.received_bytes)

            servers = cluster.bootstrap_servers
            async with AdminClient(bootstrap_servers=servers, on_request=note) as admin:
                found = values(await read(admin, dict.fromkeys(ORDERS, (3, 4))))
            assert found == {key: ["x" * size] for key in ORDERS}

        run(scene())
        # Batches are larger than what was asked for, and each is sent once all the same.
        assert sum(received) < 7 * size


def test_the_first_answer_is_smaller_than_those_behind_it() -> None:
    value = bytes(500)
    received: list[int] = []

    def note(request: RequestNote) -> None:
        if request.api == "Fetch":
            received.append(request.received_bytes)

    with EmbeddedCluster() as running:
        running.create_topic("orders", partitions=1)
        producer = Producer({"bootstrap.servers": running.bootstrap_servers, "batch.size": 50_000})
        for _ in range(12_000):
            producer.produce("orders", value, partition=0)
        assert producer.flush(30) == 0

        with (
            AdminClient.connect(
                bootstrap_servers=running.bootstrap_servers, on_request=note
            ) as admin,
            admin.fetch({ORDERS[0]: 0}) as reading,
        ):
            assert sum(len(each.columns()) for each in reading) == 12_000
    few = 100_000  # a batch or two
    assert (512 << 10) < received[0] <= (1 << 20) + few
    assert (2 << 20) < received[1] <= (4 << 20) + few


def test_the_next_request_leaves_before_records_are_handed_out() -> None:
    size = 5

    def fetch(request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        (partition,) = topic.partitions
        records = batch_at(partition.fetch_offset, b"value")
        data = PartitionData(partition.partition, high_watermark=size, records=records)
        return FetchResponse(responses=(FetchableTopicResponse("orders", partitions=(data,)),))

    async def scene() -> None:
        async with ScriptedBroker(Fetch=fetch) as broker:
            broker.topics = {"orders": 1}
            async with AdminClient(bootstrap_servers=broker.address) as admin:
                async with admin.fetch({ORDERS[0]: 0}) as reading:
                    first = await reading.next()
                    assert first is not None
                    assert first.records == batch_at(0, b"value")
                    # Nobody has asked for the second yet, and the broker has been.
                    while broker.asked("Fetch") < 2:  # noqa: ASYNC110 - nobody tells when
                        await asyncio.sleep(0)
                    assert [each.start async for each in reading] == [1, 2, 3, 4]
                assert broker.asked("Fetch") == size

    run(scene())


def test_a_leader_that_moves_is_followed(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        await cluster_inject(6)  # NOT_LEADER_OR_FOLLOWER
        found = values(await read(admin, dict.fromkeys(ORDERS, 0)))
        assert {key: len(each) for key, each in found.items()} == dict.fromkeys(ORDERS, EACH)
        assert counted(admin, Counter())["Metadata"] > 1

    async def cluster_inject(error_code: int) -> None:
        await asyncio.to_thread(cluster.inject, "Fetch", error_code=error_code)

    played(cluster, scene)


def test_a_broker_that_dies_is_no_gap() -> None:
    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=6)
        fill(cluster)

        async def scene(admin: AdminClient) -> None:
            await admin.log_offsets(ORDERS)
            await asyncio.to_thread(cluster.kill_broker, 2)
            found = values(await read(admin, dict.fromkeys(ORDERS, 0)))
            assert {key: len(each) for key, each in found.items()} == dict.fromkeys(ORDERS, EACH)

        played(cluster, scene)


def test_a_broker_that_is_silent_and_has_lost_its_partitions_is_left() -> None:
    def fetch(request: FetchRequest) -> FetchResponse:
        data = PartitionData(0, high_watermark=1, records=batch_at(0, b"value"))
        return FetchResponse(responses=(FetchableTopicResponse("orders", partitions=(data,)),))

    async def scene() -> None:
        silent = ScriptedBroker(1, Fetch=lambda _: None)
        async with silent, ScriptedBroker(2, Fetch=fetch) as other:
            silent.topics = other.topics = {"orders": 1}
            silent.peers = other.peers = [silent, other]
            async with AdminClient(bootstrap_servers=silent.address) as admin:
                batches: list[FetchedRecords] = []
                task = asyncio.create_task(collect(admin.fetch({ORDERS[0]: 0}), batches))
                while not silent.asked("Fetch"):  # noqa: ASYNC110 - nobody tells when
                    await asyncio.sleep(0.01)
                silent.handlers["Metadata"] = other.metadata
                await task
                assert [each.stop for each in batches] == [1]

    run(scene())


def test_what_cannot_be_read_is_told_after_what_can(cluster: EmbeddedCluster) -> None:
    missing = TopicPartition("missing", 0)

    async def scene(admin: AdminClient) -> None:
        batches: list[FetchedRecords] = []
        reading = admin.fetch({ORDERS[0]: 0, missing: 0, ORDERS[1]: 99_999})
        with pytest.raises(PartialAnswer, match=r"99999.*missing-0|missing-0.*99999"):
            await collect(reading, batches)
        assert len(values(batches)[ORDERS[0]]) == EACH
        assert set(reading.errors) == {missing, ORDERS[1]}
        assert isinstance(reading.errors[missing], UnknownTopicOrPartition)
        assert isinstance(reading.errors[ORDERS[1]], KafkaError)

    played(cluster, scene)


def test_an_end_that_is_not_there_yet_is_waited_for_and_then_told(
    cluster: EmbeddedCluster,
) -> None:
    async def scene(admin: AdminClient) -> None:
        with pytest.raises(DeadlineExceeded, match="offset 500 is not there yet"):
            await read(admin, {ORDERS[0]: (0, EACH + 1)}, timeout=0.3)

    played(cluster, scene)


def test_deleted_records_are_an_error_or_skipped() -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=6)
        fill(cluster, count=50)
        delete_records(cluster, 20)

        async def scene(admin: AdminClient) -> None:
            with pytest.raises(KafkaError, match="offset 5 is not in its log"):
                await read(admin, {ORDERS[0]: 5})
            batches = await read(admin, {ORDERS[0]: 5}, skip_deleted=True)
            assert values(batches)[ORDERS[0]] == [f"0:{n}" for n in range(20, 50)]
            with pytest.raises(KafkaError, match="after the end of its log"):
                await read(admin, {ORDERS[0]: 70}, skip_deleted=True)

        played(cluster, scene)


def test_it_can_be_left_early_cancelled_and_closed_with_the_client(
    cluster: EmbeddedCluster,
) -> None:
    async def scene(admin: AdminClient) -> None:
        async with admin.fetch(dict.fromkeys(ORDERS, 0)) as reading:
            assert await reading.next() is not None
        with pytest.raises(BrokerUnreachable, match="was closed"):
            await reading.next()
        waiting = admin.fetch({ORDERS[0]: (EACH, EACH + 1)})
        task = asyncio.create_task(waiting.next())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await admin.fetch({ORDERS[0]: 0}).close()

    played(cluster, scene)  # which sees that nothing is left under way


def test_code_that_blocks_iterates_as_well(cluster: EmbeddedCluster) -> None:
    with AdminClient.connect(bootstrap_servers=cluster.bootstrap_servers) as admin:
        with admin.fetch(dict.fromkeys(ORDERS, 0), isolation="read_committed") as reading:
            found = values(list(reading))
        assert {key: len(each) for key, each in found.items()} == dict.fromkeys(ORDERS, EACH)
        assert reading.positions == dict.fromkeys(ORDERS, EACH)
        assert reading.errors == {}


@pytest.mark.parametrize(
    "options",
    [{"isolation": "dirty"}, {"max_bytes": 0}, {"max_records": -1}, {"timeout": 0}],
)
def test_what_cannot_be_meant_is_refused(
    cluster: EmbeddedCluster, options: dict[str, object]
) -> None:
    async def scene(admin: AdminClient) -> None:
        with pytest.raises(InvalidArgument):
            admin.fetch({ORDERS[0]: 0}, **options)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="orders-0"):
            admin.fetch({ORDERS[0]: -3})

    played(cluster, scene)


def test_half_a_batch_stays_away_and_a_broken_one_is_an_error() -> None:
    one = batch_at(10, b"1", b"2")
    two = batch_at(12, b"3")
    free = Budget(None, None)
    assert cut(one + two, 10, 99, free) == (len(one + two), 13, array("q", [0, len(one)]))
    assert cut(one + two[:-1], 10, 99, free) == (len(one), 12, array("q", [0]))
    # Where not all is wanted, nobody needs to know where batches begin.
    assert cut(one + two, 10, 12, free) == (len(one), 12, ())
    assert cut(one + two, 10, 11, free) == (len(one), 11, ())
    assert cut(one + two, 10, 99, Budget(1, None)) == (len(one), 12, ())
    assert cut(two, 5, 11, free) == (0, 11, ())
    assert cut(b"", 5, 11, free) == (0, 5, ())
    with pytest.raises(RecordBatchError, match="magic 1"):
        cut(one[:16] + b"\x01" + one[17:], 10, 99, free)


def test_a_topic_that_is_made_anew_is_not_taken_for_the_old_one() -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=6)
        fill(cluster, count=10)

        async def scene(admin: AdminClient) -> None:
            reading = admin.fetch({ORDERS[0]: (0, 20)})
            assert await reading.next() is not None
            (await admin.delete_topics(["orders"])).unwrap()
            (await admin.create_topics({"orders": 6})).unwrap()
            with pytest.raises(CoterieError, match="recreated while"):
                await collect(reading, [])

        played(cluster, scene)


def test_a_topic_that_was_made_anew_before_it_is_read_again_is_read() -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=6)
        fill(cluster, count=10)

        async def scene(admin: AdminClient) -> None:
            assert len(values(await read(admin, {ORDERS[0]: 0}))[ORDERS[0]]) == 10
            (await admin.delete_topics(["orders"])).unwrap()
            (await admin.create_topics({"orders": 6})).unwrap()
            assert await read(admin, {ORDERS[0]: 0}) == []

        played(cluster, scene)
