"""Checksums of many batches by one call of crc32c.

A call per batch costs more than the checksum of a small batch does. So all are joined into one message
that has a known checksum exactly if each batch has its own. After any bytes that are followed by their
own CRC, a CRC has the same state, whatever the bytes were; and some bytes lead from there back to the
state it begins with. Both go where the header of the next batch is, of which the checksum covers nothing.
A batch that is damaged is always found so; of several, all go undetected once in four billion times, as
one would by its own checksum.
"""

from __future__ import annotations

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from coterie import compiled
from coterie.protocol.batch_layout import CHECKED_FROM

__all__ = ["first_wrong"]

Int64s = NDArray[np.int64]

#: The CRC-32C of anything that is followed by its own, least byte first.
_RESIDUE = 0x48674BC7
#: What leads from there back to the beginning, crc32c(_BACK, _RESIDUE) being 0: as many bytes as a header has
#: beside its checksum, and the last four are those that do it.
_BACK = bytes(13) + bytes.fromhex("42380d41")
_JOINT = np.dtype([("crc", "<u4"), ("back", f"V{len(_BACK)}")])


def first_wrong(view: memoryview, positions: Int64s, ends: Int64s, stored: Int64s) -> int | None:
    """The index of the first batch whose checksum is not the stored one; batches follow each other."""
    if not len(positions) or _all_right(view, positions, ends, stored):
        return None
    starts = (positions + CHECKED_FROM).tolist()
    found = [crc32c(view[at:end]) for at, end in zip(starts, ends.tolist(), strict=True)]
    wrong = np.flatnonzero(np.array(found) != stored)
    return int(wrong[0]) if len(wrong) else None


def _all_right(view: memoryview, positions: Int64s, ends: Int64s, stored: Int64s) -> bool:
    if compiled.native is not None:
        joined = compiled.native.join_checksums(view, positions, ends, crc32c, _BACK)
        return joined == _RESIDUE
    begin, end = int(positions[0]), int(ends[-1])
    message = np.empty(end - begin + 4, np.uint8)
    message[:-4] = np.frombuffer(view[begin:end], np.uint8)
    message[-4:].view("<u4")[0] = stored[-1]
    joints = np.empty(len(positions) - 1, _JOINT)
    joints["crc"] = stored[:-1]
    joints["back"] = np.void(_BACK)
    # A view with one joint at every byte, opaque so that each is written at once.
    opaque = np.dtype((np.void, _JOINT.itemsize))
    places = np.ndarray((len(message) - _JOINT.itemsize + 1,), opaque, message, 0, (1,))
    places[positions[1:] - begin] = joints.view(opaque)
    return bool(crc32c(message[CHECKED_FROM:].data) == _RESIDUE)
