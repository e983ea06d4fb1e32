"""Arbitrary valid messages of every class and version, made from the declarations alone.

`PAIRS` lists every message class with each of its versions, and `messages(cls, version)` is the Hypothesis
strategy for one of them: fields that the version has take any value of their type (null only where the
version allows it), other fields stay at their default, and so do tagged fields about half of the time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from coterie.protocol.catalog import all_messages
from coterie.protocol.schema import (
    BOOLEAN,
    ArrayOf,
    Blob,
    Field,
    Message,
    Struct,
    StructOf,
    Text,
    UuidType,
    WireType,
    fields_of,
)
from coterie.protocol.types import Number, Uuid

__all__ = [
    "PAIRS",
    "Choose",
    "Pair",
    "Piece",
    "examples",
    "messages",
    "pair_id",
    "smallest_pieces",
]

#: May name another strategy for a field; None leaves the choice to the field's type.
Choose = Callable[[type[Struct], Field], st.SearchStrategy[Any] | None]


class Pair(NamedTuple):
    """A message class and one of its versions."""

    cls: type[Message]
    version: int

    @property
    def flexible(self) -> bool:
        return self.version in self.cls.__flexible__


def pair_id(pair: Pair) -> str:
    return f"{pair.cls.__name__}-v{pair.version}"


#: Every message there is, in each of its versions.
PAIRS: Final = tuple(
    Pair(cls, version) for cls in all_messages().values() for version in cls.__versions__.each()
)


def examples(count: int) -> settings:
    """Settings for a test that is run for every pair, or for many of them: few examples each."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=bool(os.environ.get("CI")),
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@cache
def messages(
    cls: type[Message], version: int, choose: Choose | None = None
) -> st.SearchStrategy[Any]:
    """Messages of a class that can be said in a version."""
    return _Maker(version, choose).struct(cls, 0)


# Lengths around those where a compact length takes one more byte, and Kafka's longest string. Texts that
# come again and again are there because the decoder knows a string that it has just read.
_TEXTS: Final = st.one_of(
    st.sampled_from(("", "Stable", "Empty", "consumer", "größe", "\0", "日本語", "🦀")),
    st.text(max_size=6),
    st.sampled_from(("x" * 126, "x" * 127, "é" * 64, "x" * 1022, "x" * 1023, "x" * 32767)),
)
_BLOBS: Final = st.one_of(
    st.binary(max_size=6),
    st.sampled_from((bytes(126), bytes(127), bytes(128), b"\xff" * 16382, b"\xff" * 16383)),
)
_UUIDS: Final = st.one_of(st.just(Uuid.ZERO), st.binary(min_size=16, max_size=16).map(Uuid))
_MOST_ELEMENTS: Final = (4, 2, 2, 1)


class _Maker:
    """Builds strategies for one version; arrays are the shorter the deeper they lie."""

    def __init__(self, version: int, choose: Choose | None) -> None:
        self.version = version
        self.choose = choose

    def struct(self, cls: type[Struct], depth: int) -> st.SearchStrategy[Any]:
        present = {
            field.name: self.field(cls, field, depth)
            for field in fields_of(cls)
            if self.version in field.versions
        }
        return st.builds(cls, **present)

    def field(self, cls: type[Struct], field: Field, depth: int) -> st.SearchStrategy[Any]:
        chosen = self.choose(cls, field) if self.choose else None
        if chosen is not None:
            return chosen
        value = self.value(field.type, depth)
        if self.version in field.nullable:
            value = st.one_of(st.none(), value)
        if field.tag is not None:
            value = st.one_of(st.just(field.default), value)
        return value

    def value(self, kind: WireType, depth: int) -> st.SearchStrategy[Any]:
        match kind:
            case Number(lowest=lowest, highest=highest):
                return st.booleans() if kind == BOOLEAN else st.integers(lowest, highest)
            case Text():
                return _TEXTS
            case Blob():
                return _BLOBS
            case UuidType():
                return _UUIDS
            case StructOf(cls):
                return self.struct(cls, depth)
            case ArrayOf(element):
                most = _MOST_ELEMENTS[min(depth, len(_MOST_ELEMENTS) - 1)]
                item = self.value(element, depth + 1)
                one, some = st.lists(item, min_size=1, max_size=1), st.lists(item, max_size=most)
                return st.one_of(st.just(()), one.map(tuple), some.map(tuple))


class Piece(NamedTuple):
    """A field of a message, and the fewest bytes that can stand for it."""

    field: Field
    data: bytes


def smallest_pieces(pair: Pair) -> list[Piece]:
    """A message of zeros, empty texts and empty arrays, field by field, written without the codec.

    A test puts bytes of its own in the place of one piece, and knows what is wrong where. The tag section
    that ends a flexible message is not among the pieces.
    """
    return [
        Piece(field, _smallest(field, pair))
        for field in fields_of(pair.cls)
        if pair.version in field.versions and field.tag is None
    ]


def _smallest(field: Field, pair: Pair) -> bytes:
    compact = pair.flexible and field.compact
    match field.type:
        case Number(size=size):
            return bytes(size)
        case UuidType():
            return bytes(16)
        case Text():
            return b"\x01" if compact else bytes(2)
        case Blob() | ArrayOf():
            return b"\x01" if compact else bytes(4)
        case StructOf(cls):
            if pair.version in field.nullable:
                return b"\xff"
            inner = [
                _smallest(each, pair)
                for each in fields_of(cls)
                if pair.version in each.versions and each.tag is None
            ]
            return b"".join(inner) + bytes(pair.flexible)
