"""The terminal: whether there is one, what it can show, and writing to it."""

from __future__ import annotations

import io
import os
import sys
from enum import IntEnum
from typing import Any, Final, TextIO

from coterie.errors import CoterieError

__all__ = [
    "ExitCode",
    "Ink",
    "NoReader",
    "StdoutClosed",
    "buffer_stdout",
    "flush",
    "has_colour",
    "has_unicode",
    "is_screen",
    "is_terminal",
    "note",
    "write",
]


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


class StdoutClosed(CoterieError):
    """Standard output cannot be written."""


class NoReader(Exception):
    """The reader of standard output has gone. Not an OSError, because click ends the process for those."""


def is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def is_screen(stream: TextIO | None) -> bool:
    """Whether it is a terminal that can move its cursor."""
    return is_terminal(stream) and os.environ.get("TERM") not in (None, "", "dumb")


def has_colour(stream: TextIO | None) -> bool:
    """Colour is for a terminal that is not dumb, unless NO_COLOR is set (no-color.org)."""
    return is_screen(stream) and not os.environ.get("NO_COLOR")


def has_unicode(stream: TextIO | None) -> bool:
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
    return is_terminal(stream) and encoding.startswith("utf")


class Ink:
    """Colours, or none."""

    _CODES: Final = {
        "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"
    }  # fmt: skip

    def __init__(self, stream: TextIO | None) -> None:
        self._on = has_colour(stream)

    def __call__(self, text: str, style: str | None) -> str:
        if not self._on or not style:
            return text
        return f"\x1b[{self._CODES[style]}m{text}\x1b[0m"


def _refused(error: OSError) -> Exception:
    if isinstance(error, BrokenPipeError):
        return NoReader()
    return StdoutClosed(f"standard output cannot be written: {error.strerror}")


def write(text: str) -> None:
    """Write to standard output. Characters that its encoding does not have are escaped."""
    stream: Any = sys.stdout
    if stream is None:
        raise StdoutClosed("standard output is closed; give the command somewhere to write")
    try:
        stream.write(text)
    except UnicodeEncodeError:
        stream.write(text.encode(stream.encoding, "backslashreplace").decode(stream.encoding))
    except OSError as error:
        raise _refused(error) from None


def flush() -> None:
    """Flush standard output. Errors are those of `write`."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        raise _refused(error) from None


def note(text: str) -> None:
    """Write a line to standard error, if there is one."""
    stream: Any = sys.stderr
    if stream is None:
        return
    encoding = getattr(stream, "encoding", None) or "ascii"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()
