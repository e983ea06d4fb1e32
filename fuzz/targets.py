"""What is fuzzed: each function here takes any bytes and may fail only by finding a mistake of ours.

The first two bytes of an input choose a target, the rest is for the target. ProtocolError is the one
exception that hostile bytes may cause, so that it is the only one caught; and what could be read must
mean the same after it was written and read again.

Called by fuzz.engine, which feeds the inputs, and by fuzz.seeds, which makes the first ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

import msgspec

from coterie import compiled
from coterie.errors import ProtocolError
from coterie.protocol.api import ApiKey
from coterie.protocol.catalog import all_messages
from coterie.protocol.codec import (
    MAX_REQUEST_ELEMENTS,
    decode_in_python,
    decode_prefix,
    encode_in_python,
)
from coterie.protocol.frames import (
    FrameBuffer,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from coterie.protocol.group_records import (
    decode_key,
    decode_record,
    decode_value,
    encode_key,
    encode_value,
)
from coterie.protocol.metadata_records import decode_metadata_record, encode_metadata_record
from coterie.protocol.program import make_program
from coterie.protocol.records import RecordBatch, decode_batches, decode_control_record
from coterie.protocol.records.columns import read_columns
from coterie.protocol.schema import Message
from coterie.protocol.versioned import (
    Undecoded,
    decode_assignment,
    decode_subscription,
    encode_versioned,
    leading_number,
)

__all__ = ["TARGETS", "Disagreement", "message_target", "run", "seed"]

_MAX_FRAME: Final = 1 << 16
#: What one batch may unpack to, and all batches of an input: enough for any input of a few kilobytes.
_UNPACKED: Final = 1 << 20
_ALL_UNPACKED: Final = 1 << 28

Row = tuple[int, int, bytes | None, bytes | None]


class Disagreement(Exception):
    """Two ways to the same thing gave two things."""


def agree(one: object, other: object) -> None:
    """Both are equal; a NaN, which equals nothing, is compared by what is printed of it."""
    if one != other and repr(one) != repr(other):
        raise Disagreement(f"{one!r} is not {other!r}")


def run(data: bytes) -> None:
    """One input."""
    choice = int.from_bytes(data[:2], "big")
    _CHOICES[choice % len(_CHOICES)](data[2:])


def seed(target: str, data: bytes) -> bytes:
    """The input that gives these bytes to a target."""
    return list(TARGETS).index(target).to_bytes(2, "big") + data


def message_target(cls: type[Message], version: int) -> str:
    """The target for the body of a message."""
    return f"{cls.__name__} v{version}"


def _read_message(cls: type[Message], version: int, data: bytes) -> None:
    """In Python and by compiled code: both refuse the bytes, or both make the same message of them."""
    program = _program(cls, version)
    found = program and program.decode(data, 0, MAX_REQUEST_ELEMENTS)
    try:
        message, end = decode_in_python(cls, data, version)
    except ProtocolError:
        agree(found, None)
        return
    agree(min(end, len(data)), end)
    encoded = encode_in_python(message, version)
    if program:
        agree(found, (message, end))
        agree(program.encode(message, b""), encoded)
    agree(decode_prefix(cls, encoded, version), (message, len(encoded)))


_program = cache(make_program)


def _read_stream(data: bytes) -> None:
    """The same stream at once, and in steps that its first byte chooses: same frames, same verdict."""
    step, stream = data[0] + 1 if data else 1, data[1:]
    whole, at_once = _cut(stream, len(stream) or 1)
    parts, in_steps = _cut(stream, step)
    agree(parts, whole)
    agree(in_steps.error is None, at_once.error is None)
    if at_once.error is None:
        agree(len(in_steps) + sum(4 + len(frame) for frame in whole), len(stream))


def _cut(stream: bytes, step: int) -> tuple[list[bytes], FrameBuffer]:
    buffer = FrameBuffer(_MAX_FRAME)
    frames: list[bytes] = []
    for at in range(0, len(stream), step):
        try:
            frames += buffer.feed(stream[at : at + step])
        except ProtocolError:
            break
    return frames, buffer


def _read_request(data: bytes) -> None:
    try:
        api, header, _ = decode_request_header(data)
        if header.request_api_version not in api.versions:
            return
        found = decode_request(data)
    except ProtocolError:
        return
    encoded = encode_request(
        found.request,
        header.request_api_version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
    )
    agree(decode_request(encoded[4:]), found)


def _read_response(data: bytes) -> None:
    """The first two bytes are the API and the version of the request that is answered."""
    api = list(ApiKey)[data[0] % len(ApiKey)] if data else ApiKey.API_VERSIONS
    served = api.versions.each()
    version = served[data[1] % len(served)] if data[1:] else served[0]
    try:
        correlation_id, response = decode_response(api, version, data[2:])
    except ProtocolError:
        return
    encoded = encode_response(response, version, correlation_id=correlation_id)
    agree(decode_response(api, version, encoded[4:]), (correlation_id, response))


def _read_blob(read: Callable[[bytes], Message | Undecoded], data: bytes) -> None:
    """A blob that carries its version; one from the future is read as the newest that is known."""
    message = read(data)
    if not isinstance(message, Undecoded):
        version = min(leading_number(data) or 0, type(message).__versions__.highest)
        agree(read(encode_versioned(message, version)), message)


def _read_group_record(data: bytes) -> None:
    """A first byte says how long the key is; the value follows it, or is missing if the top bit is set."""
    size, rest = (data[0], data[1:]) if data else (0, b"")
    value = None if size & 0x80 else rest[size & 0x7F :]
    key, found = decode_record(rest[: size & 0x7F], value)
    if isinstance(key, Undecoded):
        return
    agree(decode_key(encode_key(key)), key)
    if value is not None and found is not None and not isinstance(found, Undecoded):
        agree(decode_value(key, encode_value(found, leading_number(value) or 0)), found)


def _read_metadata_record(data: bytes) -> None:
    found = decode_metadata_record(data)
    if not isinstance(found, Undecoded):
        agree(decode_metadata_record(encode_metadata_record(found)), found)


def _read_batches(data: bytes) -> None:
    """Checksums are not looked at, or no damaged byte would ever get to the records."""
    try:
        found = decode_batches(data, check_crc=False)
    except ProtocolError:
        return
    for batch in found.batches:
        (again,) = decode_batches(batch.encode()).batches
        agree(msgspec.structs.replace(again, crc=0), msgspec.structs.replace(batch, crc=0))
        _read_control_records(batch)


def _read_control_records(batch: RecordBatch) -> None:
    try:
        for record in batch.records(limit=_UNPACKED) if batch.is_control else ():
            decode_control_record(record)
    except ProtocolError:
        return


def _read_columns(data: bytes) -> None:
    """The columnar reader may overlook what only the headers of a record show, and nothing else.

    It is compiled code mostly, or vectors: both, one after the other.
    """
    native = compiled.native
    for each in {native, None}:
        compiled.native = each
        try:
            _read_columns_by_it(data)
        finally:
            compiled.native = native


def _read_columns_by_it(data: bytes) -> None:
    try:
        columns = read_columns(data, check_crc=False, limit=_UNPACKED, total_limit=_ALL_UNPACKED)
    except ProtocolError:
        columns = None
    try:
        rows = _rows(data)
    except ProtocolError:
        return
    if columns is None:
        raise Disagreement("the columnar reader refuses what the other one reads")
    buffer = columns.buffer

    def content(start: int, length: int) -> bytes | None:
        return None if length < 0 else bytes(buffer[start : start + length])

    found = [
        (offset, timestamp, content(*key), content(*value))
        for offset, timestamp, key, value in zip(
            columns.offset.tolist(),
            columns.timestamp.tolist(),
            zip(columns.key_start.tolist(), columns.key_length.tolist(), strict=True),
            zip(columns.value_start.tolist(), columns.value_length.tolist(), strict=True),
            strict=True,
        )
    ]
    agree(found, rows)


def _rows(data: bytes) -> list[Row]:
    return [
        (record.offset, record.timestamp, record.key, record.value)
        for batch in decode_batches(data, check_crc=False).batches
        for record in batch.records(limit=_UNPACKED)
    ]


def _targets() -> dict[str, Callable[[bytes], Any]]:
    found: dict[str, Callable[[bytes], Any]] = {
        message_target(cls, version): partial(_read_message, cls, version)
        for cls in all_messages().values()
        for version in cls.__versions__.each()
    }
    found |= {
        "stream": _read_stream,
        "request": _read_request,
        "response": _read_response,
        "subscription": partial(_read_blob, decode_subscription),
        "assignment": partial(_read_blob, decode_assignment),
        "group record": _read_group_record,
        "metadata record": _read_metadata_record,
        "batches": _read_batches,
        "columns": _read_columns,
    }
    return found


#: By name, in an order that a choice can count on.
TARGETS: Final = _targets()
_CHOICES: Final = tuple(TARGETS.values())
