"""Rows as a table, JSON or CSV, with nothing in them that a terminal or a spreadsheet would obey."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

__all__ = ["FORMATS", "formatted", "plain", "safe_cell"]

FORMATS: Final = ("table", "json", "csv")
#: What a spreadsheet takes for the start of a formula (OWASP's list).
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def plain(value: object) -> Any:
    """A value as JSON has it: times in ISO 8601, everything else as it is."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, int | float | str | bool) or value is None:
        return value
    return str(value)


def formatted(names: Sequence[str], rows: Iterable[Sequence[object]], style: str) -> str:
    """All rows in one of FORMATS."""
    if style == "json":
        made = [dict(zip(names, map(plain, row), strict=True)) for row in rows]
        return json.dumps(made, ensure_ascii=False, indent=2)
    if style == "csv":
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(map(safe_cell, names))
        writer.writerows([safe_cell(value) for value in row] for row in rows)
        return file.getvalue().rstrip("\n")
    return _table(names, [[_cell(value) for value in row] for row in rows])


def safe_cell(value: object) -> object:
    """A cell of CSV: text that a spreadsheet would run as a formula gets an apostrophe in front."""
    if isinstance(value, bool | int | float):
        return value
    text = _text(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _text(value: object) -> str:
    if value is None:
        return ""
    made = plain(value)
    return made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)


def _cell(value: object) -> str:
    """Without control characters: a group's name must not move the cursor or change colours."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in _text(value))


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    lines = [
        "  ".join(name.upper().ljust(width) for name, width in zip(names, widths, strict=True))
    ]
    lines += [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)
