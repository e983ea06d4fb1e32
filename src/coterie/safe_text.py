"""Safe text: control characters in names, as escapes. The one rule for terminals, logs and files.

Names of groups, topics and clients come from anyone who can connect to a cluster. Characters that move a
cursor, change a colour or turn the reading direction are shown as escapes and never sent.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["escape_quoted", "is_safe", "shown", "visible"]

#: Control characters above ASCII, line and paragraph separators, marks of direction, zero-width and tag
#: characters, surrogates: JSON and YAML do not escape these.
_ODD: Final = (
    r"\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f"
)
_QUOTED: Final = re.compile(f"[{_ODD}]")
_ACTING: Final = re.compile(rf"[\x00-\x1f{_ODD}]")
#: The backslash, too: no name may imitate an escape.
_UNSAFE: Final = re.compile(rf"[\x00-\x1f\\{_ODD}]")
_SHORT: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_LATIN: Final = 0x100
_BASIC: Final = 0x10000


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    wide = f"\\u{code:04x}" if code < _BASIC else f"\\U{code:08x}"
    return _SHORT.get(char) or (f"\\x{code:02x}" if code < _LATIN else wide)


def _escape_quoted(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def shown(text: str) -> str:
    """Text on one line, safe for a terminal and a log; two different texts are shown differently."""
    return _UNSAFE.sub(_escape, text)


def visible(text: str) -> str:
    """The same, but the backslash stays: for output that has to be as another tool has it."""
    return _ACTING.sub(_escape, text)


def is_safe(text: str) -> bool:
    """Whether the text needs no escapes."""
    return _UNSAFE.search(text) is None


def escape_quoted(text: str) -> str:
    """JSON, with escapes for the characters that it allows inside quotes and a terminal must not get."""
    return _QUOTED.sub(_escape_quoted, text)
