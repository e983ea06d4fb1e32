"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.codec import decode, encode
from coterie.protocol.group_records.classic import GroupMetadataKey, OffsetCommitKey
from coterie.protocol.messages.groups import (
    DescribeGroupsResponse,
    ListGroupsRequest,
)
from coterie.protocol.messages.membership import MemberIdentity
from tests.unit.coordinator.driver import Driver, protocols, subscription

E = ErrorCode


@pytest.fixture
def driver() -> Driver:
    """Groups in every state that a group can be in."""
    driver = Driver()
    session: dict[str, Any] = {"session_timeout_ms": 600_000}
    driver.form(group_id="stable", **session)
    driver.form(group_id="connect", protocol_type="connect", **session)
    (member,) = driver.form(group_id="empty", **session)
    driver.leave(MemberIdentity(member_id=member.member_id), group_id="empty")
    driver.form(group_id="completing", sync=False, **session)
    driver.commit(group_id="simple")
    driver.park(driver.join_request(group_id="preparing", **session), 3)
    return driver


def listed(driver: Driver, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> set[str]:
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    return {each.group_id for each in driver.shard.list_groups(request)}


# ListGroups


def test_every_group_is_listed(driver: Driver) -> None:
    groups = driver.shard.list_groups(ListGroupsRequest())
    assert {
        each.group_id: (each.protocol_type, each.group_state, each.group_type) for each in groups
    } == {
        "stable": ("consumer", "Stable", "classic"),
        "connect": ("connect", "Stable", "classic"),
        "completing": ("consumer", "CompletingRebalance", "classic"),
        "preparing": ("consumer", "PreparingRebalance", "classic"),
        "empty": ("consumer", "Empty", "classic"),
        "simple": ("", "Empty", "classic"),
    }


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        (("Stable",), (), {"stable", "connect"}),
        (("sTABLE", " empty "), (), {"stable", "connect", "empty", "simple"}),
        (("PreparingRebalance",), ("CLASSIC",), {"preparing"}),
        (("asleep",), (), set()),
        (("asleep", "Stable"), (), {"stable", "connect"}),
        (("Unknown",), (), set()),
        (("Dead",), (), set()),
        ((), ("consumer",), set()),
        ((), ("classic ",), set()),  # Kafka trims states, not types
        ((), ("nonsense",), set()),
        (("Stable",), ("share", "Classic"), {"stable", "connect"}),
    ],
)
def test_filters(
    driver: Driver, states: tuple[str, ...], types: tuple[str, ...], expected: set[str]
) -> None:
    assert listed(driver, states, types) == expected


def test_a_list_follows_the_groups(driver: Driver) -> None:
    driver.advance(3)
    assert "preparing" in listed(driver, ("CompletingRebalance",))
    driver.apply(driver.shard.delete_groups(["simple"]))
    assert "simple" not in listed(driver)
    driver.restart()
    assert listed(driver, ("Empty",)) == {"completing", "preparing", "empty"}


# DescribeGroups


def test_a_stable_group(driver: Driver) -> None:
    group = driver.described("stable")
    (member,) = group.members
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert member.member_metadata == member.member_subscription == subscription("orders")
    assert member.member_assignment == f"for {member.member_id}".encode()
    assert member.member_protocols == ("range",)
    assert (group.generation_id, group.leader_id) == (1, member.member_id)


@pytest.mark.parametrize("state", ["preparing", "completing"])
def test_outside_of_stable_only_kip_181_tells_the_subscription(driver: Driver, state: str) -> None:
    group = driver.described(state)
    (member,) = group.members
    assert (group.protocol_data, member.member_metadata) == ("", b"")
    assert member.member_subscription == subscription("orders")
    assert member.member_protocols == ("range",)


def test_assignments_of_the_last_generation_show_while_a_rebalance_is_prepared(
    driver: Driver,
) -> None:
    driver.form(2, group_id="two")
    leader = driver.described("two").leader_id
    driver.park(driver.join_request(group_id="two", member_id=leader or ""), 4)
    assert driver.state("two") == "PreparingRebalance"
    assert all(each.member_assignment for each in driver.described("two").members)


def test_a_sync_phase_that_failed_leaves_no_assignment(driver: Driver) -> None:
    driver.park(driver.join_request(group_id="completing"), 3)
    assert not any(each.member_assignment for each in driver.described("completing").members)


def test_an_empty_group(driver: Driver) -> None:
    group = driver.described("empty")
    assert (group.group_state, group.members, group.leader_id) == ("Empty", (), None)
    assert (group.generation_id, group.error_code) == (2, 0)


def test_new_members_of_a_first_rebalance_show(driver: Driver) -> None:
    assert not driver.described("preparing").new_member_added
    driver.park(driver.join_request(group_id="preparing"), 3)
    assert driver.described("preparing").new_member_added
    driver.advance(10)
    assert not driver.described("preparing").new_member_added


@pytest.mark.parametrize("version", range(7))
def test_an_unknown_group(driver: Driver, version: int) -> None:
    group = driver.shard.describe_group("nope", version)
    assert (group.group_state, group.members) == ("Dead", ())
    if version < 6:
        assert (group.error_code, group.error_message) == (0, None)
    else:
        assert group.error_code == E.GROUP_ID_NOT_FOUND
        assert group.error_message == "Group nope not found."


def test_operations_are_passed_through_unless_there_is_an_error(driver: Driver) -> None:
    assert driver.shard.describe_group("stable", 6, 3400).authorized_operations == 3400
    assert driver.shard.describe_group("stable", 6).authorized_operations == -(2**31)
    assert driver.shard.describe_group("nope", 6, 3400).authorized_operations == -(2**31)


def test_kip_181_fields_survive_the_wire(driver: Driver) -> None:
    described = driver.described("stable")
    (member,) = described.members
    driver.commit(
        group_id="stable",
        member_id=member.member_id,
        generation_id_or_member_epoch=described.generation_id,
    )
    response = DescribeGroupsResponse(groups=(driver.described("stable"),))
    (group,) = decode(DescribeGroupsResponse, encode(response, 6), 6).groups
    assert group.received_consumer_offset_commits
    assert group == driver.described("stable")


# DeleteGroups


def test_each_group_has_its_own_result(driver: Driver) -> None:
    names = ("stable", "nope", "empty", "preparing", "completing", "simple", "empty", "")
    assert [(each.group_id, each.error_code) for each in driver.delete_groups(*names)] == [
        ("stable", E.NON_EMPTY_GROUP),
        ("nope", E.GROUP_ID_NOT_FOUND),
        ("empty", 0),
        ("preparing", E.NON_EMPTY_GROUP),
        ("completing", E.NON_EMPTY_GROUP),
        ("simple", 0),
        ("", E.GROUP_ID_NOT_FOUND),
    ]
    assert listed(driver, ("Empty",)) == set()
    (again,) = driver.delete_groups("empty")
    assert again.error_code == E.GROUP_ID_NOT_FOUND


def test_tombstones_come_in_kafkas_order(driver: Driver) -> None:
    driver.commit(5, group_id="empty", partition=1)
    driver.commit(5, group_id="empty", topic="payments")
    outcome = driver.shard.delete_groups(["empty", "simple"])
    assert [(record.key, record.value) for record in outcome.records] == [
        (OffsetCommitKey(group="empty", topic="orders", partition=1), None),
        (OffsetCommitKey(group="empty", topic="payments", partition=0), None),
        (GroupMetadataKey(group="empty"), None),
        (OffsetCommitKey(group="simple", topic="orders", partition=0), None),
        (GroupMetadataKey(group="simple"), None),
    ]


def test_a_new_group_of_the_same_name_begins_anew(driver: Driver) -> None:
    driver.commit(5, group_id="empty")
    driver.apply(driver.shard.delete_groups(["empty"]))
    (member,) = driver.form(group_id="empty", protocols=protocols("sticky"))
    assert member.generation_id == 1
    assert driver.fetched("empty") == {}
    driver.restart()
    assert driver.fetched("empty") == {}
    assert driver.described("empty").generation_id == 1


def test_deleting_is_refused_as_long_as_somebody_is_there(driver: Driver) -> None:
    before = driver.shard.durable_state()
    driver.apply(driver.shard.delete_groups(["stable", "preparing", "completing"]))
    assert driver.shard.durable_state() == before
