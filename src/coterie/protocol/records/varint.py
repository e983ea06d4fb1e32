"""Zigzag varints, the variable-length integers inside a record (Kafka's ByteUtils, not unsigned ones).

A varint holds an int32 in at most five bytes, a varlong an int64 in at most ten. Longer ones, and ones
with bits that do not fit, are refused: no writer makes them. Called by coterie.protocol.records.batch;
the columnar reader has its own, over vectors.
"""

from __future__ import annotations

from coterie.errors import RecordBatchError

__all__ = ["VARINTS", "encode_varint", "read_varint", "read_varlong"]

# Most lengths and deltas of real records fit one byte.
_ONE_BYTE = tuple(bytes((value,)) for value in range(128))


def encode_varint(value: int) -> bytes:
    """A varint or varlong: both are written the same way, and the writer knows its range."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    if rest < 128:
        return _ONE_BYTE[rest]
    if rest < 16384:
        return bytes((rest & 0x7F | 0x80, rest >> 7))
    out = bytearray()
    while rest >= 128:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


#: The varints of small numbers, ready made: for whoever writes many.
VARINTS = tuple(encode_varint(value) for value in range(1024))


def read_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """An int32 at `position`, and the position behind it."""
    left = len(data) - position
    if left > 0 and (first := data[position]) < 128:
        return (first >> 1) ^ -(first & 1), position + 1
    if left > 1 and (second := data[position + 1]) < 128:
        value = first & 0x7F | second << 7
        return (value >> 1) ^ -(value & 1), position + 2
    return _read(data, position, 5, 0xFFFF_FFFF)


def read_varlong(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """An int64 at `position`, and the position behind it."""
    if position < len(data) and (first := data[position]) < 128:
        return (first >> 1) ^ -(first & 1), position + 1
    return _read(data, position, 10, 0xFFFF_FFFF_FFFF_FFFF)


def _read(
    data: bytes | bytearray | memoryview, position: int, most: int, largest: int
) -> tuple[int, int]:
    value = shift = 0
    for at in range(position, position + most):
        if at >= len(data):
            raise RecordBatchError("the bytes end inside a varint", message="Record", offset=at)
        octet = data[at]
        value |= (octet & 0x7F) << shift
        shift += 7
        if octet < 128:
            if value > largest:
                break
            return (value >> 1) ^ -(value & 1), at + 1
    raise RecordBatchError(
        f"a varint of more than {largest.bit_length()} bits", message="Record", offset=position
    )
