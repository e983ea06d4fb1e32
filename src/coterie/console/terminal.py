"""The terminal: whether there is one, what it can show, and how text is made safe for it.

Names of groups, topics and clients come from anyone who can connect to the cluster. What could move a
cursor, change a colour or turn the reading direction is shown as an escape, never sent.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Final, TextIO

from coterie.errors import CoterieError

__all__ = [
    "Ink",
    "NoReader",
    "StdoutClosed",
    "escape_quoted",
    "flush",
    "has_colour",
    "has_unicode",
    "is_safe",
    "is_screen",
    "is_terminal",
    "note",
    "shown",
    "write",
]

#: Later control characters, line and paragraph separators, marks of direction, zero-width and tag
#: characters, surrogates: what JSON and YAML leave as it is.
_ODD: Final = (
    r"\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f"
)
_QUOTED: Final = re.compile(f"[{_ODD}]")
#: The same, ASCII's control characters, and the backslash: no name may imitate an escape.
_UNSAFE: Final = re.compile(rf"[\x00-\x1f\\{_ODD}]")
_SHORT: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_LATIN: Final = 0x100
_BASIC: Final = 0x10000


class StdoutClosed(CoterieError):
    """Standard output does not take what is written."""


class NoReader(Exception):
    """The pipe behind standard output is closed. No OSError, because click ends the process for those."""


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    wide = f"\\u{code:04x}" if code < _BASIC else f"\\U{code:08x}"
    return _SHORT.get(char) or (f"\\x{code:02x}" if code < _LATIN else wide)


def _escape_quoted(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def shown(text: str) -> str:
    """Text as it may be sent to a terminal, on one line; two different texts are shown differently."""
    return _UNSAFE.sub(_escape, text)


def is_safe(text: str) -> bool:
    """Whether it is shown as it is."""
    return _UNSAFE.search(text) is None


def escape_quoted(text: str) -> str:
    """JSON, with escapes for what it may have unescaped inside quotes but a terminal should not get."""
    return _QUOTED.sub(_escape_quoted, text)


def is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def is_screen(stream: TextIO | None) -> bool:
    """Whether it is a terminal on which a place can be written twice."""
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
    """To standard output. What its encoding cannot say is escaped."""
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
    """Bring out what was written; trouble with it is told as by `write`."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        raise _refused(error) from None


def note(text: str) -> None:
    """A line for the person, on standard error; lost if there is none."""
    stream: Any = sys.stderr
    if stream is None:
        return
    encoding = getattr(stream, "encoding", None) or "ascii"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()
