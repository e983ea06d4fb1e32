"""The daemon from which the session forks its Python workers, with all that they import loaded already.

Spark's own daemon, pyspark.daemon, imports nothing before it forks, for a library may have started threads by
then; so each of some sixty workers would import Arrow, pandas and Coterie anew, for half a second. What is
imported here was seen to survive a fork on Linux. Sparks in processes of their own have Spark's daemon, as
users do.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy

_IMPORTED = (
    "pandas",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.worker",
    "coterie.spark.source",
)

if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    # Under its own name: coterie.spark.worker looks for it.
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
