"""Messages as JSON in Kafka's own shape, both ways.

For people and for comparing with Kafka: camelCase names, fields of other versions absent, tagged fields
at their default absent, bytes as base64, UUIDs as Kafka prints them, and the size in place of record
batches. Not fast and not meant to be.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, TypeVar

from coterie.protocol.schema import (
    ArrayOf,
    Blob,
    Field,
    Message,
    Struct,
    StructOf,
    UuidType,
    WireType,
    fields_of,
)
from coterie.protocol.types import Uuid

__all__ = ["from_json", "to_json"]

S = TypeVar("S", bound=Struct)


def to_json(message: Message, version: int) -> dict[str, Any]:
    """A message as Kafka's JSON converters write it."""
    return _struct_to_json(message, version)


def from_json(
    cls: type[S], value: dict[str, Any], version: int, records: Iterator[bytes | None]
) -> S:
    """The message that Kafka's JSON describes; `records` gives the batches that the JSON leaves out."""
    found: dict[str, Any] = {}
    for field in _present(cls, version):
        if isinstance(field.type, Blob) and field.type.records:
            found[field.name] = next(records)
        elif field.wire_name in value:
            found[field.name] = _from_json(field.type, value[field.wire_name], version, records)
    return cls(**found)


def _present(cls: type[Struct], version: int) -> Iterator[Field]:
    return (field for field in fields_of(cls) if version in field.versions)


def _struct_to_json(value: Struct, version: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field in _present(type(value), version):
        item = getattr(value, field.name)
        if field.tag is not None and item == field.default:
            continue
        if isinstance(field.type, Blob) and field.type.records and item is not None:
            out[f"{field.wire_name}SizeInBytes"] = len(item)
        else:
            out[field.wire_name] = _to_json(field.type, item, version)
    return out


def _to_json(kind: WireType, value: Any, version: int) -> Any:
    if value is None:
        return None
    match kind:
        case Blob():
            return base64.b64encode(value).decode("ascii")
        case UuidType():
            return str(value)
        case StructOf():
            return _struct_to_json(value, version)
        case ArrayOf(element):
            return [_to_json(element, item, version) for item in value]
    return value


def _from_json(kind: WireType, value: Any, version: int, records: Iterator[bytes | None]) -> Any:
    if value is None:
        return None
    match kind:
        case Blob():
            return base64.b64decode(value)
        case UuidType():
            return Uuid.parse(value)
        case StructOf(cls):
            return from_json(cls, value, version, records)
        case ArrayOf(element):
            return tuple(_from_json(element, item, version, records) for item in value)
    return value
