"""What a Python process of Spark's does besides the work itself, so that Spark waits less for it."""

from __future__ import annotations

import gc
import os
import socket
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from coterie.spark.quickstart import is_plain

__all__ = ["acknowledge", "settle"]

#: The program of Spark's that forks its workers.
_DAEMON: Final = "pyspark.daemon"
#: Whatever this process has open, by number, its connections among it.
_OPEN_FILES: Final = Path("/proc/self/fd")


def acknowledge() -> None:
    """Have the JVM send the second part of a task now; called when the first has come.

    It sends the second part when the first is acknowledged (Nagle's algorithm), which Linux puts off for
    40 ms to see whether there is anything to send along: longer than a small task takes. To ask for quick
    acknowledgements has the one that is put off sent. It holds for no longer than that, so each task asks.
    """
    if not _is_ours():
        return
    with suppress(OSError):
        for each in _OPEN_FILES.iterdir():
            _answer_quickly(int(each.name))


def _answer_quickly(number: int) -> None:
    """An open file of somebody else, if it is a connection of TCP."""
    if sys.platform != "linux":
        return
    with suppress(OSError):
        blocks = os.get_blocking(number)
        link = socket.socket(fileno=number)
        try:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        finally:
            link.detach()
            # Python lets none block that it has taken over, if somebody has set a default timeout.
            os.set_blocking(number, blocks)


@cache
def settle() -> None:
    """Keep what is loaded by now out of garbage collections.

    Spark has a worker collect all garbage behind every task, and so look at each object of Spark, pandas,
    Arrow and Coterie again, which takes some 20 ms. They stay anyway, so none is looked at.
    """
    if _is_ours():
        gc.freeze()


def _is_ours() -> bool:
    """Whether this is a worker of Spark's that may be tuned."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return getattr(main, "name", None) == _DAEMON and not is_plain()
