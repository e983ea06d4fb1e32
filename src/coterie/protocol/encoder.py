"""Writes, for one message and version, the straight-line function that turns an object into bytes.

The function collects pieces in a list and joins them once. What the version has no field for is an
error unless the field is ignorable or at its default, exactly as in Kafka: a filter that an old broker
cannot see must not be dropped in silence.
"""

from __future__ import annotations

import struct

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

__all__ = ["compile_encoder"]


def compile_encoder(cls: type[Message], version: int) -> Compiled:
    """`codec(message, add)` gives the pieces of the message to `add`."""
    return _EncoderWriter(cls, version).write(cls)


def _text_length(length: int) -> bytes:
    """The compact length of a long string."""
    if length > wire.MAX_STRING:
        raise InvalidMessage(
            f"a string of {length} bytes is over Kafka's limit of {wire.MAX_STRING}"
        )
    return wire.write_uvarint(length + 1)


def _count(length: int) -> bytes:
    """The compact count of a long array, or length of long bytes."""
    return wire.write_uvarint(length + 1)


#: Lengths below this are looked up in wire.UVARINT instead of computed.
_READY = len(wire.UVARINT) - 1


class _EncoderWriter:
    """Local names in the code it writes: m the message, add(piece), s encoded text, n a length."""

    def __init__(self, cls: type[Message], version: int) -> None:
        self.version = version
        self.title = f"{cls.__name__} v{version}"
        self.flexible = version in cls.__flexible__
        self.source = Source()
        self.source.names.update(
            InvalidMessage=InvalidMessage,
            UVARINT=wire.UVARINT,
            UnsupportedVersion=UnsupportedVersion,
            compact_count=_count,
            compact_text_length=_text_length,
            pack=struct.pack,
            write_uvarint=wire.write_uvarint,
        )
        self.run: list[tuple[str, str]] = []

    def write(self, cls: type[Message]) -> Compiled:
        with self.source.block("def codec(m, add):"):
            self.struct(cls, "m", "add")
            self.source.line("return")
        return self.source.compile(f"encode {self.title}")

    # -- structs -------------------------------------------------------------------------------------

    def struct(self, cls: type[Struct], value: str, add: str) -> None:
        tagged: list[Field] = []
        for field in fields_of(cls):
            with self.source.field(field.name):
                if self.version not in field.versions:
                    self.refuse(field, value)
                elif field.tag is not None:
                    tagged.append(field)
                else:
                    self.field(field, f"{value}.{field.name}", add)
        self.flush(add)
        if self.flexible:
            self.tags(tagged, value, add)

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

    def tags(self, tagged: list[Field], value: str, add: str) -> None:
        line, block = self.source.line, self.source.block
        if not tagged:
            line(f'{add}(b"\\0")')
            return
        section, count = self.source.fresh("tags"), self.source.fresh("n")
        line(f"{section} = []")
        line(f"{count} = 0")
        for field in sorted(tagged, key=lambda each: each.tag or 0):
            with self.source.field(field.name):
                item, pieces, body = (self.source.fresh(prefix) for prefix in ("v", "o", "s"))
                line(f"{item} = {value}.{field.name}")
                with block(f"if {item} != {self.source.constant(field.default)}:"):
                    line(f"{pieces} = []")
                    inner = self.source.fresh("add")
                    line(f"{inner} = {pieces}.append")
                    self.field(field, item, inner)
                    self.flush(inner)
                    line(f'{body} = b"".join({pieces})')
                    line(f"{count} += 1")
                    head = self.source.constant(wire.write_uvarint(field.tag or 0))
                    line(f"{section} += ({head}, write_uvarint(len({body})), {body})")
        line(f"{add}(UVARINT[{count}])")
        with block(f"for s in {section}:"):
            line(f"{add}(s)")

    # -- values --------------------------------------------------------------------------------------

    def field(self, field: Field, value: str, add: str) -> None:
        nullable = self.version in field.nullable
        compact = self.flexible and field.compact
        if isinstance(field.type, Number):
            self.run.append((value, field.type.letter))
            return
        item = self.source.fresh("v")
        self.source.line(f"{item} = {value}")
        if nullable:
            self.flush(add)
            with self.source.block(f"if {item} is None:"):
                self.source.line(f"{add}({self.null_of(field, compact=compact)!r})")
            with self.source.block("else:"):
                if isinstance(field.type, StructOf):
                    self.source.line(f'{add}(b"\\1")')
                self.value(field.type, item, add, compact=compact)
                self.flush(add)
            return
        if field.default is None or field.nullable.highest >= 0:
            with self.source.block(f"if {item} is None:"):
                self.source.line(
                    f'raise UnsupportedVersion("{self.title} cannot say null for {field.wire_name}")'
                )
        self.value(field.type, item, add, compact=compact)

    def null_of(self, field: Field, *, compact: bool) -> bytes:
        """Null; that of a struct is -1 in a plain field and 0 in a tagged one."""
        if isinstance(field.type, StructOf):
            return b"\xff" if field.tag is None else b"\0"
        if compact:
            return b"\0"
        return b"\xff\xff" if isinstance(field.type, Text) else b"\xff\xff\xff\xff"

    def value(self, kind: WireType, value: str, add: str, *, compact: bool) -> None:
        match kind:
            case Number(letter=letter):
                self.run.append((value, letter))
            case UuidType():
                # `struct` would pad or cut in silence.
                with self.source.block(f"if len({value}) != 16:"):
                    self.source.line('raise InvalidMessage("a UUID has 16 bytes")')
                self.run.append((value, "16s"))
            case Text():
                self.source.line(f"s = {value}.encode()")
                self.counted("s", add, "h", "compact_text_length", compact=compact)
            case Blob():
                self.counted(value, add, "i", "compact_count", compact=compact)
            case StructOf(cls):
                self.struct(cls, value, add)
            case ArrayOf(element):
                self.array(element, value, add)

    def counted(self, value: str, add: str, letter: str, long: str, *, compact: bool) -> None:
        """A length and then the bytes; a plain length joins the numbers before it."""
        if compact:
            self.flush(add)
            self.length(value, add, long)
        else:
            self.run.append((f"len({value})", letter))
            self.flush(add)
        self.source.line(f"{add}({value})")

    def length(self, value: str, add: str, long: str) -> None:
        self.source.line(f"n = len({value})")
        self.source.line(f"{add}(UVARINT[n + 1] if n < {_READY} else {long}(n))")

    def flush(self, add: str) -> None:
        """Write all fixed-width numbers that stand in a row with one call."""
        if not self.run:
            return
        packer = struct.Struct(">" + "".join(letter for _, letter in self.run))
        name = self.source.fresh("S")
        self.source.names[name] = packer.pack
        self.source.line(f"{add}({name}({', '.join(value for value, _ in self.run)}))")
        self.run = []

    def array(self, element: WireType, value: str, add: str) -> None:
        if self.flexible:
            self.flush(add)
            self.length(value, add, "compact_count")
        else:
            self.run.append((f"len({value})", "i"))
            self.flush(add)
        if isinstance(element, Number):
            self.source.line(f'{add}(pack(f">{{len({value})}}{element.letter}", *{value}))')
            return
        item = self.source.fresh("e")
        with self.source.block(f"for {item} in {value}:"):
            self.value(element, item, add, compact=self.flexible)
            self.flush(add)
