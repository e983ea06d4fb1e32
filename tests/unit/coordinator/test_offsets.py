"""OffsetCommit and OffsetDelete."""

from __future__ import annotations

import pytest

from coterie.coordinator import Topic
from coterie.error_codes import ErrorCode
from coterie.protocol.group_records.classic import OffsetCommitKey, OffsetCommitValue
from coterie.protocol.messages.membership import MemberIdentity
from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.types import Uuid
from tests.unit.coordinator.driver import ORDERS, PAYMENTS, START_MS, Driver, delete, protocols

E = ErrorCode


@pytest.fixture
def driver() -> Driver:
    return Driver()


def partition(index: int, offset: int = 1) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)


# OffsetCommit


def test_a_commit_is_stored_with_the_topic_id(driver: Driver) -> None:
    assert driver.commit(5, partition=3, metadata="hand-set") == E.NONE
    value = OffsetCommitValue(
        offset=5,
        leader_epoch=-1,
        metadata="hand-set",
        commit_timestamp=START_MS,
        topic_id=ORDERS.topic_id,
    )
    key = OffsetCommitKey(group="group", topic="orders", partition=3)
    assert driver.written() == [(key, value)]
    assert driver.fetched() == {("orders", 3): 5}
    assert driver.state() == "Empty"


@pytest.mark.parametrize("version", range(2, 10))
def test_every_version_that_names_topics(driver: Driver, version: int) -> None:
    assert driver.commit(5, version=version, metadata=None) == E.NONE
    assert driver.written()[0][1].metadata == ""  # type: ignore[union-attr]


def test_version_10_goes_by_topic_id(driver: Driver) -> None:
    unknown = Uuid(b"unknown---------")
    request = OffsetCommitRequest(
        group_id="group",
        topics=(
            OffsetCommitRequestTopic(
                topic_id=ORDERS.topic_id, partitions=(partition(0), partition(4))
            ),
            OffsetCommitRequestTopic(topic_id=unknown, partitions=(partition(0),)),
        ),
    )
    answer = driver.send(request, 10)
    assert [
        (topic.topic_id, [each.error_code for each in topic.partitions]) for topic in answer.topics
    ] == [
        (ORDERS.topic_id, [0, E.UNKNOWN_TOPIC_OR_PARTITION]),
        (unknown, [E.UNKNOWN_TOPIC_ID]),
    ]
    assert driver.fetched() == {("orders", 0): 1}


def test_a_retention_of_its_own_is_stored_as_version_1(driver: Driver) -> None:
    assert driver.commit(9, version=3, retention_time_ms=86_400_000) == E.NONE
    value = driver.written()[0][1]
    assert isinstance(value, OffsetCommitValue)
    assert value.expire_timestamp == START_MS + 86_400_000
    assert value.topic_id == Uuid.ZERO


@pytest.mark.parametrize("offset", [-1, -2, 0, 2**63 - 1])
def test_offsets_are_not_judged(driver: Driver, offset: int) -> None:
    assert driver.commit(offset) == E.NONE
    assert driver.fetched() == {("orders", 0): offset}


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("x" * 4096, E.NONE),
        ("x" * 4097, E.OFFSET_METADATA_TOO_LARGE),
        ("é" * 4096, E.NONE),  # characters, not bytes
        ("😀" * 2048, E.NONE),
        ("😀" * 2049, E.OFFSET_METADATA_TOO_LARGE),  # UTF-16 units, not characters
    ],
)
def test_metadata_is_bounded(driver: Driver, metadata: str, error: ErrorCode) -> None:
    assert driver.commit(metadata=metadata) == error
    assert len(driver.log) == (0 if error else 1)


def test_unknown_topics_and_partitions(driver: Driver) -> None:
    assert driver.commit(topic="nope") == E.UNKNOWN_TOPIC_OR_PARTITION
    assert driver.commit(partition=4) == E.UNKNOWN_TOPIC_OR_PARTITION
    assert driver.commit(partition=-1) == E.UNKNOWN_TOPIC_OR_PARTITION
    assert driver.log == []
    # They are unknown even to one who may not commit at all.
    assert driver.commit(topic="nope", generation_id_or_member_epoch=5) == 3


def test_an_empty_group_id_is_a_group(driver: Driver) -> None:
    assert driver.commit(group_id="") == E.NONE
    assert driver.fetched("") == {("orders", 0): 1}


@pytest.mark.parametrize(
    ("version", "error"), [(8, E.ILLEGAL_GENERATION), (9, E.GROUP_ID_NOT_FOUND)]
)
def test_a_generation_of_an_unknown_group(driver: Driver, version: int, error: ErrorCode) -> None:
    assert driver.commit(version=version, generation_id_or_member_epoch=5) == error


def test_an_empty_group_takes_commits_from_outside_only(driver: Driver) -> None:
    driver.commit()
    assert driver.commit(generation_id_or_member_epoch=5) == E.UNKNOWN_MEMBER_ID
    assert driver.commit(2, member_id="whoever") == E.NONE
    (member,) = driver.form()
    driver.leave(MemberIdentity(member_id=member.member_id))
    assert driver.commit_as(member) == E.UNKNOWN_MEMBER_ID
    assert driver.commit(3) == E.NONE


def test_a_member_without_its_generation(driver: Driver) -> None:
    (member,) = driver.form()
    assert driver.commit(member_id=member.member_id) == E.ILLEGAL_GENERATION
    assert driver.commit(group_instance_id="i-1") == E.UNKNOWN_MEMBER_ID
    assert driver.commit() == E.UNKNOWN_MEMBER_ID


def test_while_ids_are_handed_out_the_group_is_still_empty(driver: Driver) -> None:
    driver.send(driver.join_request(), 4)
    assert driver.commit() == E.NONE
    assert driver.commit(generation_id_or_member_epoch=0) == E.UNKNOWN_MEMBER_ID


# OffsetDelete


def test_offsets_are_deleted_one_by_one(driver: Driver) -> None:
    for index in range(2):
        driver.commit(7, partition=index)
    before = len(driver.log)
    assert delete(driver, ("orders", (0, 2))) == [E.NONE, E.NONE]  # one of them has no offset
    assert driver.written()[before:] == [
        (OffsetCommitKey(group="group", topic="orders", partition=0), None)
    ]
    assert driver.fetched() == {("orders", 1): 7}


def test_what_cannot_be_deleted(driver: Driver) -> None:
    assert delete(driver, ("orders", (0,)), group_id="") == E.INVALID_GROUP_ID
    assert delete(driver, ("orders", (0,))) == E.GROUP_ID_NOT_FOUND
    driver.commit()
    assert delete(driver, ("nope", (0,)), ("orders", (4,))) == [
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_a_subscribed_topic_keeps_its_offsets(driver: Driver) -> None:
    (member,) = driver.form()
    driver.commit_as(member, topic="payments")
    driver.commit_as(member, topic="orders")
    assert delete(driver, ("orders", (0,)), ("payments", (0,))) == [
        E.GROUP_SUBSCRIBED_TO_TOPIC,
        E.NONE,
    ]
    driver.restart()
    assert delete(driver, ("orders", (0,))) == [E.GROUP_SUBSCRIBED_TO_TOPIC]


@pytest.mark.parametrize("garbage", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\5abc"])
def test_who_cannot_be_read_may_subscribe_to_all(driver: Driver, garbage: bytes) -> None:
    (member,) = driver.form(protocols=protocols("range", metadata=garbage))
    driver.commit_as(member)
    assert delete(driver, ("orders", (0,))) == [E.GROUP_SUBSCRIBED_TO_TOPIC]


def test_before_the_first_generation_all_topics_count_as_subscribed(driver: Driver) -> None:
    driver.commit()
    driver.park(driver.join_request(), 3)
    assert delete(driver, ("payments", (0,))) == [E.GROUP_SUBSCRIBED_TO_TOPIC]


def test_members_of_other_protocols_keep_all_offsets(driver: Driver) -> None:
    driver.form(protocol_type="connect")
    assert delete(driver, ("orders", (0,))) == E.NON_EMPTY_GROUP


def test_a_deleted_topic_takes_its_offsets_along(driver: Driver) -> None:
    driver.commit(1, partition=0)
    driver.commit(2, topic="payments")
    driver.commit(3, version=3, retention_time_ms=1_000, partition=1)  # has no topic id
    driver.topics = type(driver.topics)(
        Topic(ORDERS.name, Uuid(b"orders, again---"), ORDERS.partitions), PAYMENTS
    )
    driver.commit(4, partition=2)
    outcome = driver.shard.forget_topic(ORDERS.name, ORDERS.topic_id)
    driver.apply(outcome)
    assert len(outcome.records) == 2
    assert driver.fetched() == {("payments", 0): 2, ("orders", 2): 4}
