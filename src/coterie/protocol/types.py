"""The value types that message declarations are written in.

Kafka's integers are plain `int` to Python and mypy; the annotation says how wide they are on the wire.
Strings are `str`, byte fields `bytes`, arrays `tuple[X, ...]`, and `| None` marks what may be null.
"""

from __future__ import annotations

import base64
import binascii
import sys
from typing import Annotated, ClassVar, Final, NamedTuple

__all__ = [
    "RECORDS",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Number",
    "Records",
    "UInt16",
    "Uuid",
]


class Number(NamedTuple):
    """A fixed-width number: Kafka's name, its `struct` letter, its size and its range."""

    name: str
    letter: str
    size: int
    lowest: int
    highest: int


def _integer(name: str, letter: str, size: int, *, signed: bool = True) -> Number:
    bits = 8 * size
    return (
        Number(name, letter, size, -(1 << bits - 1), (1 << bits - 1) - 1)
        if signed
        else Number(name, letter, size, 0, (1 << bits) - 1)
    )


Int8 = Annotated[int, _integer("int8", "b", 1)]
Int16 = Annotated[int, _integer("int16", "h", 2)]
Int32 = Annotated[int, _integer("int32", "i", 4)]
Int64 = Annotated[int, _integer("int64", "q", 8)]
UInt16 = Annotated[int, _integer("uint16", "H", 2, signed=False)]
#: An IEEE double; only client quotas have one.
Float64 = Annotated[
    float, Number("float64", "d", 8, int(-sys.float_info.max), int(sys.float_info.max))
]

RECORDS: Final = "records"
#: Record batches inside a message: bytes here, taken apart by coterie.protocol.records.
Records = Annotated[bytes, RECORDS]


class Uuid(bytes):
    """Sixteen bytes that print as Kafka prints them: url-safe base64 without padding.

    A `bytes` and not a `uuid.UUID`, because a response may carry thousands and nobody does arithmetic
    on them: this costs a tenth, compares and hashes in C, and shows the text that Kafka's tools show.
    """

    __slots__ = ()

    ZERO: ClassVar[Uuid]

    @classmethod
    def parse(cls, text: str) -> Uuid:
        """From the 22 characters that Kafka prints."""
        try:
            raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != 16:
            raise ValueError(f"{text!r} is not a Kafka UUID (22 characters of url-safe base64)")
        return cls(raw)

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self).decode("ascii").rstrip("=")

    def __repr__(self) -> str:
        return f"Uuid.parse({str(self)!r})"


Uuid.ZERO = Uuid(16)
