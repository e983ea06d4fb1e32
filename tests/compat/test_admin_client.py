"""The admin client against Apache Kafka of three ages and against our cluster, in the same scenes."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import TypeVar

import pytest
from confluent_kafka import Producer

from coterie.client import AdminClient, GroupType, To, TopicPartition
from coterie.errors import GroupIdNotFound, KafkaError, NonEmptyGroup, UnsupportedVersion
from coterie.testing import EmbeddedCluster
from tests.compat.servers import Member, Server, join_share, join_streams

T = TypeVar("T")


SERVERS = [
    "ours",
    *(pytest.param(each, marks=pytest.mark.kafka) for each in ("4.3.0", "3.9.1", "2.5.1")),
]

#: The servers that have more than classic groups, by default.
every_kind = pytest.mark.parametrize(
    "server", [pytest.param("4.3.0", marks=pytest.mark.kafka)], indirect=True
)


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param == "ours":
        with EmbeddedCluster(brokers=3) as cluster:
            yield Server("ours", cluster.bootstrap_servers, 3)
        return
    brokers = 1 if request.param == "2.5.1" else 3
    kafka = request.getfixturevalue("kafka_cluster")(request.param, brokers)
    yield Server(request.param, kafka.bootstrap, brokers)


def unique(word: str) -> str:
    return f"{word}-{uuid.uuid4().hex[:8]}"


def play(server: Server, scene: Callable[[AdminClient], Awaitable[T]]) -> T:
    async def run() -> T:
        async with AdminClient(bootstrap_servers=server.bootstrap) as admin:
            return await scene(admin)

    return asyncio.run(run())


def counted(admin: AdminClient, before: Counter[str]) -> dict[str, int]:
    now = admin.requests - before
    return {api: times for api, times in now.items() if api != "ApiVersions"}


async def topic_of(admin: AdminClient, partitions: int = 3) -> str:
    """A topic that every broker knows of."""
    topic = unique("topic")
    (await admin.create_topics({topic: partitions})).unwrap()
    every = [TopicPartition(topic, index) for index in range(partitions)]
    while not (await admin.log_offsets(every)).complete:  # noqa: ASYNC110 - nobody tells when
        await asyncio.sleep(0.1)
    return topic


async def empty_groups(admin: AdminClient, topic: str, count: int) -> list[str]:
    groups = [unique("empty") for _ in range(count)]
    wanted = {group: {TopicPartition(topic, 0): 0} for group in groups}
    changed = await admin.alter_offsets(wanted)
    assert changed.complete, changed.errors
    return groups


def test_groups_are_listed_described_and_deleted(server: Server) -> None:
    async def scene(admin: AdminClient) -> None:
        topic = await topic_of(admin)
        groups = await empty_groups(admin, topic, 12)
        await admin.list_groups()
        before = admin.requests.copy()
        listed = await admin.list_groups()
        assert listed.complete
        assert set(groups) <= set(listed.items)
        assert counted(admin, before) == {"Metadata": 1, "ListGroups": server.brokers}
        state = listed[groups[0]].state
        assert state == ("Empty" if server.line >= (2, 6) else None)
        coordinators = {listed[group].coordinator_id for group in groups}
        before = admin.requests.copy()
        described = await admin.describe_groups(groups)
        assert described.complete
        assert {each.state for each in described} == {"Empty"}
        assert counted(admin, before) == {"DescribeGroups": len(coordinators)}
        before = admin.requests.copy()
        deleted = await admin.delete_groups([*groups, "missing"])
        assert set(deleted.items) == set(groups)
        assert isinstance(deleted.errors["missing"], GroupIdNotFound)
        assert admin.requests["DeleteGroups"] - before["DeleteGroups"] <= len(coordinators) + 1
        assert not set(groups) & set((await admin.list_groups()).items)

    play(server, scene)


def test_many_coordinators_cost_one_lookup_or_one_each(server: Server) -> None:
    async def scene(admin: AdminClient) -> None:
        names = [unique("nobody") for _ in range(8)]
        await admin.find_coordinators(names)
        before = admin.requests.copy()
        singles = admin.single_lookups
        found = await admin.find_coordinators(names)
        assert found.complete
        batched = server.line >= (3, 0)
        assert counted(admin, before) == {"FindCoordinator": 1 if batched else 8}
        assert admin.single_lookups - singles == (0 if batched else 8)

    play(server, scene)


def test_states_are_filtered_by_the_broker_or_refused(server: Server) -> None:
    async def scene(admin: AdminClient) -> None:
        topic = await topic_of(admin)
        (group,) = await empty_groups(admin, topic, 1)
        live = unique("live")
        with Member(server, live, topic):
            if server.line >= (2, 6):
                stable = await admin.list_groups(states={"Stable"})
                assert live in stable
                assert group not in stable
                assert {each.state for each in stable} == {"Stable"}
                assert group in await admin.list_groups(states=["empty"])
                return
            with pytest.raises(UnsupportedVersion) as caught:
                await admin.list_groups(states={"Stable"})
            assert "serves ListGroups only up to v3, and v4 is needed" in str(caught.value)
            assert server.bootstrap in str(caught.value)
            # confluent-kafka answers this very question with every group.
            stable = await admin.list_groups(states={"Stable"}, client_side=True)
            assert live in stable
            assert group not in stable

    play(server, scene)


def test_types_are_filtered_by_the_broker_or_refused(server: Server) -> None:
    async def scene(admin: AdminClient) -> None:
        topic = await topic_of(admin)
        (group,) = await empty_groups(admin, topic, 1)
        if server.line >= (3, 8):
            assert group in await admin.list_groups(types={"classic"})
            assert group not in await admin.list_groups(types={"consumer"})
            return
        with pytest.raises(UnsupportedVersion, match="v5 is needed"):
            await admin.list_groups(types={"classic"})
        assert group in await admin.list_groups(types={"classic"}, client_side=True)

    play(server, scene)


def test_a_live_group_in_full(server: Server) -> None:
    async def scene(admin: AdminClient) -> None:
        topic = await topic_of(admin)
        live = unique("live")
        with Member(server, live, topic, **{"client.id": "tester"}) as consumer:
            described = await admin.describe_groups([live], authorized_operations=True)
            group = described[live]
            assert (group.type, group.state, group.protocol_type) == (
                GroupType.CLASSIC,
                "Stable",
                "consumer",
            )
            (member,) = group.members
            assert member.client_id == "tester"
            assert member.host == "/127.0.0.1"
            assert member.subscription == (topic,)
            assert sorted(member.assignment or ()) == [TopicPartition(topic, i) for i in range(3)]
            assert group.protocol == "range"
            assert "READ" in (group.authorized_operations or ())
            if server.version == "ours":
                assert group.generation == 1
                assert group.leader_id == member.member_id
                assert set(member.supported_protocols or ()) >= {"range"}
            else:
                assert group.generation is None
                assert group.sources["subscription"] == "DescribeGroups, member metadata"
                deep = (await admin.describe_groups([live], deep=True))[live]
                assert deep.not_read is None
                assert (deep.generation, deep.leader_id) == (1, member.member_id)
                assert deep.sources["leader_id"].startswith("__consumer_offsets-")
            refused = await admin.delete_groups([live])
            assert isinstance(refused.errors[live], NonEmptyGroup)
            with pytest.raises(NonEmptyGroup, match="inactive"):
                await admin.plan_reset(live, To.earliest())
            changed = await admin.alter_offsets({live: {TopicPartition(topic, 0): 0}})
            assert isinstance(changed.errors[live], KafkaError)
            held = await admin.delete_offsets({live: [TopicPartition(topic, 0)]})
            assert "GROUP_SUBSCRIBED_TO_TOPIC" in str(held[live].errors)
            assert len(consumer.assignment()) == 3
            removed = await admin.remove_members(live)
            assert list(removed.items) == [member.member_id]

    play(server, scene)


def test_lag_and_reset(server: Server) -> None:
    async def scene(admin: AdminClient) -> None:
        topic = await topic_of(admin, partitions=2)
        producer = Producer({"bootstrap.servers": server.bootstrap, "log_level": 0})
        for number in range(20):
            producer.produce(
                topic, b"x", partition=number % 2, timestamp=1_700_000_000_000 + number
            )
        assert producer.flush(30) == 0
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        group = unique("reader")
        (await admin.alter_offsets({group: {first: 3}})).unwrap()
        before = admin.requests.copy()
        lag = await admin.lag([group], log_start=True)
        cost = counted(admin, before)
        assert cost.pop("Metadata", 1) == 1
        assert cost.pop("FindCoordinator", 1) == 1
        assert cost == {"DescribeGroups": 1, "OffsetFetch": 1, "ListOffsets": 2}
        (row,) = lag[group].partitions
        assert (row.committed_offset, row.log_start, row.log_end, row.lag) == (3, 0, 10, 7)
        assert lag[group].total == 7
        goals = [
            (To.earliest(), {first: 0, second: 0}),
            (To.latest(), {first: 10, second: 10}),
            (To.offset(4), {first: 4, second: 4}),
            (To.current(), {first: 3, second: 10}),
            (To.shift(-2), {first: 1}),
        ]
        for to, targets in goals:
            plan = await admin.plan_reset(group, to, topics=[topic])
            assert plan.targets == targets, to
        moment = datetime.fromtimestamp(1_700_000_000.010, UTC)
        plan = await admin.plan_reset(group, To.time(moment), topics=[topic])
        assert plan.targets == {first: 5, second: 5}
        (await admin.reset_offsets(plan)).unwrap()
        read = await admin.list_offsets([group])
        assert {tp: each.offset for tp, each in read[group].offsets.items()} == plan.targets
        other = await admin.plan_reset(unique("follower"), To.group(group))
        assert other.targets == plan.targets
        (await admin.delete_offsets({group: [first]})).unwrap()
        assert set((await admin.list_offsets([group]))[group].offsets) == {second}

    play(server, scene)


def test_offsets_of_many_groups(server: Server) -> None:
    async def scene(admin: AdminClient) -> None:
        topic = await topic_of(admin)
        groups = await empty_groups(admin, topic, 10)
        coordinators = len({n.node_id for n in await admin.find_coordinators(groups)})
        before = admin.requests.copy()
        read = await admin.list_offsets(groups)
        assert read.complete
        assert all(len(each.offsets) == 1 for each in read)
        batched = server.line >= (3, 0)
        assert counted(admin, before) == {"OffsetFetch": coordinators if batched else len(groups)}

    play(server, scene)


def test_a_missing_group_is_not_found_everywhere(server: Server) -> None:
    async def scene(admin: AdminClient) -> None:
        described = await admin.describe_groups(["never-there"])
        error = described.errors["never-there"]
        assert isinstance(error, GroupIdNotFound)
        # From DescribeGroups v6 on brokers say it in their own words.
        told = server.line >= (3, 10)
        words = "Group never-there not found." if told else "The group id does not exist."
        assert words in str(error)

    play(server, scene)


@every_kind
def test_groups_of_every_kind_in_one_call(server: Server) -> None:
    async def scene(admin: AdminClient) -> None:
        topic = await topic_of(admin)
        (classic,) = await empty_groups(admin, topic, 1)
        new, share, streams = unique("new"), unique("share"), unique("streams")
        found = await admin.find_coordinators([share, streams])
        where = {group: (node.host, node.port) for group, node in found.items.items()}
        join_share(where[share], share, topic)
        join_streams(where[streams], streams, topic)
        names = [classic, new, share, streams]
        with Member(server, new, topic, **{"group.protocol": "consumer"}):
            # Nothing is known of their kinds yet.
            described = await admin.describe_groups([*names, "never-there"])
            kinds = {each.group_id: each.type.value for each in described}
            assert kinds == dict(
                zip(names, ("classic", "consumer", "share", "streams"), strict=True)
            )
            assert list(described.errors) == ["never-there"]
            assert described[new].members[0].subscription == (topic,)
            assert len(described[new].members[0].assignment or ()) == 3
            assert described[new].epoch is not None
            assert described[share].members[0].subscription == (topic,)
            assert described[streams].members[0].subscription == (topic,)
            listed = await admin.list_groups(types={"consumer", "share", "streams"})
            assert {new, share, streams} <= set(listed.items)
            assert classic not in listed
            before = admin.requests.copy()
            again = await admin.describe_groups(names)
            assert again.complete
            # One request per coordinator and API: each group is alone with its kind.
            assert sum(counted(admin, before).values()) == 4
            lag = await admin.lag(names)
            assert lag.complete, (lag.errors, lag.broker_errors)
            assert set(lag.items) == set(names)
            assert {row.member_id is not None for row in lag[new].partitions} == {True}

    play(server, scene)


@every_kind
def test_protocols_of_classic_members_are_read_from_the_log(server: Server) -> None:
    async def scene(admin: AdminClient) -> None:
        topic = await topic_of(admin)
        mixed = unique("mixed")
        with Member(server, mixed, topic, **{"group.protocol": "consumer"}) as new:
            old = Member(server, mixed, topic, **{"client.id": "old"})
            # Each has to hear that the other is there, and give or take partitions.
            while not old.consumer.assignment():
                new.poll(0.05)
                old.consumer.poll(0.05)
            group = (await admin.describe_groups([mixed], deep=True))[mixed]
            assert group.type is GroupType.CONSUMER
            protocols = {
                each.client_id == "old": each.supported_protocols for each in group.members
            }
            assert protocols == {True: ("range", "roundrobin"), False: None}
            assert group.sources["supported_protocols"].startswith("__consumer_offsets-")
            old.consumer.close()

    play(server, scene)


def test_raw_partitions_are_read_into_columns(server: Server) -> None:
    async def scene(admin: AdminClient) -> None:
        topic = await topic_of(admin, partitions=6)
        producer = Producer(
            {
                "bootstrap.servers": server.bootstrap,
                "log_level": 0,
                "compression.type": "lz4",
                "batch.num.messages": 50,
            }
        )
        for number in range(3000):
            producer.produce(topic, f"{number}".encode(), partition=number % 6)
            producer.poll(0)
        assert producer.flush(30) == 0
        partitions = [TopicPartition(topic, index) for index in range(6)]
        read: dict[TopicPartition, list[int]] = {key: [] for key in partitions}
        spans = {**dict.fromkeys(partitions, (0, None)), partitions[5]: (123, 321)}
        async with admin.fetch(spans, isolation="read_committed") as reading:
            async for batch in reading:
                columns = batch.columns()
                assert columns.trailing_bytes == 0
                read[batch.partition] += columns.offset.tolist()
        wanted = {key: list(range(500)) for key in partitions} | {
            partitions[5]: list(range(123, 321))
        }
        assert read == wanted
        with pytest.raises(KafkaError, match="offset 777 is not in its log"):
            await admin.fetch({partitions[0]: 777}).next()

    play(server, scene)
