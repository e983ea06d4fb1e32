"""Subscriptions by pattern: run behind the heartbeat, all together, and again when topics are new."""

from __future__ import annotations

import msgspec
import pytest

from coterie.coordinator import GroupConfig, Topic
from coterie.error_codes import ErrorCode
from coterie.protocol.group_records.consumer import ConsumerGroupRegularExpressionValue
from coterie.protocol.types import Uuid
from tests.kit.invariants import check_live_equals_replay
from tests.unit.coordinator.consumer.members import ConsumerDriver, Person
from tests.unit.coordinator.driver import ORDERS, PAYMENTS

ORDERS_TOO = Topic("orders-2", Uuid(b"orders-2--------"), 1)


@pytest.fixture
def driver() -> ConsumerDriver:
    return ConsumerDriver()


def reader(driver: ConsumerDriver, name: str, pattern: str = "ord.*") -> Person:
    return Person(driver, name, subscribed_topic_names=None, subscribed_topic_regex=pattern)


def test_a_pattern_is_run_after_the_answer(driver: ConsumerDriver) -> None:
    """The first answer has the first epoch and nothing assigned, as in Kafka 4.3.0."""
    one = reader(driver, "one")
    one.beat()
    assert (one.epoch, one.partitions, driver.record_types()) == (1, [], [5, 8])
    driver.advance(0)
    assert driver.record_types()[2:] == [16, 3]
    one.beat()
    assert (one.epoch, one.partitions) == (2, [0, 1, 2, 3])
    check_live_equals_replay(driver.shard, driver.log, driver.config)


def test_a_pattern_matches_whole_names(driver: ConsumerDriver) -> None:
    one = reader(driver, "one", "order")
    one.beat()
    driver.advance(0)
    one.beat()
    assert one.partitions == []


def test_a_pattern_matches_only_what_the_member_may_see(driver: ConsumerDriver) -> None:
    driver.visible = lambda names: set(names) - {"orders"}
    one = reader(driver, "one", ".*")
    one.beat()
    driver.advance(0)
    one.beat()
    assert one.names() == [("payments", 0), ("payments", 1)]


def test_a_pattern_that_is_known_is_not_run_again(driver: ConsumerDriver) -> None:
    one, two = reader(driver, "one"), reader(driver, "two")
    one.beat()
    driver.advance(0)
    before = len(driver.log)
    two.beat()
    assert driver.record_types(before)[:2] == [5, 3]
    for _ in range(4):
        one.beat()
        two.beat()
    assert (one.partitions, two.partitions) == ([0, 1], [2, 3])


def test_new_topics_are_found(driver: ConsumerDriver) -> None:
    one = reader(driver, "one")
    one.beat()
    driver.advance(0)
    one.beat()
    driver.topics = driver.topics.changed(ORDERS, PAYMENTS, ORDERS_TOO)
    one.beat()
    driver.advance(0)
    one.beat()
    assert len(one.owns) == 4  # patterns were run within the last ten seconds
    driver.advance(11)
    one.beat()
    driver.advance(0)
    one.beat()
    assert ("orders-2", 0) in one.names()


def test_patterns_are_run_again_after_a_while() -> None:
    driver = ConsumerDriver(
        GroupConfig(consumer_assignment_interval_ms=0, consumer_regex_refresh_interval_ms=20_000)
    )
    one = reader(driver, "one")
    one.beat()
    driver.advance(0)
    one.beat()
    before = len(driver.log)
    driver.advance(19)
    one.beat()
    driver.advance(2)
    one.beat()
    driver.advance(0)
    assert driver.record_types(before) == [16]


def test_the_last_to_leave_takes_the_pattern_along(driver: ConsumerDriver) -> None:
    one, two = reader(driver, "one"), reader(driver, "two")
    one.beat()
    driver.advance(0)
    two.beat()
    driver.beat("one", -1)
    assert list(driver.consumer_group().regexes) == ["ord.*"]
    driver.beat("two", -1)
    assert driver.consumer_group().regexes == {}
    assert driver.record_types()[-2:] == [-16, 3]


def test_from_a_pattern_to_names_and_to_another_pattern(driver: ConsumerDriver) -> None:
    one = reader(driver, "one")
    one.beat()
    driver.advance(0)
    one.beat()
    one.beat(subscribed_topic_regex="pay.*")
    driver.advance(11)
    for _ in range(3):
        one.beat()
        driver.advance(0)
    assert one.names() == [("payments", 0), ("payments", 1)]
    one.beat(subscribed_topic_regex="", subscribed_topic_names=("orders",))
    for _ in range(3):
        one.beat()
    assert one.partitions == [0, 1, 2, 3]
    assert driver.consumer_group().regexes == {}


def test_names_and_a_pattern_together(driver: ConsumerDriver) -> None:
    one = Person(
        driver, "one", subscribed_topic_names=("payments",), subscribed_topic_regex="ord.*"
    )
    one.beat()
    driver.advance(0)
    one.beat()
    assert len(one.owns) == 6
    assert driver.consumer_group().is_subscribed_to("orders")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "missing closing )"),
        ("[", "missing closing ]"),
        ("*", "missing argument to repetition operator"),
        ("a)", "unexpected )"),
        ("a{2000}", "invalid repeat count"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("\\8", "invalid escape sequence"),
        ("[b-a]", "invalid character class range"),
    ],
)
def test_patterns_that_cannot_be_read(driver: ConsumerDriver, pattern: str, said: str) -> None:
    answer = driver.beat("one", 0, subscribed_topic_names=None, subscribed_topic_regex=pattern)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.error_message == (
        f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {said}."
    )


def test_a_broken_pattern_in_a_log_matches_nothing(driver: ConsumerDriver) -> None:
    one = reader(driver, "one")
    one.beat()
    driver.advance(0)
    (key,) = [key for key, _ in driver.written() if getattr(key, "regular_expression", "")]
    member = next(key for key, _ in driver.written() if getattr(key, "member_id", "") == "one")
    value = driver.consumer_group().members["one"].metadata
    broken = msgspec.structs.replace(value, subscribed_topic_regex="(")
    driver.replay(member, broken)
    driver.replay(key)
    driver.restart()
    driver.advance(11)
    one.beat()
    driver.advance(0)
    assert driver.consumer_group().regexes == {
        "(": ConsumerGroupRegularExpressionValue((), driver.topics.version, driver.now_ms)
    }
