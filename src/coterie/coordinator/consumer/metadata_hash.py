"""The hash of the topics that a group subscribes to, as Kafka computes it since 4.1.

A group keeps it in its record; when it changes, a topic was created, deleted or grew, and there is something
new to assign. It is Kafka's own number (XXH3 over ids, names and partition counts), so that a log that
changes hands between Kafka and Coterie brings no rebalance with it. Called by
coterie.coordinator.consumer.subscriptions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from coterie.coordinator.outcome import Topic, TopicView

__all__ = ["group_hash", "xxh3_64"]

_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_MASK: Final = (1 << 64) - 1
_P32: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_P64: Final = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
#: Sizes at which XXH3 goes another way.
_INT_BYTES: Final = 4
_LONG_BYTES: Final = 8
_SHORT: Final = 16
_HALF_MIDDLE: Final = 128
_MIDDLE: Final = 240
_STRIPE: Final = 64
_STRIPES_PER_BLOCK: Final = (len(_SECRET) - _STRIPE) // 8


def group_hash(names: Iterable[str], topics: TopicView) -> int:
    """Of all subscribed topics that exist, in the order of their names; 0 for none of them."""
    found = [topic for name in names if (topic := topics.by_name(name)) is not None]
    if not found:
        return 0
    found.sort(key=lambda topic: topic.name)
    return xxh3_64(b"".join(struct.pack("<q", _topic_hash(each)) for each in found))


@lru_cache(maxsize=4096)
def _topic_hash(topic: Topic) -> int:
    """Kafka's Utils.computeTopicHash: a magic byte, id, name and its length, partitions. No racks here."""
    name = topic.name.encode("utf-16-le")
    most, least = struct.unpack(">qq", topic.topic_id)
    head = struct.pack("<bqq", 0, most, least) + name + struct.pack("<i", len(name) // 2)
    numbers = (topic.partitions, *range(topic.partitions))
    return xxh3_64(head + struct.pack(f"<{len(numbers)}i", *numbers))


def xxh3_64(data: bytes) -> int:
    """XXH3, 64 bits, seed 0, as a signed number."""
    size = len(data)
    if size <= _SHORT:
        value = _up_to_16(data, size)
    elif size <= _MIDDLE:
        value = _up_to_240(data, size)
    else:
        value = _long(data, size)
    return value - (1 << 64) if value >> 63 else value


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _fold(left: int, right: int) -> int:
    """Both halves of a product of 128 bits."""
    product = left * right
    return (product ^ (product >> 64)) & _MASK


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = (value * 0x165667919E3779F9) & _MASK
    return value ^ (value >> 32)


def _xxh64_avalanche(value: int) -> int:
    value ^= value >> 33
    value = (value * _P64[1]) & _MASK
    value ^= value >> 29
    value = (value * _P64[2]) & _MASK
    return value ^ (value >> 32)


def _up_to_16(data: bytes, size: int) -> int:
    if size > _LONG_BYTES:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((size + swapped + high + _fold(low, high)) & _MASK)
    if size >= _INT_BYTES:
        value = _u32(data, size - 4) + (_u32(data, 0) << 32)
        value ^= _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        return _rrmxmx(value, size)
    if size:
        combined = (data[0] << 16) | (data[size >> 1] << 24) | data[-1] | (size << 8)
        return _xxh64_avalanche(combined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _xxh64_avalanche(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _rrmxmx(value: int, size: int) -> int:
    value ^= _rotate(value, 49) ^ _rotate(value, 24)
    value = (value * 0x9FB21C651E98DF25) & _MASK
    value ^= (value >> 35) + size
    value = (value * 0x9FB21C651E98DF25) & _MASK
    return value ^ (value >> 28)


def _rotate(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _MASK


def _mix_16(data: bytes, at: int, secret_at: int) -> int:
    return _fold(
        _u64(data, at) ^ _u64(_SECRET, secret_at),
        _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8),
    )


def _up_to_240(data: bytes, size: int) -> int:
    value = size * _P64[0]
    if size <= _HALF_MIDDLE:
        for step in range((size - 1) // 32, -1, -1):
            value += _mix_16(data, 16 * step, 32 * step)
            value += _mix_16(data, size - 16 * (step + 1), 32 * step + 16)
        return _avalanche(value & _MASK)
    for step in range(8):
        value += _mix_16(data, 16 * step, 16 * step)
    value = _avalanche(value & _MASK)
    for step in range(8, size // 16):
        value += _mix_16(data, 16 * step, 16 * (step - 8) + 3)
    value += _mix_16(data, size - 16, 136 - 17)
    return _avalanche(value & _MASK)


def _long(data: bytes, size: int) -> int:
    sums = [_P32[2], _P64[0], _P64[1], _P64[2], _P64[3], _P32[1], _P64[4], _P32[0]]
    block = _STRIPE * _STRIPES_PER_BLOCK
    whole = (size - 1) // block
    for number in range(whole):
        for stripe in range(_STRIPES_PER_BLOCK):
            _accumulate(sums, data, number * block + stripe * _STRIPE, 8 * stripe)
        _scramble(sums)
    for stripe in range((size - 1 - whole * block) // _STRIPE):
        _accumulate(sums, data, whole * block + stripe * _STRIPE, 8 * stripe)
    _accumulate(sums, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    value = size * _P64[0]
    for pair in range(4):
        value += _fold(
            sums[2 * pair] ^ _u64(_SECRET, 11 + 16 * pair),
            sums[2 * pair + 1] ^ _u64(_SECRET, 11 + 16 * pair + 8),
        )
    return _avalanche(value & _MASK)


def _accumulate(sums: list[int], data: bytes, at: int, secret_at: int) -> None:
    for lane in range(8):
        value = _u64(data, at + 8 * lane)
        keyed = value ^ _u64(_SECRET, secret_at + 8 * lane)
        sums[lane ^ 1] = (sums[lane ^ 1] + value) & _MASK
        sums[lane] = (sums[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32)) & _MASK


def _scramble(sums: list[int]) -> None:
    for lane, value in enumerate(sums):
        mixed = value ^ (value >> 47) ^ _u64(_SECRET, len(_SECRET) - _STRIPE + 8 * lane)
        sums[lane] = (mixed * _P32[0]) & _MASK
