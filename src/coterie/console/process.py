"""Standard output with a buffer, whatever Python was told: the tools flush when a line has to be out."""

from __future__ import annotations

import io
import sys

__all__ = ["buffer_stdout"]


def buffer_stdout() -> None:
    """Put a buffer below standard output if PYTHONUNBUFFERED or -u left it without one.

    A pipe whose reader goes and a disk that fills up take a part of what is written. Python's text streams
    take that for all of it if there is no buffer below them, and the rest is lost without an error.
    """
    stream = sys.stdout
    below = getattr(stream, "buffer", None)
    if isinstance(below, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(below), stream.encoding, stream.errors, line_buffering=True
        )
