"""`snapshot`: what a cluster says of its groups at one moment, kept for good under an id. No Spark, no JVM.

All datasets are asked for in one go and committed together. An id is written once: the same id again changes
nothing, so that a job that is repeated does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

from coterie.client import AdminClient
from coterie.client.blocking import BlockingAdminClient
from coterie.datasets.live import LiveQuery, LiveTask, plan_live, read_task
from coterie.errors import CoterieError
from coterie.spark.pipeline.end_offsets import write_days
from coterie.spark.pipeline.origin import check_cluster
from coterie.spark.pipeline.progress import Progress
from coterie.spark.pipeline.store import TableStore, is_run_id, new_run_id
from coterie.spark.pipeline.tables import SNAPSHOT_TABLES, RawTable
from coterie.spark.pipeline.versions import check_version

__all__ = ["Snapshot", "snapshot"]

_STEP = "snapshots"


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
    progress: Progress | None = None,
) -> Snapshot:
    """Ask for everything, and keep it. With `strict`, an answer that is not whole is not kept."""
    progress = progress or Progress(quiet=True)
    if snapshot_id is not None:
        _check_id(snapshot_id)
    name = snapshot_id or new_run_id()
    with store.write() as transaction:
        known: Mapping[str, str] = store.state(_STEP).get("taken", {})
        with AdminClient.connect(dict(properties)) as admin:
            admin.brokers()
            cluster = f"cluster {admin.cluster_id or 'without an id'}"
            check_cluster(store, cluster)
            if name in known:
                return Snapshot(name, datetime.fromisoformat(known[name]), is_new=False)
            taken_at = datetime.now(UTC)
            with progress.step("Asking the brokers"):
                found = _ask_all(admin, name, taken_at)
        errors = _sentences(found["errors"])
        if strict and errors:
            raise CoterieError(f"the snapshot is not whole, and was not kept: {'; '.join(errors)}")
        rows = {}
        for table in SNAPSHOT_TABLES:
            check_version(store, table)
            if found[table.name].num_rows:
                write_days(transaction.directory(table.name), found[table.name], table.name)
            rows[table.name] = transaction.append(table.name, table.schema, table.version)
        # Only names that somebody chose can come again.
        taken = {**known, name: taken_at.isoformat()} if snapshot_id else known
        state = {"cluster": cluster, "taken": dict(taken), "newest_groups": rows["groups"]}
        transaction.remember(_STEP, state)
        transaction.commit()
    return Snapshot(name, taken_at, is_new=True, rows=rows, errors=errors)


def _check_id(chosen: str) -> None:
    if not chosen.strip():
        raise CoterieError("--snapshot-id is empty; name it, or leave the option out")
    if is_run_id(chosen):
        raise CoterieError(
            f"--snapshot-id {chosen} looks like an id that was not chosen; choose another one,"
            " such as the name of the job"
        )


def _ask_all(
    admin: BlockingAdminClient, snapshot_id: str, taken_at: datetime
) -> dict[str, pa.Table]:
    """The rows of every table. Groups are listed once: a broker that hangs is waited for once."""
    tasks = plan_live(admin, LiveQuery("errors"))
    found = {}
    for table in SNAPSHOT_TABLES:
        own = [LiveTask()] if table.dataset == "end_offsets" else tasks
        found[table.name] = _ask(admin, table, own, snapshot_id, taken_at)
    return found


def _ask(
    admin: BlockingAdminClient,
    table: RawTable,
    tasks: list[LiveTask],
    snapshot_id: str,
    taken_at: datetime,
) -> pa.Table:
    """The rows of a dataset, with the snapshot's columns in front."""
    # What of the log cannot be read, an ingest says.
    query = LiveQuery(table.dataset, partial=True, with_log=False)
    batches = (batch for task in tasks for batch in read_task(admin, query, task))
    rows = pa.Table.from_batches(batches, schema=query.schema)
    if table.dataset == "end_offsets":
        return rows
    ids = pa.array([snapshot_id] * len(rows), pa.string())
    times = pa.array([taken_at] * len(rows), table.schema.field("taken_at").type)
    return pa.Table.from_arrays([ids, times, *rows.columns], schema=table.schema)


def _sentences(errors: pa.Table) -> tuple[str, ...]:
    return tuple(f"{row['scope']} {row['name']}: {row['error']}" for row in errors.to_pylist())
