"""Starts Spark quickly and ends it in order: a class archive, a JVM started in parallel, tuned workers.

The entry is `coterie.spark.quickstart.session`. With COTERIE_PLAIN_SPARK=1 nothing here changes how Spark
starts or works: `SparkSession.builder` makes the session.
"""

from __future__ import annotations

import os

__all__ = ["is_plain"]


def is_plain() -> bool:
    """Whether the user wants Spark as it is."""
    return os.environ.get("COTERIE_PLAIN_SPARK", "0") not in {"", "0"}
