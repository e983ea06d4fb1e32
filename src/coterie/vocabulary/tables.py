"""Tables that the pipeline stores next to the datasets and the marts."""

from __future__ import annotations

from typing import Final

from coterie.vocabulary.columns import Column, Table

__all__ = ["GAPS", "LAST_BUILD", "SNAPSHOTS", "SNAPSHOT_COLUMNS"]

#: The first columns of every row of a snapshot.
SNAPSHOT_COLUMNS: Final = (
    Column("snapshot_id", "string", "The snapshot."),
    Column("taken_at", "timestamp", "Time at which the snapshot began."),
)

GAPS: Final = Table(
    "gaps",
    "Partitions of `__consumer_offsets` that are not completely in the tables.",
    (
        Column("partition", "int", "Partition of `__consumer_offsets`."),
        Column(
            "kind",
            "string",
            "`waiting` (for the end of a transaction), `failed` (could not be read), `lost` (deleted"
            " before it was read) or `open` (all of it was read, but a transaction has no end).",
        ),
        Column("read_to", "bigint", "First offset that is missing or open; null if none was read."),
        Column("read_until", "timestamp", "Time of the newest record that was read before it."),
        Column("reason", "string", "The cause."),
        Column("since", "timestamp", "Time of the ingest that first found the gap."),
    ),
)

SNAPSHOTS: Final = Table(
    "snapshots",
    "One row per snapshot: when it was taken, of which cluster, and how much it found.",
    (
        *SNAPSHOT_COLUMNS,
        Column("ended_at", "timestamp", "Time at which the snapshot ended."),
        Column("cluster", "string", "The cluster."),
        Column("group_count", "bigint", "Number of groups."),
        Column("error_count", "bigint", "Number of rows in `errors`."),
    ),
)

LAST_BUILD: Final = Table(
    "last_build",
    "One row for the newest build of the marts; no row before the first build.",
    (Column("as_of", "timestamp", "The moment that the marts describe."),),
)
