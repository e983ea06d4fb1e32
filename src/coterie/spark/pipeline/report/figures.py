"""The figures of the report: each is a question in SQL over the tables, and its answer.

The questions are the files in `sql/`. The page and report.json show these answers and nothing else; whoever
doubts one runs its SQL with `coterie pipeline sql`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final

from pyspark.sql import SparkSession

from coterie.spark.pipeline.frames import register_views
from coterie.spark.pipeline.settings import planning
from coterie.spark.pipeline.store import TableStore

__all__ = ["FIGURES", "Answer", "Figure", "answers"]


@dataclass(frozen=True)
class Figure:
    """A question: its name in report.json, and its SQL."""

    name: str
    sql: str


@dataclass(frozen=True)
class Answer:
    """The rows that a question was answered with."""

    figure: Figure
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]

    def first(self) -> Mapping[str, Any]:
        return self.rows[0] if self.rows else {}


def _figure(name: str) -> Figure:
    path = files("coterie.spark.pipeline.report").joinpath("sql", f"{name}.sql")
    return Figure(name, path.read_text(encoding="utf-8").strip())


#: In the order of the page. How many rows each has at most is in its SQL.
FIGURES: Final = tuple(
    _figure(name)
    for name in (
        "overview",
        "states",
        "lag_curves",
        "backlog_curves",
        "lag_now",
        "rebalances_by_hour",
        "rebalance_timeline",
        "rebalance_groups",
        "stale_groups",
        "stale_families",
        "finding_counts",
        "findings",
        "offset_resets",
        "trouble",
    )
)


def answers(spark: SparkSession, store: TableStore) -> dict[str, Answer]:
    """Ask every question."""
    register_views(spark, store, " ".join(figure.sql for figure in FIGURES))
    with planning(spark, store):
        return {figure.name: _answer(spark, figure) for figure in FIGURES}


def _answer(spark: SparkSession, figure: Figure) -> Answer:
    table = spark.sql(figure.sql).toArrow()
    columns = [[_in_utc(value) for value in column.to_pylist()] for column in table.columns]
    names: Sequence[str] = table.column_names
    rows = tuple(dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
    return Answer(figure, tuple(names), rows)


def _in_utc(value: object) -> object:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
