"""Which partition of `__consumer_offsets` a group belongs to, as Java computes it.

Called by the server to find the shard of a group. Strings are measured in UTF-16 code units, as in Java.
"""

from __future__ import annotations

from functools import lru_cache

__all__ = ["partition_for", "utf16_length"]

_INT32_MIN = -(1 << 31)


@lru_cache(maxsize=65_536)
def partition_for(group_id: str, partitions: int) -> int:
    """Kafka's GroupCoordinatorService.partitionFor: Utils.abs of the id's hash, modulo partitions."""
    value = _java_hash(group_id)
    # Utils.abs: the smallest int has no positive counterpart and counts as 0.
    return (0 if value == _INT32_MIN else abs(value)) % partitions


def utf16_length(text: str) -> int:
    """Java's String.length."""
    return len(text) if text.isascii() else len(_utf16(text)) // 2


def _java_hash(text: str) -> int:
    # A lone surrogate has no UTF-8 and cannot come from the wire, but Java's strings may hold one.
    units = text.encode("ascii") if text.isascii() else memoryview(_utf16(text)).cast("H")
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFF_FFFF
    return value - (1 << 32) if value & 0x8000_0000 else value


def _utf16(text: str) -> bytes:
    return text.encode("utf-16", "surrogatepass")[
        2:
    ]  # in the order of this machine, without the mark
