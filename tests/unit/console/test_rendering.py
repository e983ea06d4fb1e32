"""Rows as tables, JSON, CSV and YAML: what is in a group's name stays a name."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
import yaml

from coterie.console.output import FORMATS, Format, listing_of

NAMES = ["group_id", "lag"]
ROWS = [
    ('=HYPERLINK("http://x.invalid")', 5),
    ("o'brien\"s;group,with,commas", -1),
    ("red\x1b[31m\nline", None),
    ("'; DROP TABLE groups; --", 2),
]


@pytest.fixture
def rendered(capsys: pytest.CaptureFixture[str]) -> Any:
    def render(
        names: Sequence[str], rows: Sequence[Sequence[object]], form: str, *, headers: bool = True
    ) -> str:
        listing_of(names, rows).write(rows, Format(form, headers))
        return capsys.readouterr().out

    return render


def test_json_and_yaml_have_the_values_as_they_are(rendered: Any) -> None:
    for found in (
        json.loads(rendered(NAMES, ROWS, "json")),
        [json.loads(line) for line in rendered(NAMES, ROWS, "jsonl").splitlines()],
        yaml.safe_load(rendered(NAMES, ROWS, "yaml")),
    ):
        assert [tuple(row.values()) for row in found] == ROWS


def test_csv_is_no_formula(rendered: Any) -> None:
    rows = list(csv.reader(io.StringIO(rendered(NAMES, ROWS, "csv"))))
    assert rows[0] == NAMES
    assert rows[1] == ['\'=HYPERLINK("http://x.invalid")', "5"]
    assert rows[2] == ["o'brien\"s;group,with,commas", "-1"]
    assert rows[3] == ["red\\x1b[31m\\nline", ""]


@pytest.mark.parametrize("start", list("=+-@\t\r\n"))
@pytest.mark.parametrize("nested", [False, True])
def test_every_start_of_a_formula(start: str, nested: bool, rendered: Any) -> None:
    """Also in lists, and in the names of columns, which a query may take from data."""
    value = [f"{start}x", "y"] if nested else f"{start}x"
    lines = list(csv.reader(io.StringIO(rendered([f"{start}n"], [(value,)], "csv"))))
    assert [line[0][0] for line in lines] == ["'", "'"]


def test_numbers_are_no_formulas(rendered: Any) -> None:
    row = (-1, -1.5, Decimal("-2.50"))
    assert rendered(["a", "b", "c"], [row], "csv", headers=False) == "-1,-1.5,-2.50\n"


@pytest.mark.parametrize("form", FORMATS)
def test_no_format_can_move_the_cursor(form: str, rendered: Any) -> None:
    text = rendered(["name\x1b[2J", "\u202en"], [("red\x1b[31m\nline\u2028\x9b", 1)], form)
    assert not {"\x1b", "\x9b", "\u202e", "\u2028"} & set(text)
    if form in ("table", "wide", "csv", "name"):
        assert "red\\x1b[31m\\nline\\u2028\\x9b" in text


def test_a_table_is_a_line_per_row(rendered: Any) -> None:
    lines = rendered(NAMES, ROWS, "table").splitlines()
    assert lines[0].split() == ["GROUP-ID", "LAG"]
    assert len(lines) == 1 + len(ROWS)
    assert lines[1].endswith("  5")  # numbers are right-aligned
    assert lines[3].endswith("  -")
    assert len(rendered(NAMES, ROWS, "table", headers=False).splitlines()) == len(ROWS)


def test_values_of_all_kinds(rendered: Any) -> None:
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    names = ["at", "day", "list", "struct", "bytes", "flag", "exact", "precise"]
    row = (at, date(2026, 3, 1), ["a", "b"], {"x": at}, b"\x00\xff", True, Decimal("1.50"), 0.00012)
    [found] = json.loads(rendered(names, [row], "json"))
    assert found == {
        "at": "2026-03-01T12:00:00Z",
        "day": "2026-03-01",
        "list": ["a", "b"],
        "struct": {"x": "2026-03-01T12:00:00Z"},
        "bytes": "00ff",
        "flag": True,
        "exact": "1.50",
        "precise": 0.00012,
    }
    assert yaml.safe_load(rendered(names, [row], "yaml")) == [found]
    [line] = csv.reader(io.StringIO(rendered(names, [row], "csv", headers=False)))
    struct = '{"x": "2026-03-01T12:00:00Z"}'
    texts = [found["at"], "2026-03-01", "a,b", struct, "00ff", "true", "1.50", "0.00012"]
    assert line == texts
    table = rendered(names, [row], "table", headers=False)
    assert re.split("  +", table.strip()) == ["yes" if each == "true" else each for each in texts]


def test_times_are_as_precise_as_they_are(rendered: Any) -> None:
    for microsecond, text in ((0, ""), (5_000, ".005"), (5_001, ".005001")):
        at = datetime(2026, 3, 1, 12, 0, 0, microsecond, tzinfo=UTC)
        assert rendered(["at"], [(at,)], "name") == f"2026-03-01T12:00:00{text}Z\n"
    local = datetime(2026, 3, 1, 12)  # noqa: DTZ001 - a time without a zone, as Spark has them
    assert rendered(["at"], [(local,)], "name") == "2026-03-01T12:00:00\n"


def test_no_rows(rendered: Any) -> None:
    names = ["at", "list"]
    assert rendered(names, [], "csv") == "at,list\n"
    assert rendered(names, [], "json") == rendered(names, [], "yaml") == "[]\n"
    assert rendered(names, [], "table") == "AT  LIST\n"
    assert rendered(names, [], "jsonl") == rendered(names, [], "name") == ""


def test_what_is_no_number_is_nothing_in_json_and_itself_elsewhere(rendered: Any) -> None:
    nan, infinity = float("nan"), float("inf")
    row = (nan, infinity, -infinity, [nan, 1.5], {"x": infinity})
    names = ["a", "b", "c", "d", "e"]
    [found] = json.loads(rendered(names, [row], "json"), parse_constant=pytest.fail)
    assert found == {"a": None, "b": None, "c": None, "d": [None, 1.5], "e": {"x": None}}
    assert rendered(["a", "b"], [row[:2]], "table").split() == ["A", "B", "NaN", "Infinity"]
    assert rendered(["a", "b"], [row[:2]], "csv") == "a,b\nNaN,Infinity\n"


def test_columns_of_one_name_are_both_in_a_table(rendered: Any) -> None:
    assert rendered(["a", "a"], [(1, 2)], "table").split() == ["A", "A", "1", "2"]
    assert rendered(["a", "a"], [(1, 2)], "csv") == "a,a\n1,2\n"
