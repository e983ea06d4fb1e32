"""Writes the Python function that decodes one message in one version, and names the field that is wrong.

Each length is checked where it is read. The function runs where there is no compiled code, and on bytes
that coterie._native reports as irregular: it alone raises the errors.
"""

from __future__ import annotations

import struct
from itertools import repeat

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
    smallest,
)
from coterie.protocol.source import Compiled, Source
from coterie.protocol.types import Number, Uuid

__all__ = ["compile_decoder"]


def compile_decoder(cls: type[Message], version: int) -> Compiled:
    """`codec(data, at, elements) -> (message, end)`; elements is the budget for all arrays together."""
    writer = _DecoderWriter(cls, version)
    source = writer.source
    with source.block("def codec(b, p, elements):"):
        source.line("end = len(b)")
        source.line(f"return {writer.struct(cls)}, p")
    return source.compile(f"decode {cls.__name__} v{version}")


class _DecoderWriter:
    """Local names in the code: b bytes, p position, n a length or its first byte."""

    def __init__(self, cls: type[Message], version: int) -> None:
        self.version = version
        self.flexible = version in cls.__flexible__
        self.source = Source()
        self.source.names.update(
            Malformed=wire.Malformed,
            Uuid=Uuid,
            compact_length=wire.compact_length,
            compact_text=wire.compact_text,
            repeat=repeat,
            skip_tags=wire.skip_tags,
            tag_header=wire.tag_header,
            text=wire.text,
            unpack_from=struct.unpack_from,
            uvarint=wire.uvarint,
        )

    # -- structs -------------------------------------------------------------------------------------

    def struct(self, cls: type[Struct]) -> str:
        """Code that reads the fields of a struct; returns the expression that builds it."""
        values: list[str] = []
        tagged: dict[int, Field] = {}
        for field in fields_of(cls):
            if self.version in field.versions and field.tag is None:
                with self.source.field(field.name):
                    values.append(self.value(field))
                continue
            if self.version in field.versions and self.flexible:
                tagged[len(values)] = field
            values.append(self.source.constant(field.default))
        if tagged:
            self.tags(values, tagged)
        elif self.flexible:
            self.source.line("p = p + 1 if not b[p] else skip_tags(b, p)")
        return f"{self.source.constant(cls)}({', '.join(values)})"

    def tags(self, values: list[str], tagged: dict[int, Field]) -> None:
        """The tag section: values of known fields replace their defaults in `values`."""
        line, block = self.source.line, self.source.block
        count, tag, stop = (self.source.fresh(prefix) for prefix in ("n", "tag", "stop"))
        for index, field in tagged.items():
            values[index] = self.source.fresh("v")
            line(f"{values[index]} = {self.source.constant(field.default)}")
        line(f"{count}, p = uvarint(b, p)")
        with block(f"if {count} > {wire.MAX_TAGS}:"):
            line(f'raise Malformed(f"{{{count}}} tagged fields; the limit is {wire.MAX_TAGS}")')
        line(f"{tag} = -1")
        with block(f"for _ in repeat(None, {count}):"):
            line(f"{tag}, p, {stop} = tag_header(b, p, {tag})")
            for position, (index, field) in enumerate(tagged.items()):
                with (
                    block(f"{'elif' if position else 'if'} {tag} == {field.tag}:"),
                    self.source.field(field.name),
                ):
                    line(f"{values[index]} = {self.value(field)}")
                    with block(f"if p != {stop}:"):
                        line('raise Malformed("a tagged field is not of the size it claims")')
            with block("else:"):
                line(f"p = {stop}")

    # -- values --------------------------------------------------------------------------------------

    def value(self, field: Field) -> str:
        """Code that reads the value of a field; returns the variable that has it."""
        return self.item(
            field.type,
            nullable=self.version in field.nullable,
            compact=self.flexible and field.compact,
            tagged=field.tag is not None,
        )

    def item(self, kind: WireType, *, nullable: bool, compact: bool, tagged: bool = False) -> str:
        name = self.source.fresh("v")
        match kind:
            case Number():
                self.number(name, kind)
            case UuidType():
                self.check_room("p + 16")
                self.source.line(f"{name} = Uuid(b[p : p + 16])")
                self.source.line("p += 16")
            case Text():
                self.string(name, nullable=nullable, compact=compact)
            case Blob(records):
                self.blob(name, nullable=nullable, compact=compact, records=records)
            case ArrayOf(element):
                self.array(name, element, nullable=nullable)
            case StructOf(cls):
                self.nested(name, cls, nullable=nullable, tagged=tagged)
        return name

    def number(self, name: str, kind: Number) -> None:
        unpack = self.source.constant(_UNPACKERS[kind.letter])
        self.source.line(f"({name},) = {unpack}(b, p)")
        self.source.line(f"p += {kind.size}")

    def check_room(self, stop: str) -> None:
        """Raise before p steps over a value that is cut short."""
        with self.source.block(f"if {stop} > end:"):
            self.source.line(f'raise Malformed(f"runs to byte {{{stop}}} but there are {{end}}")')

    def null(self, name: str, test: str, *, nullable: bool) -> None:
        """The branch for null: a value where it is allowed, else an error."""
        with self.source.block(f"if {test}:"):
            if nullable:
                self.source.line(f"{name} = None")
            else:
                self.source.line('raise Malformed("null where the field may not be null")')

    def length(self, *, letter: str, compact: bool) -> str:
        """Code that reads a length or count; -1 (or below, when not compact) is null."""
        name = self.source.fresh("n")
        if compact:
            self.source.line(f"{name}, p = compact_length(b, p)")
        else:
            self.number(name, Number("", letter, struct.calcsize(f">{letter}"), 0, 0))
        return name

    def string(self, name: str, *, nullable: bool, compact: bool) -> None:
        line, block = self.source.line, self.source.block
        if not compact:
            length = self.length(letter="h", compact=False)
            self.null(name, f"{length} < 0", nullable=nullable)
            with block("else:"):
                line(f"{name} = text(b, p, p + {length})")
                line(f"p += {length}")
            return
        line("n = b[p]")
        with block("if 0 < n < 128:"):
            line(f"{name} = text(b, p + 1, p + n)")
            line("p += n")
        with block("elif n:"):
            line(f"{name}, p = compact_text(b, p)")
        with block("else:"):
            if nullable:
                line(f"{name} = None")
                line("p += 1")
            else:
                line('raise Malformed("null where the field may not be null")')

    def blob(self, name: str, *, nullable: bool, compact: bool, records: bool) -> None:
        length = self.length(letter="i", compact=compact)
        self.null(name, f"{length} < 0", nullable=nullable)
        with self.source.block("else:"):
            self.check_room(f"p + {length}")
            part = f"b[p : p + {length}]"
            # Record batches are large: of a view they stay views.
            self.source.line(f"{name} = {part if records else f'bytes({part})'}")
            self.source.line(f"p += {length}")

    def nested(self, name: str, cls: type[Struct], *, nullable: bool, tagged: bool) -> None:
        """A struct; one that may be null has a byte before it, and Kafka has two encodings of null."""
        if not nullable:
            self.source.line(f"{name} = {self.struct(cls)}")
            return
        marker = self.length(letter="b", compact=False)
        self.null(name, f"{marker} < {1 if tagged else 0}", nullable=True)
        with self.source.block("else:"):
            self.source.line(f"{name} = {self.struct(cls)}")

    def array(self, name: str, element: WireType, *, nullable: bool) -> None:
        line, block = self.source.line, self.source.block
        count = self.length(letter="i", compact=self.flexible)
        self.null(name, f"{count} < 0", nullable=nullable)
        with block("else:"):
            # Before anything is allocated: the budget must allow it, and the bytes must be there.
            least = smallest(element, self.version, flexible=self.flexible)
            line(f"elements -= {count}")
            with block(f"if elements < 0 or {count} * {least} > end - p:"):
                line(
                    f'raise Malformed(f"{{{count}}} elements do not fit in {{end - p}} bytes, '
                    f'or into the {{elements + {count}}} that are allowed")'
                )
            if isinstance(element, Number):
                line(f'{name} = unpack_from(f">{{{count}}}{element.letter}", b, p)')
                line(f"p += {count} * {element.size}")
                return
            line(f"{name} = []")
            with block(f"for _ in repeat(None, {count}):"):
                item = self.item(element, nullable=False, compact=self.flexible)
                line(f"{name}.append({item})")
            line(f"{name} = tuple({name})")


#: Shared by all functions: what unpacks one number.
_UNPACKERS = {letter: struct.Struct(f">{letter}").unpack_from for letter in "?bhHiqd"}
