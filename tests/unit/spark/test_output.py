"""Rows as tables, JSON and CSV: what is in a group's name stays a name."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime

import pytest

from coterie.errors import InvalidArgument
from coterie.spark.pipeline.output import formatted, safe_cell

NAMES = ["group_id", "lag"]
ROWS = [
    ('=HYPERLINK("http://x.invalid")', 5),
    ("o'brien\"s;group,with,commas", -1),
    ("red\x1b[31m\nline", None),
    ("'; DROP TABLE groups; --", 2),
]


def test_json_has_the_values_as_they_are() -> None:
    found = json.loads(formatted(NAMES, ROWS, "json"))
    assert [tuple(row.values()) for row in found] == ROWS


def test_csv_is_no_formula() -> None:
    rows = list(csv.reader(io.StringIO(formatted(NAMES, ROWS, "csv"))))
    assert rows[0] == NAMES
    assert rows[1] == ['\'=HYPERLINK("http://x.invalid")', "5"]
    assert rows[2] == ["o'brien\"s;group,with,commas", "-1"]
    assert rows[3] == ["red\x1b[31m\nline", ""]


@pytest.mark.parametrize("start", list("=+-@\t\r\n"))
def test_every_start_of_a_formula(start: str) -> None:
    assert safe_cell(f"{start}x") == f"'{start}x"


def test_a_table_cannot_move_the_cursor() -> None:
    text = formatted(NAMES, ROWS, "table")
    assert text.splitlines()[0].split() == ["GROUP_ID", "LAG"]
    assert "\x1b" not in text
    assert "red\\x1b[31m\\nline" in text
    assert len(text.splitlines()) == 1 + len(ROWS)


def test_values_of_all_kinds() -> None:
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    names = ["at", "list", "struct", "bytes", "flag"]
    row = (at, ["a"], {"x": at}, b"\x00\xff", True)
    [found] = json.loads(formatted(names, [row], "json"))
    assert found == {
        "at": "2026-03-01T12:00:00+00:00",
        "list": ["a"],
        "struct": {"x": "2026-03-01T12:00:00+00:00"},
        "bytes": "00ff",
        "flag": True,
    }
    assert formatted(names, [], "csv") == "at,list,struct,bytes,flag"
    assert formatted(names, [], "json") == "[]"
    assert formatted(names, [], "table") == "AT  LIST  STRUCT  BYTES  FLAG"


def test_what_is_no_number_is_nothing_in_json_and_itself_for_people() -> None:
    nan, infinity = float("nan"), float("inf")
    row = (nan, infinity, -infinity, [nan, 1.5], {"x": infinity})
    names = ["a", "b", "c", "d", "e"]
    [found] = json.loads(formatted(names, [row], "json"), parse_constant=pytest.fail)
    assert found == {"a": None, "b": None, "c": None, "d": [None, 1.5], "e": {"x": None}}
    assert formatted(["a", "b"], [row[:2]], "table").split() == ["A", "B", "NaN", "Infinity"]
    assert formatted(["a", "b"], [row[:2]], "csv") == "a,b\nnan,inf"


def test_columns_of_one_name() -> None:
    with pytest.raises(
        InvalidArgument, match=r"two columns are called 'a'.*: name one of them with AS"
    ):
        formatted(["a", "b", "a"], [(1, 2, 3)], "json")
    assert formatted(["a", "a"], [(1, 2)], "table").split() == ["A", "A", "1", "2"]
    assert formatted(["a", "a"], [(1, 2)], "csv") == "a,a\n1,2"
