"""Offsets of consumer groups: who may commit and fetch, and when they go."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.coordinator import Topic
from coterie.error_codes import ErrorCode
from coterie.protocol.messages.offsets import OffsetFetchRequestGroup
from tests.unit.coordinator.consumer.members import ConsumerDriver, Person
from tests.unit.coordinator.driver import ORDERS, PAYMENTS, commit_in_transaction, delete

E = ErrorCode


@pytest.fixture
def driver() -> ConsumerDriver:
    """A group with a member that has epoch 2 and all of `orders`."""
    driver = ConsumerDriver()
    driver.beat("one", 0)
    return driver


def commit(driver: ConsumerDriver, epoch: int, member_id: str = "one", **fields: Any) -> ErrorCode:
    return driver.commit(member_id=member_id, generation_id_or_member_epoch=epoch, **fields)


def fetch(driver: ConsumerDriver, member_id: str | None, epoch: int) -> ErrorCode:
    group = OffsetFetchRequestGroup("group", member_id, epoch, topics=None)
    answer = driver.shard.fetch_offsets(group, 9, require_stable=False, topics=driver.topics)
    return ErrorCode.of(answer.error_code)


def test_members_commit_with_their_epoch(driver: ConsumerDriver) -> None:
    assert commit(driver, 2) == E.NONE
    assert commit(driver, 3) == E.STALE_MEMBER_EPOCH
    assert commit(driver, 1) == E.STALE_MEMBER_EPOCH
    assert commit(driver, 2, "else") == E.UNKNOWN_MEMBER_ID
    assert commit(driver, -1, "") == E.UNKNOWN_MEMBER_ID
    assert commit(driver, 2, version=8) == E.UNSUPPORTED_VERSION


def test_an_older_epoch_will_do_for_what_was_owned_then(driver: ConsumerDriver) -> None:
    """KIP-1251: a commit that was under way when the group moved on."""
    driver.topics = driver.topics.changed(Topic("orders", ORDERS.topic_id, 6), PAYMENTS)
    assert driver.beat("one", 2).member_epoch == 3
    assert commit(driver, 2, partition=0) == E.NONE
    assert commit(driver, 2, partition=5) == E.STALE_MEMBER_EPOCH
    assert commit(driver, 2, topic="payments") == E.STALE_MEMBER_EPOCH
    assert commit(driver, 1, partition=0) == E.STALE_MEMBER_EPOCH


def test_what_is_to_be_given_up_can_be_committed(driver: ConsumerDriver) -> None:
    two = Person(driver, "two")
    two.beat()
    driver.beat("one", 2)
    assert commit(driver, 2, partition=3) == E.NONE
    assert commit(driver, two.epoch, "two", partition=3) == E.NONE  # its epoch is the group's


def test_fetches_that_name_a_member(driver: ConsumerDriver) -> None:
    assert fetch(driver, "one", 2) == E.NONE
    assert fetch(driver, None, -1) == E.NONE
    assert fetch(driver, "one", 1) == E.STALE_MEMBER_EPOCH
    assert fetch(driver, "one", -1) == E.STALE_MEMBER_EPOCH
    assert fetch(driver, "else", 2) == E.UNKNOWN_MEMBER_ID


def test_transactions(driver: ConsumerDriver) -> None:
    def said(**fields: Any) -> ErrorCode:
        return commit_in_transaction(driver, 7, **fields)

    assert said(member_id="one", generation_id=2) == E.NONE
    assert said(member_id="one", generation_id=1) == E.ILLEGAL_GENERATION
    assert said(member_id="one", generation_id=3) == E.ILLEGAL_GENERATION
    assert said(member_id="else", generation_id=2) == E.UNKNOWN_MEMBER_ID
    assert said() == E.NONE  # a producer that does without membership
    driver.end_transaction(7, commit=True)
    assert driver.fetched()


def test_without_members_anyone_may_commit(driver: ConsumerDriver) -> None:
    driver.beat("one", -1)
    assert commit(driver, -1, "") == E.NONE
    assert commit(driver, 2) == E.UNKNOWN_MEMBER_ID


def test_offsets_of_topics_that_are_read_cannot_be_deleted(driver: ConsumerDriver) -> None:
    assert delete(driver, ("orders", (0,))) == [E.GROUP_SUBSCRIBED_TO_TOPIC]
    assert delete(driver, ("payments", (0,))) == [E.NONE]


def test_offsets_of_topics_that_are_read_do_not_expire(driver: ConsumerDriver) -> None:
    commit(driver, 2)
    commit(driver, 2, topic="payments")
    week = 7 * 86_400
    for _ in range(int(week / 40)):
        driver.advance(40)
        driver.beat("one", 2)
    driver.advance(30)
    driver.beat("one", 2)
    driver.advance(30)
    assert driver.fetched() == {("orders", 0): 1}


def test_an_empty_group_goes_with_its_last_offset(driver: ConsumerDriver) -> None:
    commit(driver, 2)
    driver.beat("one", -1)
    driver.advance(6 * 86_400)
    assert driver.fetched()
    driver.advance(2 * 86_400)
    assert driver.shard.durable_state()["groups"] == {}
