"""What the tests of the pipeline share: the command in this process, and what is in tables in the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from coterie.spark.command import command
from coterie.spark.pipeline.frames import read_table
from coterie.spark.pipeline.output import plain
from coterie.spark.pipeline.store import TableStore

__all__ = ["Made", "everything", "pipeline"]


class Made(NamedTuple):
    """What `coterie pipeline run` made of segment files, and what it said."""

    segments: Path
    out: Path
    said: str


def pipeline(*arguments: str | Path) -> Result:
    """Run the command in this process, on the session that the tests have."""
    return CliRunner().invoke(command, [str(each) for each in arguments], catch_exceptions=False)


def everything(spark: SparkSession, out: Path) -> dict[str, list[str]]:
    """All rows of all tables, in an order of their own."""
    store = TableStore(out)
    return {
        name: sorted(
            json.dumps(plain(row)) for row in read_table(spark, store, name).toArrow().to_pylist()
        )
        for name in store.tables
    }
