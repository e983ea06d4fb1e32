"""Exit codes and buffered standard output, for the entry points of all tools.

It is imported first, so it must be quick to load.
"""

from __future__ import annotations

import io
import sys
from enum import IntEnum

__all__ = ["ExitCode", "buffer_stdout"]


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0
    FAILED = 1
    WRONG_USAGE = 2
    PARTIAL = 3
    #: As a shell reports SIGINT.
    INTERRUPTED = 130
    #: As a shell reports SIGPIPE: the reader of the output has gone.
    NO_READER = 141


def buffer_stdout() -> None:
    """Put a buffer below standard output if PYTHONUNBUFFERED or -u left it without one.

    A pipe whose reader goes and a disk that fills up take a part of what is written. Without a buffer below
    them, Python's text streams treat that part as all of it, and the rest is lost without an error. The tools
    flush when a line has to be out.
    """
    stream = sys.stdout
    below = getattr(stream, "buffer", None)
    if isinstance(below, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(below), stream.encoding, stream.errors, line_buffering=True
        )
