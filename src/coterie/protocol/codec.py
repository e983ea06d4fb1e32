"""Bytes to messages and back: the two functions that the rest of the package calls.

    data = encode(ListGroupsRequest(states_filter=("Stable",)), version=4)
    request = decode(ListGroupsRequest, data, version=4)

A codec for a message and version is compiled when it is first asked for and kept. Decoding gives a
message or raises ProtocolError, for any bytes whatever; encoding gives bytes or raises UnsupportedVersion
(the version cannot say this) or InvalidMessage (a value does not fit).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Final, TypeVar

import msgspec

from coterie.errors import InvalidMessage, ProtocolError, UnsupportedVersion
from coterie.protocol.decoder import compile_decoder
from coterie.protocol.encoder import compile_element_encoder, compile_encoder
from coterie.protocol.schema import Data, Message, Request, Struct
from coterie.protocol.source import Compiled
from coterie.protocol.wire import Malformed

__all__ = [
    "BROKEN",
    "MAX_REQUEST_ELEMENTS",
    "MAX_RESPONSE_ELEMENTS",
    "decode",
    "decode_prefix",
    "encode",
    "encode_element",
    "encode_with_elements",
]

#: Array elements in one request or consumer blob, all arrays together. Kafka bounds only the bytes,
#: which let two bytes on the wire become two objects in memory (CVE-2026-111108).
MAX_REQUEST_ELEMENTS: Final = 100_000
#: A response comes from a broker that the user chose, and 100,000 groups with members are real.
MAX_RESPONSE_ELEMENTS: Final = 10_000_000

M = TypeVar("M", bound=Message)

#: What a compiled decoder raises for bytes that are no message.
BROKEN: Final = (IndexError, struct.error, Malformed)


def decode(
    cls: type[M], data: bytes, version: int, *, offset: int = 0, max_elements: int | None = None
) -> M:
    """The message that begins at `offset`; bytes behind it are left alone, as Kafka does."""
    return decode_prefix(cls, data, version, offset=offset, max_elements=max_elements)[0]


def decode_prefix(
    cls: type[M],
    data: bytes | memoryview,
    version: int,
    *,
    offset: int = 0,
    max_elements: int | None = None,
) -> tuple[M, int]:
    """The message that begins at `offset`, and the offset behind it; bytes in it are slices of the data."""
    compiled, budget = _decoder(cls, version)
    if max_elements is None:
        max_elements = budget
    try:
        result: tuple[M, int] = compiled.call(data, offset, max_elements)
    except BROKEN:
        return _decode_carefully(cls, data, version, offset, max_elements)
    return result


def _decode_carefully(
    cls: type[M], data: bytes | memoryview, version: int, offset: int, max_elements: int
) -> tuple[M, int]:
    compiled = _careful_decoder(cls, version)
    try:
        result: tuple[M, int] = compiled.call(data, offset, max_elements)
    except BROKEN as error:
        failure = compiled.locate(error.__traceback__)
        at = failure.variables.get("p", offset)
        reason = str(error) if isinstance(error, Malformed) else f"the bytes end at {len(data)}"
        raise ProtocolError(
            reason, message=cls.__name__, version=version, field=failure.field, offset=at
        ) from None
    return result


def encode(message: Message, version: int, *, before: bytes = b"") -> bytes:
    """The bytes of a message in one version, behind others that belong before them."""
    return _encode(_encoder(type(message), version, ""), message, version, before)


def encode_element(element: Struct, of: type[Message], version: int) -> bytes:
    """The bytes of one element of an array of a message: for a server that sends the same one often."""
    return _encode(_element_encoder(of, version, type(element)), element, version)


def encode_with_elements(
    message: Message, version: int, field: str, elements: Sequence[bytes]
) -> bytes:
    """The bytes of a message with elements that were encoded before in one of its arrays."""
    filled = msgspec.structs.replace(message, **{field: elements})
    return _encode(_encoder(type(message), version, field), filled, version)


def _encode(compiled: Compiled, value: Struct, version: int, before: bytes = b"") -> bytes:
    pieces = [before]
    try:
        compiled.call(value, pieces)
    except (struct.error, AttributeError, TypeError, UnicodeEncodeError) as error:
        field = compiled.locate(error.__traceback__).field
        raise InvalidMessage(f"{type(value).__name__} v{version}.{field}: {error}") from None
    return b"".join(pieces)


def _check_version(cls: type[Message], version: int) -> None:
    if version not in cls.__versions__:
        lowest, highest = cls.__versions__
        raise UnsupportedVersion(
            f"{cls.__name__} has versions {lowest} to {highest}, and {version} is not one of them"
        )


@cache
def _decoder(cls: type[Message], version: int) -> tuple[Compiled, int]:
    """The quick decoder, and how many elements it may make unless the caller says otherwise."""
    _check_version(cls, version)
    by_client = issubclass(cls, (Request, Data))
    budget = MAX_REQUEST_ELEMENTS if by_client else MAX_RESPONSE_ELEMENTS
    return compile_decoder(cls, version, careful=False), budget


@cache
def _careful_decoder(cls: type[Message], version: int) -> Compiled:
    return compile_decoder(cls, version, careful=True)


@cache
def _encoder(cls: type[Message], version: int, ready: str) -> Compiled:
    _check_version(cls, version)
    return compile_encoder(cls, version, ready=ready)


@cache
def _element_encoder(cls: type[Message], version: int, element: type[Struct]) -> Compiled:
    _check_version(cls, version)
    return compile_element_encoder(cls, version, element)
