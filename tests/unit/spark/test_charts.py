"""Charts: well-formed SVG, ticks that people would choose, labels that do not touch, names escaped."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest

from coterie.spark.pipeline.report.charts import (
    Column,
    Event,
    Frame,
    Lane,
    Line,
    Part,
    bar,
    columns,
    lines,
    timeline,
)
from coterie.spark.pipeline.report.scales import counts, durations, times
from coterie.spark.pipeline.report.words import NONE, count, duration, moment, short_count

HOSTILE = "<script>alert('x')</script>\"&"
T0 = datetime(2026, 3, 1, 22, tzinfo=UTC).timestamp()
HOUR = 3600


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, NONE), (0, "0 s"), (-1, "0 s"), (0.0001, "1 ms"), (0.85, "850 ms"), (4.26, "4.3 s"),
     (12, "12 s"), (60, "1 min"), (185, "3 min 5 s"), (3600, "1 h"), (187_200, "2 d 4 h"),
     (86_400 * 40, "40 d")],
)  # fmt: skip
def test_durations_in_words(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (950, "950"), (1200, "1.2 k"), (34e6, "34 M"), (-2500, "-2.5 k"), (3e12, "3 T"),
     (123_456, "123 k"), (9e18, "9000000 T")],
)  # fmt: skip
def test_counts_in_words(value: float, text: str) -> None:
    assert short_count(value) == text


def test_other_words() -> None:
    assert count(1234567) == "1,234,567"
    assert count(None) == NONE
    assert moment(datetime(2026, 3, 1, 7, 5, tzinfo=UTC)) == "2026-03-01 07:05"
    assert moment(None) == NONE


def test_axes() -> None:
    assert [tick.label for tick in counts(870).ticks] == ["0", "500", "1 k"]
    assert [tick.label for tick in counts(3).ticks] == ["0", "1", "2", "3"]
    assert [tick.label for tick in counts(0).ticks] == ["0", "1"]
    assert [tick.label for tick in durations(7000).ticks] == [
        "0",
        "30 min",
        "1 h",
        "1 h 30 min",
        "2 h",
    ]
    assert durations(86_400 * 365).top >= 86_400 * 365


def test_a_time_axis_says_the_date_when_the_day_changes() -> None:
    labels = [tick.label for tick in times(T0, T0 + 5 * HOUR, wanted=5).ticks]
    assert labels == ["1 Mar 22:00", "23:00", "2 Mar", "01:00", "02:00", "03:00"]
    days = [tick.label for tick in times(T0, T0 + 72 * HOUR, wanted=3).ticks]
    assert days == ["2 Mar", "3 Mar", "4 Mar"]
    assert times(T0, T0).last > times(T0, T0).first


def _charts(width: int) -> list[str]:
    frame = Frame(width, 240)
    time = times(T0, T0 + 24 * HOUR)
    value = counts(100)
    curve = Line(HOSTILE, [(T0, 1, HOSTILE), (T0 + 60, None, ""), (T0 + HOUR, 99, HOSTILE)], 0)
    column = Column(T0, T0 + HOUR, [(0, 3, HOSTILE), (1, 4, "x")])
    lane = Lane(HOSTILE * 3, [Event(T0 + HOUR, 2, HOSTILE)])
    return [
        lines(frame, time, value, [curve], HOSTILE),
        columns(frame, time, value, [column], HOSTILE),
        timeline(frame, time, [lane, Lane("short", [])], HOSTILE),
        bar(width, [Part(HOSTILE, 3, 0), Part("none", 0, 1)], HOSTILE),
        bar(width, [], "nothing"),
    ]


@pytest.mark.parametrize("width", [960, 340])
def test_charts_are_well_formed_and_names_stay_names(width: int) -> None:
    for chart in _charts(width):
        root = ET.fromstring(chart)
        assert root.get("role") == "img"
        assert root.get("aria-label")
        assert not root.findall(".//script")
        assert HOSTILE not in chart


@pytest.mark.parametrize("width", [960, 340])
@pytest.mark.parametrize("hours", [0.01, 1, 5, 24, 100, 24 * 40, 24 * 400])
def test_labels_of_time_never_touch(width: int, hours: float) -> None:
    frame = Frame(width, 240)
    chart = lines(frame, times(T0, T0 + hours * HOUR), counts(1), [], "x")
    found = re.findall(r'class="time" x="([\d.]+)" y="\d+">([^<]+)<', chart)
    assert found
    behind = 0.0
    for x, label in found:
        half = len(label) * 6.6 / 2
        assert float(x) - half >= behind
        behind = float(x) + half
    assert behind <= width
