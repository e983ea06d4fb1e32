"""Writes, for one message and version, the straight-line function that turns bytes into objects.

Two functions come from the same writer. The quick one lets Python itself find the end of the bytes: a
slice that is cut short is noticed at the next read, and the whole body is looked at once as Latin-1,
so that ASCII text (nearly all text in Kafka) costs one slice and no decoding. The careful one checks
each length where it is read; it runs only when the quick one failed, to say which field was wrong, and
its verdict counts.
"""

from __future__ import annotations

import struct
from contextlib import ExitStack
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
    familiar_run,
    fields_of,
)
from coterie.protocol.source import Compiled
from coterie.protocol.types import Number
from coterie.protocol.value_decoder import Lead, ValueWriter

__all__ = [
    "compile_decoder",
    "compile_decoder_around_elements",
    "compile_element_reader",
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


#: So many strings and blobs make it worth while to read an element in brief before it is read in full.
_BRIEF = 4
#: To count to a small number costs less than to make an iterator that does.
_FEW = 64
_TURNS = tuple([(None,) * count for count in range(_FEW)])

#: Different runs of strings to remember while one message is read; states and types have far fewer.
_MEMORY = 64


class _DecoderWriter(ValueWriter):
    """Structs and arrays, made of values."""

    def __init__(
        self, cls: type[Message], version: int, *, careful: bool, around: bool = False
    ) -> None:
        super().__init__(cls, version, careful=careful)
        self.around = around
        self.source.names.update(
            TURNS=_TURNS,
            repeat=repeat,
            skip_tags=wire.skip_tags,
            tag_header=wire.tag_header,
            unpack_from=struct.unpack_from,
            uvarint=wire.uvarint,
        )
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
        made = self.build(cls, values)
        if into:
            self.source.line(f"{into}.append({made})")
        return made

    def brief(self, cls: type[Struct], into: str, turns: str) -> bool:
        """Of elements of strings and blobs only: code that reads them as if all of these were short.

        If one is not so, or has tagged fields, all are read in full, and all arrays behind them are. Returns
        whether there is such code.
        """
        line, block = self.source.line, self.source.block
        fields = [field for field in self.present(cls) if field.tag is None]
        quick = self.flexible and self.as_text and not self.careful
        if not quick or len(fields) < _BRIEF or familiar_run(cls, self.version):
            return False
        if not all(isinstance(field.type, Text | Blob) for field in fields):
            return False
        names = {field: self.source.fresh("v") for field in fields}
        values = [
            names.get(field) or self.source.constant(field.default) for field in fields_of(cls)
        ]
        self.memory += ["step = STEP", "brief = True"]
        with block("if brief:"):
            line("start = p")
            with block("try:"), block(f"for _ in {turns}:"):
                for field, name in names.items():
                    with self.source.field(field.name):
                        self.brief_value(field, name)
                with block("if b[p]:"):
                    line("raise IndexError")
                line("p += 1")
                line(f"{into}.append({self.build(cls, values)})")
            with block("except IndexError:"):
                line("p = start")
                line("brief = False")
                line(f"{into}.clear()")
        return True

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
        made = self.source.fresh("v")
        give = f"{into}.append({{}})" if into else f"{made} = {{}}"
        with ExitStack() as unusual:
            if into and self.run and not self.careful:
                self.usual_end(cls, values, give)
                unusual.enter_context(block("else:"))
            lead = self.lead()
            with block("if not n:"):
                if not lead.taken:
                    line("p += 1")
                line(give.format(self.build(cls, values)))
            with block("else:"):
                self.tag_section(values, tagged, lead)
                line(give.format(self.build(cls, values)))
        return made

    def usual_end(self, cls: type[Struct], values: list[str], give: str) -> None:
        """The branch for numbers at the end that have their defaults, and no tags: all known by one look."""
        numbers = [name for name, _ in self.run]
        defaults = {name: field.default for name, field in zip(values, fields_of(cls), strict=True)}
        letters = "".join(letter for _, letter in self.run)
        end = struct.pack(f">{letters}x", *(defaults[name] for name in numbers))
        with self.source.block(f"if b[p : p + {len(end)}] == {self.source.constant(end)}:"):
            self.source.line(f"p += {len(end)}")
            usual = [
                self.source.constant(defaults[name]) if name in numbers else name for name in values
            ]
            self.source.line(give.format(self.build(cls, usual)))

    def tag_section(self, values: list[str], tagged: dict[int, Field], lead: Lead) -> None:
        """Tags that are there; the values of those that are known change places with their defaults."""
        line, block = self.source.line, self.source.block
        count, tag, stop = (self.source.fresh(prefix) for prefix in ("n", "tag", "stop"))
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
        with ExitStack() as inside:
            if isinstance(element, StructOf) and self.brief(element.cls, name, turns):
                inside.enter_context(self.source.block("if not brief:"))
            inside.enter_context(self.source.block(f"for _ in {turns}:"))
            if isinstance(element, StructOf):
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
