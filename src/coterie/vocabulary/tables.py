"""Tables that the pipeline stores next to the datasets and the marts."""

from __future__ import annotations

from typing import Final

from coterie.vocabulary.columns import Column, Table

__all__ = ["GAPS"]

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
