"""Listing groups: every broker once, filters that never lie, answers that say what they lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from coterie.client import AdminClient, GroupState, GroupType
from coterie.errors import InvalidArgument, PartialAnswer, UnsupportedVersion
from coterie.protocol.messages.groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from coterie.testing import EmbeddedCluster
from tests.integration.client.talk import ScriptedBroker, counted, played, run


def scenes(cluster: EmbeddedCluster) -> None:
    for number in range(9):
        cluster.scene("empty_group", f"empty-{number}")
    cluster.scene("stable_group", "stable", members=2)
    cluster.scene("rebalancing_group", "restless")


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as running:
        scenes(running)
        yield running


@pytest.fixture(scope="module", params=[3, 4])
def old(request: pytest.FixtureRequest) -> Iterator[tuple[EmbeddedCluster, int]]:
    with EmbeddedCluster(brokers=3, max_versions={"ListGroups": request.param}) as running:
        scenes(running)
        yield running, request.param


def test_every_broker_is_asked_once_and_the_answers_are_merged(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        listed = await admin.list_groups()
        assert listed.complete
        assert len(listed) == 11
        assert {each.coordinator_id for each in listed} == {1, 2, 3}
        # Once to learn who there is, and once to see that nothing has moved; then only that.
        assert counted(admin, Counter()) == {"Metadata": 2, "ListGroups": 3}
        before = admin.requests.copy()
        assert len(await admin.list_groups()) == 11
        assert counted(admin, before) == {"Metadata": 1, "ListGroups": 3}
        assert listed["stable"].state is GroupState.STABLE
        assert listed["stable"].type is GroupType.CLASSIC
        assert listed["stable"].protocol_type == "consumer"
        assert listed["empty-1"].protocol_type == ""

    played(cluster, scene)


def test_brokers_filter_by_state_and_type(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        stable = await admin.list_groups(states={"stable"})
        assert set(stable.items) == {"stable"}
        both = await admin.list_groups(states=[GroupState.STABLE, "completingrebalance"])
        assert set(both.items) == {"stable", "restless"}
        assert len(await admin.list_groups(states={"Empty"}, types={"Classic"})) == 9
        assert len(await admin.list_groups(types={GroupType.CONSUMER})) == 0
        assert "DescribeGroups" not in admin.requests

    played(cluster, scene)


def test_the_request_tells_the_states_that_were_asked_for_and_that_none_were() -> None:
    async def scene() -> None:
        broker = ScriptedBroker(ListGroups=lambda _: ListGroupsResponse())
        async with broker, AdminClient(bootstrap_servers=broker.address) as admin:
            await admin.list_groups(states={"stable"}, types={"Classic"})
            await admin.list_groups()
            asked = [each for each in broker.seen if isinstance(each, ListGroupsRequest)]
            assert asked == [
                ListGroupsRequest(("Stable",), ("classic",)),
                ListGroupsRequest((), ()),
            ]

    run(scene())


def test_protocol_types_are_filtered_here(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        assert set((await admin.list_groups(protocol_types={"consumer"})).items) == {
            "stable",
            "restless",
        }
        assert len(await admin.list_groups(protocol_types=["connect"])) == 0

    played(cluster, scene)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"states": set()}, "states is empty"),
        ({"types": []}, "types is empty"),
        ({"protocol_types": []}, "protocol_types is empty"),
        ({"states": {"Stabel"}}, "did you mean 'Stable'"),
        ({"states": {"Unknown"}}, "there is no 'Unknown'"),
        ({"types": {"klassik"}}, "did you mean 'classic'"),
        ({"timeout": 0}, "timeout is in seconds"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    cluster: EmbeddedCluster, arguments: dict[str, object], says: str
) -> None:
    async def scene(admin: AdminClient) -> None:
        with pytest.raises(InvalidArgument, match=says):
            await admin.list_groups(**arguments)  # type: ignore[arg-type]
        assert not admin.requests

    played(cluster, scene)


def test_an_old_broker_is_never_asked_for_what_it_cannot_filter(
    old: tuple[EmbeddedCluster, int],
) -> None:
    cluster, version = old

    async def scene(admin: AdminClient) -> None:
        wanted: dict[str, object] = (
            {"states": {"Stable"}} if version < 4 else {"types": {"classic"}}
        )
        with pytest.raises(UnsupportedVersion) as caught:
            await admin.list_groups(**wanted)  # type: ignore[arg-type]
        text = str(caught.value)
        assert "broker 1 (127.0.0.1:" in text or "broker 2" in text or "broker 3" in text
        assert f"up to v{version}, and v{version + 1} is needed" in text
        assert not admin.requests["ListGroups"]

    played(cluster, scene)


def test_an_old_broker_is_listed_without_states(old: tuple[EmbeddedCluster, int]) -> None:
    cluster, version = old

    async def scene(admin: AdminClient) -> None:
        listed = await admin.list_groups()
        assert listed.complete
        assert len(listed) == 11
        assert {each.type for each in listed} == {None}
        states = {each.state for each in listed}
        assert states == ({None} if version < 4 else {"Empty", "Stable", "CompletingRebalance"})

    played(cluster, scene)


def test_an_old_broker_can_be_filtered_here(old: tuple[EmbeddedCluster, int]) -> None:
    cluster, _ = old

    async def scene(admin: AdminClient) -> None:
        listed = await admin.list_groups(
            states={"Stable", "CompletingRebalance"}, types={"classic"}, client_side=True
        )
        assert listed.complete
        assert {each.group_id: each.state for each in listed} == {
            "stable": "Stable",
            "restless": "CompletingRebalance",
        }
        # The list has told the coordinators, so that nobody had to look them up.
        assert admin.requests["FindCoordinator"] == 0
        assert admin.requests["DescribeGroups"] == 3

    played(cluster, scene)


def test_a_group_that_two_brokers_claim_is_listed_once() -> None:
    def mine(_: ListGroupsRequest) -> ListGroupsResponse:
        return ListGroupsResponse(groups=(ListedGroup("moving", "consumer", "Stable", "classic"),))

    async def scene() -> None:
        async with (
            ScriptedBroker(1, ListGroups=mine) as one,
            ScriptedBroker(2, ListGroups=mine) as two,
            AdminClient(bootstrap_servers=one.address) as admin,
        ):
            one.peers = two.peers = [one, two]
            listed = await admin.list_groups()
            assert listed.complete
            assert list(listed.items) == ["moving"]
            # Who coordinates it is not known, and so it is looked up.
            assert "moving" not in admin._parts.coordinators

    run(scene())


def test_what_has_not_changed_is_made_once_and_belongs_to_nobody() -> None:
    state = "Stable"

    def changing(_: ListGroupsRequest) -> ListGroupsResponse:
        return ListGroupsResponse(groups=(ListedGroup("orders", "consumer", state, "classic"),))

    def steady(_: ListGroupsRequest) -> ListGroupsResponse:
        return ListGroupsResponse(groups=(ListedGroup("billing", "consumer", "Empty", "classic"),))

    async def scene() -> None:
        nonlocal state
        async with (
            ScriptedBroker(1, ListGroups=changing) as one,
            ScriptedBroker(2, ListGroups=steady) as two,
            AdminClient(bootstrap_servers=one.address) as admin,
        ):
            one.peers = two.peers = [one, two]
            first = await admin.list_groups()
            before = dict(first.items)
            # A caller may do with the answer what they want.
            first.items.clear()
            second = await admin.list_groups()
            assert second.items == before
            assert second["orders"] is before["orders"]
            state = "Dead"
            third = await admin.list_groups()
            assert third["orders"].state is GroupState.DEAD
            assert third["billing"] is before["billing"]
            # All that is known of a broker that has left is forgotten.
            one.peers = two.peers = [one]
            assert list((await admin.list_groups()).items) == ["orders"]

    run(scene())


def test_each_change_of_a_long_list_is_seen() -> None:
    states = ["Stable"] * 200

    def changing(_: ListGroupsRequest) -> ListGroupsResponse:
        listed = [ListedGroup(f"group-{n}", "consumer", each) for n, each in enumerate(states)]
        return ListGroupsResponse(groups=tuple(listed))

    async def scene() -> None:
        async with (
            ScriptedBroker(1, ListGroups=changing) as broker,
            AdminClient(bootstrap_servers=broker.address) as admin,
        ):
            broker.peers = [broker]
            for number in (0, 100, 150, 199):
                states[number] = "Empty"
                items = (await admin.list_groups()).items
                found = {name: str(each.state) for name, each in items.items()}
                assert found == {f"group-{n}": each for n, each in enumerate(states)}

    run(scene())


def test_a_group_that_a_broker_lists_twice_is_there_until_it_is_listed_no_more() -> None:
    others = [ListedGroup(f"group-{n}", "consumer", "Stable") for n in range(100)]
    twice = ListedGroup("twice", "consumer", "Stable")
    lists = [
        [*others, twice],
        [twice, *others, twice],
        [twice, *others[1:], twice],
        [*others, twice],
        others,
    ]

    answers = iter(lists)

    def next_one(_: ListGroupsRequest) -> ListGroupsResponse:
        return ListGroupsResponse(groups=tuple(next(answers)))

    async def scene() -> None:
        async with (
            ScriptedBroker(1, ListGroups=next_one) as broker,
            AdminClient(bootstrap_servers=broker.address) as admin,
        ):
            broker.peers = [broker]
            for listed in lists:
                found = (await admin.list_groups()).items
                assert found.keys() == {group.group_id for group in listed}

    run(scene())


def test_an_error_of_one_broker_is_its_own() -> None:
    def broken(_: ListGroupsRequest) -> ListGroupsResponse:
        return ListGroupsResponse(error_code=-1)

    def fine(_: ListGroupsRequest) -> ListGroupsResponse:
        return ListGroupsResponse(groups=(ListedGroup("orders"),))

    async def scene() -> None:
        async with (
            ScriptedBroker(1, ListGroups=fine) as one,
            ScriptedBroker(2, ListGroups=broken) as two,
            AdminClient(bootstrap_servers=one.address) as admin,
        ):
            one.peers = [one, two]
            listed = await admin.list_groups()
            assert list(listed.items) == ["orders"]
            assert not listed.complete
            (failure,) = listed.broker_errors
            assert (failure.node_id, failure.address) == (2, two.address)
            assert "UNKNOWN_SERVER_ERROR" in failure.cause
            with pytest.raises(PartialAnswer, match=f"broker 2 .{two.address}"):
                listed.unwrap()

    run(scene())


def test_what_is_listed_turns_into_dicts_and_json(cluster: EmbeddedCluster) -> None:
    async def scene(admin: AdminClient) -> None:
        listed = await admin.list_groups(states={"Stable"})
        assert repr(listed) == "<1 items, complete>"
        assert listed.to_dicts()[0]["state"] == "Stable"
        assert b'"group_id":"stable"' in listed.to_json()

    played(cluster, scene)
