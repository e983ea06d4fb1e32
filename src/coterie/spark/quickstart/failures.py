"""The one line that explains an error, out of what Spark and its JVM print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from coterie.spark.errors import sentence

__all__ = ["explained", "last_words"]

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


def last_words(log: Path | None) -> str:
    """The line of the log that says why Spark did not start, or ended, and where the others are."""
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
    """What went wrong while Spark ran: what we said ourselves, or else the first line of what Spark says."""
    ours = sentence(error)
    if ours is not None:
        return ours
    text = str(error).strip()
    condition: Any = getattr(error, "getCondition", None)
    first = text.splitlines()[0] if text else type(error).__name__
    where = f"; Spark's log is {log}" if log is not None and condition is None else ""
    return f"{first}{where}"
