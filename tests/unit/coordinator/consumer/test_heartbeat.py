"""ConsumerGroupHeartbeat: joining, rebalancing, fencing, static members, and what is written for it."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.coordinator import GroupConfig, Topic
from coterie.error_codes import ErrorCode
from coterie.protocol.group_records.consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
)
from coterie.protocol.messages.consumer_groups import TopicPartitions
from coterie.protocol.messages.groups import ListGroupsRequest
from coterie.protocol.types import Uuid
from tests.kit.invariants import check_live_equals_replay
from tests.unit.coordinator.consumer.members import ConsumerDriver, Person
from tests.unit.coordinator.driver import ORDERS, PAYMENTS

E = ErrorCode


@pytest.fixture
def driver() -> ConsumerDriver:
    return ConsumerDriver()


def settle(*people: Person, rounds: int = 4) -> None:
    for _ in range(rounds):
        for each in people:
            each.beat()


def state(driver: ConsumerDriver) -> str:
    (listed,) = driver.shard.list_groups(ListGroupsRequest(types_filter=("consumer",)))
    assert listed.group_state == driver.seen().group_state
    return listed.group_state


# Joining


def test_the_first_member_gets_everything(driver: ConsumerDriver) -> None:
    """Epoch 2 and the records of Kafka 4.3.0, in its order."""
    answer = driver.beat("one", 0)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "one", 2)
    assert answer.heartbeat_interval_ms == 5_000
    assert answer.assignment is not None
    assert answer.assignment.topic_partitions == (TopicPartitions(ORDERS.topic_id, (0, 1, 2, 3)),)
    assert driver.record_types() == [5, 3, 7, 6, 8]
    assert state(driver) == "Stable"
    assert driver.beat("one", 2).assignment is None
    assert driver.record_types() == [5, 3, 7, 6, 8]  # nothing new, nothing written


def test_a_second_member_gets_its_half_once_it_is_given_up(driver: ConsumerDriver) -> None:
    one, two = Person(driver, "one"), Person(driver, "two")
    one.beat()
    two.beat()
    assert (two.epoch, two.partitions, state(driver)) == (3, [], "Reconciling")
    told = one.beat()
    assert (one.epoch, one.partitions) == (2, [0, 1])
    assert told.assignment is not None
    two.beat()
    assert two.partitions == []
    one.beat()
    assert one.epoch == 3
    two.beat()
    assert (two.partitions, state(driver)) == ([2, 3], "Stable")
    check_live_equals_replay(driver.shard, driver.log, driver.config)


def test_targets_are_made_once_a_second() -> None:
    """group.consumer.assignment.interval.ms: who comes sooner waits, and is told so by an old epoch."""
    driver = ConsumerDriver(GroupConfig())
    one, two = Person(driver, "one"), Person(driver, "two")
    one.beat()
    two.beat()
    assert (two.epoch, two.partitions, state(driver)) == (2, [], "Assigning")
    driver.advance(1)
    two.beat()
    assert (two.epoch, state(driver)) == (3, "Reconciling")


def test_a_topic_that_grows_is_assigned(driver: ConsumerDriver) -> None:
    one = Person(driver, "one")
    one.beat()
    driver.topics = driver.topics.changed(Topic("orders", ORDERS.topic_id, 6), PAYMENTS)
    one.beat()
    assert (one.epoch, one.partitions) == (3, [0, 1, 2, 3, 4, 5])


def test_a_topic_that_comes_and_goes(driver: ConsumerDriver) -> None:
    one = Person(driver, "one", subscribed_topic_names=("orders", "later"))
    one.beat()
    later = Topic("later", Uuid(b"later-----------"), 1)
    driver.topics = driver.topics.changed(ORDERS, later)
    one.beat()
    assert ("later", 0) in one.names()
    driver.topics = driver.topics.changed(ORDERS)
    one.beat()
    one.beat()
    assert one.names() == [("orders", each) for each in range(4)]
    assert state(driver) == "Stable"


def test_a_member_changes_its_subscription(driver: ConsumerDriver) -> None:
    one, two = Person(driver, "one"), Person(driver, "two")
    settle(one, two)
    one.beat(subscribed_topic_names=("payments",))
    settle(one, two)
    assert one.names() == [("payments", 0), ("payments", 1)]
    assert two.partitions == [0, 1, 2, 3]
    assert state(driver) == "Stable"


def test_the_assignor_that_most_ask_for(driver: ConsumerDriver) -> None:
    people = [
        Person(
            driver,
            name,
            server_assignor=assignor,
            subscribed_topic_names=("orders", "payments"),
        )
        for name, assignor in (("a", "range"), ("b", "range"), ("c", "uniform"))
    ]
    settle(*people, rounds=6)
    assert driver.seen().assignor_name == "range"
    # By range the extra partition of each topic goes to the first; uniform would have evened it out.
    assert [len(each.owns) for each in people] == [3, 2, 1]


def test_old_records_of_topics_are_cleaned_up(driver: ConsumerDriver) -> None:
    """Brokers before 4.1 kept topics in the log (ConsumerGroupPartitionMetadata)."""
    key = ConsumerGroupPartitionMetadataKey("group")
    driver.replay(key, ConsumerGroupPartitionMetadataValue())
    driver.beat("one", 0)
    assert driver.record_types() == [4, 5, 3, -4, 7, 6, 8]
    assert not driver.consumer_group().has_partition_metadata


def test_a_group_can_be_full() -> None:
    driver = ConsumerDriver(GroupConfig(consumer_max_size=1))
    driver.beat("one", 0)
    assert driver.refused("two", 0) == E.GROUP_MAX_SIZE_REACHED
    assert driver.beat("one", 0).error_code == 0


def test_version_0_is_given_a_member_id(driver: ConsumerDriver) -> None:
    answer = driver.beat("", 0, version=0)
    assert answer.member_id
    assert answer.member_id in driver.consumer_group().members


# Refusals

_BAD: list[tuple[dict[str, Any], ErrorCode, str]] = [
    ({"member_id": ""}, E.INVALID_REQUEST, "MemberId can't be empty."),
    ({"group_id": " "}, E.INVALID_REQUEST, "GroupId can't be empty."),
    ({"instance_id": ""}, E.INVALID_REQUEST, "InstanceId can't be empty."),
    ({"rack_id": ""}, E.INVALID_REQUEST, "RackId can't be empty."),
    (
        {"rebalance_timeout_ms": -1},
        E.INVALID_REQUEST,
        "RebalanceTimeoutMs must be provided in first request.",
    ),
    (
        {"topic_partitions": None},
        E.INVALID_REQUEST,
        "TopicPartitions must be empty when (re-)joining.",
    ),
    (
        {"subscribed_topic_names": None},
        E.INVALID_REQUEST,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    ({"epoch": -3}, E.INVALID_REQUEST, "MemberEpoch is invalid."),
    ({"epoch": -2}, E.INVALID_REQUEST, "InstanceId can't be null."),
    (
        {"server_assignor": "mine"},
        E.UNSUPPORTED_ASSIGNOR,
        "ServerAssignor mine is not supported. Supported assignors: uniform, range.",
    ),
    ({"epoch": 1}, E.GROUP_ID_NOT_FOUND, "Consumer group group not found."),
    ({"epoch": -1}, E.GROUP_ID_NOT_FOUND, "Group group not found."),
    (
        {"subscribed_topic_regex": "("},
        E.INVALID_REGULAR_EXPRESSION,
        "SubscribedTopicRegex `(` is not a valid regular expression: missing closing ).",
    ),
]


@pytest.mark.parametrize(("fields", "error", "text"), _BAD)
def test_requests_that_make_no_sense(
    driver: ConsumerDriver, fields: dict[str, Any], error: ErrorCode, text: str
) -> None:
    fields = dict(fields)
    answer = driver.beat(fields.pop("member_id", "one"), fields.pop("epoch", 0), **fields)
    assert (answer.error_code, answer.error_message) == (error, text)
    assert driver.log == []


# Fencing


def test_epochs_are_checked(driver: ConsumerDriver) -> None:
    one = Person(driver, "one")
    one.beat()
    assert driver.refused("one", 9) == E.FENCED_MEMBER_EPOCH
    assert driver.refused("one", 1) == E.FENCED_MEMBER_EPOCH
    assert driver.refused("else", 2) == E.UNKNOWN_MEMBER_ID
    assert driver.refused("else", -1) == E.UNKNOWN_MEMBER_ID
    # Who was fenced comes back with epoch 0 and the same id.
    assert driver.beat("one", 0).member_epoch == 2


def test_an_answer_may_get_lost(driver: ConsumerDriver) -> None:
    """The epoch before is fine for one that owns no more than it should."""
    one = Person(driver, "one")
    one.beat()
    driver.topics = driver.topics.changed(Topic("orders", ORDERS.topic_id, 6), PAYMENTS)
    lost = driver.beat("one", 2)
    assert lost.member_epoch == 3
    assert driver.refused("one", 2) == E.FENCED_MEMBER_EPOCH
    mine = (TopicPartitions(ORDERS.topic_id, (0, 1)),)
    assert driver.beat("one", 2, topic_partitions=mine).member_epoch == 3
    others = (TopicPartitions(PAYMENTS.topic_id, (0,)),)
    assert driver.refused("one", 2, topic_partitions=others) == E.FENCED_MEMBER_EPOCH


def test_leaving(driver: ConsumerDriver) -> None:
    one, two = Person(driver, "one"), Person(driver, "two")
    settle(one, two)
    before = len(driver.log)
    answer = driver.beat("one", -1)
    assert (answer.member_id, answer.member_epoch) == ("one", -1)
    assert driver.record_types(before) == [-8, -7, -5, 3]
    assert state(driver) == "Assigning"
    two.beat()
    assert two.partitions == [0, 1, 2, 3]
    driver.beat("two", -1)
    assert state(driver) == "Empty"
    assert driver.shard.next_deadline() == pytest.approx(700.0)  # only expiration is waited for


def test_a_silent_member_is_fenced(driver: ConsumerDriver) -> None:
    one, two = Person(driver, "one"), Person(driver, "two")
    settle(one, two)
    driver.advance(40)
    two.beat()
    driver.advance(6)
    assert list(driver.consumer_group().members) == ["two"]
    two.beat()
    assert two.partitions == [0, 1, 2, 3]


def test_who_does_not_give_up_partitions_in_time_is_fenced(driver: ConsumerDriver) -> None:
    """The member's own rebalance timeout."""
    one = Person(driver, "one", rebalance_timeout_ms=10_000)
    two = Person(driver, "two")
    one.beat()
    two.beat()
    driver.beat("one", 2)
    for _ in range(4):
        driver.advance(2.4)
        driver.beat("one", 2)
        two.beat()
    assert "one" in driver.consumer_group().members
    driver.advance(1)
    assert list(driver.consumer_group().members) == ["two"]
    two.beat()
    assert two.partitions == [0, 1, 2, 3]


def test_who_gives_them_up_is_not(driver: ConsumerDriver) -> None:
    one = Person(driver, "one", rebalance_timeout_ms=10_000)
    two = Person(driver, "two")
    settle(one, two)
    driver.advance(15)
    assert len(driver.consumer_group().members) == 2


def test_after_a_restart_members_have_a_session_to_report(driver: ConsumerDriver) -> None:
    one, two = Person(driver, "one", rebalance_timeout_ms=10_000), Person(driver, "two")
    one.beat()
    two.beat()
    driver.beat("one", 2)
    driver.restart()
    assert two.beat().member_epoch == 3
    driver.advance(11)  # the revocation was to be waited for, and still is
    assert list(driver.consumer_group().members) == ["two"]
    driver.advance(45)
    assert driver.consumer_group().members == {}


# Static members


def test_a_static_member_keeps_its_seat(driver: ConsumerDriver) -> None:
    one = Person(driver, "one", instance_id="seat")
    one.beat()
    before = len(driver.log)
    answer = driver.beat("one", -2, instance_id="seat")
    assert (answer.member_id, answer.member_epoch) == ("one", -2)
    assert driver.record_types(before) == [8]
    assert state(driver) == "Reconciling"
    before = len(driver.log)
    again = Person(driver, "again", instance_id="seat")
    again.beat()
    assert (again.epoch, again.partitions, state(driver)) == (2, [0, 1, 2, 3], "Stable")
    assert driver.record_types(before) == [-8, -7, -5, 5, 7, 8, 8]
    assert list(driver.consumer_group().members) == ["again"]
    check_live_equals_replay(driver.shard, driver.log, driver.config)


def test_a_static_member_comes_back_with_another_subscription(driver: ConsumerDriver) -> None:
    Person(driver, "one", instance_id="seat").beat()
    driver.beat("one", -2, instance_id="seat")
    again = Person(driver, "again", instance_id="seat", subscribed_topic_names=("payments",))
    settle(again)
    assert again.names() == [("payments", 0), ("payments", 1)]
    check_live_equals_replay(driver.shard, driver.log, driver.config)


def test_a_static_member_comes_back_under_the_same_member_id(driver: ConsumerDriver) -> None:
    Person(driver, "one", instance_id="seat").beat()
    driver.beat("one", -2, instance_id="seat")
    again = Person(driver, "one", instance_id="seat", subscribed_topic_names=("payments",))
    settle(again)
    assert again.names() == [("payments", 0), ("payments", 1)]
    assert list(driver.consumer_group().members) == ["one"]
    check_live_equals_replay(driver.shard, driver.log, driver.config)


def test_a_seat_that_is_taken(driver: ConsumerDriver) -> None:
    Person(driver, "one", instance_id="seat").beat()
    assert driver.refused("two", 0, instance_id="seat") == E.UNRELEASED_INSTANCE_ID
    assert driver.refused("two", 2, instance_id="seat") == E.FENCED_INSTANCE_ID
    assert driver.refused("one", 2, instance_id="else") == E.UNKNOWN_MEMBER_ID
    assert driver.refused("two", -1, instance_id="seat") == E.FENCED_INSTANCE_ID
    assert driver.refused("one", 9, instance_id="seat") == E.FENCED_MEMBER_EPOCH
    assert driver.beat("one", -1, instance_id="seat").member_epoch == -1
    assert driver.consumer_group().static_members == {}


def test_a_seat_is_not_kept_forever(driver: ConsumerDriver) -> None:
    Person(driver, "one", instance_id="seat").beat()
    driver.beat("one", -2, instance_id="seat")
    driver.advance(46)
    assert driver.consumer_group().members == {}


# Looking at it


def test_a_description(driver: ConsumerDriver) -> None:
    one, two = Person(driver, "one", rack_id="east"), Person(driver, "two", instance_id="seat")
    one.beat()
    two.beat()
    one.beat()
    group = driver.seen()
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (3, 3, "uniform")
    first, second = group.members
    assert (first.rack_id, second.instance_id, first.member_type) == ("east", "seat", 1)
    # What it has still to give up is its own.
    assert first.assignment.topic_partitions[0].partitions == (0, 1, 2, 3)
    assert first.target_assignment.topic_partitions[0].partitions == (0, 1)
    assert first.assignment.topic_partitions[0].topic_name == "orders"


def test_other_groups_are_not_described(driver: ConsumerDriver) -> None:
    driver.commit(group_id="simple")
    assert driver.seen("simple").error_message == "Group simple is not a consumer group."
    missing = driver.seen("missing")
    assert (missing.error_code, missing.error_message) == (
        E.GROUP_ID_NOT_FOUND,
        "Group missing not found.",
    )


def test_an_empty_subscription_is_a_group_too(driver: ConsumerDriver) -> None:
    """With the first epoch, and no record of it, as in Kafka 4.3.0."""
    answer = driver.beat("one", 0, subscribed_topic_names=())
    assert answer.member_epoch == 1
    assert driver.record_types() == [5, 8]
    assert state(driver) == "Stable"
    driver.restart()
    assert (state(driver), driver.seen().group_epoch) == ("Stable", 1)


def test_it_is_deleted_when_it_is_empty(driver: ConsumerDriver) -> None:
    driver.beat("one", 0)
    outcome = driver.shard.delete_groups(["group"])
    assert outcome.response.results[0].error_code == E.NON_EMPTY_GROUP  # type: ignore[union-attr]
    driver.beat("one", -1)
    before = len(driver.log)
    driver.apply(driver.shard.delete_groups(["group"]))
    assert driver.record_types(before) == [-6, -4, -3]
    assert driver.shard.durable_state()["groups"] == {}


def test_odd_records_lead_somewhere(driver: ConsumerDriver) -> None:
    """Tombstones for what is not there are skipped; a record replaces a group of another type."""
    driver.commit()
    keys = [
        ConsumerGroupCurrentMemberAssignmentKey("group", "one"),
        ConsumerGroupTargetAssignmentMemberKey("group", "one"),
        ConsumerGroupMemberMetadataKey("group", "one"),
        ConsumerGroupRegularExpressionKey("group", "a"),
    ]
    group = ConsumerGroupMetadataKey("group")
    for key in (*keys, group):
        driver.replay(key)
    assert driver.shard.skipped_records == 5
    driver.replay(group, ConsumerGroupMetadataValue(epoch=4))
    assert driver.seen().group_epoch == 4
    for key in keys:
        driver.replay(key)
    assert driver.shard.skipped_records == 9
    check_live_equals_replay(driver.shard, driver.log, driver.config)
