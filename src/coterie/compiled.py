"""The compiled part of Coterie, from src/native: `native`, or None if it was built without a C compiler.

Its callers do the same in numpy or Python without it. It reads well-formed input only and reports
everything else to its callers, which raise the errors.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, cast

__all__ = ["CodecProgram", "Native", "native"]


class CodecProgram(Protocol):
    """The codec of one message in one version; see coterie.protocol.program."""

    def decode(self, data: Any, offset: int, budget: int, /) -> tuple[Any, int] | None:
        """The message at an offset and the offset after it; None if the bytes are irregular.

        `budget` limits the elements of all arrays together.
        """

    def encode(self, message: Any, before: bytes, /) -> bytes | None:
        """The bytes of a message after others; None if a value does not fit."""


class Native(Protocol):
    """The functions of coterie._native. Arrays are buffers of integers of the machine's byte order."""

    #: Makes a program from its tuples and the class of UUIDs.
    Program: Callable[[tuple[Any, ...], type], CodecProgram]

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
