"""One-line errors, out of what Spark and its JVM print when something fails.

Spark turns an exception of a data source into text, inside an exception of its own. `sentence` finds ours in
that text; `in_one_line` keeps the text short in the first place. `last_words` reads the log of a JVM.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from coterie import errors as all_errors
from coterie.errors import CoterieError

__all__ = ["explained", "in_one_line", "last_words", "sentence"]

F = TypeVar("F", bound=Callable[..., Any])

_OURS: Final = re.compile(r"^(?:Caused by: )?coterie\.(?:\w+\.)*(\w+): (.*)$", re.MULTILINE)
#: What a JVM prints in addition to the cause, whatever that is.
_GENERIC: Final = frozenset(
    {
        "Error occurred during initialization of VM",
        "Error: Could not create the Java Virtual Machine.",
        "Error: A fatal exception has occurred. Program will exit.",
    }
)
#: Frames of a stack, and what a JVM notes at its start.
_ASIDE: Final = ("at ", "... ", "WARNING: ", "NOTE: ")
#: Before the words: time and logger, the thread, the packages of an exception.
_PREFIX: Final = re.compile(
    r"^(?:[\d/]+ [\d:]+ [A-Z]+ \S+: )?(?:Exception in thread \"[^\"]*\" )?(?:Caused by: )?(?:\w+\.)*(?=\w)"
)


def in_one_line(call: F) -> F:
    """Let our errors leave a call without a traceback: the message is complete."""

    @functools.wraps(call)
    def short(*arguments: Any, **options: Any) -> Any:
        try:
            return call(*arguments, **options)
        except CoterieError as error:
            raise error.with_traceback(None) from None

    return short  # type: ignore[return-value]


def sentence(error: BaseException) -> str | None:
    """Coterie's message in an exception of Spark's; None if the error is not Coterie's."""
    if isinstance(error, CoterieError):
        return str(error)
    found = _OURS.findall(str(error))
    known = [text for name, text in found if name in all_errors.__all__]
    return known[-1].strip() if known else None


def last_words(log: Path | None) -> str:
    """The line of the log with the reason why Spark did not start, or ended, and the path of the log."""
    if log is None or not log.exists():
        return ""
    lines = map(str.strip, log.read_text(encoding="utf-8", errors="replace").splitlines())
    said = [line for line in lines if line and line not in _GENERIC and not line.startswith(_ASIDE)]
    # The launcher of a JVM begins with the cause; exceptions end with it.
    refused = [line for line in said if line.startswith("Error: ")]
    fatal = [line for line in said if "OutOfMemoryError" in line]
    telling = [line for line in said if re.search(r"Exception|Error|ERROR", line)]
    found = (refused[:1] or fatal or telling or said or [""])[-1].removeprefix("Error: ")
    return f"{_PREFIX.sub('', found)} (all of it: {log})" if found else ""


def explained(error: Exception, log: Path | None) -> str:
    """What went wrong while Spark ran: our own message, or the first line of Spark's."""
    ours = sentence(error)
    if ours is not None:
        return ours
    text = str(error).strip()
    condition: Any = getattr(error, "getCondition", None)
    first = text.splitlines()[0] if text else type(error).__name__
    where = f"; Spark's log is {log}" if log is not None and condition is None else ""
    return f"{first}{where}"
