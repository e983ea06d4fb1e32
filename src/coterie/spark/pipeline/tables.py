"""The tables of a store: which there are, the version of their schema, and how they lie on disk.

Raw tables hold what a cluster said: the log since the first ingest, and one set of rows per snapshot. Marts
are made from them by `build` and can always be made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import pyarrow as pa

from coterie.datasets.schemas import LIVE, SCHEMA_VERSION, arrow_schema, schema, stored_schema
from coterie.vocabulary.datasets import SNAPSHOTS as SNAPSHOT_DECLARATION

__all__ = [
    "BESIDE",
    "LOG_TABLES",
    "MART_VERSION",
    "RAW",
    "SNAPSHOTS",
    "SNAPSHOT_TABLES",
    "RawTable",
    "raw_table",
]

#: Grows when a mart's columns change; `build` replaces what is older.
MART_VERSION: Final = 3
#: Files that tasks write for the driver, next to the tables.
BESIDE: Final = ".beside"


class RawTable(NamedTuple):
    """A table of facts: its schema, the column that gives a row its day, and the order inside a file."""

    name: str
    #: The dataset that fills it.
    dataset: str
    schema: pa.Schema
    day_of: str
    #: Rows that are read together lie together; equal neighbours also pack well.
    order: tuple[str, ...]
    version: int = SCHEMA_VERSION


def _of_snapshot(name: str) -> RawTable:
    if name == "end_offsets":  # a history of its own, which other sources add to
        order: tuple[str, ...] = ("topic", "partition")
    else:
        order = ("snapshot_id", schema(name).names[0])
    return RawTable(name, name, stored_schema(name), "taken_at", order)


LOG_TABLES: Final = (
    RawTable(
        "commits",
        "commits",
        schema("commits"),
        "timestamp",
        ("group_id", "topic", "topic_partition", "offset"),
    ),
    RawTable(
        "group_events", "group_events", schema("group_events"), "timestamp", ("group_id", "offset")
    ),
    # The log itself is not kept, except for records that could not be decoded: they must not be lost.
    RawTable("quarantine", "log", schema("log"), "timestamp", ("partition", "offset")),
)
SNAPSHOT_TABLES: Final = tuple(_of_snapshot(name) for name in LIVE)
#: One row per snapshot: the others say what it found, this one when it was asked for.
SNAPSHOTS: Final = RawTable(
    "snapshots",
    "snapshots",
    arrow_schema(SNAPSHOT_DECLARATION.columns),
    "taken_at",
    ("snapshot_id",),
)

RAW: Final[Mapping[str, RawTable]] = MappingProxyType(
    {table.name: table for table in (*LOG_TABLES, *SNAPSHOT_TABLES, SNAPSHOTS)}
)


def raw_table(name: str) -> RawTable:
    """A raw table by its name."""
    return RAW[name]
