"""The layout of a record batch (magic 2): where its fields are, and where the batches of a buffer begin.

It is apart from coterie.protocol.records because the client needs it at its start, but the libraries of that
package (compression, checksums) later or never.
"""

from __future__ import annotations

from array import array
from struct import Struct
from typing import TYPE_CHECKING, Final

from coterie import compiled

if TYPE_CHECKING:
    from coterie.protocol.records.compression import Buffer

__all__ = [
    "BATCH_OVERHEAD",
    "CHECKED_FROM",
    "CRC_AT",
    "LENGTH_AT",
    "LENGTH_END",
    "MAGIC",
    "MAGIC_AT",
    "MIN_LENGTH",
    "find_places",
]

# A batch begins with: base offset (8 bytes), length (4), partition leader epoch (4), magic (1), checksum (4).
LENGTH_AT: Final = 8
LENGTH_END: Final = 12  # the length counts the bytes from here
MAGIC_AT: Final = 16
MAGIC: Final = 2
CRC_AT: Final = 17
CHECKED_FROM: Final = 21  # the checksum covers the bytes from here
BATCH_OVERHEAD: Final = 61  # Kafka's RECORD_BATCH_OVERHEAD: the bytes before the first record
MIN_LENGTH: Final = BATCH_OVERHEAD - LENGTH_END

_LENGTH: Final = Struct(">8xi")


def find_places(buffer: Buffer) -> array[int]:
    """Where each complete batch begins, up to the first that is incomplete or too short to be one."""
    places = array("q")
    if compiled.native is not None:
        places.frombytes(compiled.native.find_places(buffer))
        return places
    found = places.append
    at = 0
    size = len(buffer)
    last = size - BATCH_OVERHEAD
    length_of = _LENGTH.unpack_from
    while at <= last:
        (length,) = length_of(buffer, at)
        if length < MIN_LENGTH:
            break
        found(at)
        at += LENGTH_END + length
    if at > size:
        places.pop()
    return places
