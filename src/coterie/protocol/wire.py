"""Reading and writing the wire: varints, texts and tag sections, for the codec in Python.

Every function checks a length against the bytes that are there before it uses it.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "MAX_STRING",
    "MAX_TAGS",
    "Malformed",
    "compact_length",
    "compact_text",
    "skip_tags",
    "tag_header",
    "text",
    "uvarint",
    "write_uvarint",
]

#: Kafka's own limit for any string (its length once was a signed 16-bit number, and still is checked).
MAX_STRING: Final = 32767
#: Kafka has no limit, which cost it CVE-2026-111115 (20 million tags in a header before any login).
MAX_TAGS: Final = 128


class Malformed(ValueError):
    """Raised for malformed bytes; the codec adds message, field and offset."""


def uvarint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned 32-bit varint and the offset after it; overlong forms are refused."""
    value = 0
    for shift in range(0, 35, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF or (byte == 0 and shift):
                break
            return value, at
    raise Malformed("a varint is longer than its value allows")


def text(data: bytes, start: int, end: int) -> str:
    """The text between two offsets, which must be strict UTF-8 and must all be there."""
    if end > len(data):
        raise Malformed(f"text runs to byte {end} but there are {len(data)}")
    try:
        return str(data[start:end], "utf-8")  # of a memoryview, too
    except UnicodeDecodeError as error:
        raise Malformed(f"text is not UTF-8 ({error.reason} at its byte {error.start})") from None


def compact_text(data: bytes, at: int) -> tuple[str, int]:
    """A compact string of any length but null, and the offset after it."""
    length, at = uvarint(data, at)
    end = at + length - 1
    if length - 1 > MAX_STRING:
        raise Malformed(f"a string of {length - 1} bytes is over Kafka's limit of {MAX_STRING}")
    return text(data, at, end), end


def compact_length(data: bytes, at: int) -> tuple[int, int]:
    """The length of compact bytes or the count of a compact array; -1 for null."""
    length, at = uvarint(data, at)
    return length - 1, at


def tag_header(data: bytes, at: int, last: int) -> tuple[int, int, int]:
    """One tagged field's number, where its value begins and where it ends. Numbers must rise."""
    tag, at = uvarint(data, at)
    size, at = uvarint(data, at)
    if tag <= last:
        raise Malformed(f"tag {tag} comes after tag {last}")
    if at + size > len(data):
        raise Malformed(f"tag {tag} claims {size} bytes of {len(data) - at}")
    return tag, at, at + size


def skip_tags(data: bytes, at: int) -> int:
    """Skip a tag section without known fields; nothing of it is kept."""
    count, at = uvarint(data, at)
    if count > MAX_TAGS:
        raise Malformed(f"{count} tagged fields are over the limit of {MAX_TAGS}")
    last = -1
    for _ in range(count):
        last, _, at = tag_header(data, at, last)
    return at


def write_uvarint(value: int) -> bytes:
    """A number as an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
