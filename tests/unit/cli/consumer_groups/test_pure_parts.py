"""Times, plans, tables, patterns and names: the parts of the drop-in that ask nobody."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from coterie.cli.consumer_groups.checks import Usage, parse_partitions
from coterie.cli.consumer_groups.java import (
    Throwable,
    api_exception,
    class_of,
    execution,
    parse_datetime,
    parse_duration,
    runtime,
)
from coterie.cli.consumer_groups.listing import states_of, types_of
from coterie.cli.consumer_groups.main import verdict
from coterie.cli.consumer_groups.output import java_length, order, table
from coterie.cli.consumer_groups.plans import export, parse_plan
from coterie.client import TopicPartition
from coterie.safe_text import visible

# -- java -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("GROUP_ID_NOT_FOUND", "GroupIdNotFoundException"),
        ("NON_EMPTY_GROUP", "GroupNotEmptyException"),
        ("GROUP_AUTHORIZATION_FAILED", "GroupAuthorizationException"),
        ("UNKNOWN_TOPIC_OR_PARTITION", "UnknownTopicOrPartitionException"),
    ],
)
def test_exceptions_have_javas_names(code: str, name: str) -> None:
    assert class_of(code) == f"org.apache.kafka.common.errors.{name}"


def test_what_wraps_an_exception_has_its_words() -> None:
    thrown = runtime(execution(api_exception("GROUP_ID_NOT_FOUND", "Group g not found.")))
    inner = "org.apache.kafka.common.errors.GroupIdNotFoundException: Group g not found."
    assert thrown.message == f"java.util.concurrent.ExecutionException: {inner}"
    assert list(thrown.lines())[-1] == f"Caused by: {inner}"
    assert str(Throwable("java.lang.Error")) == "java.lang.Error"


# -- times ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2025-07-31T08:50:00.000", "2025-07-31T08:50:00+00:00"),
        ("2025-07-31T08:50:00.123Z", "2025-07-31T08:50:00.123+00:00"),
        ("2025-07-31T10:50:00.000+02:00", "2025-07-31T08:50:00+00:00"),
        ("2025-07-31T10:50:00.000+0200", "2025-07-31T08:50:00+00:00"),
        ("2025-07-31T10:50:00.000+02", "2025-07-31T08:50:00+00:00"),
        ("2025-07-31T03:20:00.000-05:30", "2025-07-31T08:50:00+00:00"),
        # Java reads milliseconds as a number.
        ("2025-07-31T08:50:00.5", "2025-07-31T08:50:00.005+00:00"),
        ("1969-12-31T23:59:59.999", "1969-12-31T23:59:59.999+00:00"),
    ],
)
def test_times(text: str, moment: str) -> None:
    expected = datetime.fromisoformat(moment)
    assert parse_datetime(text) == (expected - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        milliseconds=1
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "2025-07-31",
            "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format",
        ),
        ("2025-07-31T", "Error parsing timestamp. It does not contain a 'T' according to ISO8601"),
        ("2025-07-31T08:50:00", 'Unparseable date: "2025-07-31T08:50:00Z"'),
        ("2025-02-31T08:50:00.000", 'Unparseable date: "2025-02-31T08:50:00.000Z"'),
        ("yesterday at T", "Error parsing timestamp."),
        ("2025-07-31T25:00:00.000", 'Unparseable date: "2025-07-31T25:00:00.000Z"'),
    ],
)
def test_what_is_no_time(text: str, message: str) -> None:
    with pytest.raises(Throwable) as caught:
        parse_datetime(text)
    assert str(caught.value).startswith(
        f"java.lang.RuntimeException: java.text.ParseException: {message}"
    )


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("PT1H", timedelta(hours=1)),
        ("P1D", timedelta(days=1)),
        ("P2DT3H4M5.5S", timedelta(days=2, hours=3, minutes=4, seconds=5.5)),
        ("PT0S", timedelta()),
        ("-PT1M", timedelta(minutes=-1)),
        ("pt-1.5s", timedelta(seconds=-1.5)),
    ],
)
def test_durations(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "P1H", "P1DT", "PT1", "P1Y", "PT1.5H"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(Throwable, match="Text cannot be parsed to a Duration"):
        parse_duration(text)


# -- plans ------------------------------------------------------------------------------------------------


def test_plans_come_back_as_they_went() -> None:
    plan = {
        "g,1": {TopicPartition("orders", 0): 3, TopicPartition('a "topic"', 1): 4},
        "g2": {TopicPartition("orders", 2): 5},
    }
    text = export(plan, with_group=True)
    assert text.splitlines()[0] == '"g,1",orders,0,3'
    assert parse_plan(text, ["g,1", "g2"]) == plan
    alone = {"g2": plan["g2"]}
    assert export(alone, with_group=False) == "orders,2,5\n"
    assert parse_plan("orders,2,5\n", ["g2"]) == alone


def test_a_file_with_groups_is_read_though_there_is_one_group() -> None:
    assert parse_plan("g,orders,0,2\n", ["g"]) == {"g": {TopicPartition("orders", 0): 2}}


def test_columns_that_are_missing_are_empty_or_zero() -> None:
    assert parse_plan("hello\n", ["g"]) == {"g": {TopicPartition("hello", 0): 0}}


def test_what_is_no_plan() -> None:
    with pytest.raises(Throwable, match='type `int` from String "x"'):
        parse_plan("g,orders,x,2\n", ["g", "h"])


@pytest.mark.parametrize(
    ("argument", "partitions"),
    [("orders:0,1", [0, 1]), ("orders:0,", [0]), ("orders:7", [7])],
)
def test_partitions_of_a_topic(argument: str, partitions: list[int]) -> None:
    assert parse_partitions(argument) == [TopicPartition("orders", each) for each in partitions]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("orders:", "Invalid topic arg 'orders:', expected topic name and partitions"),
        ("a:b:c", "Invalid topic arg 'a:b:c', expected topic name and partitions"),
        ("orders:x", "Invalid partition 'x' specified in topic arg 'orders:x''"),
        ("orders:0,,1", "Invalid partition '' specified in topic arg 'orders:0,,1''"),
    ],
)
def test_what_are_no_partitions(argument: str, message: str) -> None:
    with pytest.raises(Usage) as caught:
        parse_partitions(argument)
    assert str(caught.value) == message


# -- filters, patterns, tables ----------------------------------------------------------------------------


def test_filters() -> None:
    assert states_of("stable, preparingrebalance,") == ["Stable", "PreparingRebalance"]
    assert states_of(",") == states_of("") == states_of(None) == []
    assert types_of("CLASSIC,consumer,classic") == ["Classic", "Consumer"]
    for wrong in ("Empty,,Stable", " ", "bogus"):
        with pytest.raises(Usage, match=f"Invalid state list '{wrong}'. Valid states are: "):
            states_of(wrong)
    with pytest.raises(Usage, match=r"Invalid types list 'share'. Valid types are: "):
        types_of("share")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[orders", "missing closing ]"),
        ("(a", "missing closing )"),
        ("a)", "regexp/syntax: internal error"),
        ("*", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("(?=x)", "invalid or unsupported Perl syntax"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name"),
        ("\\8", "invalid escape sequence"),
        ("[b-a]", "invalid character class range"),
        ("\\", "trailing backslash at end of expression"),
        ("(?P<n", "invalid named capture"),
    ],
)
def test_patterns_that_re2j_refuses(pattern: str, reason: str) -> None:
    assert verdict(pattern) == (False, f"The regular expression `{pattern}` is invalid: {reason}.")


@pytest.mark.parametrize("pattern", ["", "orders-.*", r"\(?P<n>\(?P<n>", "(?P<n>a)(?P<m>b)"])
def test_patterns_that_re2j_takes(pattern: str) -> None:
    assert verdict(pattern) == (True, f"The regular expression `{pattern}` is valid.")


def test_columns_are_as_wide_as_java_thinks() -> None:
    assert (java_length("abc"), java_length("äö"), java_length("a😀")) == (3, 2, 3)
    text = table(
        [("A", 4), ("B", 3), ("C", None)], [("😀", "x", "y"), ("toolong", "", "z")], fit=(0,)
    )
    assert text.split("\n") == ["", "A       B   C", "😀      x   y", "toolong     z"]


def test_names_are_sorted_as_java_sorts() -> None:
    # A character outside of the first plane begins with a surrogate, which is less than U+FB01.
    assert sorted(["ﬁ", "😀", "a"], key=order) == ["a", "😀", "ﬁ"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain name", "plain name"),
        ("größe-日本", "größe-日本"),
        ("tab\there", r"tab\there"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x9b31m", r"\x9b31m"),
        ("rtl\u202egnp", r"rtl\u202egnp"),
        ("isolate\u2067x", r"isolate\u2067x"),
        ("mark\u200f", r"mark\u200f"),
        ("line\u2028", r"line\u2028"),
        ("del\x7f", r"del\x7f"),
    ],
)
def test_what_acts_is_shown_as_an_escape(name: str, shown: str) -> None:
    assert visible(name) == shown
