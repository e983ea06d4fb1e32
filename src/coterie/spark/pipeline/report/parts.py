"""What a page is made of: tiles, sections, blocks with a chart or a table, cells. Values for the template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from markupsafe import Markup

from coterie.spark.pipeline.report.words import NONE, count, duration, moment

__all__ = ["Block", "Cell", "Column", "Legend", "Page", "Section", "Tile", "table"]

#: Words that mean trouble, or the lack of it, wherever they stand in a table.
_TONES: Final = {
    "critical": "bad", "ERR": "bad", "STOP": "bad", "STALL": "bad", "Dead": "bad",
    "warning": "warn", "WARN": "warn", "Empty": "warn", "PreparingRebalance": "warn",
    "CompletingRebalance": "warn", "Stable": "good", "OK": "good",
}  # fmt: skip


#: How a kind of column is written.
_WRITERS: Final[Mapping[str, Callable[[Any], str]]] = {
    "count": count,
    "duration": duration,
    "figure": str,
    "percent": "{:.0%}".format,
}


@dataclass(frozen=True)
class Tile:
    """One number at the top."""

    name: str
    value: str
    note: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Legend:
    name: str
    colour: int
    value: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table: what it is called, where it comes from, and how it is written."""

    name: str
    key: str
    kind: str = ""

    @property
    def number(self) -> bool:
        return self.kind in _WRITERS


@dataclass(frozen=True)
class Cell:
    text: str
    kind: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Block:
    """A chart (wide and narrow) or a table, and the SQL behind it."""

    heading: str = ""
    text: str = ""
    wide: Markup | None = None
    narrow: Markup | None = None
    legend: Sequence[Legend] = ()
    columns: Sequence[Column] = ()
    rows: Sequence[Sequence[Cell]] = ()
    #: What is not shown.
    more: str = ""
    sql: str = ""


@dataclass(frozen=True)
class Section:
    id: str
    title: str
    lead: str
    blocks: Sequence[Block]
    badge: str = ""
    #: What to type next.
    command: str = ""


@dataclass(frozen=True)
class Page:
    title: str
    subtitle: str
    tiles: Sequence[Tile]
    sections: Sequence[Section]
    #: Of the tiles that no section has.
    tiles_sql: str = ""
    footer: str = ""


def table(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> list[list[Cell]]:
    """The cells of some rows."""
    return [[_cell(column, row.get(column.key)) for column in columns] for row in rows]


def _cell(column: Column, value: Any) -> Cell:
    kind = "number" if column.number else column.kind
    if value is None:
        return Cell(NONE, kind)
    if column.kind == "pill":
        return Cell(str(value).replace("_", " "), "", _TONES.get(str(value), "plain"))
    if isinstance(value, datetime):
        return Cell(moment(value), kind)
    write = _WRITERS.get(column.kind, str)
    return Cell(write(value), kind)
