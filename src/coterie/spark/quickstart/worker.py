"""Tuning of Spark's Python workers: quick TCP acknowledgements, and fewer objects in garbage collections."""

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
    40 ms in case there is data to send with it: longer than a small task takes. Asking for quick
    acknowledgements sends the delayed one. The kernel forgets the request then, so each task asks.
    """
    if not _is_ours():
        return
    with suppress(OSError):
        for each in _OPEN_FILES.iterdir():
            _answer_quickly(int(each.name))


def _answer_quickly(number: int) -> None:
    """Ask for it on an open file, if that is a TCP connection."""
    if sys.platform != "linux":
        return
    with suppress(OSError):
        blocks = os.get_blocking(number)
        link = socket.socket(fileno=number)
        try:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        finally:
            link.detach()
            # With a default timeout, Python makes each socket that it takes over non-blocking.
            os.set_blocking(number, blocks)


@cache
def settle() -> None:
    """Keep what is loaded by now out of garbage collections.

    Spark has a worker collect all garbage after every task, which visits each object of Spark, pandas,
    Arrow and Coterie and takes some 20 ms. They stay anyway, so the collector skips them.
    """
    if _is_ours():
        gc.freeze()


def _is_ours() -> bool:
    """Whether this is a worker of Spark's that may be tuned."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return getattr(main, "name", None) == _DAEMON and not is_plain()
