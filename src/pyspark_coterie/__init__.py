"""Makes `spark.read.format("coterie")` work by itself: Spark imports every top-level `pyspark_*` module.

One such module that fails to import hides all of them, with no word why, so this one never fails. Where
what it needs is missing, there is no DefaultSource, and Spark says that it does not know the format.
"""

from __future__ import annotations

import contextlib

with contextlib.suppress(Exception):
    from coterie.spark.source import CoterieSource as DefaultSource

    __all__ = ["DefaultSource"]
