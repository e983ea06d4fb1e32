"""Output: listings of declared columns, in every format.

A listing declares its columns once: name, kind, what it means, and how to get it from an item. Tables, CSV,
JSON, YAML, `--columns`, `--sort`, `--format help` and the published JSON schemas are all made from that.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from numbers import Number
from operator import itemgetter
from typing import Any, Final, Generic, Literal, TypeVar

import click

from coterie.console.terminal import write
from coterie.vocabulary.columns import Column as Declared

__all__ = [
    "FORMATS",
    "Column",
    "Format",
    "Listing",
    "Need",
    "declared",
    "iso",
    "listing_of",
    "timestamp",
]

T = TypeVar("T")

Kind = Literal["string", "integer", "number", "boolean", "time", "list", "rows"]


class Need(Enum):
    """What a command needs to know about groups. Each takes requests, which are sent once."""

    DESCRIPTION = "description"
    #: A description, completed from the group's records in __consumer_offsets.
    RECORDS = "records"
    OFFSETS = "offsets"
    #: Implies description and offsets, which lag is computed from.
    LAG = "lag"
    LOG_START = "log start"
    #: Implies description and offsets.
    TOPICS = "topics"
    #: When offsets were committed.
    COMMITS = "commits"


FORMATS: Final = ("table", "wide", "json", "jsonl", "yaml", "csv", "name")

_JSON_TYPES: Final[dict[Kind, dict[str, Any]]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "time": {"type": "string", "format": "date-time"},
    "list": {"type": "array", "items": {"type": "string"}},
}
#: The kind of a column by its type in the vocabulary.
_KINDS: Final[dict[str, Kind]] = {
    "string": "string",
    "int": "integer",
    "bigint": "integer",
    "double": "number",
    "boolean": "boolean",
    "timestamp": "time",
    "array<string>": "list",
}


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC, as precise as the moment: whole seconds, milliseconds or microseconds."""
    precision = "microseconds" if moment.microsecond % 1000 else "milliseconds"
    text = moment.astimezone(UTC).isoformat(timespec=precision)
    return text.replace("+00:00", "Z").replace(".000Z", "Z")


def timestamp(ms: int | None) -> str | None:
    """Kafka's milliseconds since 1970 as ISO 8601; None for unknown and impossible times."""
    if ms is None or ms < 0:
        return None
    try:
        return iso(datetime.fromtimestamp(ms / 1000, UTC))
    except (OverflowError, ValueError, OSError):
        return None


@dataclass(frozen=True)
class Column(Generic[T]):
    """One column. `show` says when it is shown by default: always, in wide and machine formats, or never."""

    name: str
    kind: Kind
    doc: str
    get: Callable[[T], Any]
    show: Literal["always", "wide", "asked"] = "always"
    nullable: bool = False
    style: Callable[[Any], str | None] | None = None
    #: Omitted from a table in which no row has a value for it.
    sparse: bool = False
    #: What has to be requested for it; a command requests only what its columns need.
    needs: Need | None = None
    #: For rows: the listing they are of.
    of: Listing[Any] | None = None
    #: The header of a table, if it is shorter than the name.
    heading: str = ""

    @property
    def header(self) -> str:
        return self.heading or self.name.upper().replace("_", "-")

    def schema(self) -> dict[str, Any]:
        if self.of is not None:
            return {"description": self.doc, "type": "array", "items": self.of.item_schema()}
        kind = dict(_JSON_TYPES[self.kind])
        if self.nullable:
            kind["type"] = [kind["type"], "null"]
        return {"description": self.doc, **kind}


def declared(column: Declared, get: Callable[[T], Any], **options: Any) -> Column[T]:
    """A column of the vocabulary: the name, type and meaning that it has everywhere."""
    return Column(column.name, _KINDS[column.type], column.meaning, get, **options)


@dataclass(frozen=True)
class Format:
    """The options of output."""

    name: str = "table"
    headers: bool = True
    columns: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()


@dataclass(frozen=True)
class Listing(Generic[T]):
    """A kind of output: its name (also that of its schema), and its columns; the first one is its key."""

    name: str
    doc: str
    columns: tuple[Column[T], ...]
    sort: tuple[str, ...] = field(default=())

    def chosen(self, form: Format) -> list[Column[T]]:
        """The columns of an output."""
        flat = form.name in ("table", "wide", "csv", "name")
        if form.columns:
            chosen = [self.column(name) for name in form.columns]
            for each in chosen:
                if flat and each.kind == "rows":
                    raise click.UsageError(f"{each.name} is for json, jsonl and yaml")
            return chosen
        if form.name == "name":
            return [self.columns[0]]
        shown = {"always"} if form.name in ("table", "csv") else {"always", "wide"}
        if flat:
            return [each for each in self.columns if each.show in shown and each.kind != "rows"]
        return [each for each in self.columns if each.show in shown]

    def column(self, name: str) -> Column[T]:
        """A column by its name, or by the header that tables have for it."""
        wanted = name.strip().lower().replace("-", "_")
        by_name = {each.name: each for each in self.columns}
        by_header = {each.header.lower().replace("-", "_"): each for each in self.columns}
        found = by_name.get(wanted) or by_header.get(wanted)
        if found is None:
            names = ", ".join(by_name)
            raise click.UsageError(f"there is no column {name!r} here; there are: {names}")
        return found

    def needs(self, form: Format) -> set[Need]:
        """What has to be requested for the columns and the order."""
        used = self.chosen(form) + [self.column(each.lstrip("-")) for each in form.sort]
        return {each.needs for each in used if each.needs is not None}

    def sorted(self, items: Iterable[T], form: Format) -> list[T]:
        """Items by the columns of `--sort`, then by those of the listing; unknown values are last."""
        found = list(items)
        for name in reversed((*form.sort, *self.sort)):
            column = self.column(name.lstrip("-"))
            if column.kind == "rows":
                raise click.UsageError(f"{column.name} has no order to sort by")
            down = name.startswith("-")
            known = [each for each in found if column.get(each) is not None]
            unknown = [each for each in found if column.get(each) is None]
            found = sorted(known, key=column.get, reverse=down) + unknown
        return found

    def write(self, items: Iterable[T], form: Format) -> None:
        """Write the items to standard output."""
        # Imported here, because --help does not need it.
        from coterie.console import rendering

        columns = self.chosen(form)
        for part in rendering.render(columns, self.sorted(items, form), form):
            write(part)

    # -- the schema -----------------------------------------------------------------------------------

    def item_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {each.name: each.schema() for each in self.columns},
            "required": [each.name for each in self.columns if each.show != "asked"],
            "additionalProperties": False,
        }

    def json_schema(self) -> dict[str, Any]:
        """The schema of `-o json`; each line of `-o jsonl` is one of its items."""
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": f"coterie: {self.name}",
            "description": self.doc,
            "type": "array",
            "items": self.item_schema(),
        }

    def write_help(self) -> None:
        """What `--format help` prints."""
        write(f"{self.doc}\n\n")
        if self.columns:
            _COLUMNS.write(self.columns, Format("wide"))
            write("\n")
        schema = " JSON schema: --format schema" if self.columns else ""
        write(f"Formats: {', '.join(FORMATS)}.{schema}\n")

    def write_schema(self) -> None:
        write(json.dumps(self.json_schema(), indent=2, ensure_ascii=False) + "\n")


def _typed(column: Column[Any]) -> str:
    longer = {"list": "list of strings", "time": "time, ISO 8601 in UTC", "rows": "list of objects"}
    kind = longer.get(column.kind, column.kind)
    return f"{kind} or null" if column.nullable else kind


_WHEN: Final = {"always": "always", "wide": "wide, json, jsonl, yaml", "asked": "--columns"}

_COLUMNS: Final[Listing[Column[Any]]] = Listing(
    "columns",
    "The columns of a listing.",
    (
        Column("column", "string", "Its name.", lambda each: each.name),
        Column("type", "string", "What its values are.", _typed),
        Column("shown", "string", "When it is there.", lambda each: _WHEN[each.show]),
        Column("meaning", "string", "What it means.", lambda each: each.doc),
    ),
)


def listing_of(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Listing[Sequence[Any]]:
    """A listing of rows whose columns are known only at run time, such as those of a query."""

    def is_number(at: int) -> bool:
        values = [row[at] for row in rows if row[at] is not None]
        return all(isinstance(each, Number) and not isinstance(each, bool) for each in values)

    columns: list[Column[Sequence[Any]]] = [
        Column(name, "number" if is_number(at) else "string", "", itemgetter(at), nullable=True)
        for at, name in enumerate(names)
    ]
    return Listing("rows", "Rows.", tuple(columns))


def csv_line(values: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()
