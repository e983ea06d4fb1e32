"""One record inside a batch (Kafka's DefaultRecord): its layout, both ways.

Offsets, timestamps and sequences of a record are deltas to its batch's; this module works on the deltas
and coterie.protocol.records.batch, its caller, adds the bases.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from coterie.errors import RecordBatchError
from coterie.protocol.records.varint import encode_varint, read_varint, read_varlong

__all__ = [
    "MIN_RECORD_SIZE",
    "Header",
    "Record",
    "RecordParts",
    "check_records_count",
    "decode_record",
    "encode_record",
]

# Key and value of a record header; the key is text, and not unique in its record.
Header = tuple[str, bytes | None]
# What a writer gives for one record: key, value, timestamp, headers.
RecordParts = tuple[bytes | None, bytes | None, int, Iterable[Header]]

# Length, attributes, two deltas, two lengths and the headers count: a byte each at least.
MIN_RECORD_SIZE = 7
_MIN_HEADER_SIZE = 2


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record, with its batch's part of offset, timestamp and sequence added in."""

    offset: int
    timestamp: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def check_records_count(count: int, size: int, position: int | None = None) -> None:
    """Refuse a count that `size` bytes of records cannot hold, before anyone allocates for it."""
    if not 0 <= count * MIN_RECORD_SIZE <= size:
        raise RecordBatchError(
            f"{count} records in {size} bytes, where each takes {MIN_RECORD_SIZE} or more",
            message="RecordBatch",
            field="records_count",
            offset=position,
        )


def encode_record(
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[Header],
) -> bytes:
    """The bytes of a record, its length first."""
    body = b"".join(
        (
            b"\x00",  # attributes
            encode_varint(timestamp_delta),
            encode_varint(offset_delta),
            b"\x01" if key is None else encode_varint(len(key)),
            key or b"",
            b"\x01" if value is None else encode_varint(len(value)),
            value or b"",
            _encode_headers(headers) if headers else b"\x00",
        )
    )
    return encode_varint(len(body)) + body


def _encode_headers(headers: Iterable[Header]) -> bytes:
    parts: list[bytes] = []
    count = 0
    for name, content in headers:
        key = name.encode()
        size = b"\x01" if content is None else encode_varint(len(content))
        parts += (encode_varint(len(key)), key, size, content or b"")
        count += 1
    return b"".join((encode_varint(count), *parts))


def decode_record(
    data: bytes, position: int
) -> tuple[int, int, bytes | None, bytes | None, tuple[Header, ...], int]:
    """Timestamp delta, offset delta, key, value and headers at `position`, and the position behind."""
    length, start = read_varint(data, position)
    end = start + length
    if length < MIN_RECORD_SIZE - 1 or end > len(data):
        raise _damaged(f"length {length}, with {len(data) - start} bytes left", "length", position)
    # The first byte is attributes, of which Kafka uses no bit.
    at = start + 1
    # Nearly all varints have one byte. To call a function for each would take half of the time.
    if (first := data[at]) < 128:
        timestamp_delta, at = (first >> 1) ^ -(first & 1), at + 1
    else:
        timestamp_delta, at = read_varlong(data, at)
    if at < end and (first := data[at]) < 128:
        offset_delta, at = (first >> 1) ^ -(first & 1), at + 1
    else:
        offset_delta, at = read_varint(data, at)
    key, at = _read_nullable(data, at, end, "key")
    value, at = _read_nullable(data, at, end, "value")
    if at == end - 1 and not data[at]:
        return timestamp_delta, offset_delta, key, value, (), end
    headers, at = _read_headers(data, at, end)
    if at != end:
        raise _damaged(
            f"length {length}, but the fields take {at - start} bytes", "length", position
        )
    return timestamp_delta, offset_delta, key, value, headers, end


def _read_nullable(data: bytes, position: int, end: int, field: str) -> tuple[bytes | None, int]:
    if position < end and (first := data[position]) < 128:
        size, start = (first >> 1) ^ -(first & 1), position + 1
    else:
        size, start = read_varint(data, position)
    if size < 0:  # -1 as written; Kafka's Utils.readBytes takes any negative size for null
        return None, start
    if size > end - start:
        raise _damaged(f"{size} bytes, with {end - start} left in the record", field, position)
    return data[start : start + size], start + size


def _read_headers(data: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, at = read_varint(data, position)
    if count == 0:
        return (), at
    if not 0 < count * _MIN_HEADER_SIZE <= end - at:
        raise _damaged(f"{count} headers, with {end - at} bytes left", "headers", position)
    headers: list[Header] = []
    for _ in range(count):
        name, at = _read_nullable(data, at, end, "header key")
        if name is None:
            raise _damaged("a header without a key", "headers", position)
        content, at = _read_nullable(data, at, end, "header value")
        # Malformed UTF-8 is replaced, as Java's String does: it is no reason to lose a record.
        headers.append((name.decode(errors="replace"), content))
    return tuple(headers), at


def _damaged(reason: str, field: str, position: int) -> RecordBatchError:
    return RecordBatchError(reason, message="Record", field=field, offset=position)
