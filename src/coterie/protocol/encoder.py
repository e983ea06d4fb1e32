"""Writes, for one message and version, the straight-line function that turns an object into bytes.

The function collects pieces in a list and joins them once. What the version has no field for is an
error unless the field is ignorable or at its default, exactly as in Kafka: a filter that an old broker
cannot see must not be dropped in silence.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

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
    familiar_run,
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

#: Size and length of a short tagged string, by its length: they are the same number.
_TWICE = tuple(bytes([length + 1]) * 2 for length in range(127))


class _Familiar(dict[str, bytes]):
    """Compact strings ready made, for strings of which there are few: states, types, protocols.

    It stops growing at a size that no such set has, so that odd data costs time and not memory.
    """

    def __missing__(self, text: str) -> bytes:
        raw = text.encode()
        made = _text_length(len(raw)) + raw
        if len(self) < 1_024 and len(raw) < 64:
            self[text] = made
        return made


class _FamiliarLists(dict[tuple[str, ...], bytes]):
    """The same for lists of strings in a tagged field, with tag and size: a member's protocols."""

    def __init__(self, tag: bytes) -> None:
        super().__init__()
        self._tag = tag

    def __missing__(self, texts: tuple[str, ...]) -> bytes:
        raws = [text.encode() for text in texts]
        body = b"".join([_count(len(raws)), *(_text_length(len(raw)) + raw for raw in raws)])
        made = self._tag + wire.write_uvarint(len(body)) + body
        if len(self) < 1_024 and len(body) < 256:
            self[texts] = made
        return made


#: Arrays of numbers that are shorter than this have their formats kept, as nearly all are.
_SHORT: Final = 256
#: Null in a tagged field: its size, and itself.
_NULL_AND_SIZE: Final = b"\1\0"


class _Packers(dict[int, Callable[..., bytes]]):
    """What packs so many numbers of one kind."""

    def __init__(self, letter: str) -> None:
        super().__init__()
        self._letter = letter

    def __missing__(self, count: int) -> Callable[..., bytes]:
        made = struct.Struct(f">{count}{self._letter}").pack
        if count < _SHORT:
            self[count] = made
        return made


class _Heads(dict[int, bytes]):
    """What stands before so many numbers in a tagged field: tag, size and count."""

    def __init__(self, tag: bytes, size: int) -> None:
        super().__init__()
        self._tag = tag
        self._size = size

    def __missing__(self, count: int) -> bytes:
        length = _count(count)
        made = self._tag + wire.write_uvarint(len(length) + count * self._size) + length
        if count < _SHORT:
            self[count] = made
        return made


#: By the letter of the numbers: the same for all messages.
_packers = cache(_Packers)


class _Target(NamedTuple):
    """Names in the code: the list that pieces go to, and its `append`."""

    out: str
    add: str


def _differs(item: str, default: object, source: Source) -> str:
    """The test whether a value is not the default; cheap for the common defaults."""
    if default is None:
        return f"{item} is not None"
    if default is False:
        return item
    return f"{item} != {source.constant(default)}"


class _EncoderWriter:
    """Local names in the code: m the message, out its pieces, add(piece), s encoded text, n a length."""

    def __init__(self, cls: type[Message], version: int, ready: str) -> None:
        self.version = version
        self.ready = ready
        self.title = f"{cls.__name__} v{version}"
        self.flexible = version in cls.__flexible__
        self.source = Source()
        self.source.names.update(
            FAMILIAR=_Familiar(),
            InvalidMessage=InvalidMessage,
            TWICE=_TWICE,
            UVARINT=wire.UVARINT,
            UnsupportedVersion=UnsupportedVersion,
            compact_count=_count,
            compact_text_length=_text_length,
            write_uvarint=wire.write_uvarint,
        )
        self.run: list[tuple[str, str]] = []

    def write(self, cls: type[Struct]) -> Compiled:
        with self.source.block("def codec(m, out):"):
            self.source.line("add = out.append")
            self.struct(cls, "m", _Target("out", "add"))
        return self.source.compile(f"encode {self.title}")

    # -- structs -------------------------------------------------------------------------------------

    def struct(self, cls: type[Struct], value: str, to: _Target, *, repeats: bool = False) -> None:
        tagged: list[Field] = []
        familiar = familiar_run(cls, self.version) if repeats and self.flexible else ()
        for field in fields_of(cls):
            with self.source.field(field.name):
                if self.version not in field.versions:
                    self.refuse(field, value)
                elif field.tag is not None:
                    tagged.append(field)
                elif field.name == self.ready:
                    self.ready = ""  # it is the outermost one that is meant
                    self.count(f"{value}.{field.name}", to)
                    self.source.line(f"{to.out} += {value}.{field.name}")
                elif field in familiar:
                    self.flush(to)
                    self.source.line(f"{to.add}(FAMILIAR[{value}.{field.name}])")
                else:
                    self.field(field, f"{value}.{field.name}", to)
        if not self.flexible:
            self.flush(to)
        elif tagged:
            self.flush(to)
            self.tags(tagged, value, to)
        elif self.run:
            # An empty tag section is a zero byte: it goes with the numbers before it.
            self.run.append(("0", "B"))
            self.flush(to)
        else:
            self.source.line(f'{to.add}(b"\\0")')

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
        if len(tagged) == 1:
            self.only_tag(tagged[0], value, to)
            return
        line(f'{to.add}(b"\\0")')
        mark, count = self.source.fresh("mark"), self.source.fresh("n")
        line(f"{mark} = len({to.out}) - 1")
        line(f"{count} = 0")
        for field in sorted(tagged, key=lambda each: each.tag or 0):
            with self.source.field(field.name):
                item = self.source.fresh("v")
                line(f"{item} = {value}.{field.name}")
                with block(f"if {_differs(item, field.default, self.source)}:"):
                    line(f"{count} += 1")
                    self.tagged_value(field, item, to)
        with block(f"if {count}:"):
            line(f"{to.out}[{mark}] = UVARINT[{count}]")

    def only_tag(self, field: Field, value: str, to: _Target) -> None:
        """The tag section of a struct that has no other: there is nothing to count."""
        line, block = self.source.line, self.source.block
        with self.source.field(field.name):
            item = self.source.fresh("v")
            line(f"{item} = {value}.{field.name}")
            with block(f"if {_differs(item, field.default, self.source)}:"):
                line(f'{to.add}(b"\\1")')
                self.tagged_value(field, item, to)
            with block("else:"):
                line(f'{to.add}(b"\\0")')

    def tagged_value(self, field: Field, item: str, to: _Target) -> None:
        """Tag, size and value; sizes that are known now are written down now."""
        line, block = self.source.line, self.source.block
        tag = wire.write_uvarint(field.tag or 0)
        nullable = self.version in field.nullable
        match field.type:
            case Number(name="bool"):
                # What is not the default can only be the other one.
                line(f"{to.add}({self.source.constant(tag + bytes([1, not field.default]))})")
            case Number(letter=letter, size=size):
                head = tag + bytes([size])
                packer = struct.Struct(f">{len(head)}s{letter}").pack
                line(
                    f"{to.add}({self.source.constant(packer)}({self.source.constant(head)}, {item}))"
                )
            case Text() | Blob() if field.default is None or not nullable:
                encode = ".encode()" if isinstance(field.type, Text) else ""
                line(f"s = {item}{encode}")
                line("n = len(s)")
                line(f"{to.add}({self.source.constant(tag)})")
                with block("if n < 127:"):
                    # The length is written as one more than it is, and so large is length and text.
                    line(f"{to.add}(TWICE[n])")
                with block("else:"):
                    line("h = compact_text_length(n)" if encode else "h = compact_count(n)")
                    line(f"{to.add}(write_uvarint(len(h) + n))")
                    line(f"{to.add}(h)")
                line(f"{to.add}(s)")
            case ArrayOf(Text()) if field.default is None or not nullable:
                known = self.source.fresh("K")
                self.source.names[known] = _FamiliarLists(tag)
                line(f"{to.add}({known}[{item}])")
            case ArrayOf(Number() as number):
                if nullable and field.default is not None:
                    with block(f"if {item} is None:"):
                        line(f"{to.add}({self.source.constant(tag + _NULL_AND_SIZE)})")
                    with block("else:"):
                        self.tagged_numbers(number, item, tag, to)
                else:
                    self.tagged_numbers(number, item, tag, to)
            case _:
                self.measured_value(field, item, tag, to)

    def tagged_numbers(self, number: Number, item: str, tag: bytes, to: _Target) -> None:
        """An array whose size follows from its length."""
        heads = self.source.constant(_Heads(tag, number.size))
        packers = self.source.constant(_packers(number.letter))
        self.source.line(f"n = len({item})")
        self.source.line(f"{to.add}({heads}[n])")
        self.source.line(f"{to.add}({packers}[n](*{item}))")

    def measured_value(self, field: Field, item: str, tag: bytes, to: _Target) -> None:
        """A value whose size is known only when it has been written."""
        line = self.source.line
        pieces, body = self.source.fresh("o"), self.source.fresh("s")
        inner = _Target(pieces, self.source.fresh("add"))
        line(f"{pieces} = []")
        line(f"{inner.add} = {pieces}.append")
        self.field(field, item, inner)
        self.flush(inner)
        line(f'{body} = b"".join({pieces})')
        line(f"n = len({body})")
        line(f"{to.add}({self.source.constant(tag)})")
        line(f"{to.add}(UVARINT[n] if n < {_READY} else write_uvarint(n))")
        line(f"{to.add}({body})")

    # -- values --------------------------------------------------------------------------------------

    def field(self, field: Field, value: str, to: _Target) -> None:
        nullable = self.version in field.nullable
        compact = self.flexible and field.compact
        if isinstance(field.type, Number):
            self.run.append((value, field.type.letter))
            return
        item = self.source.fresh("v")
        self.source.line(f"{item} = {value}")
        if nullable:
            self.flush(to)
            with self.source.block(f"if {item} is None:"):
                self.source.line(f"{to.add}({self.null_of(field, compact=compact)!r})")
            with self.source.block("else:"):
                if isinstance(field.type, StructOf):
                    self.source.line(f'{to.add}(b"\\1")')
                self.value(field.type, item, to, compact=compact)
                self.flush(to)
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
                self.counted("s", to, "h", "compact_text_length", compact=compact)
            case Blob():
                self.counted(value, to, "i", "compact_count", compact=compact)
            case StructOf(cls):
                self.struct(cls, value, to)
            case ArrayOf(element):
                self.array(element, value, to)

    def counted(self, value: str, to: _Target, letter: str, long: str, *, compact: bool) -> None:
        """A length and then the bytes; a plain length joins the numbers before it."""
        if compact:
            self.flush(to)
            self.length(value, to, long)
        else:
            self.run.append((f"len({value})", letter))
            self.flush(to)
        self.source.line(f"{to.add}({value})")

    def length(self, value: str, to: _Target, long: str) -> None:
        self.source.line(f"n = len({value})")
        self.source.line(f"{to.add}(UVARINT[n + 1] if n < {_READY} else {long}(n))")

    def flush(self, to: _Target) -> None:
        """Write all fixed-width numbers that stand in a row with one call."""
        if not self.run:
            return
        packer = struct.Struct(">" + "".join(letter for _, letter in self.run))
        name = self.source.fresh("S")
        self.source.names[name] = packer.pack
        self.source.line(f"{to.add}({name}({', '.join(value for value, _ in self.run)}))")
        self.run = []

    def count(self, value: str, to: _Target) -> None:
        """How many elements follow."""
        if self.flexible:
            self.flush(to)
            self.length(value, to, "compact_count")
        else:
            self.run.append((f"len({value})", "i"))
            self.flush(to)

    def array(self, element: WireType, value: str, to: _Target) -> None:
        self.count(value, to)
        if isinstance(element, Number):
            packers = self.source.constant(_packers(element.letter))
            self.source.line(f"{to.add}({packers}[len({value})](*{value}))")
            return
        item = self.source.fresh("e")
        with self.source.block(f"for {item} in {value}:"):
            if isinstance(element, StructOf):
                self.struct(element.cls, item, to, repeats=True)
            else:
                self.value(element, item, to, compact=self.flexible)
                self.flush(to)
