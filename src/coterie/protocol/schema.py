"""How a message is declared: one class, each field with its versions, default, tag and a line of prose.

    class ListedGroup(Struct):
        group_id: str = field("0+", "The group's id.", default="")
        group_state: str = field("4+", "Its state, in Kafka's spelling.", default="", ignorable=True)

    class ListGroupsResponse(Response, key=16, versions="0-5", flexible="3+"):
        error_code: Int16 = field("0+", "0, or why there is no list.", default=0)
        groups: tuple[ListedGroup, ...] = field("0+", "The groups.", default=())

The classes are msgspec Structs: immutable, compared by value, built at C speed. Nothing here reads or
writes bytes: coterie.protocol makes programs and functions of these declarations. Type hints are read
when a codec is first asked for, so that declaring a few hundred messages stays cheap.
"""

from __future__ import annotations

import re
import types
import typing
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple, Self, dataclass_transform

import msgspec

from coterie.protocol.types import RECORDS, Number, Uuid

__all__ = [
    "ArrayOf",
    "Blob",
    "Data",
    "Field",
    "Header",
    "Kind",
    "Message",
    "RecordKey",
    "RecordValue",
    "Request",
    "Response",
    "Struct",
    "StructOf",
    "Text",
    "UuidType",
    "Versions",
    "WireType",
    "field",
    "fields_of",
    "smallest",
]


#: Stands for "and all later ones".
MAX_VERSION: Final = 32767


class Versions(NamedTuple):
    """A range of versions as Kafka writes it: `2+`, `0-3`, `4` or `none`."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        if text == "none":
            return cls(0, -1)
        match = re.fullmatch(r"(\d+)(\+|-(\d+))?", text)
        if match is None:
            raise ValueError(f"{text!r} is not a range of versions")
        lowest = int(match[1])
        if match[2] is None:
            return cls(lowest, lowest)
        return cls(lowest, MAX_VERSION if match[2] == "+" else int(match[3]))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest

    def each(self) -> range:
        return range(self.lowest, self.highest + 1)

    def __str__(self) -> str:
        if self.highest == MAX_VERSION:
            return f"{self.lowest}+"
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


class Text(NamedTuple):
    """A UTF-8 string."""


class Blob(NamedTuple):
    """Bytes that this layer does not look into; `records` marks a field of record batches."""

    records: bool = False


class UuidType(NamedTuple):
    """Sixteen bytes."""


class ArrayOf(NamedTuple):
    """A counted list of one type."""

    element: WireType


class StructOf(NamedTuple):
    """A nested struct."""

    cls: type[Struct]


WireType = Number | Text | Blob | UuidType | ArrayOf | StructOf
BOOLEAN: Final = Number("bool", "?", 1, 0, 1)


class _Declaration(NamedTuple):
    """The arguments of `field(...)`; completed with the type hint into a Field when it is first needed."""

    versions: str
    doc: str
    default: object
    nullable: str
    tag: int | None
    ignorable: bool
    compact: bool


class Field(NamedTuple):
    """One field of a struct, ready to be compiled."""

    name: str
    type: WireType
    versions: Versions
    nullable: Versions
    default: Any
    tag: int | None
    #: A version without the field drops a value instead of refusing to encode it.
    ignorable: bool
    #: False only for the client id in the request header, which stays a plain string (KIP-511).
    compact: bool
    doc: str

    @property
    def wire_name(self) -> str:
        """The name in Kafka's JSON."""
        head, *tail = self.name.split("_")
        return head + "".join(word.capitalize() for word in tail)


def field(
    versions: str,
    doc: str,
    *,
    default: Any,
    nullable: str = "none",
    tag: int | None = None,
    ignorable: bool = False,
    compact: bool = True,
) -> Any:
    """Declare a field. `Any`, so that it can stand as the default of a field of any type."""
    return _Declaration(versions, doc, default, nullable, tag, ignorable, compact)


@dataclass_transform(field_specifiers=(field,), frozen_default=True)
class _StructMeta(msgspec.StructMeta):
    """Takes the declarations out of the class body and leaves the defaults to msgspec."""

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        key: int = -1,
        versions: str = "none",
        flexible: str = "none",
    ) -> Any:
        declared = {k: v for k, v in namespace.items() if isinstance(v, _Declaration)}
        namespace.update({k: v.default for k, v in declared.items()})
        # Frozen objects of strings, numbers and tuples cannot form cycles, so the collector need not
        # follow them: a response of 10,000 groups would otherwise wake it a dozen times.
        cls: Any = super().__new__(
            mcls, name, bases, namespace, frozen=True, gc=False, repr_omit_defaults=True
        )
        cls.__declared__ = declared
        cls.__key__ = key
        cls.__versions__ = Versions.parse(versions)
        cls.__flexible__ = Versions.parse(flexible)
        return cls

    def __init__(self, *args: object, **options: object) -> None:
        """Everything was done in __new__; this only keeps the options away from `type`."""


Kind = typing.Literal["request", "response", "header", "data", "record-key", "record-value"]


class Struct(msgspec.Struct, metaclass=_StructMeta):
    """Base of everything that is declared; itself the base of structs nested in messages."""

    __declared__: ClassVar[dict[str, _Declaration]]


class Message(Struct):
    """Base of the outermost structs: they alone know their versions."""

    __key__: ClassVar[int]
    __versions__: ClassVar[Versions]
    __flexible__: ClassVar[Versions]
    __kind__: ClassVar[Kind]


class Request(Message):
    """What a client asks."""

    __kind__ = "request"


class Response(Message):
    """What a broker answers."""

    __kind__ = "response"

    def for_version(self, _version: int, /) -> Self:
        """The response to send in a version, where that differs from the values of its fields."""
        return self


class Header(Message):
    """What stands before a request or a response."""

    __kind__ = "header"


class Data(Message):
    """A blob that clients exchange through the broker; begins with its own version."""

    __kind__ = "data"


class RecordKey(Message):
    """The key of a record in `__consumer_offsets`; begins with the record's type."""

    __kind__ = "record-key"


class RecordValue(Message):
    """The value of a record in `__consumer_offsets`; begins with its own version."""

    __kind__ = "record-value"


@cache
def fields_of(cls: type[Struct]) -> tuple[Field, ...]:
    """The fields of a struct, in the order of the wire."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple(
        Field(
            name,
            _wire_type(hints[name]),
            Versions.parse(declared.versions),
            Versions.parse(declared.nullable),
            declared.default,
            declared.tag,
            declared.ignorable,
            declared.compact,
            declared.doc,
        )
        for name, declared in cls.__declared__.items()
    )


_PLAIN: Final[dict[Any, WireType]] = {
    bool: BOOLEAN,
    str: Text(),
    bytes: Blob(),
    Uuid: UuidType(),
}


def _wire_type(hint: Any) -> WireType:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        (hint,) = (arm for arm in typing.get_args(hint) if arm is not type(None))
        return _wire_type(hint)
    if origin is typing.Annotated:
        mark = hint.__metadata__[0]
        return Blob(records=True) if mark == RECORDS else typing.cast("Number", mark)
    if origin is tuple:
        return ArrayOf(_wire_type(typing.get_args(hint)[0]))
    plain = _PLAIN.get(hint)
    if plain is not None:
        return plain
    if isinstance(hint, type) and issubclass(hint, Struct):
        return StructOf(hint)
    raise TypeError(f"{hint!r} has no place on the wire")


def smallest(kind: WireType, version: int, *, flexible: bool) -> int:
    """The fewest bytes that a value can take; a count is checked against it before anything is allocated."""
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
