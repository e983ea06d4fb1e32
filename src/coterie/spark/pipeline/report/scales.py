"""Axes: where ticks go and what they say, for counts, for durations and for time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from coterie.spark.pipeline.report.words import duration, short_count

__all__ = ["Tick", "TimeAxis", "ValueAxis", "counts", "durations", "times"]

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
#: Steps that people count time in.
_TIME_STEPS: Final = (
    1, 2, 5, 10, 15, 30, _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE,
    30 * _MINUTE, _HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 2 * _DAY, 7 * _DAY,
    14 * _DAY, 28 * _DAY,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis, and the words at it."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class ValueAxis:
    """From zero to the highest tick."""

    top: float
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """From the first to the last moment, in seconds since 1970."""

    first: float
    last: float
    ticks: tuple[Tick, ...]

    def share(self, at: float) -> float:
        """Where a moment is: 0 at the first, 1 at the last."""
        return (at - self.first) / (self.last - self.first)


def counts(highest: float, wanted: int = 4) -> ValueAxis:
    """Ticks at 1, 2 or 5 times a power of ten; whole numbers only."""
    if highest <= 0:
        return ValueAxis(1.0, (Tick(0, "0"), Tick(1, "1")))
    rough = highest / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough)
    return _ladder(highest, max(1.0, step), short_count)


def durations(highest: float, wanted: int = 4) -> ValueAxis:
    """Ticks at steps of a clock or a calendar, for seconds."""
    if highest <= 0:
        return ValueAxis(1.0, (Tick(0, "0"), Tick(1, "1 s")))
    return _ladder(highest, _time_step(highest, wanted), lambda at: duration(at) if at else "0")


def _ladder(highest: float, step: float, label: object) -> ValueAxis:
    assert callable(label)  # noqa: S101
    number = math.ceil(highest / step - 1e-9)
    places = [step * each for each in range(number + 1)]
    return ValueAxis(places[-1], tuple(Tick(at, label(at)) for at in places))


def _time_step(span: float, wanted: int) -> float:
    rough = span / wanted
    for step in _TIME_STEPS:
        if step >= rough:
            return float(step)
    return math.ceil(rough / (28 * _DAY)) * 28.0 * _DAY


def times(first: float, last: float, wanted: int = 6) -> TimeAxis:
    """Ticks at round times of day; a day's first tick says the date."""
    if last <= first:
        first, last = first - _HOUR / 2, first + _HOUR / 2
    step = _time_step(last - first, wanted)
    at = math.ceil(first / step) * step
    ticks = []
    day = ""
    while at <= last:
        moment = datetime.fromtimestamp(at, UTC)
        date = f"{moment.day} {moment:%b}"
        if step >= _DAY or date != day:
            label = (
                date
                if step >= _DAY or not (moment.hour or moment.minute)
                else f"{date} {moment:%H:%M}"
            )
        else:
            label = f"{moment:%H:%M:%S}" if step < _MINUTE else f"{moment:%H:%M}"
        day = date
        ticks.append(Tick(at, label))
        at += step
    return TimeAxis(first, last, tuple(ticks))
