"""What lies behind a transaction that is open where segment files end.

Files get no more by themselves: who held back what is behind would hold it back for ever. So it is in the
tables, in files of its own, and the checkpoint stays before the transaction. An ingest that finds more of the
partition reads all of that tail again, with the outcomes that are known by then, and leaves the earlier files
out in the same commit: every record is there once. Called by coterie.spark.pipeline.ingest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow.compute as pc
import pyarrow.dataset as ds

from coterie.spark.pipeline.catalog import TAIL
from coterie.spark.pipeline.end_offsets import write_days
from coterie.spark.pipeline.store import TableStore, Transaction
from coterie.spark.pipeline.tables import LOG_TABLES

__all__ = ["carry_over", "known_tails", "leave_out"]


def known_tails(store: TableStore) -> dict[int, int]:
    """Partition -> the offset behind its tail, which begins where the checkpoint is."""
    found: Mapping[str, int] = store.state("log").get("tails", {})
    return {int(partition): end for partition, end in found.items()}


def leave_out(transaction: Transaction, partitions: Collection[int]) -> None:
    """Leave the files of tails out if one of these partitions, which are read now, has one."""
    if known_tails(transaction.store).keys().isdisjoint(partitions):
        return
    for table in LOG_TABLES:
        manifest = transaction.store.manifest(table.name)
        if manifest is not None:
            transaction.leave_out(table.name, [file for file in manifest.files if file.is_tail])


def carry_over(transaction: Transaction, partitions: Collection[int]) -> None:
    """Of the files that were left out, take along what is of other partitions: their tails stay."""
    for table in LOG_TABLES:
        paths = transaction.left_out(table.name)
        if not paths:
            continue
        rows = ds.dataset(paths, schema=table.schema, format="parquet")
        others = rows.to_table(filter=~pc.field("partition").isin(sorted(partitions)))
        write_days(transaction.directory(table.name) / TAIL, others, table.name)
        transaction.append(table.name, table.schema, table.version)
