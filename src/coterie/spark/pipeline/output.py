"""Rows as a table, JSON or CSV, with nothing in them that a terminal or a spreadsheet would obey."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

from coterie.errors import InvalidArgument

__all__ = ["formatted", "plain", "printable", "safe_cell"]

#: What a spreadsheet takes for the start of a formula (OWASP's list).
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def plain(value: object) -> Any:
    """A value as JSON has it: times in ISO 8601, no NaN and no infinity, everything else as it is."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if isinstance(value, int | float | str) else str(value)


def formatted(names: Sequence[str], rows: Iterable[Sequence[object]], style: str) -> str:
    """All rows as `table`, `json` or `csv`."""
    if style == "json":
        _must_differ(names)
        made = [dict(zip(names, map(plain, row), strict=True)) for row in rows]
        return json.dumps(made, ensure_ascii=False, indent=2)
    if style == "csv":
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(map(safe_cell, names))
        writer.writerows([safe_cell(value) for value in row] for row in rows)
        return file.getvalue().rstrip("\n")
    return _table(names, [[printable(value) for value in row] for row in rows])


def _must_differ(names: Sequence[str]) -> None:
    """An object of JSON has a name once: the other column would be lost."""
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument(
                f"two columns are called {name!r}, which JSON cannot show: name one of them with AS"
            )


def safe_cell(value: object) -> object:
    """A cell of CSV: text that a spreadsheet would run as a formula gets an apostrophe in front."""
    if isinstance(value, bool | int | float):
        return value
    text = _text(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return json.dumps(value)  # a person may see that it is no number
    made = plain(value)
    return made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)


def printable(value: object) -> str:
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
