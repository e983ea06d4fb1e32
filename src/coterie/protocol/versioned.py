"""Blobs that begin with their version: consumers' metadata, and the keys and values of group records.

A blob that cannot be decoded is a value, `Undecoded`, with the bytes and the reason, so readers of a log or
of member metadata continue. Foreign bytes are common in member metadata: Connect, and anything else that
joins a group, has a format of its own there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from coterie.errors import ProtocolError
from coterie.protocol.codec import decode_prefix, encode
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from coterie.protocol.schema import Message

__all__ = [
    "Undecoded",
    "decode_assignment",
    "decode_subscription",
    "decode_versioned",
    "encode_versioned",
    "leading_number",
]

M = TypeVar("M", bound=Message)

_NUMBER: Final[Callable[[bytes], tuple[int]]] = struct.Struct(">h").unpack_from


class Undecoded(msgspec.Struct, frozen=True):
    """Bytes that could not be read, and why."""

    raw: bytes
    reason: str


def leading_number(data: bytes) -> int | None:
    """The 16-bit number that such a blob begins with, or None if it is too short to have one."""
    return _NUMBER(data)[0] if len(data) >= 2 else None


def encode_versioned(message: Message, version: int) -> bytes:
    """The version, then the message."""
    return encode(message, version, before=version.to_bytes(2, "big"))


def decode_versioned(cls: type[M], data: bytes, *, newer: bool = False) -> M | Undecoded:
    """A message that follows its version.

    With `newer`, a version above those we know is read as the highest we know: for blobs whose authors
    promise that fields are only ever added at the end.
    """
    version = leading_number(data)
    if version is None:
        return Undecoded(data, f"{len(data)} bytes are too few for a version")
    lowest, highest = cls.__versions__
    if newer:
        version = min(version, highest)
    if not lowest <= version <= highest:
        return Undecoded(data, f"{cls.__name__} version {version} is not known")
    try:
        return decode_prefix(cls, data, version, offset=2)[0]
    except ProtocolError as error:
        return Undecoded(data, str(error))


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription | Undecoded:
    """The subscription of a classic consumer. As in Kafka, a newer version is read as the newest known."""
    return decode_versioned(ConsumerProtocolSubscription, data, newer=True)


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment | Undecoded:
    """The assignment of a classic consumer; a member without partitions may be given no bytes at all."""
    if not data:
        return ConsumerProtocolAssignment()
    return decode_versioned(ConsumerProtocolAssignment, data, newer=True)
