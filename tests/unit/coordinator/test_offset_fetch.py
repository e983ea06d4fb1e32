"""OffsetFetch."""

from __future__ import annotations

import pytest

from coterie.coordinator import Topic
from coterie.error_codes import ErrorCode
from coterie.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from coterie.protocol.types import Uuid
from tests.unit.coordinator.driver import ORDERS, PAYMENTS, Driver, Topics


@pytest.fixture
def driver() -> Driver:
    driver = Driver()
    driver.commit(5, partition=0, metadata="note")
    driver.commit(6, partition=1)
    driver.commit(7, topic="payments")
    return driver


def plain(group: OffsetFetchResponseGroup) -> list[tuple[object, ...]]:
    return [
        (
            topic.name,
            each.partition_index,
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            each.error_code,
        )
        for topic in group.topics
        for each in topic.partitions
    ]


@pytest.mark.parametrize("version", range(1, 8))
def test_one_group_before_version_8(driver: Driver, version: int) -> None:
    request = OffsetFetchRequest(
        group_id="group",
        topics=(OffsetFetchRequestTopic(name="orders", partition_indexes=(0, 3)),),
    )
    answer = driver.send(request, version)
    (topic,) = answer.topics
    assert [(each.committed_offset, each.metadata) for each in topic.partitions] == [
        (5, "note"),
        (-1, ""),
    ]
    assert answer.error_code == 0
    if version >= 2:
        answer = driver.send(OffsetFetchRequest(group_id="group", topics=None), version)
        assert [len(each.partitions) for each in answer.topics] == [2, 1]


@pytest.mark.parametrize("version", [8, 9])
def test_many_groups_from_version_8_on(driver: Driver, version: int) -> None:
    driver.commit(1, group_id="other")
    asked = OffsetFetchRequestTopics(name="orders", partition_indexes=(0,))
    request = OffsetFetchRequest(
        groups=(
            OffsetFetchRequestGroup(group_id="group", topics=None),
            OffsetFetchRequestGroup(group_id="other", topics=(asked,)),
            OffsetFetchRequestGroup(group_id="nope", topics=(asked,)),
            OffsetFetchRequestGroup(group_id="nope", topics=None),
        )
    )
    everything, some, unknown, nothing = driver.send(request, version).groups
    assert plain(everything) == [
        ("orders", 0, 5, -1, "note", 0),
        ("orders", 1, 6, -1, "", 0),
        ("payments", 0, 7, -1, "", 0),
    ]
    assert plain(some) == [("orders", 0, 1, -1, "", 0)]
    assert plain(unknown) == [("orders", 0, -1, -1, "", 0)]
    assert (nothing.topics, nothing.error_code) == ((), 0)


def test_version_10_goes_by_topic_id(driver: Driver) -> None:
    unknown = Uuid(b"unknown---------")
    group = OffsetFetchRequestGroup(
        group_id="group",
        topics=(
            OffsetFetchRequestTopics(topic_id=unknown, partition_indexes=(0,)),
            OffsetFetchRequestTopics(topic_id=ORDERS.topic_id, partition_indexes=(0,)),
        ),
    )
    (answer,) = driver.send(OffsetFetchRequest(groups=(group,)), 10).groups
    assert [(topic.topic_id, topic.partitions[0].error_code) for topic in answer.topics] == [
        (ORDERS.topic_id, 0),
        (unknown, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    group = OffsetFetchRequestGroup(group_id="group", topics=None)
    (answer,) = driver.send(OffsetFetchRequest(groups=(group,)), 10).groups
    assert [topic.topic_id for topic in answer.topics] == [ORDERS.topic_id, PAYMENTS.topic_id]
    driver.topics = Topics(PAYMENTS)  # a topic that is gone has no id to be named by
    (answer,) = driver.send(OffsetFetchRequest(groups=(group,)), 10).groups
    assert [topic.topic_id for topic in answer.topics] == [PAYMENTS.topic_id]


def test_a_new_topic_of_the_same_name_has_no_offsets_yet(driver: Driver) -> None:
    renewed = Topic("orders", Uuid(b"orders, again---"), 4)
    driver.topics = Topics(renewed)
    group = OffsetFetchRequestGroup(
        group_id="group",
        topics=(OffsetFetchRequestTopics(topic_id=renewed.topic_id, partition_indexes=(0,)),),
    )
    (answer,) = driver.send(OffsetFetchRequest(groups=(group,)), 10).groups
    assert answer.topics[0].partitions[0].committed_offset == -1
    assert driver.fetched()["orders", 0] == 5  # by name it is still there, as in Kafka
