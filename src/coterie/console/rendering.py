"""Rendering: rows of a listing as tables, CSV, JSON and YAML. One generator per format, one rule per value.

Text comes from anyone who can connect to the cluster: control characters are escaped in every format, and in
CSV nothing begins like a formula.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from numbers import Number
from typing import Any, Final, TypeVar

from coterie.console.output import Column, Format, csv_line, iso
from coterie.console.terminal import Ink
from coterie.safe_text import escape_quoted, is_safe, shown

__all__ = ["cell", "plain", "render"]

T = TypeVar("T")
_Columns = Sequence[Column[T]]

_GAP: Final = "  "
_UNKNOWN: Final = "-"
#: What a spreadsheet takes for the start of a formula (OWASP's list).
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def render(columns: _Columns[T], items: list[T], form: Format) -> Iterator[str]:
    """The output, in parts."""
    return _RENDERERS[form.name](columns, items, form)


def plain(value: Any) -> Any:
    """A value as JSON has it: times in ISO 8601, bytes in hexadecimal, no NaN and no infinity."""
    if value is None or isinstance(value, int | float):
        return value if value is None or math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, datetime) and value.tzinfo is not None:
        return iso(value)
    if isinstance(value, date):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else str(value)


def cell(value: Any) -> str:
    """A value as a table shows it: safe, and on one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return shown(_text(value)) or ("" if isinstance(value, str) else _UNKNOWN)


def _text(value: Any) -> str:
    """The text of a cell: lists are joined by commas, nested values are JSON, null is empty."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return json.dumps(value)  # NaN, too
    found = plain(value)
    if found is None:
        return ""
    if isinstance(found, list) and not any(isinstance(each, list | dict) for each in found):
        return ",".join(map(_text, found))
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


# -- tables -----------------------------------------------------------------------------------------------


def _table(columns: _Columns[T], items: list[T], form: Format) -> Iterator[str]:
    ink = Ink(sys.stdout)
    if not form.columns:
        columns = [each for each in columns if not each.sparse or _any(each, items)]
    values = [[column.get(item) for column in columns] for item in items]
    rows = [[cell(value) for value in row] for row in values]
    headers = [shown(column.header) for column in columns]
    # Headers count even if they are not shown, so that the rounds of `watch` have the same widths.
    widths = [max(_width(row[i]) for row in (headers, *rows)) for i in range(len(columns))]
    right = [column.kind in ("integer", "number") for column in columns]
    if form.headers:
        yield _line(headers, headers, widths, right, lambda text, _: ink(text, "bold"))
    for row, raw in zip(rows, values, strict=True):
        yield _line(row, raw, widths, right, _painter(columns, ink))


def _any(column: Column[T], items: list[T]) -> bool:
    return any(column.get(item) is not None for item in items)


def _painter(columns: _Columns[T], ink: Ink) -> Callable[[str, tuple[int, Any]], str]:
    def paint(text: str, place: tuple[int, Any]) -> str:
        index, value = place
        style = columns[index].style
        return ink(text, style(value)) if style is not None else text

    return paint


def _line(
    row: list[str],
    raw: Sequence[Any],
    widths: list[int],
    right: list[bool],
    paint: Callable[[str, tuple[int, Any]], str],
) -> str:
    parts = []
    for index, text in enumerate(row):
        pad = " " * (widths[index] - _width(text))
        painted = paint(text, (index, raw[index]))
        parts.append(pad + painted if right[index] else painted + pad)
    return _GAP.join(parts).rstrip() + "\n"


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _names(columns: _Columns[T], items: list[T], _: Format) -> Iterator[str]:
    get = columns[0].get
    for item in items:
        yield f"{shown(_text(get(item)))}\n"


# -- machine formats --------------------------------------------------------------------------------------


def _csv(columns: _Columns[T], items: list[T], form: Format) -> Iterator[str]:
    if form.headers:
        yield csv_line([_csv_value(column.name) for column in columns])
    for item in items:
        yield csv_line([_csv_value(column.get(item)) for column in columns])


def _csv_value(value: Any) -> str:
    """The text of a cell; an apostrophe keeps a spreadsheet from running it as a formula."""
    text = _text(value)
    is_formula = text.startswith(_FORMULA) and not isinstance(value, Number)
    return f"'{shown(text)}" if is_formula else shown(text)


def _object(columns: _Columns[T], item: T) -> dict[str, Any]:
    """An item as JSON has it."""
    return {column.name: _property(column, column.get(item)) for column in columns}


def _property(column: Column[Any], value: Any) -> Any:
    if column.of is None:
        return plain(value)
    inner = column.of.chosen(Format("json"))
    return [_object(inner, each) for each in column.of.sorted(value, Format("json"))]


def _jsonl(columns: _Columns[T], items: list[T], _: Format) -> Iterator[str]:
    for item in items:
        yield escape_quoted(json.dumps(_object(columns, item), ensure_ascii=False)) + "\n"


def _json(columns: _Columns[T], items: list[T], _: Format) -> Iterator[str]:
    if not items:
        yield "[]\n"
        return
    for number, item in enumerate(items):
        text = escape_quoted(json.dumps(_object(columns, item), ensure_ascii=False, indent=2))
        yield ("[\n" if number == 0 else ",\n") + re.sub("^", "  ", text, flags=re.MULTILINE)
    yield "\n]\n"


def _yaml(columns: _Columns[T], items: list[T], _: Format) -> Iterator[str]:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes names with control characters in double quotes, where YAML has escapes for them."""

        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = None if is_safe(value) else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    for item in items:
        written = yaml.dump(
            [_object(columns, item)],
            Dumper=Dumper,
            allow_unicode=True,
            sort_keys=False,
            width=float("inf"),
        )
        yield escape_quoted(written)
    if not items:
        yield "[]\n"


_RENDERERS: Final[dict[str, Callable[[Any, Any, Format], Iterator[str]]]] = {
    "table": _table,
    "wide": _table,
    "json": _json,
    "jsonl": _jsonl,
    "yaml": _yaml,
    "csv": _csv,
    "name": _names,
}
