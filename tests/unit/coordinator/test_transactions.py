"""Offsets committed in transactions."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.group_records.classic import OffsetCommitKey
from coterie.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from coterie.protocol.types import Uuid
from tests.kit.invariants import check_live_equals_replay
from tests.unit.coordinator.driver import ORDERS, Driver, commit_in_transaction

E = ErrorCode


@pytest.fixture
def driver() -> Driver:
    return Driver()


def stable(driver: Driver, *partitions: int) -> list[tuple[int, int]]:
    """Offsets and errors of one who wants stable ones."""
    asked = OffsetFetchRequestTopics(name="orders", partition_indexes=partitions)
    group = OffsetFetchRequestGroup(group_id="group", topics=(asked,))
    answer = driver.shard.fetch_offsets(group, 9, require_stable=True, topics=driver.topics)
    return [(each.committed_offset, each.error_code) for each in answer.topics[0].partitions]


def test_an_offset_shows_when_its_transaction_commits(driver: Driver) -> None:
    driver.commit(1)
    assert commit_in_transaction(driver, 5) == E.NONE
    assert driver.fetched() == {("orders", 0): 1}
    assert stable(driver, 0, 1) == [(-1, E.UNSTABLE_OFFSET_COMMIT), (-1, 0)]
    driver.end_transaction(7, commit=True)
    assert driver.fetched() == {("orders", 0): 5}
    assert stable(driver, 0) == [(5, 0)]


def test_an_aborted_one_never_shows(driver: Driver) -> None:
    driver.commit(1)
    commit_in_transaction(driver, 5)
    commit_in_transaction(driver, 6, partition=2)
    driver.end_transaction(7, commit=False)
    assert driver.fetched() == {("orders", 0): 1}
    assert stable(driver, 0, 2) == [(1, 0), (-1, 0)]


def test_an_open_transaction_survives_a_restart(driver: Driver) -> None:
    commit_in_transaction(driver, 5)
    driver.restart()
    assert driver.fetched() == {}
    assert driver.state() == "Empty"
    driver.end_transaction(7, commit=True)
    assert driver.fetched() == {("orders", 0): 5}


def test_the_record_written_last_wins_whenever_its_transaction_ends(driver: Driver) -> None:
    commit_in_transaction(driver, 5, producer=7)
    commit_in_transaction(driver, 6, producer=8)
    driver.end_transaction(8, commit=True)
    driver.end_transaction(7, commit=True)
    assert driver.fetched() == {("orders", 0): 6}
    commit_in_transaction(driver, 7, producer=7)
    driver.commit(8)
    assert stable(driver, 0) == [(-1, E.UNSTABLE_OFFSET_COMMIT)]
    driver.end_transaction(7, commit=True)
    assert driver.fetched() == {("orders", 0): 8}
    check_live_equals_replay(driver.shard, driver.log, driver.config)


def test_an_earlier_one_that_ends_earlier_gives_way(driver: Driver) -> None:
    commit_in_transaction(driver, 5, producer=7)
    commit_in_transaction(driver, 6, producer=8)
    driver.end_transaction(7, commit=True)
    assert driver.fetched() == {("orders", 0): 5}
    driver.end_transaction(8, commit=True)
    assert driver.fetched() == {("orders", 0): 6}


def test_deleting_an_offset_takes_pending_ones_along(driver: Driver) -> None:
    commit_in_transaction(driver, 5)
    commit_in_transaction(driver, 6, partition=1)
    driver.send(
        OffsetDeleteRequest(
            group_id="group",
            topics=(
                OffsetDeleteRequestTopic(
                    name="orders", partitions=(OffsetDeleteRequestPartition(partition_index=0),)
                ),
            ),
        ),
        0,
    )
    driver.end_transaction(7, commit=True)
    assert driver.fetched() == {("orders", 1): 6}


def test_deleting_the_group_takes_pending_ones_along(driver: Driver) -> None:
    driver.commit(1)
    commit_in_transaction(driver, 5)
    commit_in_transaction(driver, 6, partition=1)
    outcome = driver.shard.delete_groups(["group"])
    assert [record.key for record in outcome.records[:2]] == [
        OffsetCommitKey(group="group", topic="orders", partition=0),
        OffsetCommitKey(group="group", topic="orders", partition=1),
    ]
    driver.apply(outcome)
    driver.end_transaction(7, commit=True)
    driver.commit(2, partition=3)
    assert driver.fetched() == {("orders", 3): 2}


def test_deleting_the_topic_takes_pending_ones_along(driver: Driver) -> None:
    commit_in_transaction(driver, 5)
    driver.apply(driver.shard.forget_topic("orders", ORDERS.topic_id))
    driver.apply(driver.shard.forget_topic("payments", Uuid.ZERO))
    driver.end_transaction(7, commit=True)
    assert driver.fetched() == {}


def test_a_member_commits_in_any_state(driver: Driver) -> None:
    (member,) = driver.form(sync=False)
    claim: dict[str, Any] = {"member_id": member.member_id, "generation_id": 1}
    assert commit_in_transaction(driver, **claim) == E.NONE
    assert commit_in_transaction(driver, **claim | {"generation_id": 0}) == E.ILLEGAL_GENERATION
    assert commit_in_transaction(driver, **claim | {"member_id": "who"}) == E.UNKNOWN_MEMBER_ID
    assert (
        commit_in_transaction(driver, **claim | {"group_instance_id": "i"}) == E.UNKNOWN_MEMBER_ID
    )
    # Clients before version 3 do not say who they are.
    assert commit_in_transaction(driver, version=2) == E.NONE


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, E.INVALID_GROUP_ID),
        ({"generation_id": 5, "member_id": "m"}, E.ILLEGAL_GENERATION),
        ({"topic": "nope"}, E.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 4}, E.UNKNOWN_TOPIC_OR_PARTITION),
        ({"metadata": "x" * 5000}, E.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_what_is_refused(driver: Driver, fields: dict[str, Any], error: ErrorCode) -> None:
    assert commit_in_transaction(driver, **fields) == error
    assert driver.log == []


def test_kip_181_tells_both_kinds_of_commits(driver: Driver) -> None:
    driver.form()
    described = driver.described()
    assert not described.received_consumer_offset_commits
    assert not described.received_transactional_offset_commits
    commit_in_transaction(driver, version=2)
    assert not driver.described().received_consumer_offset_commits
    assert driver.described().received_transactional_offset_commits
    driver.restart()
    assert driver.described().received_transactional_offset_commits


def test_markers_of_unknown_producers_mean_nothing(driver: Driver) -> None:
    driver.end_transaction(99, commit=True)
    assert driver.shard.durable_state()["transactions"] == {}
