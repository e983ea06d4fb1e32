"""The Spark data source `coterie`."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource

__all__ = ["CoterieSource"]


class CoterieSource(DataSource):
    """`spark.read.format("coterie")`: see docs/datasets.md."""

    @classmethod
    def name(cls) -> str:
        return "coterie"
