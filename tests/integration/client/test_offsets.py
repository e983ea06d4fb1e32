"""Offsets of many groups: read, lag, alter, delete, reset; and the requests that they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from coterie.client import AdminClient, PartitionOffset, To, TopicPartition
from coterie.errors import (
    GroupIdNotFound,
    InvalidArgument,
    KafkaError,
    NonEmptyGroup,
    UnknownTopicOrPartition,
)
from coterie.protocol.messages import share_groups
from coterie.protocol.messages.data import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from coterie.protocol.messages.groups import DescribedGroup, DescribeGroupsResponse
from coterie.protocol.messages.offsets import OffsetFetchResponse, OffsetFetchResponseGroup
from coterie.testing import EmbeddedCluster
from tests.integration.client.talk import ScriptedBroker, counted, played, run

GROUPS = [f"reader-{number}" for number in range(9)]
ORDERS = [TopicPartition("orders", index) for index in range(4)]


def filled(cluster: EmbeddedCluster) -> EmbeddedCluster:
    for group in GROUPS:
        cluster.scene("empty_group", group, offset=0)
    cluster.scene("stable_group", "live", members=2)
    return cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as running:
        yield filled(running)


@pytest.fixture
def fresh() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as running:
        yield filled(running)


def test_offsets_of_many_groups_cost_one_request_per_coordinator(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        read = await admin.list_offsets(GROUPS)
        assert read.complete
        assert counted(admin, Counter()) == {"FindCoordinator": 1, "OffsetFetch": 3}
        assert read["reader-1"].offsets == dict.fromkeys(ORDERS, PartitionOffset(0))
        assert read.to_dicts()[0]["offsets"][0]["topic"] == "orders"
        assert b"reader-1" in read.to_json()

    played(cluster, scene)


@pytest.mark.parametrize("version", [2, 5, 7])
def test_an_old_coordinator_is_asked_for_each_group(version: int) -> None:
    with EmbeddedCluster(brokers=3, max_versions={"OffsetFetch": version}) as cluster:
        filled(cluster)

        async def scene(admin: AdminClient) -> None:
            read = await admin.list_offsets(GROUPS, stable=True)
            assert read.complete
            assert len(read["reader-1"].offsets) == 4
            assert counted(admin, Counter()) == {"FindCoordinator": 1, "OffsetFetch": 9}

        played(cluster, scene)


def test_a_commit_past_the_end_of_the_log_has_no_lag(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        (await admin.alter_offsets({"ahead": {ORDERS[0]: PartitionOffset(7)}})).unwrap()
        (row,) = (await admin.lag(["ahead"]))["ahead"].partitions
        assert (row.committed_offset, row.log_end, row.lag) == (7, 0, 0)
        (await admin.delete_groups(["ahead"])).unwrap()

    played(cluster, scene)


def test_lag_of_many_groups_costs_what_it_must(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        lag = await admin.lag([*GROUPS, "live"])
        assert lag.complete
        assert counted(admin, Counter()) == {
            "FindCoordinator": 1,
            "DescribeGroups": 3,
            "OffsetFetch": 3,
            "Metadata": 1,
            "ListOffsets": 3,
        }
        assert lag["reader-1"].total == 0
        row = lag["reader-1"].partitions[0]
        assert (row.committed_offset, row.log_start, row.log_end, row.lag) == (0, None, 0, 0)
        # Assigned and not committed: shown, with its member, and without a lag.
        live = lag["live"].partitions
        assert sorted(each.partition for each in live) == ORDERS
        assert all(each.member_id and each.lag is None for each in live)
        before = admin.requests.copy()
        await admin.lag(GROUPS, log_start=True)
        assert counted(admin, before) == {"DescribeGroups": 3, "OffsetFetch": 3, "ListOffsets": 6}

    played(cluster, scene)


def test_lag_after_a_list_needs_no_lookup(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        listed = await admin.list_groups()
        before = admin.requests.copy()
        lag = await admin.lag(listed.items)
        assert lag.complete
        assert counted(admin, before) == {
            "DescribeGroups": 3,
            "OffsetFetch": 3,
            "Metadata": 1,
            "ListOffsets": 3,
        }

    played(cluster, scene)


def test_a_bad_partition_and_a_missing_group_leave_the_rest_alone(fresh: EmbeddedCluster) -> None:
    fresh.create_topic("doomed", 1)
    fresh.scene("empty_group", "doomed-reader", "doomed")

    async def scene(admin: AdminClient) -> None:
        assert (await admin.delete_topics(["doomed"])).complete
        both = {TopicPartition("gone", 0): 5}
        changed = await admin.alter_offsets({"reader-1": both})
        assert changed["reader-1"].errors
        lag = await admin.lag(["doomed-reader", "reader-1", "missing"], timeout=10)
        assert isinstance(lag.errors["missing"], GroupIdNotFound)
        assert lag["reader-1"].complete
        for row in lag.items["doomed-reader"].partitions if "doomed-reader" in lag else ():
            assert row.error is not None
            assert "UNKNOWN_TOPIC_OR_PARTITION" in row.error

    played(fresh, scene)


def test_offsets_are_altered_and_deleted(fresh: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        wanted: dict[TopicPartition, int | PartitionOffset] = {
            ORDERS[0]: 7,
            ORDERS[1]: PartitionOffset(8, 3, "by hand"),
        }
        changed = await admin.alter_offsets({"reader-1": wanted, "brand-new": {ORDERS[2]: 1}})
        assert changed.complete
        assert set(changed["reader-1"].done) == set(ORDERS[:2])
        read = await admin.list_offsets(["reader-1", "brand-new"])
        assert read["reader-1"].offsets[ORDERS[0]].offset == 7
        assert read["reader-1"].offsets[ORDERS[1]] == PartitionOffset(8, 3, "by hand")
        assert set(read["brand-new"].offsets) == {ORDERS[2]}
        gone = await admin.delete_offsets({"reader-1": ORDERS[:2]})
        assert set(gone["reader-1"].done) == set(ORDERS[:2])
        assert gone.to_dicts()[0]["done"] == [
            {"topic": "orders", "partition": 0},
            {"topic": "orders", "partition": 1},
        ]
        read = await admin.list_offsets(["reader-1"])
        assert set(read["reader-1"].offsets) == set(ORDERS[2:])

    played(fresh, scene)


def test_offsets_in_use_stay(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        changed = await admin.alter_offsets({"live": {ORDERS[0]: 1}})
        assert isinstance(changed.errors["live"], KafkaError)
        gone = await admin.delete_offsets({"live": ORDERS[:1], "missing": ORDERS[:1]})
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in gone["live"].errors[ORDERS[0]]
        assert isinstance(gone.errors["missing"], GroupIdNotFound)
        unknown = TopicPartition("nowhere", 0)
        gone = await admin.delete_offsets({"reader-1": [unknown]})
        assert "UNKNOWN_TOPIC_OR_PARTITION" in gone["reader-1"].errors[unknown]

    played(cluster, scene)


@pytest.mark.parametrize(
    ("call", "argument", "says"),
    [
        ("alter_offsets", {"g": {}}, "no offset is given"),
        ("alter_offsets", {"g": {ORDERS[0]: -1}}, "0 or more, not -1"),
        ("delete_offsets", {"g": []}, "no partition is given"),
        ("log_offsets", [ORDERS[0]], "at is 'earliest'"),
    ],
)
def test_changes_that_cannot_be_meant(
    cluster: EmbeddedCluster, call: str, argument: Any, says: str
) -> None:
    async def scene(admin: AdminClient) -> None:
        more = ("soon",) if call == "log_offsets" else ()
        with pytest.raises(InvalidArgument, match=says):
            await getattr(admin, call)(argument, *more)

    played(cluster, scene)


def test_a_plan_changes_nothing_until_it_is_carried_out(fresh: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        await admin.alter_offsets({"reader-1": dict.fromkeys(ORDERS, 9)})
        plan = await admin.plan_reset("reader-1", To.latest(), topics=["orders"])
        assert {each.partition: (each.current, each.target) for each in plan.offsets} == (
            dict.fromkeys(ORDERS, (9, 0))
        )
        assert (await admin.list_offsets(["reader-1"]))["reader-1"].offsets[ORDERS[0]].offset == 9
        assert (await admin.reset_offsets(plan)).complete
        assert (await admin.list_offsets(["reader-1"]))["reader-1"].offsets[ORDERS[0]].offset == 0
        by_time = await admin.plan_reset("reader-1", To.duration(timedelta(hours=1)))
        assert set(by_time.targets.values()) == {0}
        other = await admin.plan_reset("brand-new", To.group("reader-1"))
        assert set(other.targets) == set(ORDERS)
        with pytest.raises(NonEmptyGroup, match="inactive, and it is Stable"):
            await admin.plan_reset("live", To.earliest())
        with pytest.raises(InvalidArgument, match="committed nothing"):
            await admin.plan_reset("brand-new", To.earliest())

    played(fresh, scene)


def test_members_are_removed(fresh: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        members = (await admin.describe_groups(["live"]))["live"].members
        one = members[0].member_id
        assert list((await admin.remove_members("live", member_ids=[one])).items) == [one]
        missing = await admin.remove_members("live", instance_ids=["nobody"])
        assert "UNKNOWN_MEMBER_ID" in str(missing.errors["nobody"])
        assert len(await admin.remove_members("live")) == 1
        assert not (await admin.describe_groups(["live"]))["live"].members
        assert (await admin.remove_members("live")).complete

    played(fresh, scene)


def test_topics_and_the_ends_of_their_logs(fresh: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        assert [each.node_id for each in await admin.brokers()] == [1, 2, 3]
        assert (await admin.create_topics({"made": 3})).complete
        again = await admin.create_topics({"made": 3})
        assert "TOPIC_ALREADY_EXISTS" in str(again.errors["made"])
        described = await admin.describe_topics(["made", "nowhere"])
        assert [each.partition for each in described["made"].partitions] == [0, 1, 2]
        assert isinstance(described.errors["nowhere"], UnknownTopicOrPartition)
        assert "made" in await admin.describe_topics()
        made = [TopicPartition("made", index) for index in range(3)]
        ends = await admin.log_offsets([*made, TopicPartition("made", 9)])
        assert {each.offset for each in ends} == {0}
        assert isinstance(ends.errors[TopicPartition("made", 9)], UnknownTopicOrPartition)
        late = await admin.log_offsets(made, datetime.now(UTC))
        assert {each.offset for each in late} == {-1}
        gone = await admin.delete_topics(["made", "nowhere"])
        assert list(gone.items) == ["made"]
        assert list(gone.errors) == ["nowhere"]

    played(fresh, scene)


def test_lag_of_a_share_group_comes_from_its_own_request() -> None:
    def describe(request: Any) -> Any:
        return DescribeGroupsResponse(
            groups=tuple(DescribedGroup(69, "not a classic group.", g) for g in request.groups)
        )

    def share(request: Any) -> Any:
        groups = tuple(
            share_groups.DescribedGroup(group_id=g, group_state="Empty") for g in request.group_ids
        )
        return share_groups.ShareGroupDescribeResponse(groups=groups)

    def fetch(request: Any) -> Any:
        return OffsetFetchResponse(
            groups=tuple(OffsetFetchResponseGroup(g.group_id, (), 69) for g in request.groups)
        )

    def offsets(request: Any) -> Any:
        row = share_groups.DescribeShareGroupOffsetsResponsePartition(start_offset=4)
        topic = share_groups.DescribeShareGroupOffsetsResponseTopic("t", partitions=(row,))
        return share_groups.DescribeShareGroupOffsetsResponse(
            groups=tuple(
                share_groups.DescribeShareGroupOffsetsResponseGroup(g.group_id, (topic,))
                for g in request.groups
            )
        )

    def ends(_: ListOffsetsRequest) -> ListOffsetsResponse:
        row = ListOffsetsPartitionResponse(offset=10)
        return ListOffsetsResponse(topics=(ListOffsetsTopicResponse("t", (row,)),))

    async def scene() -> None:
        broker = ScriptedBroker(
            DescribeGroups=describe,
            ShareGroupDescribe=share,
            OffsetFetch=fetch,
            DescribeShareGroupOffsets=offsets,
            ListOffsets=ends,
        )
        broker.topics = {"t": 1}
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            for _ in range(2):
                lag = await admin.lag(["shared"], timeout=5)
                assert lag.complete
                assert lag["shared"].total == 6
            # Once it is known as a share group, its offsets are asked for in the right place only.
            assert broker.asked("OffsetFetch") == 1

    run(scene())


def test_lag_hands_out_what_it_was_computed_from(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        lag = await admin.lag([*GROUPS, "live"], log_start=True, topics=["nothing"])
        assert lag.descriptions["live"].members
        assert lag.offsets["reader-1"].offsets == dict.fromkeys(ORDERS, PartitionOffset(0))
        assert not lag["reader-1"].partitions

    played(cluster, scene)


def test_sixty_moments_cost_one_look_up(cluster: EmbeddedCluster) -> None:
    gone = TopicPartition("never-made", 0)

    async def scene(admin: AdminClient) -> None:
        moments = ["earliest", "latest", *range(1, 59)]
        found = await admin.log_offsets_at([*ORDERS, gone], moments)
        assert counted(admin, Counter()) == {"Metadata": 1, "ListOffsets": 60 * 3}
        assert [each[ORDERS[0]].offset for each in found[:2]] == [0, 0]
        assert all(isinstance(each.errors[gone], UnknownTopicOrPartition) for each in found)

    played(cluster, scene)


def test_a_topic_that_was_described_is_not_looked_up_again(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        await admin.describe_topics(["orders"])
        await admin.log_offsets(ORDERS)
        assert counted(admin, Counter()) == {"Metadata": 1, "ListOffsets": 3}

    played(cluster, scene)


def test_plans_for_many_groups_ask_each_broker_once(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        plans = await admin.plan_resets([*GROUPS, "live"], To.latest(), topics=["orders"])
        assert list(plans.items) == GROUPS
        assert isinstance(plans.errors["live"], NonEmptyGroup)
        assert counted(admin, Counter()) == {
            "FindCoordinator": 1,
            "DescribeGroups": 3,
            "OffsetFetch": 3,
            "Metadata": 1,
            "ListOffsets": 2 * 3,
        }

    played(cluster, scene)
