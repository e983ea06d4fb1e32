"""Results as plain rows for JSON, and as Arrow tables: one rule for both, taken from the types of the values.

A partition is always the two columns `topic` and `partition`, and what is kept by partition is a list of
rows that have them. A table has the same columns whatever is in it, also if it is empty.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import msgspec

from coterie.client.partitions import TopicPartition

__all__ = ["arrow_schema", "arrow_table", "row_of"]

Row = dict[str, Any]


class _Column(NamedTuple):
    """A field of a value: how it becomes plain, and what type it has in Arrow (given pyarrow)."""

    name: str
    attribute: str
    plain: Callable[[Any], Any]
    arrow: Callable[[Any], Any]


def row_of(value: Any) -> Row:
    """A value with fields as a dict of what JSON knows; bytes stay bytes."""
    row: Row = {}
    kind: type = type(value)
    for name, attribute, plain, _ in _columns(kind):
        found = getattr(value, attribute)
        if type(found) is TopicPartition:
            row["topic"] = found.topic
            row["partition"] = found.partition
        else:
            row[name] = None if found is None else plain(found)
    return row


def arrow_schema(kind: type, *, by: type | None = None) -> Any:
    """The columns of a table of such values; `by` is the type of their keys, if these are columns too."""
    pa = import_module("pyarrow")
    first: list[tuple[str, Any]] = []
    if by is TopicPartition:
        first = [("topic", pa.string()), ("partition", pa.int32())]
    elif by is str:
        first = [("group_id", pa.string())]
    return pa.schema([*first, *_arrow_fields(kind, pa)])


def arrow_table(rows: list[Row], schema: Any, notes: dict[str, str]) -> Any:
    """Rows as a table. What the answer lacks goes with it, as metadata of the schema."""
    pa = import_module("pyarrow")
    return pa.Table.from_pylist(rows, schema.with_metadata(notes))


def _arrow_fields(kind: type, pa: Any) -> list[tuple[str, Any]]:
    fields: list[tuple[str, Any]] = []
    for name, _, _, arrow in _columns(kind):
        found = arrow(pa)
        # A partition within a row is two columns of that row.
        fields += found if isinstance(found, list) else [(name, found)]
    return fields


@cache
def _columns(kind: type) -> tuple[_Column, ...]:
    hints = typing.get_type_hints(kind)
    fields = getattr(kind, "__struct_fields__", None) or kind._fields  # type: ignore[attr-defined]
    names = getattr(kind, "__struct_encode_fields__", fields)
    return tuple(
        _Column(name, field, *_rule(hints[field], field=True))
        for name, field in zip(names, fields, strict=True)
    )


def _rule(hint: Any, *, field: bool = False) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        (hint,) = (each for each in arguments if each is not type(None))
        return _rule(hint, field=field)
    if origin is tuple:
        plain, arrow = _rule(arguments[0])
        return lambda items: [plain(each) for each in items], lambda pa: pa.list_(arrow(pa))
    if origin is dict:
        return _mapping(*arguments)
    if hint is TopicPartition and field:
        return _same, lambda pa: [("topic", pa.string()), ("partition", pa.int32())]
    if isinstance(hint, type) and (issubclass(hint, msgspec.Struct) or hasattr(hint, "_fields")):
        return row_of, lambda pa: pa.struct(_arrow_fields(hint, pa))
    return _scalar(hint)


def _mapping(key: Any, value: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    if key is not TopicPartition:
        return dict, lambda pa: pa.map_(pa.string(), pa.string())
    # By partition: numbers and structs under their own names, texts are errors.
    columns = [] if value in (int, str) else _columns(value)
    name = {int: "offset", str: "error"}.get(value)

    def rows(found: dict[TopicPartition, Any]) -> list[Row]:
        return [
            {"topic": at.topic, "partition": at.partition}
            | (row_of(each) if name is None else {name: each})
            for at, each in found.items()
        ]

    def arrow(pa: Any) -> Any:
        rest = [(each.name, each.arrow(pa)) for each in columns]
        if name is not None:
            rest = [(name, pa.int64() if value is int else pa.string())]
        return pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32()), *rest]))

    return rows, arrow


def _scalar(hint: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    if isinstance(hint, type) and issubclass(hint, Enum):
        return lambda each: each.value, lambda pa: pa.string()
    names = {str: "string", int: "int64", bool: "bool_", bytes: "binary"}
    return _same, lambda pa: getattr(pa, names[hint])()


def _same(value: Any) -> Any:
    return value
