"""Arbitrary valid messages of every class and version, made from the declarations alone.

`PAIRS` lists every message class with each of its versions, and `messages(cls, version)` is the Hypothesis
strategy for one of them: fields that the version has take any value of their type (null only where the
version allows it), other fields stay at their default, and so do tagged fields about half of the time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from hypothesis import HealthCheck, Phase, settings
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
from coterie.protocol.wire import write_uvarint
from tests.kit.campaign import EXAMPLES

__all__ = [
    "PAIRS",
    "Choose",
    "Pair",
    "Piece",
    "Spoil",
    "damaged",
    "examples",
    "messages",
    "pair_id",
    "smallest_bytes",
    "smallest_pieces",
    "spoiled",
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
        max_examples=count * EXAMPLES,
        deadline=None,
        derandomize=bool(os.environ.get("CI")),
        database=None,
        # Explaining a failure takes minutes for a large message, and many pairs may fail at once.
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
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
            case Number():
                return _numbers(kind)
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
    compact: bool

    def length(self, number: int) -> bytes:
        """A length or count as this field's is written; -1 is null."""
        if self.compact:
            return write_uvarint(number + 1)
        return number.to_bytes(2 if isinstance(self.field.type, Text) else 4, "big", signed=True)


#: What to write in a piece's place, or None to leave it.
Spoil = Callable[[Piece], bytes | None]


def smallest_pieces(pair: Pair) -> list[Piece]:
    """A message of zeros, empty texts and empty arrays, field by field, written without the codec.

    The tag section that ends a flexible message is not among the pieces.
    """
    return _pieces(pair.cls, pair.version, flexible=pair.flexible)


def smallest_bytes(pair: Pair) -> bytes:
    """The pieces together; a tag section has to follow if the version is flexible."""
    return b"".join(piece.data for piece in smallest_pieces(pair))


def spoiled(pair: Pair, spoil: Spoil) -> Iterator[tuple[str, bytes]]:
    """The smallest message with one field replaced by what `spoil` has for it: the field, the bytes."""
    pieces = smallest_pieces(pair)
    for index, piece in enumerate(pieces):
        written = spoil(piece)
        if written is not None:
            before = b"".join(each.data for each in pieces[:index])
            behind = b"".join(each.data for each in pieces[index + 1 :])
            yield piece.field.name, before + written + behind + bytes(pair.flexible)


def _pieces(cls: type[Struct], version: int, *, flexible: bool) -> list[Piece]:
    return [
        Piece(field, _smallest(field, version, flexible=flexible), flexible and field.compact)
        for field in fields_of(cls)
        if version in field.versions and field.tag is None
    ]


def _numbers(kind: Number) -> st.SearchStrategy[Any]:
    if kind == BOOLEAN:
        return st.booleans()
    if kind.name == "float64":
        return st.floats(allow_nan=False)
    return st.integers(kind.lowest, kind.highest)


def _smallest(field: Field, version: int, *, flexible: bool) -> bytes:
    compact = flexible and field.compact
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
            if version in field.nullable:
                return b"\xff"
            inner = _pieces(cls, version, flexible=flexible)
            return b"".join(piece.data for piece in inner) + bytes(flexible)


_LENGTHS: Final = (
    b"\xff\xff",
    b"\x7f\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x1f",
    b"\x80\x80\x80\x80\x08",
)


def _flip(data: bytearray, at: int, choice: int) -> None:
    if at < len(data):
        data[at] ^= 1 << choice % 8


def _cut(data: bytearray, at: int, _choice: int) -> None:
    del data[at:]


def _remove(data: bytearray, at: int, choice: int) -> None:
    del data[at : at + choice % 8]


def _insert(data: bytearray, at: int, choice: int) -> None:
    data[at:at] = bytes((choice % 256,)) * (1 + choice % 3)


def _raise_length(data: bytearray, at: int, choice: int) -> None:
    length = _LENGTHS[choice % len(_LENGTHS)]
    data[at : at + len(length)] = length


def _nudge(data: bytearray, at: int, choice: int) -> None:
    if at < len(data):
        data[at] = (data[at] + 1 + choice % 3) % 256


Damage = Callable[[bytearray, int, int], None]
_DAMAGES: Final[tuple[Damage, ...]] = (_flip, _cut, _remove, _insert, _raise_length, _nudge)


def damaged(data: bytes) -> st.SearchStrategy[bytes]:
    """The bytes with one to three things wrong, near the beginning or anywhere."""
    places = st.one_of(st.integers(0, len(data)), st.integers(0, 40))
    damages = st.tuples(st.sampled_from(_DAMAGES), places, st.integers(0, 255))
    return st.lists(damages, min_size=1, max_size=3).map(lambda found: _apply(data, found))


def _apply(data: bytes, damages: Iterable[tuple[Damage, int, int]]) -> bytes:
    out = bytearray(data)
    for damage, at, choice in damages:
        damage(out, at, choice)
    return bytes(out)
