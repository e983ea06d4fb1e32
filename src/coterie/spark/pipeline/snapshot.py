"""`snapshot`: what a cluster says of its groups, kept for good under an id. No Spark, no JVM.

All datasets are filled from the same answers and committed together, with the time at which asking began and
ended. An id is written once: the same id again changes
nothing, so that a job that is repeated does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from coterie.client import AdminClient
from coterie.console.progress import StepProgress
from coterie.datasets.snapshot import LiveSnapshot, take_snapshot
from coterie.errors import CoterieError
from coterie.spark.pipeline.catalog import Step
from coterie.spark.pipeline.end_offsets import write_days
from coterie.spark.pipeline.origin import check_cluster, identity_of
from coterie.spark.pipeline.store import TableStore, check_version, is_run_id, new_run_id
from coterie.spark.pipeline.tables import SNAPSHOT_TABLES, SNAPSHOTS, RawTable

__all__ = ["Snapshot", "snapshot"]


@dataclass(frozen=True)
class Snapshot:
    """A snapshot that was taken, or that was there already (then without rows)."""

    snapshot_id: str
    taken_at: datetime
    is_new: bool
    rows: Mapping[str, int] = field(default_factory=dict)
    #: What could not be learned, in sentences.
    errors: tuple[str, ...] = ()


def snapshot(
    store: TableStore,
    properties: Mapping[str, str],
    *,
    snapshot_id: str | None = None,
    strict: bool = False,
    progress: StepProgress | None = None,
) -> Snapshot:
    """Ask for everything, and keep it. With `strict`, an answer that is not whole is not kept."""
    progress = progress or StepProgress(quiet=True)
    if snapshot_id is not None:
        _check_id(snapshot_id)
    name = snapshot_id or new_run_id()
    with store.write() as transaction:
        known: Mapping[str, str] = store.state(Step.SNAPSHOTS).get("taken", {})
        with AdminClient.connect(dict(properties)) as admin:
            # All topics, for they are needed anyway, and the answer names the cluster, too.
            topics = admin.describe_topics()
            cluster = identity_of(admin)
            check_cluster(store, cluster)
            if name in known:
                return Snapshot(name, datetime.fromisoformat(known[name]), is_new=False)
            with progress.step("Asking the brokers"):
                live = take_snapshot(admin, topics)
        errors = _sentences(live.tables["errors"])
        if strict and errors:
            raise CoterieError(f"the snapshot is not whole, and was not kept: {'; '.join(errors)}")
        rows = {}
        for table in (*SNAPSHOT_TABLES, SNAPSHOTS):
            check_version(store, table)
            if table is SNAPSHOTS:
                found = _row(name, live, cluster)
            else:
                found = _with_id(live.tables[table.name], table, name, live.began_at)
            if found.num_rows:
                write_days(transaction.directory(table.name), found, table.name)
            rows[table.name] = transaction.append(table.name, table.schema, table.version)
        del rows[SNAPSHOTS.name]
        # Only names that somebody chose can come again.
        taken = {**known, name: live.began_at.isoformat()} if snapshot_id else known
        state = {"cluster": cluster, "taken": dict(taken), "newest_groups": rows["groups"]}
        transaction.remember(Step.SNAPSHOTS, state)
        transaction.commit()
    return Snapshot(name, live.began_at, is_new=True, rows=rows, errors=errors)


def _check_id(chosen: str) -> None:
    if not chosen.strip():
        raise CoterieError("--snapshot-id is empty; name it, or leave the option out")
    if is_run_id(chosen):
        raise CoterieError(
            f"--snapshot-id {chosen} looks like an id that was not chosen; choose another one,"
            " such as the name of the job"
        )


def _with_id(found: pa.Table, table: RawTable, snapshot_id: str, began_at: datetime) -> pa.Table:
    """The rows of a dataset with the snapshot's columns in front; ends of logs have a time of their own."""
    if table.dataset == "end_offsets":
        return found
    ids = pa.array([snapshot_id] * len(found), pa.string())
    times = pa.array([began_at] * len(found), table.schema.field("taken_at").type)
    return pa.Table.from_arrays([ids, times, *found.columns], schema=table.schema)


def _row(snapshot_id: str, taken: LiveSnapshot, cluster: str) -> pa.Table:
    """The snapshot itself."""
    row = {
        "snapshot_id": snapshot_id,
        "taken_at": taken.began_at,
        "ended_at": taken.ended_at,
        "cluster": cluster,
        "group_count": len(taken.tables["groups"]),
        "error_count": len(taken.tables["errors"]),
    }
    return pa.Table.from_pylist([row], SNAPSHOTS.schema)


def _sentences(errors: pa.Table) -> tuple[str, ...]:
    return tuple(f"{row['scope']} {row['name']}: {row['error']}" for row in errors.to_pylist())
