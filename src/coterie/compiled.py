"""The part of Coterie that is compiled, from src/native: `native`, or None where there was no C compiler.

It does nothing that its callers cannot do without it, in numpy or Python. Whatever is not quite as it
should be, it leaves to them: they say what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, cast

__all__ = ["Native", "native"]


class Native(Protocol):
    """The functions of coterie._native. Arrays are buffers of integers of the machine's byte order."""

    def find_places(self, buffer: Any, /) -> bytes:
        """Where each whole batch of a buffer begins (int64), as coterie.protocol.batch_layout finds it."""

    def read_headers(self, buffer: Any, places: Any, headers: Any, /) -> bool:
        """Read the header at each place into columns of int64, one for each field; False if one is cut."""

    def join_checksums(
        self, buffer: Any, starts: Any, ends: Any, crc32c: Callable[..., int], back: bytes, /
    ) -> int:
        """The checksum of batches as one message; see coterie.protocol.records.checksums."""

    def find_records(self, buffer: Any, /, *arrays: Any) -> bool:
        """Read the records of batches into six columns of int64, the last array; False if one is damaged.

        Of batches: where their records begin and end, how many there are, base offset and base timestamp. Of
        records: timestamp, offset, start and length of the key, start and length of the value; a length of -1
        is null.
        """

    def read_commits(self, buffer: Any, /, *arrays: Any) -> tuple[int, ...]:
        """Read commits into columns; see coterie.datasets.compiled_commits."""


native: Native | None
try:
    native = cast("Native", import_module("coterie._native"))
except ImportError:
    native = None
