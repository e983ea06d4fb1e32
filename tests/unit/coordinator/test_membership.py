"""SyncGroup, Heartbeat and LeaveGroup, and every request in every state."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.membership import (
    HeartbeatRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.unit.coordinator.driver import Driver, protocols, subscription

E = ErrorCode


@pytest.fixture
def driver() -> Driver:
    return Driver()


def in_state(driver: Driver, state: str) -> JoinGroupResponse:
    """A group in a state, and a member that is, or was, in it; never the leader if there are others."""
    if state == "Dead":
        return JoinGroupResponse(member_id="who", generation_id=1)
    if state == "Empty":
        (member,) = driver.form()
        driver.leave(MemberIdentity(member_id=member.member_id))
        return member
    leader, follower = driver.form(2, sync=state != "CompletingRebalance")
    if state == "PreparingRebalance":
        driver.park(driver.join_request(member_id=leader.member_id), 4)
    return follower


def sync_request(member: JoinGroupResponse, **fields: object) -> SyncGroupRequest:
    return SyncGroupRequest(
        **{  # type: ignore[arg-type]
            "group_id": "group",
            "generation_id": member.generation_id,
            "member_id": member.member_id,
            **fields,
        }
    )


# State by state

ANSWERS = {
    "Dead": (
        E.UNKNOWN_MEMBER_ID,
        E.UNKNOWN_MEMBER_ID,
        E.UNKNOWN_MEMBER_ID,
        E.GROUP_ID_NOT_FOUND,
        0,
    ),
    "Empty": (
        E.UNKNOWN_MEMBER_ID,
        E.UNKNOWN_MEMBER_ID,
        E.UNKNOWN_MEMBER_ID,
        E.UNKNOWN_MEMBER_ID,
        0,
    ),
    "PreparingRebalance": (
        E.REBALANCE_IN_PROGRESS,
        E.REBALANCE_IN_PROGRESS,
        0,
        0,
        E.UNKNOWN_MEMBER_ID,
    ),
    "CompletingRebalance": (0, None, 0, E.REBALANCE_IN_PROGRESS, E.UNKNOWN_MEMBER_ID),
    "Stable": (0, 0, 0, 0, E.UNKNOWN_MEMBER_ID),
}


@pytest.mark.parametrize("state", ANSWERS)
def test_every_request_in_every_state(driver: Driver, state: str) -> None:
    heartbeat, sync, leave, commit, outside = ANSWERS[state]
    member = in_state(driver, state)
    assert driver.state() == state
    assert driver.heartbeat(member) == heartbeat
    _, outcome = driver.request(sync_request(member), 3)
    if sync is None:
        assert outcome.response is None
    else:
        assert isinstance(outcome.response, SyncGroupResponse)
        assert outcome.response.error_code == sync
    assert driver.commit_as(member) == commit
    assert driver.state() == state
    assert driver.commit() == outside
    if state == "Dead":
        assert driver.state() == "Empty"  # the last commit made a simple group
    assert driver.leave(MemberIdentity(member_id=member.member_id)) == [leave]


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_a_wrong_generation_or_member_changes_nothing(driver: Driver, state: str) -> None:
    member = in_state(driver, state)
    stale = JoinGroupResponse(member_id=member.member_id, generation_id=member.generation_id - 1)
    other = JoinGroupResponse(member_id="who", generation_id=member.generation_id)
    before = driver.shard.durable_state()
    for claim, error in ((stale, E.ILLEGAL_GENERATION), (other, E.UNKNOWN_MEMBER_ID)):
        assert driver.heartbeat(claim) == error
        assert driver.send(sync_request(claim), 3).error_code == error
        assert driver.commit_as(claim) == error
    assert driver.leave(MemberIdentity(member_id="who")) == [E.UNKNOWN_MEMBER_ID]
    assert driver.shard.durable_state() == before
    assert driver.state() == state


# Heartbeat


def test_heartbeats_keep_a_member(driver: Driver) -> None:
    (member,) = driver.form()
    for _ in range(10):
        driver.advance(9)
        assert driver.heartbeat(member) == E.NONE
    driver.advance(10)
    assert driver.heartbeat(member) == E.UNKNOWN_MEMBER_ID


def test_an_empty_group_id_is_invalid(driver: Driver) -> None:
    assert driver.send(HeartbeatRequest(group_id=""), 4).error_code == E.INVALID_GROUP_ID
    assert driver.send(SyncGroupRequest(group_id=""), 4).error_code == E.INVALID_GROUP_ID
    assert driver.send(LeaveGroupRequest(group_id=""), 5).error_code == E.INVALID_GROUP_ID


def test_static_members_are_checked_by_both_ids(driver: Driver) -> None:
    member, other = driver.form(instance_ids=("i-1", "i-2"))
    assert driver.heartbeat(member, group_instance_id="i-1") == E.NONE
    assert driver.heartbeat(other, group_instance_id="i-1") == E.FENCED_INSTANCE_ID
    assert driver.heartbeat(member, group_instance_id="i-3") == E.UNKNOWN_MEMBER_ID
    fenced = sync_request(other, group_instance_id="i-1")
    assert driver.send(fenced, 3).error_code == E.FENCED_INSTANCE_ID
    assert driver.commit_as(other, group_instance_id="i-1") == E.FENCED_INSTANCE_ID


# SyncGroup


def test_followers_wait_for_the_leader(driver: Driver) -> None:
    leader, follower = driver.form(2, sync=False)
    waiting = driver.park(sync_request(follower), 3)
    assignments = (
        SyncGroupRequestAssignment(member_id=leader.member_id, assignment=b"l"),
        SyncGroupRequestAssignment(member_id=follower.member_id, assignment=b"f"),
        SyncGroupRequestAssignment(member_id="made up", assignment=b"x"),
    )
    answer = driver.send(sync_request(leader, assignments=assignments), 3)
    assert (answer.assignment, answer.protocol_name) == (b"l", "range")
    assert driver.take(waiting, SyncGroupResponse).assignment == b"f"
    assert driver.state() == "Stable"
    _, value = driver.written()[-1]
    assert [(each.member_id, each.assignment) for each in value.members] == [  # type: ignore[union-attr]
        (leader.member_id, b"l"),
        (follower.member_id, b"f"),
    ]
    # The record tells when the sync phase began, as Kafka's does.
    driver.advance(1)
    assert driver.send(sync_request(follower), 3).assignment == b"f"


def test_members_that_the_leader_forgot_get_nothing(driver: Driver) -> None:
    leader, follower = driver.form(2, sync=False)
    waiting = driver.park(sync_request(follower), 3)
    driver.send(sync_request(leader), 3)
    assert driver.take(waiting, SyncGroupResponse).assignment == b""


def test_version_5_must_name_the_protocol(driver: Driver) -> None:
    (member,) = driver.form()
    right: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range"}
    assert driver.send(sync_request(member, **right), 5).error_code == 0
    for wrong in (
        {"protocol_type": None},
        {"protocol_name": None},
        {"protocol_type": "connect"},
        {"protocol_name": "sticky"},
    ):
        answer = driver.send(sync_request(member, **right | wrong), 5)
        assert answer.error_code == E.INCONSISTENT_GROUP_PROTOCOL
    # The missing name is seen before the wrong generation, and before an unknown group.
    stale = sync_request(member, generation_id=9, group_id="nope")
    assert driver.send(stale, 5).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    stale = sync_request(member, generation_id=9, **right)
    assert driver.send(stale, 5).error_code == E.ILLEGAL_GENERATION


def test_a_rebalance_sends_waiting_followers_back(driver: Driver) -> None:
    _, follower = driver.form(2, sync=False)
    waiting = driver.park(sync_request(follower), 3)
    driver.park(driver.join_request(), 3)
    assert driver.take(waiting, SyncGroupResponse).error_code == E.REBALANCE_IN_PROGRESS
    assert driver.state() == "PreparingRebalance"


def test_a_second_sync_answers_the_first(driver: Driver) -> None:
    _, follower = driver.form(2, sync=False)
    first = driver.park(sync_request(follower), 3)
    driver.park(sync_request(follower), 3)
    assert driver.take(first, SyncGroupResponse).error_code == E.REBALANCE_IN_PROGRESS


# LeaveGroup


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_leave_alone_and_are_told_so_at_the_top(driver: Driver, version: int) -> None:
    (member,) = driver.form()
    unknown = LeaveGroupRequest(group_id="group", member_id="who")
    answer = driver.send(unknown, version)
    assert (answer.error_code, answer.members) == (E.UNKNOWN_MEMBER_ID, ())
    unknown = LeaveGroupRequest(group_id="nope", member_id="who")
    assert driver.send(unknown, version).error_code == E.UNKNOWN_MEMBER_ID
    answer = driver.send(LeaveGroupRequest(group_id="group", member_id=member.member_id), version)
    assert (answer.error_code, answer.members) == (0, ())
    assert driver.state() == "Empty"


def test_many_leave_with_a_result_each(driver: Driver) -> None:
    one, two, _ = driver.form(instance_ids=("i-1", "i-2", "i-3"))
    results = driver.leave(
        MemberIdentity(member_id="", group_instance_id="i-1"),  # by an administrator
        MemberIdentity(member_id=one.member_id, group_instance_id="i-2"),
        MemberIdentity(member_id=two.member_id, group_instance_id="i-2"),
        MemberIdentity(member_id="", group_instance_id="i-9"),
        MemberIdentity(member_id=""),
        MemberIdentity(member_id="who"),
    )
    assert results == [
        E.NONE,
        E.FENCED_INSTANCE_ID,
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
        E.UNKNOWN_MEMBER_ID,
        E.UNKNOWN_MEMBER_ID,
    ]
    assert driver.state() == "PreparingRebalance"
    assert [each.group_instance_id for each in driver.described().members] == ["i-3"]


def test_of_an_unknown_group_nobody_can_leave(driver: Driver) -> None:
    assert driver.leave(MemberIdentity(member_id="who"), group_id="nope") == [E.UNKNOWN_MEMBER_ID]


def test_the_last_one_to_leave_empties_the_group(driver: Driver) -> None:
    (member,) = driver.form()
    driver.advance(5)
    driver.leave(MemberIdentity(member_id=member.member_id))
    _, value = driver.written()[-1]
    assert (value.generation, value.members) == (2, ())  # type: ignore[union-attr]
    assert (value.protocol, value.leader, value.protocol_type) == (  # type: ignore[union-attr]
        None,
        None,
        "consumer",
    )
    assert value.current_state_timestamp == driver.now_ms  # type: ignore[union-attr]
    assert driver.state() == "Empty"
    assert driver.group().rebalance is None


def test_a_handed_out_id_can_be_given_back(driver: Driver) -> None:
    member_id = driver.send(driver.join_request(), 4).member_id
    assert driver.leave(MemberIdentity(member_id=member_id)) == [E.NONE]
    assert driver.group().rebalance is None
    answer = driver.send(driver.join_request(member_id=member_id), 4)
    assert answer.error_code == E.UNKNOWN_MEMBER_ID


def test_giving_an_id_back_lets_the_others_go_on(driver: Driver) -> None:
    (leader,) = driver.form()
    member_id = driver.send(driver.join_request(), 4).member_id
    waiting = driver.park(driver.join_request(member_id=leader.member_id), 4)
    driver.leave(MemberIdentity(member_id=member_id))
    assert driver.take(waiting, JoinGroupResponse).generation_id == 2


def test_what_a_leaving_member_waits_for_is_answered(driver: Driver) -> None:
    leader, follower = driver.form(2)
    waiting = driver.park(driver.join_request(member_id=leader.member_id), 4)
    driver.leave(MemberIdentity(member_id=leader.member_id))
    answer = driver.take(waiting, JoinGroupResponse)
    assert (answer.error_code, answer.member_id) == (E.UNKNOWN_MEMBER_ID, "")
    assert driver.described().leader_id == follower.member_id
    waiting, _ = driver.request(driver.join_request(member_id=follower.member_id), 4)
    assert driver.take(waiting, JoinGroupResponse).leader == follower.member_id


def test_a_leaving_member_that_waits_for_its_assignment(driver: Driver) -> None:
    _, follower = driver.form(2, sync=False)
    waiting = driver.park(sync_request(follower), 3)
    driver.leave(MemberIdentity(member_id=follower.member_id))
    assert driver.take(waiting, SyncGroupResponse).error_code == E.UNKNOWN_MEMBER_ID


def test_all_leave_while_the_first_rebalance_waits(driver: Driver) -> None:
    tokens = [driver.park(driver.join_request(group_instance_id=each), 5) for each in "ab"]
    driver.leave(*(MemberIdentity(member_id="", group_instance_id=each) for each in "ab"))
    for token in tokens:
        assert driver.take(token, JoinGroupResponse).error_code == E.UNKNOWN_MEMBER_ID
    while driver.state() != "Empty":
        driver.advance(3)
    assert driver.described().generation_id == 1


def test_subscriptions_of_a_generation_decide_what_may_be_deleted(driver: Driver) -> None:
    (member,) = driver.form()
    group = driver.group()
    assert group.is_subscribed_to("orders")
    assert not group.is_subscribed_to("payments")
    changed = protocols("range", metadata=subscription("payments"))
    driver.request(driver.join_request(member_id=member.member_id, protocols=changed), 4)
    assert group.is_subscribed_to("payments")
    assert not group.is_subscribed_to("orders")
