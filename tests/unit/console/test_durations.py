"""Durations on the command line: one grammar for all commands."""

from __future__ import annotations

import click
import pytest

from coterie.console.durations import duration, in_units

DAY = 86_400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0),
        ("500ms", 0.5),
        ("1h30m", 5_400),
        ("1h 30m", 5_400),
        ("36h", 1.5 * DAY),
        ("1.5d", 1.5 * DAY),
        ("007d", 7 * DAY),
        ("2W", 14 * DAY),
        ("36500d", 36_500 * DAY),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration.convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "d", "90", "²d", "٣d", "-1d", "1,5d", "1d!", "P1D", "nan"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration such as 30d, 12h or 1h30m"):
        duration.convert(text, None, None)


@pytest.mark.parametrize("text", ["36501d", "5215w", "9" * 5_000 + "s"])
def test_durations_that_are_too_long(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is too long; .* a hundred years \(36500d\)"):
        duration.convert(text, None, None)


@pytest.mark.parametrize(
    ("seconds", "text"), [(30 * DAY, "30d"), (5_400, "90m"), (2, "2s"), (0.25, "250ms")]
)
def test_a_duration_is_written_as_it_can_be_read(seconds: float, text: str) -> None:
    assert in_units(seconds) == text
    assert duration.convert(text, None, None) == seconds
