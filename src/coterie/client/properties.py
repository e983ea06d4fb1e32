"""Java's properties files: names and values, with Java's comments, continued lines and escapes.

A name ends at the first `=`, `:` or blank that no backslash precedes; a line that ends in an odd number of
backslashes goes on in the next. That is how JAAS settings come over several lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["parse_properties"]

_BLANKS: Final = " \t\f"
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
#: A name, what parts it from its value, and the value.
_LINE: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """The properties in a file's text; of a name that comes twice the later value counts."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        parts = _LINE.match(line)
        if parts is not None:
            found[_unescape(parts[1])] = _unescape(parts[2])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANKS)
        if not pending and (not line or line[0] in "#!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_escaped, text) if "\\" in text else text


def _escaped(found: re.Match[str]) -> str:
    code = found[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPED.get(code, code)
