"""I9: nothing fails that nobody expected. Watches the logs of Coterie and asyncio, and what processes print.

What this is: a handler that takes every record with an exception in it, of a broker's failed handler, of a
task whose exception nobody looked at, of a callback of the event loop; and a look at what a test has printed,
for there a `coterie` that it started leaves its traceback.
Who calls it: tests.kit.invariant_watch, for every test.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Iterable
from traceback import walk_tb
from typing import Final

from tests.kit.broken_promises import BROKEN, BrokenPromises

__all__ = ["LogWatch", "install", "tracebacks"]

_TRACEBACK: Final = re.compile(r"^Traceback \(most recent call last\):$", re.MULTILINE)


class LogWatch(logging.Handler):
    """Takes records that tell of an exception; asyncio tells of none that it expects."""

    def __init__(self, broken: BrokenPromises) -> None:
        super().__init__(logging.ERROR)
        self._broken = broken

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and not _is_of_a_client(record):
            kind = getattr(record.exc_info[0], "__name__", None)
            said = record.getMessage().partition("\n")[0]
            self._broken.add(f"I9: {record.name} logged {kind}: {said}")


def _is_of_a_client(record: logging.LogRecord) -> bool:
    """Whether it is aiokafka's, which uses asyncio as we do and may lose a task when it is closed."""
    if record.name != "asyncio" or record.exc_info is None:
        return False
    _, error, traceback = record.exc_info
    files = [frame.f_code.co_filename for frame, _ in walk_tb(traceback)]
    whose = [type(error).__module__, record.getMessage(), *files]
    return any("aiokafka" in each for each in whose) and not any(
        "/coterie/" in each for each in files
    )


def tracebacks(sections: Iterable[tuple[str, str]], when: str) -> list[str]:
    """Which of the outputs that were captured in a phase of a test have a traceback in them."""
    return [
        name
        for name, text in sections
        if name.endswith(when) and "log" not in name and _TRACEBACK.search(text)
    ]


@functools.cache
def install() -> None:
    """Watch the logs of this process, from now on."""
    for name in ("coterie", "asyncio"):
        logging.getLogger(name).addHandler(LogWatch(BROKEN))
