"""Figures as people read them: counts, sizes, durations and times, short and without surprises."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

__all__ = ["NONE", "behind", "count", "duration", "moment", "short_count"]

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_THOUSAND: Final = 1000
_MINUTE: Final = 60
NONE: Final = "\N{EN DASH}"


def count(value: float | None) -> str:
    """A whole number with separators: 1,234,567."""
    return NONE if value is None else f"{round(value):,}"


def short_count(value: float) -> str:
    """A number for an axis: 950, 1.2 k, 34 M."""
    size = abs(value)
    suffixes = ["", " k", " M", " G", " T"]
    while size >= _THOUSAND and len(suffixes) > 1:
        size /= _THOUSAND
        suffixes.pop(0)
    text = f"{size:.1f}".removesuffix(".0") if size < 100 else f"{size:.0f}"  # noqa: PLR2004
    return f"{'-' if value < 0 else ''}{text}{suffixes[0]}"


def duration(seconds: float | None) -> str:
    """At most two units: 850 ms, 12 s, 3 min 5 s, 2 d 4 h."""
    if seconds is None:
        return NONE
    if seconds < 1:
        return "0 s" if seconds <= 0 else f"{max(1, round(seconds * 1000))} ms"
    if seconds < 10:  # noqa: PLR2004
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    left = round(seconds)
    for place, (size, unit) in enumerate(_UNITS):
        if left >= size:
            whole, rest = divmod(left, size)
            below = _UNITS[place + 1] if place + 1 < len(_UNITS) else None
            part = f" {rest // below[0]} {below[1]}" if below and rest >= below[0] else ""
            return f"{whole} {unit}{part}"
    return "0 s"


def behind(seconds: float | None, *, at_least: bool) -> str:
    """A lag in time; where the history of the log is too short for it, all that is known: \u2265 1 d."""
    return f"\N{GREATER-THAN OR EQUAL TO} {duration(seconds)}" if at_least else duration(seconds)


def moment(at: datetime | None) -> str:
    """A time to the minute, in UTC: 2026-11-16 14:05."""
    return NONE if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"
