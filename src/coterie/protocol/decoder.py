"""Writes, for one message and version, the straight-line function that turns bytes into objects.

Two functions come from the same writer. The quick one lets Python itself find the end of the bytes: a
slice that is cut short is noticed at the next read, and the whole body is looked at once as Latin-1,
so that ASCII text (nearly all text in Kafka) costs one slice and no decoding. The careful one checks
each length where it is read; it runs only when the quick one failed, to say which field was wrong, and
its verdict counts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import repeat
from typing import NamedTuple

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
from coterie.protocol.types import Number, Uuid

__all__ = [
    "compile_decoder",
    "compile_decoder_around_elements",
    "compile_element_reader",
    "holds_records",
    "smallest",
]


def compile_decoder(cls: type[Message], version: int, *, careful: bool) -> Compiled:
    """`codec(data, at, elements) -> (message, end)`; elements is the budget for all arrays together."""
    writer = _DecoderWriter(cls, version, careful=careful)
    return writer.write(cls)


def compile_decoder_around_elements(cls: type[Message], version: int) -> Compiled:
    """`codec(data, at, elements, read) -> (message, end)`, for a message with one array, of structs.

    The array's elements are not read by this code: `read(at, count) -> (elements, end)` gives them.
    """
    writer = _DecoderWriter(cls, version, careful=False, around=True)
    return writer.write(cls)


def compile_element_reader(cls: type[Message], version: int) -> Compiled:
    """`codec(data)`, a generator that reads elements of the array of such a message.

    It is sent where they begin and how many to read; it gives a list of them, and where they end.
    """
    (element,) = [
        field.type.element.cls
        for field in fields_of(cls)
        if isinstance(field.type, ArrayOf) and isinstance(field.type.element, StructOf)
    ]
    return _DecoderWriter(cls, version, careful=False).write_reader(cls, element)


def holds_records(kind: WireType | type[Struct]) -> bool:
    """Whether record batches are somewhere inside: such messages can be large and are mostly bytes."""
    match kind:
        case Blob(records):
            return records
        case ArrayOf(element):
            return holds_records(element)
        case StructOf(cls):
            return holds_records(cls)
        case type():
            return any(holds_records(field.type) for field in fields_of(kind))
    return False


def smallest(kind: WireType, version: int, *, flexible: bool) -> int:
    """The fewest bytes that a value can take; a count is checked against it before anything is made."""
    match kind:
        case Number(size=size):
            return size
        case UuidType():
            return 16
        case Text():
            return 1 if flexible else 2
        case StructOf(cls):
            size = 1 if flexible else 0
            for field in fields_of(cls):
                if version in field.versions and field.tag is None:
                    nullable = isinstance(field.type, StructOf) and version in field.nullable
                    size += 1 if nullable else smallest(field.type, version, flexible=flexible)
            return max(size, 1)
    return 1 if flexible else 4


#: Whether the first byte of a compact length is all of it and not null. To look it up costs half of two
#: comparisons, and most bytes that are looked at one by one are such lengths.
_SHORT = (False, *[True] * 127, *[False] * 128)
#: By how much a short value takes us on. Null takes us out of the bytes, a long one out of the table: both
#: end in an IndexError, which costs nothing as long as it does not come.
_STEP = (1 << 40, *range(1, 128))
#: So many strings and blobs make it worth while to read an element in brief before it is read in full.
_BRIEF = 4
#: To count to a small number costs less than to make an iterator that does.
_FEW = 64
_TURNS = tuple([(None,) * count for count in range(_FEW)])

#: Different runs of strings to remember while one message is read; states and types have far fewer.
_MEMORY = 64


class _Lead(NamedTuple):
    """Where things are once the first byte of a compact length was read; expressions of the code."""

    at: str
    start: str
    end: str
    taken: bool


class _DecoderWriter:
    """Local names in the code it writes: b bytes, t the same as text, p position, n length or count."""

    def __init__(
        self, cls: type[Message], version: int, *, careful: bool, around: bool = False
    ) -> None:
        self.version = version
        self.around = around
        self.flexible = version in cls.__flexible__
        self.careful = careful
        self.as_text = not holds_records(cls)
        self.source = Source()
        self.source.names.update(
            Malformed=wire.Malformed,
            compact_length=wire.compact_length,
            compact_text=wire.compact_text,
            SHORT=_SHORT,
            STEP=_STEP,
            TURNS=_TURNS,
            repeat=repeat,
            skip_tags=wire.skip_tags,
            tag_header=wire.tag_header,
            text=wire.text,
            unpack_from=struct.unpack_from,
            uvarint=wire.uvarint,
            Uuid=Uuid,
        )
        self.run: list[tuple[str, str]] = []
        self.memory: list[str] = []

    def write(self, cls: type[Message]) -> Compiled:
        arguments = "b, p, elements, read" if self.around else "b, p, elements"
        with self.source.block(f"def codec({arguments}):"):
            memory = self.begin()
            made = self.struct(cls)
            self.check_end()
            self.source.line(f"return {made}, p")
            self.source.insert(memory, self.memory)
        return self.source.compile(f"decode {cls.__name__} v{self.version}")

    def write_reader(self, cls: type[Message], element: type[Struct]) -> Compiled:
        line = self.source.line
        with self.source.block("def codec(b):"):
            memory = self.begin()
            line("p, count = yield None")
            with self.source.block("while True:"):
                line("found = []")
                self.loop("found", StructOf(element), "count")
                line("p, count = yield found, p")
            self.source.insert(memory, self.memory)
        return self.source.compile(f"read elements of {cls.__name__} v{self.version}")

    def begin(self) -> int:
        """The first lines of a function; returns the place for what it is to remember."""
        self.source.line("end = len(b)")
        if self.flexible:
            self.source.line("short = SHORT")
        if self.as_text and not self.careful and not self.around:
            self.source.line('t = str(b, "latin-1")')
        return self.source.mark()

    # -- structs -------------------------------------------------------------------------------------

    def struct(self, cls: type[Struct], *, into: str = "") -> str:
        """Code that reads the fields of a struct; returns the expression that builds it.

        As an element of an array it is put `into` that instead.
        """
        values: list[str] = []
        tagged: dict[int, Field] = {}
        # The careful decoder reads everything; only compact lengths can be hopped over unchecked.
        remembers = bool(into) and self.flexible and not self.careful
        familiar = familiar_run(cls, self.version) if remembers else ()
        known: dict[Field, str] = {}
        # Where nothing stands behind the run, the struct's empty tag section is remembered with it.
        last = bool(familiar) and self.present(cls)[-1] == familiar[-1]
        for field in fields_of(cls):
            if field in familiar and not known:
                known = self.remember(familiar, last=last)
            if self.version not in field.versions:
                values.append(self.source.constant(field.default))
            elif field.tag is not None:
                tagged[len(values)] = field
                values.append(self.source.constant(field.default))
            elif field in known:
                values.append(known[field])
            else:
                with self.source.field(field.name):
                    values.append(self.value(field))
        if not self.flexible:
            self.flush()
        elif not tagged:
            if not last:
                self.no_tags()
        else:
            return self.tags(cls, values, tagged, into)
        if into:
            self.source.line(f"{into}.append({self.build(cls, values)})")
        return self.build(cls, values)

    def brief(self, cls: type[Struct], into: str) -> None:
        """Of elements of strings and blobs only: code that reads one as if all of them were short.

        After the first that is not so, or that has tagged fields, all are read in full.
        """
        line, block = self.source.line, self.source.block
        fields = [field for field in self.present(cls) if field.tag is None]
        quick = self.flexible and self.as_text and not self.careful
        if not quick or len(fields) < _BRIEF or familiar_run(cls, self.version):
            return
        if not all(isinstance(field.type, Text | Blob) for field in fields):
            return
        names = {field: self.source.fresh("v") for field in fields}
        values = [
            names.get(field) or self.source.constant(field.default) for field in fields_of(cls)
        ]
        self.memory += ["step = STEP", "brief = True"]
        with block("if brief:"):
            line("start = p")
            with block("try:"):
                for field, name in names.items():
                    with self.source.field(field.name):
                        self.brief_value(field, name)
                with block("if not b[p]:"):
                    line(f"{into}.append({self.build(cls, values)})")
                    line("p += 1")
                    line("continue")
            with block("except IndexError:"):
                line("pass")
            line("p = start")
            line("brief = False")

    def brief_value(self, field: Field, name: str) -> None:
        line, block = self.source.line, self.source.block
        with ExitStack() as present:
            if self.version in field.nullable:
                with block("if not b[p]:"):
                    line(f"{name} = None")
                    line("p += 1")
                present.enter_context(block("else:"))
            if isinstance(field.type, Blob):
                line(f"{name} = b[p + 1 : (p := p + step[b[p]])]")
                return
            line(f"{name} = t[p + 1 : (p := p + step[b[p]])]")
            with block(f"if not {name}.isascii():"):
                line(f"{name} = text(b, p - len({name}), p)")

    def present(self, cls: type[Struct]) -> list[Field]:
        """The fields that this version has, tagged ones included."""
        return [field for field in fields_of(cls) if self.version in field.versions]

    def build(self, cls: type[Struct], values: list[str]) -> str:
        """A call of the class; arguments at the end that are defaults can be left out."""
        defaults = [self.source.constant(field.default) for field in fields_of(cls)]
        count = len(values)
        while count and values[count - 1] == defaults[count - 1]:
            count -= 1
        return f"{self.source.constant(cls)}({', '.join(values[:count])})"

    def remember(self, run: tuple[Field, ...], *, last: bool) -> dict[Field, str]:
        """Read a run of strings, or find that the same bytes were read before.

        Equal bytes decode to equal values, so the run is hopped over by its lengths and looked up as
        a whole; that costs half of reading it. The lengths need no checks for that: if they are odd,
        the bytes between are not among those that were read. If the run is the last of its struct, the
        byte behind it, which says how many tags there are, is part of what is looked up.
        """
        line, block = self.source.line, self.source.block
        self.flush()
        memo, known, start = (self.source.fresh(prefix) for prefix in ("memo", "known", "start"))
        self.memory.append(f"{memo} = {{}}")
        line("q = p + b[p]")
        for _ in run[1:]:
            line("q += b[q]")
        if last:
            line("q += 1")
        line(f"{known} = {memo}.get(b[p:q])")
        names: dict[Field, str] = {}
        with block(f"if {known} is None:"):
            line(f"{start} = p")
            for field in run:
                with self.source.field(field.name):
                    names[field] = self.value(field)
            if last:
                self.no_tags()
            values = ", ".join(names.values())
            with block(f"if len({memo}) < {_MEMORY}:"):
                line(f"{memo}[b[{start}:p]] = ({values})")
        with block("else:"):
            line(f"{values} = {known}")
            line("p = q")
        return names

    def tags(
        self, cls: type[Struct], values: list[str], tagged: dict[int, Field], into: str
    ) -> str:
        """The tag section of a struct that has tagged fields; returns the variable with the struct."""
        line, block = self.source.line, self.source.block
        made, count, tag, stop = (self.source.fresh(prefix) for prefix in ("v", "n", "tag", "stop"))
        give = f"{into}.append({{}})" if into else f"{made} = {{}}"
        lead = self.lead()
        with block("if not n:"):
            if not lead.taken:
                line("p += 1")
            line(give.format(self.build(cls, values)))
        with block("else:"):
            values = list(values)
            for index, field in tagged.items():
                values[index] = self.source.fresh("v")
                line(f"{values[index]} = {self.source.constant(field.default)}")
            line(f"{count}, p = uvarint(b, {lead.at})")
            with block(f"if {count} > {wire.MAX_TAGS}:"):
                line(f'raise Malformed(f"{{{count}}} tagged fields; the limit is {wire.MAX_TAGS}")')
            line(f"{tag} = -1")
            with block(f"for _ in repeat(None, {count}):"):
                line(f"{tag}, p, {stop} = tag_header(b, p, {tag})")
                for position, (index, field) in enumerate(tagged.items()):
                    with block(f"{'elif' if position else 'if'} {tag} == {field.tag}:"):
                        self.tagged_value(field, values[index], stop)
                with block("else:"):
                    line(f"p = {stop}")
            line(give.format(self.build(cls, values)))
        return made

    def tagged_value(self, field: Field, name: str, stop: str) -> None:
        with self.source.field(field.name):
            value = self.value(field)
            self.flush()
            self.source.line(f"{name} = {value}")
            with self.source.block(f"if p != {stop}:"):
                self.source.line('raise Malformed("a tagged field is not of the size it claims")')

    def no_tags(self) -> None:
        """A tag section of which nothing is known, nearly always empty: its count is zero."""
        line, block = self.source.line, self.source.block
        if self.run:
            self.run.append(("n", "B"))
            self.flush()
            with block("if n:"):
                line("p = skip_tags(b, p - 1)")
            return
        with block("if b[p]:"):
            line("p = skip_tags(b, p)")
        with block("else:"):
            line("p += 1")

    # -- values --------------------------------------------------------------------------------------

    def value(self, field: Field) -> str:
        """Code that reads one value; returns the variable that holds it."""
        name = self.source.fresh("v")
        nullable = self.version in field.nullable
        compact = self.flexible and field.compact
        match field.type:
            case Number(letter=letter):
                self.run.append((name, letter))
                if self.careful:
                    self.flush()
            case UuidType():
                self.uuid(name)
            case Text():
                self.string(name, nullable=nullable, compact=compact)
            case Blob():
                self.blob(name, nullable=nullable, compact=compact)
            case ArrayOf(element):
                self.array(name, element, nullable=nullable)
            case StructOf(cls):
                self.nested(name, cls, nullable=nullable, tagged=field.tag is not None)
        return name

    def flush(self) -> None:
        """Read all fixed-width numbers that stand in a row with one call."""
        if not self.run:
            return
        unpack = struct.Struct(">" + "".join(letter for _, letter in self.run))
        names = ", ".join(name for name, _ in self.run)
        reader = self.source.fresh("S")
        self.source.names[reader] = unpack.unpack_from
        self.source.line(f"{names}, = {reader}(b, p)")
        self.source.line(f"p += {unpack.size}")
        self.run = []

    def check_end(self) -> None:
        with self.source.block("if p > end:"):
            self.source.line('raise Malformed(f"needs {p} bytes but there are {end}")')

    def check_room(self, stop: str) -> None:
        """In the careful decoder: whether the value is all there, before p steps over it."""
        if self.careful:
            with self.source.block(f"if {stop} > end:"):
                self.source.line(
                    f'raise Malformed(f"runs to byte {{{stop}}} but there are {{end}}")'
                )

    def null(self, name: str, test: str, *, nullable: bool) -> None:
        """The branch for null: a value where it is allowed, else an error."""
        with self.source.block(f"if {test}:"):
            if nullable:
                self.source.line(f"{name} = None")
            else:
                self.source.line('raise Malformed("null where the field may not be null")')

    def uuid(self, name: str) -> None:
        self.flush()
        self.check_room("p + 16")
        self.source.line(f"{name} = Uuid(b[p : p + 16])")
        self.source.line("p += 16")

    def length(self, *, letter: str, compact: bool) -> str:
        """Code that reads a length or count; -1 (or below, when not compact) is null."""
        name = self.source.fresh("n")
        if not compact:
            self.run.append((name, letter))
            self.flush()
            return name
        self.flush()
        self.source.line(f"{name} = b[p] - 1")
        with self.source.block(f"if {name} < 127:"):
            self.source.line("p += 1")
        with self.source.block("else:"):
            self.source.line(f"{name}, p = compact_length(b, p)")
        return name

    def string(self, name: str, *, nullable: bool, compact: bool) -> None:
        if compact:
            self.compact_string(name, nullable=nullable)
            return
        length = self.length(letter="h", compact=False)
        self.null(name, f"{length} < 0", nullable=nullable)
        with self.source.block("else:"):
            self.slice_text(name, "p", f"p + {length}", f"p - {length}")

    def compact_string(self, name: str, *, nullable: bool) -> None:
        lead = self.lead()
        with self.compact_null(name, lead, nullable=nullable):
            with self.source.block(f"{'elif' if nullable else 'if'} short[n]:"):
                self.slice_text(name, lead.start, lead.end, "p - n + 1")
            with self.source.block("else:" if nullable else "elif n:"):
                self.source.line(f"{name}, p = compact_text(b, {lead.at})")

    def lead(self) -> _Lead:
        """Read the first byte of a compact length into n; together with numbers before it, if any."""
        if not self.run:
            self.source.line("n = b[p]")
            return _Lead(at="p", start="p + 1", end="p + n", taken=False)
        self.run.append(("n", "B"))
        self.flush()
        return _Lead(at="p - 1", start="p", end="p + n - 1", taken=True)

    @contextmanager
    def compact_null(self, name: str, lead: _Lead, *, nullable: bool) -> Iterator[None]:
        """The branch for a lead of null: the first where null is allowed, for it is common there."""
        if nullable:
            with self.source.block("if not n:"):
                self.source.line(f"{name} = None")
                if not lead.taken:
                    self.source.line("p += 1")
            yield
            return
        yield
        with self.source.block("else:"):
            self.source.line('raise Malformed("null where the field may not be null")')

    def slice_text(self, name: str, start: str, end: str, again: str) -> None:
        """Cut text out and step behind it; `again` says where it began, seen from there."""
        if not self.as_text or self.careful:
            self.source.line(f"{name} = text(b, {start}, {end})")
            self.source.line(f"p = {end}")
            return
        self.source.line(f"{name} = t[{start} : (p := {end})]")
        with self.source.block(f"if not {name}.isascii():"):
            self.source.line(f"{name} = text(b, {again}, p)")

    def blob(self, name: str, *, nullable: bool, compact: bool) -> None:
        if compact:
            self.compact_blob(name, nullable=nullable)
            return
        length = self.length(letter="i", compact=False)
        self.null(name, f"{length} < 0", nullable=nullable)
        with self.source.block("else:"):
            self.check_room(f"p + {length}")
            self.source.line(f"{name} = b[p : (p := p + {length})]")

    def compact_blob(self, name: str, *, nullable: bool) -> None:
        line, block = self.source.line, self.source.block
        lead = self.lead()
        with self.compact_null(name, lead, nullable=nullable):
            with block(f"{'elif' if nullable else 'if'} short[n]:"):
                self.check_room(lead.end)
                line(f"{name} = b[{lead.start} : (p := {lead.end})]")
            with block("else:" if nullable else "elif n:"):
                line(f"n, p = compact_length(b, {lead.at})")
                self.check_room("p + n")
                line(f"{name} = b[p : p + n]")
                line("p += n")

    def nested(self, name: str, cls: type[Struct], *, nullable: bool, tagged: bool) -> None:
        """A struct; one that may be null has a byte before it, and Kafka spells null in two ways."""
        if not nullable:
            self.flush()
            self.source.line(f"{name} = {self.struct(cls)}")
            return
        marker = self.source.fresh("n")
        self.run.append((marker, "b"))
        self.flush()
        self.null(name, f"{marker} < {1 if tagged else 0}", nullable=True)
        with self.source.block("else:"):
            self.source.line(f"{name} = {self.struct(cls)}")

    def array(self, name: str, element: WireType, *, nullable: bool) -> None:
        line, block = self.source.line, self.source.block
        count = self.length(letter="i", compact=self.flexible)
        self.null(name, f"{count} < 0", nullable=nullable)
        with block("else:"):
            # Before anything is made: the budget must allow it, and the bytes must be there. Without a check
            # for them, what is read one by one ends with the bytes, and nothing was made for the rest.
            least = smallest(element, self.version, flexible=self.flexible)
            line(f"elements -= {count}")
            missing = f" or {count} * {least} > end - p"
            if not self.careful and not isinstance(element, Number):
                missing = ""
            with block(f"if elements < 0{missing}:"):
                line(
                    f'raise Malformed(f"{{{count}}} elements do not fit in {{end - p}} bytes, '
                    f'or into the {{elements + {count}}} that are allowed")'
                )
            if isinstance(element, Number):
                line(f'{name} = unpack_from(f">{{{count}}}{element.letter}", b, p)')
                line(f"p += {count} * {element.size}")
                return
            if self.around:
                line(f"{name}, p = read(p, {count})")
                return
            line(f"{name} = []")
            self.loop(name, element, count)
            line(f"{name} = tuple({name})")

    def loop(self, name: str, element: WireType, count: str) -> None:
        turns = f"TURNS[{count}] if {count} < {_FEW} else repeat(None, {count})"
        with self.source.block(f"for _ in {turns}:"):
            if isinstance(element, StructOf):
                self.brief(element.cls, name)
                self.struct(element.cls, into=name)
                return
            item = self.source.fresh("v")
            match element:
                case Text():
                    self.string(item, nullable=False, compact=self.flexible)
                case Blob():
                    self.blob(item, nullable=False, compact=self.flexible)
                case UuidType():
                    self.uuid(item)
                case ArrayOf(inner):
                    self.array(item, inner, nullable=False)
            self.source.line(f"{name}.append({item})")
