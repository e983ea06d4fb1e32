"""The tables of Kafka's tool, to the last space: Java's `%-15s` and the widths that the tool computes.

Pure: rows of text in, text out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["MISSING", "Column", "java_length", "order", "table"]

MISSING: Final = "-"

#: A heading and the least width of its column. None: as wide as its text, nothing is added.
Column = tuple[str, int | None]


def java_length(text: str) -> int:
    """How long Java thinks a text is: it counts UTF-16 units."""
    if text.isascii():
        return len(text)
    return len(text) + sum(each > "\uffff" for each in text)


def order(text: str) -> str | bytes:
    """The key by which Java sorts texts."""
    return text.encode("utf-16-be", "surrogatepass")


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, fit: Iterable[int]) -> str:
    """A heading and rows, each behind a newline as Kafka's tool has it.

    The columns in `fit` grow with their longest text; the others have their width and may burst it.
    """
    wide = not "".join(map("".join, rows)).isascii()
    length = java_length if wide else len
    widths = [width for _, width in columns]
    for index in fit:
        longest = max((length(row[index]) for row in rows), default=0)
        widths[index] = max(widths[index] or 0, longest)
    line = "\n" + " ".join("%s" if width is None else f"%-{width}s" for width in widths)
    heading = line % tuple(name for name, _ in columns)
    if wide:
        return heading + "".join([_row(widths, row) for row in rows])
    return heading + "".join([line % tuple(row) for row in rows])


def _row(widths: Sequence[int | None], cells: Sequence[str]) -> str:
    """Python counts a character once that Java counts as two units."""
    return "\n" + " ".join(
        cell if width is None else cell + " " * (width - java_length(cell))
        for cell, width in zip(cells, widths, strict=True)
    )
