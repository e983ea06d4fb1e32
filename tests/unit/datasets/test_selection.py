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
    with pytest.raises(InvalidArgument, match=r"^group.regex: '\(' is no pattern: missing \): \($"):
        Selection(group_regex="(")


def test_times_as_people_give_them() -> None:
    assert milliseconds(" 1500 ", "startingTimestamp") == 1500
    assert milliseconds("1970-01-01T00:00:01.5+00:00", "startingTimestamp") == 1500
    # Before Kafka's first moment there is nothing.
    assert milliseconds("1960-01-01", "startingTimestamp") == 0
    assert milliseconds(str(LAST_MS), "startingTimestamp") == LAST_MS


@pytest.mark.parametrize("text", ["soon", "²", "٣", "", str(LAST_MS + 1), "9" * 5000])
def test_what_is_no_time_is_told_in_a_sentence(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^startingTimestamp: '.*is no time; give epoch"):
        milliseconds(text, "startingTimestamp")
