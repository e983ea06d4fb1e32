"""`--validate-regex`: whether RE2 accepts a pattern, in the words of RE2/J, which Kafka uses."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["verdict"]

#: RE2's words, which begin its message, and those of RE2/J for the same mistake.
_WORDS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
#: RE2 takes a name twice and RE2/J does not. A backslash takes the next character out of play.
_NAMED: Final = re.compile(r"\\.|\(\?P?<(\w+)>", re.DOTALL)
_TWICE: Final = "duplicate capture group name"


def verdict(pattern: str) -> tuple[bool, str]:
    """Whether the pattern is valid, and the sentence that says so."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0]
        text = said.decode() if isinstance(said, bytes) else str(said)
        reason = next((_WORDS[each] for each in _WORDS if text.startswith(each)), None)
        reason = reason or text.rpartition(": ")[0] or text
        return False, f"The regular expression `{pattern}` is invalid: {reason}."
    names = [found[1] for found in _NAMED.finditer(pattern) if found[1]]
    if len(names) > len(set(names)):
        return False, f"The regular expression `{pattern}` is invalid: {_TWICE}."
    return True, f"The regular expression `{pattern}` is valid."
