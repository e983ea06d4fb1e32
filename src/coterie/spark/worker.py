"""What a Python process of Spark's does once, when it has worked for us the first time."""

from __future__ import annotations

import gc
import sys
from functools import cache
from typing import Final

__all__ = ["settle"]

#: The program of Spark's that forks its workers.
_DAEMON: Final = "pyspark.daemon"


@cache
def settle() -> None:
    """Keep what is loaded by now out of garbage collections.

    Spark has a worker collect all garbage behind every task, and so look at each object of Spark, pandas,
    Arrow and Coterie again, which takes some 20 ms. They stay anyway, so none is looked at.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if getattr(main, "name", None) == _DAEMON:
        gc.freeze()
