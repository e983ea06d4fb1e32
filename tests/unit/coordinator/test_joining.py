"""JoinGroup: handshake, static members, limits, protocols."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.coordinator import GroupConfig
from coterie.error_codes import ErrorCode
from coterie.protocol.group_records.classic import GroupMetadataKey, GroupMetadataValue
from coterie.protocol.messages.membership import (
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.unit.coordinator.driver import START_MS, Driver, protocols, subscription


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_a_new_dynamic_member_is_given_an_id_first(driver: Driver) -> None:
    answer = driver.send(driver.join_request(), 4, client_id="app")
    assert (answer.error_code, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "app-1")
    assert driver.state() == "Empty"
    token = driver.park(driver.join_request(member_id="app-1"), 4)
    driver.advance(3)
    joined = driver.take(token, JoinGroupResponse)
    assert (joined.error_code, joined.member_id, joined.leader) == (0, "app-1", "app-1")
    assert (joined.generation_id, joined.protocol_name) == (1, "range")
    assert [each.member_id for each in joined.members] == ["app-1"]


def test_before_version_4_it_joins_at_once(driver: Driver) -> None:
    driver.park(driver.join_request(), 3)
    assert driver.state() == "PreparingRebalance"


def test_a_first_join_writes_an_empty_group(driver: Driver) -> None:
    driver.send(driver.join_request(), 4)
    empty = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=START_MS,
        members=(),
    )
    assert driver.written() == [(GroupMetadataKey(group="group"), empty)]
    driver.send(driver.join_request(), 4)
    assert len(driver.log) == 1


def test_a_simple_group_gets_no_such_record(driver: Driver) -> None:
    driver.commit()
    driver.park(driver.join_request(), 3)
    assert len(driver.log) == 1


def test_member_ids_that_are_not_used_expire(driver: Driver) -> None:
    for _ in range(100):
        driver.send(driver.join_request(), 4)
    assert driver.group().rebalance is not None
    driver.advance(11)
    assert driver.group().rebalance is None
    answer = driver.send(driver.join_request(member_id="client-1"), 4)
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "client-1")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_what_is_refused_of_a_member_with_an_id(
    driver: Driver, fields: dict[str, Any], error: ErrorCode
) -> None:
    answer = driver.send(driver.join_request(member_id="who", **fields), 4)
    assert (answer.error_code, answer.member_id) == (error, "who")
    assert driver.log == []


@pytest.mark.parametrize("fields", [{"protocols": ()}, {"protocol_type": ""}])
def test_without_protocols_nobody_joins(driver: Driver, fields: dict[str, Any]) -> None:
    answer = driver.send(driver.join_request(**fields), 9)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.state() == "Empty"  # Kafka too leaves an empty group behind


@pytest.mark.parametrize(
    "fields", [{"protocols": protocols("sticky")}, {"protocol_type": "connect"}]
)
def test_a_member_must_fit_the_others(driver: Driver, fields: dict[str, Any]) -> None:
    (member,) = driver.form()
    answer = driver.send(driver.join_request(**fields), 4)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    answer = driver.send(driver.join_request(member_id=member.member_id, **fields), 4)
    assert (answer.error_code, answer.member_id) == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        member.member_id,
    )


def test_version_0_rebalances_within_its_session(driver: Driver) -> None:
    driver.park(driver.join_request(rebalance_timeout_ms=-1), 0)
    driver.advance(3)
    assert driver.group().membership().rebalance_timeout_ms() == 10_000


# Limits


def test_a_full_group_takes_no_more_members() -> None:
    driver = Driver(GroupConfig(max_size=2))
    first, _ = driver.form(2)
    answer = driver.send(driver.join_request(), 4)
    assert (answer.error_code, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    driver.park(driver.join_request(member_id=first.member_id), 4)  # one that is in may rejoin


def test_member_ids_count_as_members() -> None:
    driver = Driver(GroupConfig(max_size=2))
    ids = [driver.send(driver.join_request(), 4).member_id for _ in range(2)]
    assert driver.send(driver.join_request(), 4).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    for member_id in ids:
        driver.park(driver.join_request(member_id=member_id), 4)


def test_a_group_that_became_too_large_loses_those_who_rejoin_last() -> None:
    driver = Driver(GroupConfig(max_size=3))
    members = driver.form(3)
    driver.config = GroupConfig(max_size=2)
    driver.restart()
    assert driver.state() == "PreparingRebalance"
    for member in members[:2]:
        driver.park(driver.join_request(member_id=member.member_id), 4)
    answer = driver.send(driver.join_request(member_id=members[2].member_id), 4)
    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.state() == "CompletingRebalance"
    assert len(driver.described().members) == 2


def test_a_handed_out_id_is_void_when_the_group_filled_up() -> None:
    driver = Driver(GroupConfig(max_size=2))
    leader, follower = driver.form(2)
    waiting = driver.park(driver.join_request(member_id=leader.member_id), 4)
    member_id = driver.send(driver.join_request(), 4).member_id
    driver.park(driver.join_request(member_id=follower.member_id), 4)
    answer = driver.send(driver.join_request(member_id=member_id), 4)
    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.take(waiting, JoinGroupResponse).generation_id == 2


def test_a_static_member_comes_back_to_a_full_group() -> None:
    driver = Driver(GroupConfig(max_size=2))
    driver.form(instance_ids=("i-1", "i-2"))
    assert driver.send(driver.join_request(group_instance_id="i-2"), 9).error_code == 0
    answer = driver.send(driver.join_request(group_instance_id="i-3"), 9)
    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_metadata_is_bounded() -> None:
    config = GroupConfig(max_member_metadata_bytes=100, max_group_metadata_bytes=150)
    driver = Driver(config)
    large = driver.join_request(protocols=protocols("range", metadata=bytes(101)))
    assert driver.send(large, 3).error_code == ErrorCode.INVALID_REQUEST
    (member,) = driver.form(protocols=protocols("range", metadata=bytes(100)))
    more = driver.join_request(protocols=protocols("range", metadata=bytes(60)))
    assert driver.send(more, 3).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    same = driver.join_request(
        member_id=member.member_id, protocols=protocols("range", metadata=bytes(99))
    )
    driver.request(same, 3)
    assert driver.state() == "CompletingRebalance"


# Members that join again


def test_an_unchanged_follower_is_told_the_generation_again(driver: Driver) -> None:
    leader, follower = driver.form(2)
    for state in ("Stable", "CompletingRebalance"):
        if state == "CompletingRebalance":
            token = driver.park(driver.join_request(member_id=leader.member_id), 4)
            driver.request(driver.join_request(member_id=follower.member_id), 4)
            driver.take(token, JoinGroupResponse)
        assert driver.state() == state
        answer = driver.send(driver.join_request(member_id=follower.member_id), 9)
        assert (answer.error_code, answer.leader) == (0, leader.member_id)
        assert (answer.members, answer.skip_assignment) == ((), False)
        assert driver.state() == state


def test_a_leader_that_asks_again_in_the_sync_phase_gets_the_members_again(driver: Driver) -> None:
    leader, _ = driver.form(2, sync=False)
    answer = driver.send(driver.join_request(member_id=leader.member_id), 4)
    assert answer.generation_id == leader.generation_id
    assert answer.members == leader.members


def test_a_leader_in_stable_starts_a_rebalance(driver: Driver) -> None:
    leader, follower = driver.form(2)
    first = driver.park(driver.join_request(member_id=leader.member_id), 4)
    assert driver.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS
    second, _ = driver.request(driver.join_request(member_id=follower.member_id), 4)
    answers = [driver.take(token, JoinGroupResponse) for token in (first, second)]
    assert [each.generation_id for each in answers] == [2, 2]
    assert [len(each.members) for each in answers] == [2, 0]


@pytest.mark.parametrize("state", ["Stable", "CompletingRebalance"])
def test_changed_metadata_starts_a_rebalance(driver: Driver, state: str) -> None:
    _, follower = driver.form(2, sync=state == "Stable")
    assert driver.state() == state
    changed = protocols("range", metadata=subscription("orders", "payments"))
    driver.park(driver.join_request(member_id=follower.member_id, protocols=changed), 4)
    assert driver.state() == "PreparingRebalance"


def test_a_second_join_answers_the_first(driver: Driver) -> None:
    leader, _ = driver.form(2)
    first = driver.park(driver.join_request(member_id=leader.member_id), 4)
    driver.park(driver.join_request(member_id=leader.member_id), 4)
    assert driver.take(first, JoinGroupResponse).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.state() == "PreparingRebalance"


# The vote


def test_the_vote_is_among_what_all_support(driver: Driver) -> None:
    names = [("a", "b", "c"), ("b", "a"), ("b", "a", "d")]
    tokens = [driver.park(driver.join_request(protocols=protocols(*each)), 3) for each in names]
    while tokens[0] not in driver.answers:
        driver.advance(3)
    assert driver.take(tokens[0], JoinGroupResponse).protocol_name == "b"


def test_a_tie_goes_to_the_first_voter(driver: Driver) -> None:
    names = [("b", "a"), ("a", "b")]
    tokens = [driver.park(driver.join_request(protocols=protocols(*each)), 3) for each in names]
    while tokens[0] not in driver.answers:
        driver.advance(3)
    assert driver.take(tokens[0], JoinGroupResponse).protocol_name == "b"


def test_the_same_protocol_twice_counts_once(driver: Driver) -> None:
    driver.form(1, protocols=protocols("range", "range"))
    token = driver.park(driver.join_request(protocols=protocols("range")), 3)
    assert token in driver.parked


# Static members


def test_a_static_member_needs_no_handshake(driver: Driver) -> None:
    (member,) = driver.form(instance_ids=("i-1",))
    assert member.member_id.startswith("i-1-")
    assert driver.described().members[0].group_instance_id == "i-1"


def test_a_static_member_comes_back_without_a_rebalance(driver: Driver) -> None:
    leader, follower = driver.form(2, instance_ids=("i-1", "i-2"))
    driver.advance(1)
    before = len(driver.log)
    answer = driver.send(driver.join_request(group_instance_id="i-2"), 9)
    assert answer.error_code == 0
    assert answer.member_id not in (leader.member_id, follower.member_id)
    assert (answer.generation_id, answer.leader) == (1, leader.member_id)
    assert (answer.members, answer.skip_assignment) == ((), False)
    assert (driver.state(), len(driver.log)) == ("Stable", before + 1)
    described = {each.group_instance_id: each for each in driver.described().members}
    assert described["i-2"].member_id == answer.member_id
    assert described["i-2"].member_assignment == f"for {follower.member_id}".encode()
    assert driver.heartbeat(answer, group_instance_id="i-2") == ErrorCode.NONE
    assert driver.heartbeat(follower, group_instance_id="i-2") == ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [8, 9])
def test_a_static_leader_that_comes_back_must_not_assign(driver: Driver, version: int) -> None:
    leader, _ = driver.form(2, instance_ids=("i-1", "i-2"))
    answer = driver.send(driver.join_request(group_instance_id="i-1"), version)
    if version == 9:
        assert (answer.skip_assignment, answer.leader) == (True, answer.member_id)
        assert len(answer.members) == 2
    else:  # cannot be told, so it is made a follower of its former self
        assert (answer.skip_assignment, answer.leader) == (False, leader.member_id)
        assert answer.members == ()
    assert driver.described().leader_id == answer.member_id


def test_a_static_member_that_would_change_the_protocol_starts_a_rebalance(driver: Driver) -> None:
    names = protocols("a", "b")
    driver.form(1, instance_ids=("i-1",), protocols=names)
    answer, _ = driver.request(
        driver.join_request(group_instance_id="i-1", protocols=protocols("b", "a")), 9
    )
    assert driver.take(answer, JoinGroupResponse).generation_id == 2
    assert driver.state() == "CompletingRebalance"


def test_in_the_sync_phase_a_returning_static_member_starts_over(driver: Driver) -> None:
    _, follower = driver.form(2, instance_ids=("i-1", "i-2"), sync=False)
    request = SyncGroupRequest(group_id="group", generation_id=1, member_id=follower.member_id)
    waiting = driver.park(request, 3)
    driver.park(driver.join_request(group_instance_id="i-2"), 9)
    fenced = driver.take(waiting, SyncGroupResponse)
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert driver.state() == "PreparingRebalance"


def test_two_of_the_same_instance_fence_each_other(driver: Driver) -> None:
    first = driver.park(driver.join_request(group_instance_id="i-1"), 9)
    second = driver.park(driver.join_request(group_instance_id="i-1"), 9)
    assert driver.take(first, JoinGroupResponse).error_code == ErrorCode.FENCED_INSTANCE_ID
    driver.advance(3)
    assert driver.take(second, JoinGroupResponse).error_code == 0
    assert len(driver.described().members) == 1


def test_an_instance_id_belongs_to_one_member_id(driver: Driver) -> None:
    member, other = driver.form(2, instance_ids=("i-1", "i-2"))
    wrong = driver.join_request(member_id=other.member_id, group_instance_id="i-1")
    assert driver.send(wrong, 9).error_code == ErrorCode.FENCED_INSTANCE_ID
    unknown = driver.join_request(member_id=member.member_id, group_instance_id="i-9")
    assert driver.send(unknown, 9).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_handed_out_id_is_not_for_static_members(driver: Driver) -> None:
    member_id = driver.send(driver.join_request(), 9).member_id
    answer = driver.send(driver.join_request(member_id=member_id, group_instance_id="i-1"), 9)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_unreadable_metadata_is_carried_all_the_same(driver: Driver) -> None:
    garbage = (JoinGroupRequestProtocol(name="range", metadata=b"\xff"),)
    driver.form(1, instance_ids=("i-1",), protocols=garbage)
    answer = driver.send(driver.join_request(group_instance_id="i-1", protocols=garbage), 9)
    assert answer.error_code == 0
    assert driver.described().members[0].member_metadata == b"\xff"


def test_a_member_that_left_may_come_back_as_a_new_one(driver: Driver) -> None:
    (member,) = driver.form()
    assert driver.leave(MemberIdentity(member_id=member.member_id)) == [ErrorCode.NONE]
    answer = driver.send(driver.join_request(member_id=member.member_id), 4)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    driver.park(driver.join_request(), 3)
