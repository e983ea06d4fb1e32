"""The plan of a reset: the rules of Kafka's tool, without a broker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from coterie.client import PartitionOffset, To, TopicPartition
from coterie.client.reset import Known, PlannedOffset, make_plan
from coterie.errors import InvalidArgument

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
#: Partition 0 has records 50 to 199 and a commit at 100; partition 1 has records 0 to 9 and no commit.
KNOWN = Known({P0: PartitionOffset(100)}, {P0: 50, P1: 0}, {P0: 200, P1: 10})


@pytest.mark.parametrize(
    ("to", "targets"),
    [
        (To.earliest(), {P0: 50, P1: 0}),
        (To.latest(), {P0: 200, P1: 10}),
        (To.current(), {P0: 100, P1: 10}),
        (To.offset(5), {P0: 50, P1: 5}),
        (To.offset(1000), {P0: 200, P1: 10}),
        (To.shift(30), {P0: 130}),
        (To.shift(-10), {P0: 90}),
        (To.shift(-1000), {P0: 50}),
        (To.shift(1000), {P0: 200}),
        (To.mapping({P0: 70}), {P0: 70}),
        (To.mapping({P0: 70, P1: 99}), {P0: 70, P1: 10}),
    ],
)
def test_targets(to: To, targets: dict[TopicPartition, int]) -> None:
    plan = make_plan("g", [P1, P0], to, KNOWN)
    assert plan.targets == targets
    assert set(plan.errors) == {P0, P1} - set(targets)
    assert [each.partition for each in plan.offsets] == [P0, P1]


def test_a_time_after_the_last_record_is_the_end() -> None:
    known = Known(KNOWN.committed, KNOWN.log_start, KNOWN.log_end, by_time={P0: 120, P1: -1})
    assert make_plan("g", [P0, P1], To.time(datetime.now(UTC)), known).targets == {P0: 120, P1: 10}


def test_times_are_milliseconds_and_without_a_zone_utc() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001 - that is the point
    assert To.time(moment) == To.time(moment.replace(tzinfo=UTC))
    ahead = moment.replace(tzinfo=timezone(timedelta(hours=1)))
    assert To.time(moment).number - To.time(ahead).number == 3_600_000
    now = moment.replace(tzinfo=UTC)
    assert To.duration(timedelta(minutes=1), now).number == To.time(now).number - 60_000


def test_another_group() -> None:
    known = Known(
        KNOWN.committed, KNOWN.log_start, KNOWN.log_end, other_group={P1: PartitionOffset(3)}
    )
    plan = make_plan("g", [P0, P1], To.group("other"), known)
    assert plan.targets == {P1: 3}
    assert plan.errors == {P0: "group 'other' has no offset here"}


def test_reasons_are_told() -> None:
    plan = make_plan("g", [P0, P1], To.shift(1000), KNOWN)
    assert plan.offsets == (
        PlannedOffset(P0, 100, 200, "1100 is outside of the log, 50 to 200"),
        PlannedOffset(P1, None, None, "there is no committed offset to shift"),
    )
    unknown = TopicPartition("nowhere", 0)
    assert make_plan("g", [unknown], To.earliest(), KNOWN).errors == {
        unknown: "the ends of its log are not known"
    }
    assert plan.to_dict()["offsets"][0]["target"] == 200


def test_nothing_to_reset() -> None:
    with pytest.raises(InvalidArgument, match="name topics"):
        make_plan("g", [], To.earliest(), KNOWN)
