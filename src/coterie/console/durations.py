"""Durations: one grammar for every option that takes a length of time, such as 30d, 1h30m and 500ms."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click

__all__ = ["duration", "in_units"]

_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)")
#: A hundred years. Longer durations lead to dates that Python does not have.
_LONGEST_DAYS: Final = 36_500

if TYPE_CHECKING:
    _FloatType = click.ParamType[float]
else:
    # Generic only in later versions of click.
    _FloatType = click.ParamType


class _Duration(_FloatType):
    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip().lower().replace(" ", "")
        parts = _DURATION.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            self.fail(f"{value!r} is not a duration such as 30d, 12h or 1h30m", param, ctx)
        seconds = float(sum(float(number) * _UNITS[unit] for number, unit in parts))
        if seconds > _LONGEST_DAYS * _UNITS["d"]:
            self.fail(
                f"{value!r} is too long; the longest duration is a hundred years ({_LONGEST_DAYS}d)",
                param,
                ctx,
            )
        return seconds


def in_units(seconds: float) -> str:
    """A length of time as it would be written: 2592000 is 30d."""
    for unit in ("d", "h", "m", "s"):
        if seconds >= _UNITS[unit] and seconds % _UNITS[unit] == 0:
            return f"{seconds / _UNITS[unit]:.0f}{unit}"
    return f"{seconds * 1000:.0f}ms"


#: A length of time in seconds, written as 30d, 12h, 1h30m or 500ms.
duration: Final = _Duration()
