"""Describing groups: one look-up, one request per coordinator and API, whatever kind of group it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from coterie.client import AdminClient, GroupState, GroupType, Node, TopicPartition
from coterie.client.descriptions import classic, operations
from coterie.errors import (
    GroupIdNotFound,
    InvalidArgument,
    NoBatchedFindCoordinators,
    NonEmptyGroup,
    PartialAnswer,
    UnsupportedVersion,
)
from coterie.protocol.messages import consumer_groups, share_groups, streams_groups
from coterie.protocol.messages.groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from coterie.testing import EmbeddedCluster
from tests.integration.client.talk import ScriptedBroker, counted, played, run

EMPTY = [f"empty-{number}" for number in range(9)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as running:
        for group in EMPTY:
            running.scene("empty_group", group)
        running.scene("stable_group", "stable", members=2)
        running.scene("rebalancing_group", "restless")
        yield running


def test_many_groups_cost_one_lookup_and_one_request_per_coordinator(
    cluster: EmbeddedCluster,
) -> None:
    async def scene(admin: AdminClient) -> None:
        described = await admin.describe_groups([*EMPTY, "stable"])
        assert described.complete
        assert list(described.items) == [*EMPTY, "stable"]
        assert counted(admin, Counter()) == {"FindCoordinator": 1, "DescribeGroups": 3}
        before = admin.requests.copy()
        await admin.describe_groups(EMPTY)
        assert counted(admin, before) == {"DescribeGroups": 3}

    played(cluster, scene)


def test_what_a_list_told_is_not_looked_up_again(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        listed = await admin.list_groups()
        before = admin.requests.copy()
        described = await admin.describe_groups(listed.items)
        assert described.complete
        assert counted(admin, before) == {"DescribeGroups": 3}

    played(cluster, scene)


def test_what_another_client_has_found_is_not_looked_up_again(cluster: EmbeddedCluster) -> None:
    async def find(admin: AdminClient) -> dict[str, Node]:
        return (await admin.find_coordinators(EMPTY)).unwrap()

    coordinators = played(cluster, find)

    async def scene(admin: AdminClient) -> None:
        admin.expect_coordinators(coordinators)
        assert (await admin.describe_groups(EMPTY)).complete
        assert counted(admin, Counter()) == {"DescribeGroups": 3}

    played(cluster, scene)


def test_an_expected_coordinator_that_is_not_the_coordinator_is_looked_up(
    cluster: EmbeddedCluster,
) -> None:
    async def scene(admin: AdminClient) -> None:
        nodes = {node.node_id: node for node in await admin.brokers()}
        right = nodes.pop(cluster.coordinator_of("stable"))
        admin.expect_coordinators(dict.fromkeys(["stable"], next(iter(nodes.values()))))
        before = admin.requests.copy()
        described = await admin.describe_groups(["stable"])
        assert described["stable"].coordinator_id == right.node_id
        assert counted(admin, before) == {"DescribeGroups": 2, "FindCoordinator": 1}

    played(cluster, scene)


def test_expected_types_choose_the_api(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        found = await admin.find_coordinators(["missing"])
        admin.expect_coordinators(found.items, {"missing": GroupType.CONSUMER})
        before = admin.requests.copy()
        described = await admin.describe_groups(["missing"])
        assert isinstance(described.errors["missing"], GroupIdNotFound)
        assert counted(admin, before)["ConsumerGroupDescribe"] == 1

    played(cluster, scene)


def test_kip181_is_told_and_says_where_it_comes_from(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        group = (await admin.describe_groups(["stable"], authorized_operations=True))["stable"]
        assert (group.state, group.type) == (GroupState.STABLE, GroupType.CLASSIC)
        assert (group.protocol, group.protocol_type, group.generation) == ("range", "consumer", 1)
        assert group.leader_id in {member.member_id for member in group.members}
        assert group.received_consumer_offset_commits is False
        for member in group.members:
            assert member.subscription == ("orders",)
            assert member.supported_protocols == ("range",)
            assert member.host == "/127.0.0.1"
        given = sorted(each for member in group.members for each in member.assignment or ())
        assert given == [TopicPartition("orders", index) for index in range(4)]
        assert group.sources["generation"] == "DescribeGroups, tagged fields of KIP-181"
        assert group.authorized_operations is not None
        assert {"READ", "DELETE", "DESCRIBE"} <= set(group.authorized_operations)

    played(cluster, scene)


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_describe_is_understood(version: int) -> None:
    with EmbeddedCluster(max_versions={"DescribeGroups": version}) as cluster:
        cluster.scene("stable_group", "stable", members=1)

        async def scene(admin: AdminClient) -> None:
            described = await admin.describe_groups(
                ["stable", "missing"], authorized_operations=True
            )
            group = described["stable"]
            assert group.members[0].subscription == ("orders",)
            assert (group.generation == 1) == (version >= 5)
            assert (group.authorized_operations is not None) == (version >= 3)
            # Older brokers call it Dead, without a word more; that is the same thing.
            with pytest.raises(GroupIdNotFound, match="group 'missing': The group id does not"):
                described["missing"]

        played(cluster, scene)


def test_a_lookup_in_batches_falls_back_to_one_by_one() -> None:
    with EmbeddedCluster(brokers=3, max_versions={"FindCoordinator": 3}) as cluster:
        for group in EMPTY:
            cluster.scene("empty_group", group)

        async def scene(admin: AdminClient) -> None:
            described = await admin.describe_groups(EMPTY)
            assert described.complete
            assert counted(admin, Counter()) == {"FindCoordinator": 9, "DescribeGroups": 3}
            assert admin.single_lookups == 9
            assert (await admin.delete_groups(EMPTY)).complete
            # What is known is not looked up again.
            assert admin.single_lookups == 9
            assert admin.requests["DeleteGroups"] == 3

        played(cluster, scene)


def test_the_refusal_to_look_up_many_is_an_error_of_its_own_that_stays_inside() -> None:
    with EmbeddedCluster(max_versions={"FindCoordinator": 3}) as cluster:

        async def scene(admin: AdminClient) -> None:
            with pytest.raises(NoBatchedFindCoordinators, match=r"127\.0\.0\.1:\d+ serves .* v3"):
                await admin._parts.coordinators._find_many(["a", "b"], admin._deadline(5))
            assert issubclass(NoBatchedFindCoordinators, UnsupportedVersion)
            assert (await admin.find_coordinators(["a", "b"])).complete

        played(cluster, scene)


def test_coordinators_are_found_by_one_request(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        found = await admin.find_coordinators([*EMPTY, "not there yet"])
        assert found.complete
        assert admin.single_lookups == 0
        assert counted(admin, Counter()) == {"FindCoordinator": 1}
        assert found["empty-1"].node_id == cluster.coordinator_of("empty-1")

    played(cluster, scene)


def test_each_group_is_deleted_or_has_its_own_error(cluster: EmbeddedCluster) -> None:
    for number in range(6):
        cluster.scene("empty_group", f"going-{number}")

    async def scene(admin: AdminClient) -> None:
        going = [f"going-{number}" for number in range(6)]
        result = await admin.delete_groups([*going, "stable", "missing"])
        assert set(result.items) == set(going)
        assert isinstance(result.errors["stable"], NonEmptyGroup)
        assert isinstance(result.errors["missing"], GroupIdNotFound)
        assert "group 'stable'" in str(result.errors["stable"])
        assert admin.requests["DeleteGroups"] == 3
        with pytest.raises(PartialAnswer, match=r"group 'stable'.*group 'missing'"):
            result.unwrap()
        listed = await admin.list_groups()
        assert not set(going) & set(listed.items)

    played(cluster, scene)


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        (["a", "b", "a"], "group 'a' is given 2 times"),
        ([""], "a group name is empty"),
        (["a\0b"], "null byte"),
        (["x" * 32768], "32768 bytes, and 32767 is the most"),
        ("orders", "not the single string 'orders'"),
        ([7], "a string, and not 7"),
        (["\ud800"], "cannot be written in UTF-8"),
    ],
)
def test_names_that_cannot_be_meant_are_refused(
    cluster: EmbeddedCluster, groups: Any, says: str
) -> None:
    async def scene(admin: AdminClient) -> None:
        for call in (admin.describe_groups, admin.delete_groups, admin.lag, admin.list_offsets):
            with pytest.raises(InvalidArgument, match=says):
                await call(groups)
        assert not admin.requests

    played(cluster, scene)


def test_no_groups_cost_no_request(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        assert (await admin.describe_groups([])).complete
        assert not admin.requests

    played(cluster, scene)


def test_requests_are_split_where_the_broker_would_refuse_them(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        described = await admin.describe_groups(EMPTY)
        assert described.complete
        # Two names of 7 letters and 16 bytes each fit into 50.
        assert admin.requests["FindCoordinator"] == 5
        assert admin.requests["DescribeGroups"] >= 5

    played(cluster, scene, max_request_size=50)


# -- kinds of groups that our cluster does not have -------------------------------------------------------


def _classic(request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    def one(group: str) -> DescribedGroup:
        if group == "old":
            return DescribedGroup(group_id=group, group_state="Empty", protocol_type="consumer")
        text = "not found." if group == "missing" else "is not a classic group."
        return DescribedGroup(69, f"Group {group} {text}", group, "Dead")

    return DescribeGroupsResponse(groups=tuple(map(one, request.groups)))


def _consumer(request: Any) -> Any:
    assigned = consumer_groups.ConsumerGroupDescribeAssignment(
        (
            consumer_groups.ConsumerGroupDescribeTopicPartitions(
                topic_name="orders", partitions=(0, 2)
            ),
        )
    )
    member = consumer_groups.Member(
        member_id="m1", member_epoch=7, subscribed_topic_names=("orders",), assignment=assigned
    )
    found = consumer_groups.DescribedGroup(
        group_id="new", group_state="Stable", group_epoch=8, assignor_name="uniform",
        assignment_epoch=7, members=(member,),
    )  # fmt: skip
    rows: list[Any] = []
    for group in request.group_ids:
        if group == "new":
            # Kafka 3.9 answers once for each partition that it asks.
            rows.append(found)
        rows.append(consumer_groups.DescribedGroup(69, None, group))
    return consumer_groups.ConsumerGroupDescribeResponse(groups=tuple(rows))


def _share(request: Any) -> Any:
    def one(group: str) -> Any:
        if group != "shared":
            return share_groups.DescribedGroup(69, None, group)
        member = share_groups.Member(member_id="s1", subscribed_topic_names=("orders",))
        return share_groups.DescribedGroup(
            group_id=group, group_state="Stable", group_epoch=3, members=(member,)
        )

    return share_groups.ShareGroupDescribeResponse(groups=tuple(map(one, request.group_ids)))


def _streams(request: Any) -> Any:
    def one(group: str) -> Any:
        if group != "flowing":
            return streams_groups.DescribedGroup(69, None, group)
        part = streams_groups.StreamsGroupDescribeSubtopology("0", ("input",))
        tasks = streams_groups.Assignment(active_tasks=(streams_groups.TaskIds("0", (1,)),))
        return streams_groups.DescribedGroup(
            group_id=group,
            group_state="NotReady",
            topology=streams_groups.StreamsGroupDescribeTopology(1, (part,)),
            members=(streams_groups.Member(member_id="f1", assignment=tasks),),
        )

    return streams_groups.StreamsGroupDescribeResponse(groups=tuple(map(one, request.group_ids)))


def test_groups_of_every_kind_are_described_in_one_call() -> None:
    async def scene() -> None:
        broker = ScriptedBroker(
            DescribeGroups=_classic,
            ConsumerGroupDescribe=_consumer,
            ShareGroupDescribe=_share,
            StreamsGroupDescribe=_streams,
        )
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            names = ["old", "new", "shared", "flowing", "missing"]
            described = await admin.describe_groups(names)
            assert {each.group_id: each.type.value for each in described} == {
                "old": "classic",
                "new": "consumer",
                "shared": "share",
                "flowing": "streams",
            }
            assert isinstance(described.errors["missing"], GroupIdNotFound)
            new = described["new"]
            assert (new.epoch, new.assignment_epoch, new.assignor) == (8, 7, "uniform")
            assert new.generation is None
            assert new.members[0].assignment == (
                TopicPartition("orders", 0),
                TopicPartition("orders", 2),
            )
            flowing = described["flowing"].members[0]
            assert flowing.tasks == ("active 0_1",)
            assert flowing.assignment == (TopicPartition("input", 1),)
            # What is not there was told apart by the text, and not asked for again.
            others = [each for each in broker.seen if hasattr(each, "group_ids")]
            assert all("missing" not in each.group_ids for each in others)
            before = admin.requests.copy()
            await admin.describe_groups(names[:4])
            # Now every kind is known: one request per API.
            assert counted(admin, before) == {
                "DescribeGroups": 1,
                "ConsumerGroupDescribe": 1,
                "ShareGroupDescribe": 1,
                "StreamsGroupDescribe": 1,
            }

    run(scene())


def test_metadata_of_other_clients_is_kept_as_it_is() -> None:
    member = DescribedGroupMember("m", member_metadata=b"\x00\x07junk", member_assignment=b"\x01")
    connect = classic(DescribedGroup(group_id="c", protocol_type="connect", members=(member,)), 1)
    assert connect.members[0].subscription is None
    assert connect.members[0].undecoded is None
    assert connect.members[0].metadata == b"\x00\x07junk"
    broken = classic(DescribedGroup(group_id="b", protocol_type="consumer", members=(member,)), 1)
    assert broken.members[0].subscription is None
    assert broken.members[0].undecoded is not None
    assert broken.members[0].undecoded.startswith("subscription: ")
    assert broken.members[0].raw_assignment == b"\x01"


def test_what_a_stock_broker_does_not_tell_is_none() -> None:
    group = classic(DescribedGroup(group_id="g", group_state="Stable", protocol_type="consumer"), 2)
    assert group.generation is None
    assert group.leader_id is None
    assert group.new_member_added is None
    assert group.authorized_operations is None
    assert "generation" not in group.sources


def test_operations_have_names() -> None:
    assert operations(328) == ("READ", "DELETE", "DESCRIBE")
    assert operations(-2147483648) is None
