"""Writes the Python function that encodes one message in one version, and names the value that does not fit.

The function collects pieces in a list, which are joined once. A value that the version has no field for is
an error unless the field is ignorable or has its default, as in Kafka: a filter that an old broker cannot
see must not be dropped silently. It runs where there is no compiled code, and for what that cannot encode.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from coterie.errors import InvalidMessage, UnsupportedVersion
from coterie.protocol import wire
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
)
from coterie.protocol.source import Compiled, Source
from coterie.protocol.types import Number

__all__ = ["compile_element_encoder", "compile_encoder"]


def compile_encoder(cls: type[Message], version: int, *, ready: str = "") -> Compiled:
    """`codec(message, out)` puts the pieces of the message into the list `out`.

    `ready` names an array of the message whose elements are bytes already.
    """
    return _EncoderWriter(cls, version, ready).write(cls)


def compile_element_encoder(cls: type[Message], version: int, element: type[Struct]) -> Compiled:
    """The same for one element of an array of the message."""
    return _EncoderWriter(cls, version, "").write(element)


def _text_length(length: int) -> bytes:
    """The compact length of a string."""
    if length > wire.MAX_STRING:
        raise InvalidMessage(
            f"a string of {length} bytes is over Kafka's limit of {wire.MAX_STRING}"
        )
    return wire.write_uvarint(length + 1)


def _count(length: int) -> bytes:
    """The compact count of an array, or length of bytes."""
    return wire.write_uvarint(length + 1)


class _Target(NamedTuple):
    """Names in the code: the list that pieces go to, and its `append`."""

    out: str
    add: str


class _EncoderWriter:
    """Local names in the code: m the message, out its pieces, add(piece), s encoded text."""

    def __init__(self, cls: type[Message], version: int, ready: str) -> None:
        self.version = version
        self.ready = ready
        self.title = f"{cls.__name__} v{version}"
        self.flexible = version in cls.__flexible__
        self.source = Source()
        self.source.names.update(
            InvalidMessage=InvalidMessage,
            UnsupportedVersion=UnsupportedVersion,
            compact_count=_count,
            compact_text_length=_text_length,
            pack=struct.pack,
            write_uvarint=wire.write_uvarint,
        )

    def write(self, cls: type[Struct]) -> Compiled:
        with self.source.block("def codec(m, out):"):
            self.source.line("add = out.append")
            self.struct(cls, "m", _Target("out", "add"))
        return self.source.compile(f"encode {self.title}")

    # -- structs -------------------------------------------------------------------------------------

    def struct(self, cls: type[Struct], value: str, to: _Target) -> None:
        tagged: list[Field] = []
        for field in fields_of(cls):
            with self.source.field(field.name):
                if self.version not in field.versions:
                    self.refuse(field, value)
                elif field.tag is not None:
                    tagged.append(field)
                elif field.name == self.ready:
                    self.ready = ""  # the outermost one is meant
                    self.length(f"{value}.{field.name}", to, "i", compact=self.flexible)
                    self.source.line(f"{to.out} += {value}.{field.name}")
                else:
                    self.field(field, f"{value}.{field.name}", to)
        if self.flexible:
            self.tags(tagged, value, to)

    def refuse(self, field: Field, value: str) -> None:
        """A value that this version cannot carry."""
        if field.ignorable:
            return
        default = self.source.constant(field.default)
        with self.source.block(f"if {value}.{field.name} != {default}:"):
            self.source.line(
                f'raise UnsupportedVersion("{self.title} has no {field.wire_name}; '
                f'the field is there in versions {field.versions}")'
            )

    def tags(self, tagged: list[Field], value: str, to: _Target) -> None:
        """The tag section: a count, and the fields that are not at their defaults, in rising order."""
        line, block = self.source.line, self.source.block
        line(f'{to.add}(b"\\0")')
        if not tagged:
            return
        mark, count = self.source.fresh("mark"), self.source.fresh("n")
        line(f"{mark} = len({to.out}) - 1")
        line(f"{count} = 0")
        for field in sorted(tagged, key=lambda each: each.tag or 0):
            with self.source.field(field.name):
                item = self.source.fresh("v")
                line(f"{item} = {value}.{field.name}")
                with block(f"if {item} != {self.source.constant(field.default)}:"):
                    line(f"{count} += 1")
                    self.tagged_value(field, item, to)
        line(f"{to.out}[{mark}] = write_uvarint({count})")

    def tagged_value(self, field: Field, item: str, to: _Target) -> None:
        """Tag, size and value; the size is known when the value has been written."""
        line = self.source.line
        pieces, body = self.source.fresh("o"), self.source.fresh("s")
        inner = _Target(pieces, self.source.fresh("add"))
        line(f"{pieces} = []")
        line(f"{inner.add} = {pieces}.append")
        self.field(field, item, inner)
        line(f'{body} = b"".join({pieces})')
        line(f"{to.add}({self.source.constant(wire.write_uvarint(field.tag or 0))})")
        line(f"{to.add}(write_uvarint(len({body})))")
        line(f"{to.add}({body})")

    # -- values --------------------------------------------------------------------------------------

    def field(self, field: Field, value: str, to: _Target) -> None:
        compact = self.flexible and field.compact
        item = self.source.fresh("v")
        self.source.line(f"{item} = {value}")
        if self.version in field.nullable:
            with self.source.block(f"if {item} is None:"):
                self.source.line(f"{to.add}({self.null_of(field, compact=compact)!r})")
            with self.source.block("else:"):
                if isinstance(field.type, StructOf):
                    self.source.line(f'{to.add}(b"\\1")')
                self.value(field.type, item, to, compact=compact)
            return
        if field.default is None or field.nullable.highest >= 0:
            with self.source.block(f"if {item} is None:"):
                self.source.line(
                    f'raise UnsupportedVersion("{self.title} cannot say null for {field.wire_name}")'
                )
        self.value(field.type, item, to, compact=compact)

    def null_of(self, field: Field, *, compact: bool) -> bytes:
        """Null; that of a struct is -1 in a plain field and 0 in a tagged one."""
        if isinstance(field.type, StructOf):
            return b"\xff" if field.tag is None else b"\0"
        if compact:
            return b"\0"
        return b"\xff\xff" if isinstance(field.type, Text) else b"\xff\xff\xff\xff"

    def value(self, kind: WireType, value: str, to: _Target, *, compact: bool) -> None:
        line, block = self.source.line, self.source.block
        match kind:
            case Number(letter=letter):
                line(f"{to.add}({self.packer(letter)}({value}))")
            case UuidType():
                # `struct` would pad or cut silently.
                with block(f"if len({value}) != 16:"):
                    line('raise InvalidMessage("a UUID has 16 bytes")')
                line(f"{to.add}({self.packer('16s')}({value}))")
            case Text():
                line(f"s = {value}.encode()")
                self.length("s", to, "h", compact=compact)
                line(f"{to.add}(s)")
            case Blob():
                self.length(value, to, "i", compact=compact)
                line(f"{to.add}({value})")
            case StructOf(cls):
                self.struct(cls, value, to)
            case ArrayOf(element):
                self.length(value, to, "i", compact=self.flexible)
                self.elements(element, value, to)

    def packer(self, letter: str) -> str:
        return self.source.constant(_PACKERS[letter])

    def length(self, value: str, to: _Target, letter: str, *, compact: bool) -> None:
        if compact:
            count = "compact_text_length" if letter == "h" else "compact_count"
            self.source.line(f"{to.add}({count}(len({value})))")
        else:
            self.source.line(f"{to.add}({self.packer(letter)}(len({value})))")

    def elements(self, element: WireType, value: str, to: _Target) -> None:
        if isinstance(element, Number):
            self.source.line(f'{to.add}(pack(f">{{len({value})}}{element.letter}", *{value}))')
            return
        item = self.source.fresh("e")
        with self.source.block(f"for {item} in {value}:"):
            self.value(element, item, to, compact=self.flexible)


#: Shared by all functions: what packs one number, or a UUID.
_PACKERS = {
    letter: struct.Struct(f">{letter}").pack
    for letter in ("?", "b", "h", "H", "i", "q", "d", "16s")
}
