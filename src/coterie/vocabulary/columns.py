"""What a column is and what a table is."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Column", "Table"]


class Column(NamedTuple):
    """A column: its name, its type in Spark's DDL, and what it means."""

    name: str
    type: str
    meaning: str


class Table(NamedTuple):
    """A table with documented columns, and the tables that it is made from."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    needs: tuple[str, ...] = ()
