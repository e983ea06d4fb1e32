"""The table `last_build`: the moment that the marts describe, which is known even if every mart is empty."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import pyarrow as pa

from coterie.datasets.schemas import arrow_schema
from coterie.spark.pipeline.catalog import Step
from coterie.spark.pipeline.store import TableStore, Transaction
from coterie.vocabulary.datasets import LAST_BUILD as DECLARED

__all__ = ["LAST_BUILD", "remember_build", "table_of_last_build"]

LAST_BUILD: Final = DECLARED.name


def remember_build(transaction: Transaction, as_of: datetime | None, rows: dict[str, int]) -> None:
    """Store the moment of a build, and the number of rows of each mart, with its commit."""
    state = {"as_of": None if as_of is None else as_of.isoformat(), "rows": rows}
    transaction.remember(Step.BUILD, state)


def table_of_last_build(store: TableStore) -> pa.Table:
    """One row with the moment; no row if there was no build, or nothing to build from."""
    as_of = store.state(Step.BUILD).get("as_of")
    rows = [] if as_of is None else [{"as_of": datetime.fromisoformat(as_of)}]
    return pa.Table.from_pylist(rows, schema=arrow_schema(DECLARED.columns))
