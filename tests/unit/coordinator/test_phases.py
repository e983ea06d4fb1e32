"""What time does to a rebalance: delays, timeouts, sessions, restarts."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.coordinator import GroupConfig
from coterie.coordinator.outcome import Step
from coterie.coordinator.phases import Subject
from coterie.coordinator.timers import Reason
from coterie.error_codes import ErrorCode
from coterie.protocol.group_records.classic import GroupMetadataKey, MemberMetadata
from coterie.protocol.group_records.classic import GroupMetadataValue as Value
from coterie.protocol.messages.membership import (
    JoinGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coterie.protocol.schema import Response
from tests.unit.coordinator.driver import Driver, protocols

E = ErrorCode


@pytest.fixture
def driver() -> Driver:
    return Driver()


def sync_request(member: JoinGroupResponse) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id="group", generation_id=member.generation_id, member_id=member.member_id
    )


# The initial delay (KIP-134)


def test_the_first_rebalance_waits_for_others(driver: Driver) -> None:
    first = driver.park(driver.join_request(), 3)
    driver.advance(2.9)
    second = driver.park(driver.join_request(), 3)
    driver.advance(0.2)
    assert first in driver.parked  # someone came, so it waits on
    driver.advance(2.9)
    assert len(driver.take(first, JoinGroupResponse).members) == 2
    assert driver.take(second, JoinGroupResponse).generation_id == 1


def test_the_delay_is_extended_up_to_the_rebalance_timeout(driver: Driver) -> None:
    fields: dict[str, Any] = {"rebalance_timeout_ms": 7_000}
    tokens = [driver.park(driver.join_request(**fields), 3)]
    start = driver.monotonic
    while tokens[0] in driver.parked:
        driver.advance(0.5)
        if tokens[0] in driver.parked:
            tokens.append(driver.park(driver.join_request(**fields), 3))
    # 3 + 3 + 1, and never longer although somebody new came all the time.
    assert driver.monotonic - start == pytest.approx(7, abs=0.5)
    assert len(driver.take(tokens[0], JoinGroupResponse).members) == len(tokens)


def test_without_a_delay_it_ends_with_the_next_tick() -> None:
    driver = Driver(GroupConfig(initial_rebalance_delay_ms=0))
    token = driver.park(driver.join_request(), 3)
    assert driver.shard.next_deadline() == driver.monotonic
    driver.advance(0)
    assert driver.take(token, JoinGroupResponse).generation_id == 1


def test_a_second_rebalance_has_no_delay(driver: Driver) -> None:
    (member,) = driver.form()
    waiting = driver.park(driver.join_request(), 3)
    token, _ = driver.request(driver.join_request(member_id=member.member_id), 4)
    assert driver.take(waiting, JoinGroupResponse).generation_id == 2
    assert driver.take(token, JoinGroupResponse).leader == member.member_id


def test_an_empty_group_waits_again(driver: Driver) -> None:
    (member,) = driver.form()
    driver.leave(MemberIdentity(member_id=member.member_id))
    token = driver.park(driver.join_request(), 3)
    driver.advance(2.9)
    assert token in driver.parked
    driver.advance(0.1)
    assert driver.take(token, JoinGroupResponse).generation_id == 3


# The join phase


def test_who_does_not_rejoin_is_dropped(driver: Driver) -> None:
    leader, _ = driver.form(2, session_timeout_ms=600_000)
    token = driver.park(driver.join_request(session_timeout_ms=600_000), 3)
    driver.advance(59.9)
    assert driver.state() == "PreparingRebalance"
    driver.advance(0.1)
    assert driver.take(token, JoinGroupResponse).generation_id == 2
    assert driver.heartbeat(leader) == E.UNKNOWN_MEMBER_ID
    assert len(driver.described().members) == 1


def test_static_members_that_do_not_rejoin_keep_their_place(driver: Driver) -> None:
    fields: dict[str, Any] = {"session_timeout_ms": 600_000}
    leader, _ = driver.form(instance_ids=("i-1", "i-2"), **fields)
    token = driver.park(driver.join_request(**fields), 3)
    driver.advance(60)
    joined = driver.take(token, JoinGroupResponse)
    assert len(driver.described().members) == 3
    assert joined.leader == joined.member_id != leader.member_id  # the old leader did not come
    assert len(joined.members) == 3


def test_if_nobody_comes_back_it_waits_for_the_sessions_to_end(driver: Driver) -> None:
    fields: dict[str, Any] = {"session_timeout_ms": 100_000}
    driver.form(instance_ids=("i-1", "i-2"), **fields)
    driver.leave(MemberIdentity(member_id="", group_instance_id="i-2"))
    assert driver.state() == "PreparingRebalance"
    driver.advance(60)
    assert driver.state() == "PreparingRebalance"
    driver.advance(40)
    assert driver.state() == "Empty"


def test_a_new_member_waits_no_longer_than_five_minutes(driver: Driver) -> None:
    fields: dict[str, Any] = {"session_timeout_ms": 1_000_000, "rebalance_timeout_ms": 900_000}
    driver.form(**fields)
    token = driver.park(driver.join_request(**fields), 3)
    driver.advance(299)
    assert token in driver.parked
    driver.advance(1)
    answer = driver.take(token, JoinGroupResponse)
    assert (answer.error_code, answer.member_id) == (E.UNKNOWN_MEMBER_ID, "")


def test_a_member_that_waits_for_us_does_not_lose_its_session(driver: Driver) -> None:
    leader, follower = driver.form(2)
    waiting = driver.park(driver.join_request(member_id=leader.member_id), 4)
    for _ in range(5):
        driver.advance(9)
        assert driver.heartbeat(follower) == E.REBALANCE_IN_PROGRESS
    assert waiting in driver.parked
    driver.request(driver.join_request(member_id=follower.member_id), 4)
    assert driver.take(waiting, JoinGroupResponse).generation_id == 2


def test_an_id_that_is_never_used_does_not_hold_the_others_up(driver: Driver) -> None:
    (leader,) = driver.form()
    driver.send(driver.join_request(session_timeout_ms=6_000), 4)
    waiting = driver.park(driver.join_request(member_id=leader.member_id), 4)
    driver.advance(5.9)
    assert waiting in driver.parked
    driver.advance(0.1)
    assert driver.take(waiting, JoinGroupResponse).generation_id == 2


# The sync phase


def test_a_leader_that_never_assigns_is_dropped(driver: Driver) -> None:
    leader, follower = driver.form(2, sync=False, session_timeout_ms=600_000)
    waiting = driver.park(sync_request(follower), 3)
    driver.advance(60)
    assert driver.take(waiting, SyncGroupResponse).error_code == E.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(leader) == E.UNKNOWN_MEMBER_ID
    token, _ = driver.request(driver.join_request(member_id=follower.member_id), 4)
    joined = driver.take(token, JoinGroupResponse)
    assert (joined.leader, joined.generation_id) == (follower.member_id, 2)


def test_a_follower_that_never_syncs_is_dropped_even_from_a_stable_group(driver: Driver) -> None:
    leader, follower = driver.form(2, sync=False, session_timeout_ms=600_000)
    driver.send(sync_request(leader), 3)
    assert driver.state() == "Stable"
    driver.advance(60)
    assert driver.state() == "PreparingRebalance"
    assert driver.heartbeat(follower) == E.UNKNOWN_MEMBER_ID


def test_once_all_have_synced_nobody_is_dropped(driver: Driver) -> None:
    driver.form(2, session_timeout_ms=600_000)
    driver.advance(60)
    assert driver.state() == "Stable"


def test_a_leader_whose_session_ends_before_it_assigns(driver: Driver) -> None:
    _, follower = driver.form(2, sync=False)
    waiting = driver.park(sync_request(follower), 3)
    driver.advance(10)
    assert driver.take(waiting, SyncGroupResponse).error_code == E.REBALANCE_IN_PROGRESS
    assert driver.state() == "PreparingRebalance"


# Sessions


def test_the_end_of_a_session_starts_a_rebalance(driver: Driver) -> None:
    leader, follower = driver.form(2)
    driver.advance(9)
    assert driver.heartbeat(follower) == E.NONE
    driver.advance(1)
    assert driver.state() == "PreparingRebalance"
    assert driver.heartbeat(follower) == E.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(leader) == E.UNKNOWN_MEMBER_ID


def test_the_end_of_the_last_session_empties_the_group(driver: Driver) -> None:
    driver.form(2)
    driver.advance(10)
    assert driver.state() == "Empty"
    assert driver.described().generation_id == 2


def test_a_commit_is_a_sign_of_life(driver: Driver) -> None:
    (member,) = driver.form()
    for _ in range(5):
        driver.advance(9)
        assert driver.commit_as(member) == E.NONE
    assert driver.state() == "Stable"
    # The heap does not grow with every sign of life.
    assert len(driver.shard._phases.timers) < 10


def test_the_wall_clock_means_nothing_to_sessions(driver: Driver) -> None:
    (member,) = driver.form()
    decade = 10 * 365 * 86_400.0
    driver.advance(5, wall_seconds=decade)
    assert driver.heartbeat(member) == E.NONE
    driver.advance(5, wall_seconds=-2 * decade)
    assert driver.heartbeat(member) == E.NONE


# Restarts


def test_after_a_restart_members_have_a_session_to_report(driver: Driver) -> None:
    leader, follower = driver.form(2)
    driver.restart(away_seconds=3600)
    assert driver.state() == "Stable"
    driver.advance(9)
    assert driver.heartbeat(follower) == E.NONE
    assert driver.commit_as(follower, 7) == E.NONE
    driver.advance(1)
    assert driver.heartbeat(leader) == E.UNKNOWN_MEMBER_ID


def test_a_rebalance_under_way_is_forgotten(driver: Driver) -> None:
    leader, _ = driver.form(2)
    driver.park(driver.join_request(member_id=leader.member_id), 4)
    driver.restart()
    assert (driver.state(), driver.described().generation_id) == ("Stable", 1)


def test_a_first_generation_without_an_assignment_is_forgotten(driver: Driver) -> None:
    driver.form(2, sync=False)
    driver.restart()
    assert (driver.state(), driver.described().generation_id) == ("Empty", 0)


def test_only_the_chosen_protocol_survives_a_restart(driver: Driver) -> None:
    _, follower = driver.form(2, protocols=protocols("a", "b"))
    assert driver.described().members[0].member_protocols == ("a", "b")
    driver.restart()
    assert driver.described().members[0].member_protocols == ("a",)
    # So even an unchanged follower looks changed, and there is a rebalance, as in Kafka.
    driver.park(driver.join_request(member_id=follower.member_id, protocols=protocols("a", "b")), 4)


def test_unloading_answers_all_that_is_parked(driver: Driver) -> None:
    leader, _ = driver.form(2)
    join = driver.park(driver.join_request(member_id=leader.member_id), 4)
    _, follower = driver.form(2, sync=False, group_id="other")
    sync = driver.park(
        SyncGroupRequest(group_id="other", generation_id=1, member_id=follower.member_id), 3
    )
    released: dict[object, Response] = dict(driver.shard.unload())
    assert released == {
        join: JoinGroupResponse(error_code=E.NOT_COORDINATOR, member_id=leader.member_id),
        sync: SyncGroupResponse(error_code=E.NOT_COORDINATOR),
    }
    assert driver.shard.next_deadline() is None


def test_a_group_deleted_meanwhile_has_no_deadlines(driver: Driver) -> None:
    driver.send(driver.join_request(), 4)
    driver.apply(driver.shard.delete_groups(["group"]))
    driver.advance(60)
    assert driver.state() == "Dead"


def test_a_deadline_of_what_is_gone_does_nothing(driver: Driver) -> None:
    (member,) = driver.form()
    group = driver.group()
    driver.leave(MemberIdentity(member_id=member.member_id))
    before = len(driver.log)
    step = Step(driver.monotonic, driver.now_ms)
    driver.shard._phases.fire(Subject(Reason.SESSION, group, member.member_id), step)
    driver.send(driver.join_request(), 4)
    driver.shard._phases.fire(Subject(Reason.SESSION, group, member.member_id), step)
    assert (step.records, step.released, len(driver.log)) == ([], {}, before)


def test_a_static_member_that_came_back_does_not_have_to_sync_in_time(driver: Driver) -> None:
    fields: dict[str, Any] = {"session_timeout_ms": 600_000}
    leader, _ = driver.form(instance_ids=("i-1", "i-2"), sync=False, **fields)
    driver.send(sync_request(leader), 3)
    assert driver.send(driver.join_request(group_instance_id="i-2", **fields), 9).error_code == 0
    driver.advance(60)
    assert driver.state() == "Stable"


def test_an_unloaded_shard_expires_nothing_more(driver: Driver) -> None:
    for number in range(1500):
        driver.commit(group_id=f"group-{number}")
    driver.monotonic += 8 * 86_400
    driver.now_ms += 8 * 86_400_000
    outcomes = driver.shard.tick(driver.monotonic, driver.now_ms, driver.topics)
    assert next(outcomes).records
    assert driver.shard.unload() == ()
    assert list(outcomes) == []


def test_a_record_from_before_rebalance_timeouts(driver: Driver) -> None:
    member = MemberMetadata(member_id="m", session_timeout=7_000, rebalance_timeout=-1)
    value = Value(protocol_type="consumer", generation=4, protocol="range", members=(member,))
    driver.replay(GroupMetadataKey(group="group"), value)
    driver.restart()
    assert driver.group().membership().rebalance_timeout_ms() == 7_000
    assert driver.described().leader_id == "m"  # the record names no leader
