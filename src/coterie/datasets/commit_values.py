"""The values of commits, versions 0 to 4, found and read as vectors."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from coterie.protocol.records.columns import Bools, Int64s, gather
from coterie.protocol.records.compression import Buffer

__all__ = ["TOMBSTONE", "CommitValues"]

#: Behind the metadata: when it was committed; in version 1 when it expires.
_TIMES: Final = np.dtype([("time", ">i8"), ("expire", ">i8")])
#: Behind the metadata of version 4: the time; then the one tagged field there is, 16 bytes with number 0.
_TAIL: Final = [
    ("time", ">i8"),
    ("fields", "u1"),
    ("tag", "u1"),
    ("size", "u1"),
    ("topic_id", "V16"),
]
_TAGGED: Final = np.dtype(_TAIL)
#: Version 4 as nearly all are, without metadata. Version and offset are there in all versions, and the
#: leader epoch from version 3 on.
_WHOLE: Final = np.dtype(
    [("version", ">i2"), ("offset", ">i8"), ("leader_epoch", ">i4"), ("metadata", "u1"), *_TAIL]
)
_NEWEST: Final = 4
_EPOCH_FROM: Final = 3
_EXPIRES: Final = 1
#: The version of no value.
TOMBSTONE: Final = -1
_LONGEST: Final = 0x7FFF
_ONE_BYTE: Final = 0x80  # sizes of compact strings below this have one byte

_FIELDS: Final = (
    "version", "tombstone", "offset", "leader_epoch", "metadata_start", "metadata_length", "time",
    "expire", "topic_id", "topic_id_null", "fits",
)  # fmt: skip


class CommitValues:
    """One item per value. `fits` is false where the value is not exactly of its version's layout."""

    version: Int64s
    tombstone: Bools
    offset: Int64s
    leader_epoch: Int64s
    metadata_start: Int64s
    metadata_length: Int64s
    time: Int64s
    expire: Int64s
    topic_id: NDArray[Any]
    topic_id_null: Bools
    fits: Bools

    def __init__(self, buffer: Buffer, start: Int64s, length: Int64s) -> None:
        head = gather(buffer, _WHOLE, start)
        count = len(start)
        self.tombstone = length < 0
        version = head["version"].astype(np.int64)
        version[self.tombstone] = TOMBSTONE
        self.version = version
        self.offset = head["offset"].astype(np.int64)
        none = np.full(count, -1, np.int64)
        self.leader_epoch = none
        self.metadata_start, self.metadata_length = start, none
        self.time, self.expire = none, none
        self.topic_id = np.zeros(count, "V16")
        self.topic_id_null = np.ones(count, np.bool_)
        self.fits = self.tombstone.copy()
        for each in range(_NEWEST + 1):
            of_this = version == each
            if of_this.all():
                self._set(slice(None), self._read(buffer, each, head, start, length))
            elif of_this.any():
                part = np.flatnonzero(of_this)
                self._set(part, self._read(buffer, each, head[part], start[part], length[part]))

    def _set(self, part: Any, fields: dict[str, NDArray[Any]]) -> None:
        for name, values in fields.items():
            if isinstance(part, slice):
                setattr(self, name, values)
            else:
                whole = getattr(self, name).copy()
                whole[part] = values
                setattr(self, name, whole)

    def keep(self, wanted: Bools) -> None:
        """Leave out the others."""
        for name in _FIELDS:
            setattr(self, name, getattr(self, name)[wanted])

    @staticmethod
    def _read(
        buffer: Buffer, version: int, head: NDArray[Any], start: Int64s, length: Int64s
    ) -> dict[str, NDArray[Any]]:
        """The fields of values of one version."""
        fields: dict[str, NDArray[Any]] = {}
        at = start + 10
        if version >= _EPOCH_FROM:
            at = start + 14
            fields["leader_epoch"] = head["leader_epoch"].astype(np.int64)
        if version < _NEWEST:
            size = gather(buffer, ">u2", at).astype(np.int64)
            fits = size <= _LONGEST
            at = at + 2
        else:
            # One more than the size; 0 would be null, and from 128 on there are more bytes of it.
            coded = head["metadata"].astype(np.int64)
            fits = (coded > 0) & (coded < _ONE_BYTE)
            size = np.maximum(coded - 1, 0)
            at = at + 1
        fields |= {"metadata_start": at, "metadata_length": size}
        behind = at + size
        left = start + length - behind
        if version == _NEWEST:
            tail = gather(buffer, _TAGGED, behind) if size.any() else head
            one = (tail["fields"] == 1) & (tail["tag"] == 0) & (tail["size"] == 16) & (left == 27)
            fits &= one | ((tail["fields"] == 0) & (left == 9))
            fields |= {"topic_id": tail["topic_id"], "topic_id_null": ~one}
        else:
            tail = gather(buffer, _TIMES, behind)
            fits &= left == (16 if version == _EXPIRES else 8)
            if version == _EXPIRES:
                fields["expire"] = tail["expire"].astype(np.int64)
        return fields | {"time": tail["time"].astype(np.int64), "fits": fits}
