"""Filters that Spark pushes: what they narrow, to the millisecond, and which Spark still has to apply."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from coterie.datasets.times import EPOCH
from coterie.spark.filters import push
from coterie.spark.options import SourceOptions

#: Later times have no exact milliseconds as a float of seconds.
LATE = datetime(2038, 6, 1, 12, 0, 0, 123000, tzinfo=UTC)
LATE_MS = 2159006400123


def pushed(dataset: str, *filters: Filter, **given: str) -> tuple[SourceOptions, list[Filter]]:
    options = SourceOptions.of({"path": dataset, "bootstrap.servers": "127.0.0.1:1", **given})
    return push(options, filters)


def times(*filters: Filter, **given: str) -> tuple[int | None, int | None]:
    options, left = pushed("commits", *filters, **given)
    assert left == list(filters)  # Spark looks again: it has microseconds
    return options.start_ms, options.end_ms


def at(kind: Callable[[tuple[str, ...], datetime], Filter], when: datetime) -> Filter:
    return kind(("timestamp",), when)


def test_times_are_narrowed_to_the_millisecond() -> None:
    assert timedelta(milliseconds=LATE_MS) == LATE - EPOCH
    between = LATE + timedelta(microseconds=500)
    for when, at_least, above in (
        (LATE, LATE_MS, LATE_MS + 1),
        (between, LATE_MS + 1, LATE_MS + 1),
    ):
        assert times(at(GreaterThanOrEqual, when)) == (at_least, None)
        assert times(at(GreaterThan, when)) == (above, None)
        assert times(at(LessThan, when)) == (None, at_least)
        assert times(at(LessThanOrEqual, when)) == (None, above)


def test_a_record_at_the_very_time_is_not_lost() -> None:
    for milliseconds in range(0, 1000, 7):
        when = datetime(2039, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
        exact = (when - EPOCH) // timedelta(milliseconds=1)
        assert times(at(GreaterThanOrEqual, when), at(LessThanOrEqual, when)) == (exact, exact + 1)


def test_a_time_before_the_first_is_the_first() -> None:
    old = datetime(1900, 1, 1, tzinfo=UTC)
    assert times(at(GreaterThanOrEqual, old)) == (0, None)
    assert times(at(GreaterThan, old)) == (0, None)
    assert times(at(LessThan, old)) == (None, 0)


def test_the_narrower_time_counts_whatever_its_zone() -> None:
    here = LATE.astimezone(timezone(timedelta(hours=-7)))
    given = {"startingTimestamp": "2039-01-01", "endingTimestamp": "2030-01-01"}
    start, end = times(at(GreaterThanOrEqual, here), at(LessThan, here), **given)
    assert (start, end) == (2177452800000, 1893456000000)
    assert times(at(GreaterThanOrEqual, here)) == (LATE_MS, None)


@pytest.mark.parametrize("dataset", ["commits", "offsets", "assignments", "end_offsets"])
def test_topics_are_pushed_where_rows_have_them(dataset: str) -> None:
    options, left = pushed(dataset, EqualTo(("topic",), "orders"))
    assert (options.selection.topics, left) == (frozenset({"orders"}), [])


def test_what_users_may_not_say_spark_may() -> None:
    """Options that choose nothing are refused; columns of the same meaning are chosen by."""
    group = [EqualTo(("group_id",), "a"), StringStartsWith(("group_id",), "a")]
    options, left = pushed("group_events", *group, In(("group_type",), ("classic",)))
    assert options.selection.groups == frozenset({"a"})
    assert left == [In(("group_type",), ("classic",))]
    options, left = pushed("groups", EqualTo(("state",), "Unknown"), EqualTo(("type",), "classic"))
    assert (options.selection.states, left) == (frozenset({"Unknown"}), [])
