"""Code that reads one value: numbers, strings, blobs. coterie.protocol.decoder makes structs of them.

Local names in the code: b bytes, t the same as text, p position, n a length or its first byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from coterie.protocol import wire
from coterie.protocol.schema import (
    ArrayOf,
    Blob,
    Field,
    Message,
    Struct,
    StructOf,
    WireType,
    fields_of,
)
from coterie.protocol.source import Source
from coterie.protocol.types import Uuid

__all__ = ["Lead", "ValueWriter", "holds_records"]

#: Whether the first byte of a compact length is all of it and not null. To look it up costs half of two
#: comparisons, and most bytes that are looked at one by one are such lengths.
_SHORT = (False, *[True] * 127, *[False] * 128)
#: By how much a short value takes us on. Null takes us out of the bytes, a long one out of the table: both
#: end in an IndexError, which costs nothing as long as it does not come.
_STEP = (1 << 40, *range(1, 128))


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


class Lead(NamedTuple):
    """Where things are once the first byte of a compact length was read; expressions of the code."""

    at: str
    start: str
    end: str
    taken: bool


class ValueWriter:
    """Writes values on a page of source, for a quick decoder or for a careful one."""

    def __init__(self, cls: type[Message], version: int, *, careful: bool) -> None:
        self.version = version
        self.flexible = version in cls.__flexible__
        self.careful = careful
        self.as_text = not holds_records(cls)
        self.source = Source()
        self.source.names.update(
            Malformed=wire.Malformed,
            SHORT=_SHORT,
            STEP=_STEP,
            Uuid=Uuid,
            compact_length=wire.compact_length,
            compact_text=wire.compact_text,
            text=wire.text,
        )
        #: Fixed-width numbers that stand in a row and were not read yet: their names and letters.
        self.run: list[tuple[str, str]] = []

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

    def lead(self) -> Lead:
        """Read the first byte of a compact length into n; together with numbers before it, if any."""
        if not self.run:
            self.source.line("n = b[p]")
            return Lead(at="p", start="p + 1", end="p + n", taken=False)
        self.run.append(("n", "B"))
        self.flush()
        return Lead(at="p - 1", start="p", end="p + n - 1", taken=True)

    @contextmanager
    def compact_null(self, name: str, lead: Lead, *, nullable: bool) -> Iterator[None]:
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
