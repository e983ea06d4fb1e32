"""Charts as SVG text: lines, columns and a timeline over time, and one bar in parts.

Small on purpose. Colours are classes (`c0` to `c7`) that the page's style sheet fills, light or dark. Every
mark has a <title>, which browsers show as a tooltip and screen readers read. Every chart is drawn for a
width: the page holds a wide and a narrow one and shows what fits. All text is escaped here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from markupsafe import Markup

from coterie.spark.pipeline.report.scales import TimeAxis, ValueAxis
from coterie.spark.pipeline.report.words import count

__all__ = ["Column", "Event", "Frame", "Lane", "Line", "Part", "bar", "columns", "lines",
           "timeline"]  # fmt: skip

#: About the width of a character of the axis' font, for what must fit.
_CHARACTER: Final = 6.6


@dataclass(frozen=True, slots=True)
class Frame:
    """How large a chart is, and what is left around its plot."""

    width: int
    height: int
    left: int = 64
    right: int = 16
    top: int = 10
    bottom: int = 26

    @property
    def plot_width(self) -> int:
        return self.width - self.left - self.right

    @property
    def plot_height(self) -> int:
        return self.height - self.top - self.bottom

    def x(self, axis: TimeAxis, at: float) -> float:
        return self.left + axis.share(at) * self.plot_width

    def y(self, axis: ValueAxis, value: float) -> float:
        return self.top + (1 - value / axis.top) * self.plot_height


@dataclass(frozen=True, slots=True)
class Line:
    """A curve: moments and values in order; None breaks it."""

    name: str
    points: Sequence[tuple[float, float | None, str]]
    colour: int


@dataclass(frozen=True, slots=True)
class Column:
    """One column of parts, from the bottom up: (colour, value, tooltip)."""

    start: float
    end: float
    parts: Sequence[tuple[int, float, str]]


@dataclass(frozen=True, slots=True)
class Event:
    """A mark on a lane of a timeline."""

    at: float
    colour: int
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    name: str
    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar."""

    name: str
    value: float
    colour: int


def lines(
    frame: Frame, time: TimeAxis, value: ValueAxis, curves: Iterable[Line], label: str
) -> Markup:
    """Curves over time."""
    body = [_value_axis(frame, value), _time_axis(frame, time)]
    for curve in curves:
        body.append(f'<g class="line c{curve.colour}">')
        body += [_path(frame, time, value, run) for run in _runs(curve.points)]
        step = max(1, len(curve.points) // 240)  # enough to point at, and a page that stays small
        for at, level, title in curve.points[::step]:
            if level is not None:
                x, y = frame.x(time, at), frame.y(value, level)
                body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5">{_title(title)}</circle>')
        body.append("</g>")
    return _svg(frame, label, body)


def _runs(points: Sequence[tuple[float, float | None, str]]) -> Iterable[list[tuple[float, float]]]:
    """The stretches of a curve that have values."""
    run: list[tuple[float, float]] = []
    for at, level, _ in points:
        if level is None:
            if run:
                yield run
            run = []
        else:
            run.append((at, level))
    if run:
        yield run


def _path(frame: Frame, time: TimeAxis, value: ValueAxis, run: list[tuple[float, float]]) -> str:
    steps = " L".join(f"{frame.x(time, at):.1f},{frame.y(value, level):.1f}" for at, level in run)
    return f'<path d="M{steps}"/>' if len(run) > 1 else f'<path d="M{steps} h0.1"/>'


def columns(
    frame: Frame, time: TimeAxis, value: ValueAxis, bars: Iterable[Column], label: str
) -> Markup:
    """Columns of stacked parts over time."""
    body = [_value_axis(frame, value), _time_axis(frame, time)]
    for each in bars:
        left, right = frame.x(time, each.start), frame.x(time, each.end)
        width = max(1.0, right - left - min(1.5, (right - left) * 0.15))
        level = 0.0
        for colour, size, title in each.parts:
            top, bottom = frame.y(value, level + size), frame.y(value, level)
            body.append(
                f'<rect class="c{colour}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}"'
                f' height="{max(0.5, bottom - top):.1f}">{_title(title)}</rect>'
            )
            level += size
    return _svg(frame, label, body)


def timeline(frame: Frame, time: TimeAxis, lanes: Sequence[Lane], label: str) -> Markup:
    """A lane per name, a mark per event."""
    height = frame.plot_height / max(1, len(lanes))
    room = int((frame.left - 12) / _CHARACTER)
    body = [_time_axis(frame, time)]
    for number, lane in enumerate(lanes):
        middle = frame.top + (number + 0.5) * height
        body.append(
            f'<line class="grid" x1="{frame.left}" x2="{frame.width - frame.right}"'
            f' y1="{middle:.1f}" y2="{middle:.1f}"/>'
            f'<text class="name" x="{frame.left - 8}" y="{middle:.1f}" dy="0.32em">'
            f"{_title(lane.name)}{escape(_shortened(lane.name, room))}</text>"
        )
        body += (
            f'<rect class="mark c{event.colour}" x="{frame.x(time, event.at) - 2:.1f}"'
            f' y="{middle - 7:.1f}" width="4" height="14" rx="2">{_title(event.title)}</rect>'
            for event in lane.events
        )
    return _svg(frame, label, body)


def bar(width: int, parts: Sequence[Part], label: str) -> Markup:
    """One bar, whole; its parts are explained by a legend."""
    frame = Frame(width, 28, left=0, right=0, top=0, bottom=0)
    total = sum(part.value for part in parts)
    body, left = [], 0.0
    for part in parts:
        share = part.value / total * width if total else 0
        gap = 2 if share > 4 else 0  # noqa: PLR2004
        body.append(
            f'<rect class="c{part.colour}" x="{left:.1f}" y="0" width="{max(0.5, share - gap):.1f}"'
            f' height="28" rx="3">{_title(f"{part.name}: {count(part.value)}")}</rect>'
        )
        left += share
    return _svg(frame, label, body)


def _value_axis(frame: Frame, axis: ValueAxis) -> str:
    marks = []
    for tick in axis.ticks:
        y = frame.y(axis, tick.at)
        marks.append(
            f'<line class="grid" x1="{frame.left}" x2="{frame.width - frame.right}" y1="{y:.1f}"'
            f' y2="{y:.1f}"/><text class="value" x="{frame.left - 8}" y="{y:.1f}" dy="0.32em">'
            f"{escape(tick.label)}</text>"
        )
    return "".join(marks)


def _time_axis(frame: Frame, axis: TimeAxis) -> str:
    """Ticks below the plot; a label that would touch the one before it, or the edge, is left out."""
    y = frame.height - frame.bottom
    marks = [
        f'<line class="axis" x1="{frame.left}" x2="{frame.width - frame.right}" y1="{y}" y2="{y}"/>'
    ]
    free_from = 0.0
    for tick in axis.ticks:
        x = frame.x(axis, tick.at)
        marks.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + 4}"/>')
        half = len(tick.label) * _CHARACTER / 2
        if x - half >= free_from and x + half <= frame.width:
            marks.append(f'<text class="time" x="{x:.1f}" y="{y + 18}">{escape(tick.label)}</text>')
            free_from = x + half + _CHARACTER
    return "".join(marks)


def _shortened(name: str, room: int) -> str:
    """The start and the end of a name that is too long: both tell groups apart."""
    flat = "".join(each if each.isprintable() else " " for each in name)
    if len(flat) <= room:
        return flat
    head = (room - 1) // 2
    return f"{flat[:head]}\N{HORIZONTAL ELLIPSIS}{flat[-(room - 1 - head) :]}"


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _svg(frame: Frame, label: str, body: Iterable[str]) -> Markup:
    return Markup(  # noqa: S704  (every piece above is a number or escaped)
        f'<svg viewBox="0 0 {frame.width} {frame.height}" role="img" aria-label="{escape(label)}">'
        f"{''.join(body)}</svg>"
    )
