"""Bytes to messages and back: the two functions that the rest of the package calls.

    data = encode(ListGroupsRequest(states_filter=("Stable",)), version=4)
    request = decode(ListGroupsRequest, data, version=4)

Compiled code (coterie.protocol.program) does the work where it exists. What it cannot do, and everything
where it does not exist, is done by functions in Python, which alone raise errors. Programs and functions
are made when they are first needed, and kept. Decoding returns a message or raises ProtocolError, for any
bytes; encoding returns bytes or raises UnsupportedVersion (the version cannot carry a value) or
InvalidMessage (a value does not fit).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from coterie.errors import InvalidMessage, ProtocolError, UnsupportedVersion
from coterie.protocol.decoder import compile_decoder
from coterie.protocol.encoder import compile_element_encoder, compile_encoder
from coterie.protocol.program import make_element_program, make_program
from coterie.protocol.schema import Data, Message, Request, Struct
from coterie.protocol.source import Compiled
from coterie.protocol.wire import Malformed

__all__ = [
    "MAX_REQUEST_ELEMENTS",
    "MAX_RESPONSE_ELEMENTS",
    "decode",
    "decode_in_python",
    "decode_prefix",
    "encode",
    "encode_element",
    "encode_in_python",
    "encode_with_elements",
]

#: Array elements in one request or consumer blob, all arrays together. Kafka bounds only the bytes,
#: which let two bytes on the wire become two objects in memory (CVE-2026-111108).
MAX_REQUEST_ELEMENTS: Final = 100_000
#: A response comes from a broker that the user chose, and 100,000 groups with members are real.
MAX_RESPONSE_ELEMENTS: Final = 10_000_000

M = TypeVar("M", bound=Message)

#: What the functions raise for bytes that are not a message.
_BROKEN: Final = (IndexError, struct.error, Malformed)


def decode(
    cls: type[M], data: bytes, version: int, *, offset: int = 0, max_elements: int | None = None
) -> M:
    """The message at `offset`; bytes after it are ignored, as Kafka does."""
    return decode_prefix(cls, data, version, offset=offset, max_elements=max_elements)[0]


def decode_prefix(
    cls: type[M],
    data: bytes | memoryview,
    version: int,
    *,
    offset: int = 0,
    max_elements: int | None = None,
) -> tuple[M, int]:
    """The message at `offset`, and the offset after it; record batches in it are slices of the data."""
    read, budget = _decoder(cls, version)
    if max_elements is None:
        max_elements = budget
    found: tuple[M, int] | None = read(data, offset, max_elements)
    if found is None:
        found = decode_in_python(cls, data, version, offset=offset, max_elements=max_elements)
    return found


def decode_in_python(
    cls: type[M],
    data: bytes | memoryview,
    version: int,
    *,
    offset: int = 0,
    max_elements: int = MAX_REQUEST_ELEMENTS,
) -> tuple[M, int]:
    """As decode_prefix, without compiled code."""
    function = _decoding_function(cls, version)
    try:
        result: tuple[M, int] = function.call(data, offset, max_elements)
    except _BROKEN as error:
        failure = function.locate(error.__traceback__)
        at = failure.variables.get("p", offset)
        reason = str(error) if isinstance(error, Malformed) else f"the bytes end at {len(data)}"
        raise ProtocolError(
            reason, message=cls.__name__, version=version, field=failure.field, offset=at
        ) from None
    return result


def encode(message: Message, version: int, *, before: bytes = b"") -> bytes:
    """The bytes of a message in one version, after others that precede them."""
    encoded = _encoder(type(message), version, "")(message, before)
    if encoded is None:
        encoded = encode_in_python(message, version, before=before)
    return encoded


def encode_in_python(message: Message, version: int, *, before: bytes = b"") -> bytes:
    """As encode, without compiled code."""
    return _encode(_encoding_function(type(message), version, ""), message, version, before)


def encode_element(element: Struct, of: type[Message], version: int) -> bytes:
    """The bytes of one element of an array of a message: for a server that sends the same one often."""
    cls = type(element)
    encoded = _element_encoder(of, version, cls)(element, b"")
    if encoded is None:
        encoded = _encode(_element_encoding_function(of, version, cls), element, version)
    return encoded


def encode_with_elements(
    message: Message, version: int, field: str, elements: Sequence[bytes]
) -> bytes:
    """The bytes of a message with elements that were encoded before in one of its arrays."""
    filled = msgspec.structs.replace(message, **{field: tuple(elements)})
    encoded = _encoder(type(message), version, field)(filled, b"")
    if encoded is None:
        encoded = _encode(_encoding_function(type(message), version, field), filled, version)
    return encoded


def _encode(function: Compiled, value: Struct, version: int, before: bytes = b"") -> bytes:
    pieces = [before]
    try:
        function.call(value, pieces)
    except (struct.error, AttributeError, TypeError, UnicodeEncodeError) as error:
        field = function.locate(error.__traceback__).field
        raise InvalidMessage(f"{type(value).__name__} v{version}.{field}: {error}") from None
    return b"".join(pieces)


def _check_version(cls: type[Message], version: int) -> None:
    if version not in cls.__versions__:
        lowest, highest = cls.__versions__
        raise UnsupportedVersion(
            f"{cls.__name__} has versions {lowest} to {highest}, and {version} is not one of them"
        )


# -- programs of compiled code, and functions in Python; made once ---------------------------------------


def _no_program(*_arguments: object) -> None:
    """Stands for a program where there is none."""


@cache
def _decoder(
    cls: type[M], version: int
) -> tuple[Callable[[Any, int, int], tuple[M, int] | None], int]:
    """The decoder of compiled code, and how many elements it may make unless the caller says otherwise.

    It returns None for bytes that it leaves to the Python code.
    """
    _check_version(cls, version)
    by_client = issubclass(cls, (Request, Data))
    budget = MAX_REQUEST_ELEMENTS if by_client else MAX_RESPONSE_ELEMENTS
    program = make_program(cls, version)
    return (program.decode if program else _no_program), budget


@cache
def _encoder(
    cls: type[Message], version: int, ready: str
) -> Callable[[Message, bytes], bytes | None]:
    _check_version(cls, version)
    program = make_program(cls, version, ready=ready)
    return program.encode if program else _no_program


@cache
def _element_encoder(
    cls: type[Message], version: int, element: type[Struct]
) -> Callable[[Struct, bytes], bytes | None]:
    _check_version(cls, version)
    program = make_element_program(cls, version, element)
    return program.encode if program else _no_program


@cache
def _decoding_function(cls: type[Message], version: int) -> Compiled:
    return compile_decoder(cls, version)


@cache
def _encoding_function(cls: type[Message], version: int, ready: str) -> Compiled:
    return compile_encoder(cls, version, ready=ready)


@cache
def _element_encoding_function(cls: type[Message], version: int, element: type[Struct]) -> Compiled:
    return compile_element_encoder(cls, version, element)
