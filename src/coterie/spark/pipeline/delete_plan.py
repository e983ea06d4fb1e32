"""Stale groups as a plan that `coterie groups delete --plan` looks at again and executes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from coterie.errors import InvalidArgument
from coterie.spark.marts.stale import IDLE, delete_plan
from coterie.spark.pipeline.frames import read_table
from coterie.spark.pipeline.store import TableStore

__all__ = ["write_delete_plan"]

_CLUSTER = "cluster "


def write_delete_plan(spark: SparkSession, store: TableStore, path: Path, idle: timedelta) -> int:
    """Write the plan; how many groups are in it. Without an idle time, all that the mart has."""
    if timedelta() < idle < IDLE:
        raise InvalidArgument(
            "--idle is too short: stale_groups has only groups that were idle for a day; give it 1d or more"
        )
    stale = read_table(spark, store, "stale_groups")
    chosen = stale.where(stale.idle_seconds >= idle.total_seconds())
    source = str(store.state("snapshots").get("cluster") or store.state("log").get("source", ""))
    known = source.removeprefix(_CLUSTER) if source.startswith(_CLUSTER) else None
    plan = delete_plan(chosen, read_table(spark, store, "lag"), cluster_id=known)
    plan.save(path)
    return len(plan.groups)
