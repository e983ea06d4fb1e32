"""Which groups are wanted: the same ones, whether a list or a batch of rows is asked."""

from __future__ import annotations

import pyarrow as pa
import pytest

from coterie.datasets.selection import Selection
from coterie.datasets.times import LAST_MS, milliseconds
from coterie.errors import InvalidArgument

NAMES = ["billing.eu", "billingXeu", "Billing.eu", "x billing.eu", "billing.eu\n", "billing.eu"]


@pytest.mark.parametrize(
    "pattern", [r"\Qbilling.eu", "billing.eu", "(?i)billing.*", "x|billing.eu"]
)
def test_a_pattern_chooses_the_same_names_and_rows(pattern: str) -> None:
    chosen = Selection(group_regex=pattern)
    batch = pa.RecordBatch.from_pydict({"group_id": pa.array([*NAMES, None], pa.string())})
    mask = chosen.filter_log(batch)
    assert mask is not None
    wanted = [name for name in NAMES if chosen.wants_group(name)]
    assert batch.filter(mask).column("group_id").to_pylist() == wanted
    assert "billing.eu" in wanted


def test_what_is_no_pattern_is_refused_at_once() -> None:
    with pytest.raises(
        InvalidArgument, match=r"^group.regex: '\(' is not a pattern: missing \): \($"
    ):
        Selection(group_regex="(")


def test_times_as_people_give_them() -> None:
    assert milliseconds(" 1767225600000 ", "startingTimestamp") == 1767225600000
    assert milliseconds("1970-01-01T00:00:01.5+00:00", "startingTimestamp") == 1500
    # Before Kafka's first moment there is nothing.
    assert milliseconds("1960-01-01", "startingTimestamp") == 0
    assert milliseconds(str(LAST_MS), "startingTimestamp") == LAST_MS


@pytest.mark.parametrize("digits", ["001", "000001", "000000001", "001 +01:00"])
def test_a_time_between_two_milliseconds_is_the_second_of_them(digits: str) -> None:
    """Records have whole milliseconds: those from it on are from the time on, and the others before it."""
    fraction, _, zone = digits.partition(" ")
    text = f"2026-01-01T00:00:00.000{fraction}{zone}"
    assert milliseconds(text, "startingTimestamp") % 1000 == 1
    assert milliseconds(text.replace(fraction, "000"), "startingTimestamp") % 1000 == 0


@pytest.mark.parametrize("text", ["0", "2026", "20260131", "1767225600", "946684799999"])
def test_a_number_that_is_no_time_of_kafkas_is_told_in_a_sentence(text: str) -> None:
    """A year, a day, or seconds."""
    with pytest.raises(InvalidArgument, match=rf"^endingTimestamp: {text} .*give .*milliseconds"):
        milliseconds(text, "endingTimestamp")


@pytest.mark.parametrize("text", ["soon", "²", "٣", "", str(LAST_MS + 1), "9" * 5000])
def test_what_is_no_time_is_told_in_a_sentence(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^startingTimestamp: '.*is not a time; give epoch"):
        milliseconds(text, "startingTimestamp")
