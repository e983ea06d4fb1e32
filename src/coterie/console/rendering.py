"""Rendering: columns and items in, text out, one generator per format."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from coterie.console.output import Column, Format, csv_line
from coterie.console.terminal import Ink, escape_quoted, is_safe, shown

__all__ = ["cell", "render"]

T = TypeVar("T")
_Columns = Sequence[Column[T]]

_GAP: Final = "  "
_UNKNOWN: Final = "-"
#: What a spreadsheet takes for the start of a formula (OWASP's list, without what is escaped anyway).
_FORMULA: Final = ("=", "+", "-", "@")


def render(columns: _Columns[T], items: list[T], form: Format) -> Iterator[str]:
    """The parts of the output, in order."""
    return _RENDERERS[form.name](columns, items, form)


def cell(value: Any) -> str:
    """A value as a table shows it: safe, and on one line."""
    if value is None:
        return _UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, (list, tuple)):
        return ",".join(shown(str(each)) for each in value) or _UNKNOWN
    return shown(str(value))


# -- for people -------------------------------------------------------------------------------------------


def _table(columns: _Columns[T], items: list[T], form: Format) -> Iterator[str]:
    ink = Ink(sys.stdout)
    if not form.columns:
        columns = [each for each in columns if not each.sparse or _any(each, items)]
    values = [[column.get(item) for column in columns] for item in items]
    rows = [[cell(value) for value in row] for row in values]
    headers = [column.header for column in columns]
    # Also without headers: lines that are written round after round stay in line.
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
    from rich.cells import cell_len  # noqa: PLC0415 - only for what is not ASCII

    return cell_len(text)


def _names(columns: _Columns[T], items: list[T], _: Format) -> Iterator[str]:
    get = columns[0].get
    for item in items:
        yield f"{shown(str(get(item)))}\n"


# -- for programs -----------------------------------------------------------------------------------------


def _csv(columns: _Columns[T], items: list[T], form: Format) -> Iterator[str]:
    if form.headers:
        yield csv_line([column.name for column in columns])
    for item in items:
        yield csv_line([_csv_value(column.get(item)) for column in columns])


def _csv_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return _no_formula(",".join(shown(str(each)) for each in value))
    return _no_formula(shown(str(value))) if isinstance(value, str) else str(value)


def _no_formula(text: str) -> str:
    """A spreadsheet would run it; the apostrophe makes it text, here as in `coterie pipeline sql -o csv`."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def plain(columns: _Columns[T], item: T) -> dict[str, Any]:
    """An item as JSON has it."""
    return {column.name: _plain_value(column, column.get(item)) for column in columns}


def _plain_value(column: Column[Any], value: Any) -> Any:
    if column.of is not None:
        inner = column.of.chosen(Format("json"))
        return [plain(inner, each) for each in column.of.sorted(value, Format("json"))]
    if isinstance(value, (tuple, frozenset)):
        return list(value)
    if isinstance(value, str):
        return str(value)
    return round(value, 3) if isinstance(value, float) else value


def _jsonl(columns: _Columns[T], items: list[T], _: Format) -> Iterator[str]:
    for item in items:
        yield escape_quoted(json.dumps(plain(columns, item), ensure_ascii=False)) + "\n"


def _json(columns: _Columns[T], items: list[T], _: Format) -> Iterator[str]:
    if not items:
        yield "[]\n"
        return
    for number, item in enumerate(items):
        text = escape_quoted(json.dumps(plain(columns, item), ensure_ascii=False, indent=2))
        yield ("[\n" if number == 0 else ",\n") + re.sub("^", "  ", text, flags=re.MULTILINE)
    yield "\n]\n"


def _yaml(columns: _Columns[T], items: list[T], _: Format) -> Iterator[str]:
    import yaml  # noqa: PLC0415 - only for those who want it

    class Dumper(yaml.SafeDumper):
        """Names with odd characters are in double quotes, where YAML has escapes for them."""

        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = None if is_safe(value) else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    for item in items:
        written = yaml.dump(
            [plain(columns, item)],
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
