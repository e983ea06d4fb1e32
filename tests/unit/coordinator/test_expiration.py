"""Which offsets expire when, and which groups go with them."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.coordinator import GroupConfig
from coterie.coordinator.expiration import RetentionClock
from coterie.protocol.group_records.classic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
)
from coterie.protocol.messages.membership import MemberIdentity
from tests.unit.coordinator.driver import Driver, commit_in_transaction, protocols

DAY = 86_400.0
DECADE = 3_650 * DAY
LONG_SESSION: dict[str, Any] = {"session_timeout_ms": 1_800_000}


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_a_simple_group_counts_from_the_commit(driver: Driver) -> None:
    driver.commit(1)
    driver.advance(3 * DAY)
    driver.commit(2, partition=1)
    driver.advance(4 * DAY - 600)
    assert len(driver.fetched()) == 2
    driver.advance(600)
    assert driver.fetched() == {("orders", 1): 2}
    driver.advance(3 * DAY)
    assert driver.state() == "Dead"
    assert driver.written()[-2:] == [
        (OffsetCommitKey(group="group", topic="orders", partition=1), None),
        (GroupMetadataKey(group="group"), None),
    ]


def test_an_empty_group_counts_from_when_it_became_empty(driver: Driver) -> None:
    (member,) = driver.form(**LONG_SESSION)
    driver.commit_as(member)
    for _ in range(20 * 24 * 4):
        driver.advance(900)
        driver.heartbeat(member)
    assert driver.fetched() == {("orders", 0): 1}
    driver.leave(MemberIdentity(member_id=member.member_id))
    driver.advance(6.9 * DAY)
    assert driver.fetched() == {("orders", 0): 1}
    driver.advance(0.2 * DAY)
    assert driver.state() == "Dead"


def test_without_that_time_it_counts_from_the_commit(driver: Driver) -> None:
    driver.commit()
    value = GroupMetadataValue(protocol_type="consumer", generation=3, current_state_timestamp=-1)
    driver.replay(GroupMetadataKey(group="group"), value)
    driver.advance(7 * DAY + 600)
    assert driver.state() == "Dead"


def test_a_stable_group_loses_only_what_it_does_not_subscribe_to(driver: Driver) -> None:
    (member,) = driver.form(**LONG_SESSION)
    driver.commit_as(member, topic="payments")
    driver.commit_as(member, topic="orders")
    for _ in range(8 * 24 * 4):
        driver.advance(900)
        driver.heartbeat(member)
    assert driver.fetched() == {("orders", 0): 1}
    assert driver.state() == "Stable"


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol_type": "connect"},  # nobody knows what such members read
        {"protocols": protocols("range", metadata=b"\xff")},
    ],
)
def test_members_that_cannot_be_read_keep_everything(
    driver: Driver, fields: dict[str, Any]
) -> None:
    (member,) = driver.form(**LONG_SESSION, **fields)
    driver.commit_as(member, topic="payments")
    for _ in range(8 * 24 * 4):
        driver.advance(900)
        driver.heartbeat(member)
    assert driver.fetched() == {("payments", 0): 1}


def test_nothing_expires_in_a_rebalance() -> None:
    driver = Driver(
        GroupConfig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1000)
    )
    leader, _ = driver.form(2, **LONG_SESSION, rebalance_timeout_ms=600_000)
    driver.commit_as(leader, topic="payments")
    driver.park(
        driver.join_request(
            member_id=leader.member_id, **LONG_SESSION, rebalance_timeout_ms=600_000
        ),
        4,
    )
    driver.advance(500)
    assert driver.state() == "PreparingRebalance"
    assert driver.fetched() == {("payments", 0): 1}


def test_an_expiry_of_its_own_counts_instead(driver: Driver) -> None:
    driver.commit(1, version=4, retention_time_ms=int(DAY * 1000))
    driver.commit(2, partition=1, version=4, retention_time_ms=int(30 * DAY * 1000))
    driver.advance(DAY - 1)
    assert len(driver.fetched()) == 2
    driver.advance(601)
    assert driver.fetched() == {("orders", 1): 2}
    driver.advance(20 * DAY)
    assert driver.fetched() == {("orders", 1): 2}


def test_a_pending_transaction_holds_everything_up(driver: Driver) -> None:
    driver.commit(1)
    commit_in_transaction(driver, 5)
    driver.advance(8 * DAY)
    assert driver.fetched() == {("orders", 0): 1}
    driver.end_transaction(7, commit=False)
    driver.advance(600)
    assert driver.state() == "Dead"


def test_a_pending_transaction_alone_keeps_its_group(driver: Driver) -> None:
    commit_in_transaction(driver, 5)
    driver.advance(8 * DAY)
    assert driver.state() == "Empty"


def test_a_group_without_offsets_goes_at_the_next_look(driver: Driver) -> None:
    (member,) = driver.form()
    driver.leave(MemberIdentity(member_id=member.member_id))
    driver.advance(590)
    assert driver.state() == "Empty"
    driver.advance(10)
    assert driver.state() == "Dead"


def test_tombstones_come_in_batches_that_keep_groups_whole(driver: Driver) -> None:
    for number in range(1500):
        driver.commit(1, group_id=f"group-{number}")
    outcomes = driver.advance(7 * DAY + 600)
    assert [len(outcome.records) for outcome in outcomes] == [1000, 1000, 1000]
    assert driver.shard.durable_state()["groups"] == {}
    assert driver.shard.durable_state()["offsets"] == {}


# The clock (F64)


def test_a_wall_clock_that_leaps_ahead_expires_nothing(driver: Driver) -> None:
    driver.commit(1)
    driver.advance(1200, wall_seconds=DECADE)
    assert driver.fetched() == {("orders", 0): 1}
    driver.advance(7 * DAY)
    assert driver.state() == "Dead"  # its time has come by any clock


def test_a_wall_clock_that_was_behind_does_not_make_up_for_it(driver: Driver) -> None:
    driver.advance(1200, wall_seconds=-DECADE)
    driver.commit(1)  # with a timestamp of ten years ago
    driver.advance(1200, wall_seconds=DECADE)
    assert driver.fetched() == {("orders", 0): 1}


def test_the_retention_clock() -> None:
    clock = RetentionClock(10.0, 1_000_000)
    assert clock.advance(11.0, 1_001_000) == 1_001_000
    assert clock.advance(12.0, 9_000_000) == 1_002_000  # ahead: bounded
    assert clock.advance(13.0, 500_000) == 500_000  # back: followed
    assert clock.advance(14.0, 1_004_000) == 501_000  # ahead again: bounded
    assert clock.advance(13.0, 9_000_000) == 501_000  # a monotonic clock does not do this
