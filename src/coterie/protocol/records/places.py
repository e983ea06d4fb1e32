"""Where the batches in a fetched buffer begin, by their lengths.

Called by the client, which has to know where an answer ends, and by coterie.protocol.records.columns.
"""

from __future__ import annotations

from array import array
from struct import Struct
from typing import TYPE_CHECKING, Final

from coterie import compiled

if TYPE_CHECKING:
    from coterie.protocol.records.compression import Buffer

__all__ = ["find_places"]

_LENGTH: Final = Struct(">8xi")
_LENGTH_END: Final = 12  # the length counts the bytes from here
_OVERHEAD: Final = 61


def find_places(buffer: Buffer) -> array[int]:
    """Where each whole batch begins, up to the first that is not all there or says that it is too short."""
    places = array("q")
    if compiled.native is not None:
        places.frombytes(compiled.native.find_places(buffer))
        return places
    found = places.append
    at = 0
    size = len(buffer)
    last = size - _OVERHEAD
    length_of = _LENGTH.unpack_from
    while at <= last:
        (length,) = length_of(buffer, at)
        if length < _OVERHEAD - _LENGTH_END:
            break
        found(at)
        at += _LENGTH_END + length
    if at > size:
        places.pop()
    return places
