"""The daemon from which the session forks workers for its tasks, with all that they import loaded already.

Spark's own daemon, pyspark.daemon, imports nothing before it forks, for a library may have started threads by
then; so each worker would import Arrow, pandas and Coterie anew. What is imported here was seen to survive a
fork on Linux. Workers that plan, and those of Sparks in processes of their own, come from Spark's daemon.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy

_IMPORTED = ("pandas", "pyspark.worker", "coterie.spark.source")

if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    # Under its own name: coterie.spark.quickstart.worker looks for it.
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
