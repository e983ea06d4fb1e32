"""From slices of a fetched buffer to Arrow arrays, without a Python object per value.

Strings are built as Arrow string views in numpy, 16 bytes each that point into the buffer, and made plain
strings by Arrow. Called by the decoders of log datasets.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.datasets.schemas import TIMESTAMP
from coterie.datasets.times import LAST_MS
from coterie.protocol.records.columns import Bools, Int64s, gather
from coterie.protocol.records.compression import Buffer

__all__ = [
    "binaries",
    "chosen",
    "is_utf8",
    "named",
    "numbers",
    "strings",
    "timestamps",
    "topic_ids",
]

#: Views of up to this many bytes hold the bytes themselves, padded with zeros.
_INLINE: Final = 12
_ASCII: Final = 0x80
#: Characters of a topic id.
_ID_SIZE: Final = 22


def _masks(first: int, count: int) -> NDArray[Any]:
    """For each length, which of `count` bytes from `first` on belong to a string of that length."""
    table = np.zeros((_INLINE + 1, count), np.uint8)
    for length in range(_INLINE + 1):
        table[length, : max(length - first, 0)] = 0xFF
    return table.view(f"<u{count}").ravel()


_FIRST_4: Final = _masks(0, 4)
_NEXT_8: Final = _masks(4, 8)

_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
#: Two characters of base64 for each 12 bits.
_PAIRS: Final = np.array(
    [_BASE64[bits >> 6] | _BASE64[bits & 63] << 8 for bits in range(1 << 12)], np.dtype("<u2")
)


def chosen(values: NDArray[Any], rows: Int64s) -> NDArray[Any]:
    """The values of some rows, each named once; without a copy if they are all."""
    return values if len(rows) == len(values) else values[rows]


def strings(buffer: Buffer, start: Int64s, length: Int64s) -> pa.Array:
    """The text at each slice; a negative length is null. Whether it is text is `is_utf8`'s to say."""
    if not length.any():
        return _fixed(np.empty(0, np.uint8), np.zeros(len(length) + 1, np.int32), None, 0)
    return _views(buffer, start, length, pa.string_view()).cast(pa.string())


def binaries(buffer: Buffer, start: Int64s, length: Int64s) -> pa.Array:
    """The bytes of each slice; a negative length is null."""
    return _views(buffer, start, length, pa.binary_view()).cast(pa.binary())


def _views(buffer: Buffer, start: Int64s, length: Int64s, kind: pa.DataType) -> pa.Array:
    """Two words each: the length and maybe the first four bytes; then the next eight, or where in the buffer.

    Longer ones have their first bytes in the first word too, for comparisons. To be cast they need not.
    """
    count = len(start)
    null = length < 0
    some_null = bool(null.any())
    words = np.empty((count, 2), np.int64)
    words[:, 0] = np.maximum(length, 0) if some_null else length
    words[:, 1] = start << 32
    brief = np.flatnonzero(length <= _INLINE)
    if len(brief):
        size = words[brief, 0]
        if size.any():
            at = start[brief]
            first = (gather(buffer, "<u4", at) & _FIRST_4[size]).astype(np.int64)
            words[brief, 0] = size | first << 32
            words[brief, 1] = (gather(buffer, "<u8", at + 4) & _NEXT_8[size]).view(np.int64)
        else:
            words[brief, 1] = 0
    valid = pa.array(~null).buffers()[1] if some_null else None
    buffers = [valid, pa.py_buffer(words), pa.py_buffer(buffer)]
    return pa.Array.from_buffers(kind, count, buffers, int(null.sum()) if some_null else 0)


def is_utf8(array: pa.Array) -> bool:
    """Whether every string of an array is text: at once if no byte is above 127."""
    data = array.buffers()[2]
    if data is None or not data.size:
        return True
    if int(np.frombuffer(data, np.uint8).max()) < _ASCII:
        return True
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def numbers(values: NDArray[Any], kind: pa.DataType, null: Bools | None = None) -> pa.Array:
    """A column of numbers, null where the mask says."""
    plain = np.ascontiguousarray(values, kind.to_pandas_dtype())
    if null is None or not null.any():
        return pa.array(plain, kind)
    return pa.array(plain, kind, mask=null)


def timestamps(milliseconds: Int64s) -> pa.Array:
    """Epoch milliseconds as times; negative ones, and those that no calendar has, are null."""
    if milliseconds.min(initial=0) >= 0 and milliseconds.max(initial=0) <= LAST_MS:
        return pa.array(milliseconds * 1000, pa.int64()).view(TIMESTAMP)
    odd = (milliseconds < 0) | (milliseconds > LAST_MS)
    micros = np.where(odd, 0, milliseconds) * 1000
    return pa.array(micros, pa.int64(), mask=odd).view(TIMESTAMP)


def topic_ids(raw: NDArray[Any], null: Bools) -> pa.Array:
    """Sixteen bytes each as Kafka prints them, 22 characters of base64; all zero is null."""
    count = len(raw)
    words = np.ascontiguousarray(raw).view(np.uint64).reshape(count, 2)
    null = null | ((words[:, 0] | words[:, 1]) == 0)
    text = _base64_of(words)
    if not null.any():
        offsets = np.arange(0, _ID_SIZE * count + 1, _ID_SIZE, dtype=np.int32)
        return _fixed(text, offsets, None, 0)
    valid = ~null
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(valid, out=offsets[1:])
    nulls = count - int(offsets[-1])
    offsets *= _ID_SIZE
    bits = pa.array(valid).buffers()[1]
    return _fixed(text[valid], offsets, bits, nulls)


def _fixed(
    text: NDArray[Any], offsets: NDArray[np.int32], valid: pa.Buffer | None, nulls: int
) -> pa.Array:
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers, nulls)


def _base64_of(words: NDArray[np.uint64]) -> NDArray[Any]:
    """The characters of each pair of words, one opaque item; made once for those that are alike."""
    # Commits of one topic mostly stand together, where there is more than one in a batch.
    first = np.ones(len(words), np.bool_)
    first[1:] = (words[1:, 0] != words[:-1, 0]) | (words[1:, 1] != words[:-1, 1])
    runs = np.flatnonzero(first)
    if 2 * len(runs) < len(words):
        return np.repeat(_base64_of(words[runs]), np.diff(runs, append=len(words)))
    high, low = words.view(">u8").astype(np.uint64).T
    rows, like = _distinct(high, low)
    return _base64(high[rows], low[rows])[like]


def _distinct(high: NDArray[np.uint64], low: NDArray[np.uint64]) -> tuple[Int64s, Int64s]:
    """Rows that differ from each other, at least one of each kind, and for every row its like."""
    count = len(high)
    mixed = (high ^ (low * np.uint64(0x9E3779B97F4A7C15))) >> np.uint64(48)
    slot = mixed.astype(np.intp)
    table = np.zeros(1 << 16, np.int64)
    table[slot] = np.arange(count)
    like = table[slot]
    # Two ids in one slot: those that lost theirs stand for themselves.
    lost = (high[like] != high) | (low[like] != low)
    if lost.any():
        like = np.where(lost, np.arange(count), like)
    rows = np.flatnonzero(like == np.arange(count))
    place = np.zeros(count, np.int64)
    place[rows] = np.arange(len(rows))
    return rows, place[like]


def _base64(high: NDArray[np.uint64], low: NDArray[np.uint64]) -> NDArray[Any]:
    """The characters of each, one opaque item."""
    text = np.empty((len(high), _ID_SIZE // 2), "<u2")
    for index in range(_ID_SIZE // 2):
        shift = 116 - 12 * index  # of the 128 bits, how many are behind these 12
        if shift >= 64:
            bits = high >> np.uint64(shift - 64)
        elif shift > 52:
            bits = (high << np.uint64(64 - shift)) | (low >> np.uint64(shift))
        elif shift >= 0:
            bits = low >> np.uint64(shift)
        else:
            bits = low << np.uint64(-shift)
        text[:, index] = _PAIRS[(bits & np.uint64(0xFFF)).astype(np.intp)]
    return text.view(f"V{_ID_SIZE}").ravel()


def named(codes: Int64s, names: list[str], null: Bools) -> pa.Array:
    """The name that each code stands for."""
    index = pa.array(np.where(null, 0, codes).astype(np.int32), pa.int32(), mask=null)
    return pa.DictionaryArray.from_arrays(index, pa.array(names, pa.string())).cast(pa.string())
