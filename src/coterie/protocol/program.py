"""Makes the program of a message in one version, by which coterie._native decodes and encodes it.

A program is made from nested tuples, which src/native/program.c parses once: a struct with its fields, a
field with its type. Where there is no compiled code there are no programs.
"""

from __future__ import annotations

from typing import Any, Final

from coterie import compiled
from coterie.protocol.schema import (
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
    smallest,
)
from coterie.protocol.types import Number, Uuid

__all__ = ["make_element_program", "make_program"]

Parsed = tuple[Any, ...]

#: The type of elements that are bytes already, and of fields that a version lacks.
_ENCODED: Final = ("e", False, False, False, 0, None)


def make_program(
    cls: type[Message], version: int, *, ready: str = ""
) -> compiled.CodecProgram | None:
    """The program of a message; `ready` names an array whose elements are bytes already."""
    return _make(_Parser(cls, version, ready), cls)


def make_element_program(
    cls: type[Message], version: int, element: type[Struct]
) -> compiled.CodecProgram | None:
    """The program of one element of an array of the message."""
    return _make(_Parser(cls, version, ""), element)


def _make(parser: _Parser, cls: type[Struct]) -> compiled.CodecProgram | None:
    if compiled.native is None:
        return None
    try:
        return compiled.native.Program(parser.struct(cls), Uuid)
    except (AttributeError, TypeError):
        # Compiled from older sources, or a release of msgspec that lays out objects in another way.
        return None


class _Parser:
    """Turns declarations into the tuples."""

    def __init__(self, cls: type[Message], version: int, ready: str) -> None:
        self.version = version
        self.flexible = version in cls.__flexible__
        self.ready = ready

    def struct(self, cls: type[Struct]) -> Parsed:
        """Flexible or not, an object with the values in it, fields; how many absent ones are refused."""
        fields = fields_of(cls)
        values = tuple([object() for _ in fields])
        plain: list[Parsed] = []
        tagged: list[Parsed] = []
        refused: list[Parsed] = []
        ignored: list[Parsed] = []
        for index, field in enumerate(fields):
            if self.version not in field.versions:
                (ignored if field.ignorable else refused).append(
                    (index, 0, field.default, _ENCODED)
                )
            elif field.tag is None:
                plain.append((index, 0, field.default, self.field(field)))
            elif self.flexible:
                tagged.append((index, field.tag, field.default, self.field(field)))
            else:
                ignored.append((index, 0, field.default, _ENCODED))
        tagged.sort(key=lambda each: each[1])
        absent = (*refused, *ignored)
        return (
            *(self.flexible, cls(*values), values),
            *(tuple(plain), tuple(tagged), absent, len(refused)),
        )

    def field(self, field: Field) -> Parsed:
        if field.name == self.ready:
            self.ready = ""  # the outermost one is meant
            return ("a", False, self.flexible, False, 1, _ENCODED)
        return self.type(
            field.type,
            nullable=self.version in field.nullable,
            compact=self.flexible and field.compact,
            tagged=field.tag is not None,
        )

    def type(
        self, kind: WireType, *, nullable: bool, compact: bool, tagged: bool = False
    ) -> Parsed:
        """Letter, nullable, compact, tagged, fewest bytes of an element, the type or struct inside."""
        least, inner = 0, None
        match kind:
            case Number():
                letter = kind.letter
            case Text():
                letter = "s"
            case Blob(records):
                letter = "r" if records else "y"
            case UuidType():
                letter = "u"
            case StructOf(cls):
                letter, inner = "S", self.struct(cls)
            case ArrayOf(element):
                letter = "a"
                least = smallest(element, self.version, flexible=self.flexible)
                inner = self.type(element, nullable=False, compact=self.flexible)
        return letter, nullable, compact, tagged, least, inner
