"""The records of `__consumer_offsets`: what a coordinator remembers of its groups.

A key begins with the record's type, a value with its version; a null value is a tombstone. Types or
versions that are not known, and bytes that make no sense, become `Undecoded` values.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import import_module
from typing import Final, NamedTuple

from coterie.errors import ProtocolError
from coterie.protocol.codec import decode_prefix, encode
from coterie.protocol.schema import Message, RecordKey, RecordValue
from coterie.protocol.versioned import (
    Undecoded,
    decode_versioned,
    encode_versioned,
    leading_number,
)

__all__ = [
    "GroupRecord",
    "RecordType",
    "decode_key",
    "decode_record",
    "decode_value",
    "encode_key",
    "encode_value",
    "record_types",
]

_MODULES: Final = ("classic", "consumer", "share", "streams")


class RecordType(NamedTuple):
    """A type of record: its number, Kafka's name for it, and the classes of its key and value."""

    number: int
    name: str
    key: type[RecordKey]
    value: type[RecordValue]


class GroupRecord(NamedTuple):
    """A key and a value; the value is None for a tombstone."""

    key: RecordKey | Undecoded
    value: RecordValue | Undecoded | None


@cache
def record_types() -> dict[int, RecordType]:
    """Every type that Apache Kafka 4.3 writes, by number."""
    keys: dict[int, type[RecordKey]] = {}
    values: dict[int, type[RecordValue]] = {}
    for name in _MODULES:
        module = import_module(f"{__name__}.{name}")
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, Message) and each.__key__ >= 0:
                if issubclass(each, RecordKey):
                    keys[each.__key__] = each
                elif issubclass(each, RecordValue):
                    values[each.__key__] = each
    return {
        number: RecordType(number, key.__name__.removesuffix("Key"), key, values[number])
        for number, key in sorted(keys.items())
    }


def decode_record(key: bytes | None, value: bytes | None) -> GroupRecord:
    """A record of the log, whatever is in it."""
    decoded = decode_key(key)
    if isinstance(decoded, Undecoded):
        reason = "the key could not be read"
        return GroupRecord(decoded, None if value is None else Undecoded(value, reason))
    return GroupRecord(decoded, decode_value(decoded, value))


def decode_key(data: bytes | None) -> RecordKey | Undecoded:
    """The key of a record."""
    number = None if data is None else leading_number(data)
    if data is None or number is None:
        return Undecoded(data or b"", "the record has no key")
    known = record_types().get(number)
    if known is None:
        return Undecoded(data, f"record type {number} is not known")
    try:
        return decode_prefix(known.key, data, 0, offset=2)[0]
    except ProtocolError as error:
        return Undecoded(data, str(error))


def decode_value(key: RecordKey, data: bytes | None) -> RecordValue | Undecoded | None:
    """The value that belongs to a key; None is a tombstone."""
    if data is None:
        return None
    return decode_versioned(_value_class(type(key)), data)


@cache
def _value_class(key: type[RecordKey]) -> type[RecordValue]:
    return record_types()[key.__key__].value


@lru_cache(maxsize=16_384)
def encode_key(key: RecordKey) -> bytes:
    """The record's type, then the key. Kept, since a partition's offset is committed again and again."""
    return type(key).__key__.to_bytes(2, "big") + encode(key, 0)


def encode_value(value: RecordValue, version: int) -> bytes:
    """The value's version, then the value."""
    return encode_versioned(value, version)
