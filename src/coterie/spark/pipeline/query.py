"""`sql`: a query over all tables of a store, with values bound by name.

Views of tables are files to Spark, which it would write to: what is no query is refused before it is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from coterie.errors import CoterieError, InvalidArgument
from coterie.spark.pipeline.frames import register_views
from coterie.spark.pipeline.store import TableStore

__all__ = ["run_query"]

_PLANS: Final = "org.apache.spark.sql.catalyst.plans.logical"
#: Commands that only show something, by how the names of their plans begin.
_SHOWS: Final = ("Describe", "Show")
#: What writes or runs a text of its own, and is no command to Spark's parser.
_NO_QUERIES: Final = ("InsertInto", "UnresolvedExecuteImmediate", "Call")


def run_query(
    spark: SparkSession,
    store: TableStore,
    text: str,
    parameters: Mapping[str, object] | None = None,
    limit: int | None = None,
) -> tuple[list[str], list[Sequence[object]]]:
    """Column names and rows. Values come in by `:name`, never by pasting them into the text."""
    store.must_exist()
    _must_be_query(spark, text)
    names = register_views(spark, store, text)
    try:
        frame = spark.sql(text, args=dict(parameters or {}))
        if limit is not None:
            frame = frame.limit(limit)
        table = frame.toArrow()
    except PySparkException as error:
        raise CoterieError(_sentence(error, names)) from None
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return list(table.column_names), [tuple(row) for row in rows]


def _must_be_query(spark: SparkSession, text: str) -> None:
    """Raise unless Spark's parser takes a text for something that only reads."""
    try:
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)  # noqa: SLF001
    except PySparkException as error:
        raise CoterieError(_sentence(error, ())) from None
    if _name(plan) == "ExplainCommand":
        plan = plan.logicalPlan()  # which is analyzed, and some statements are run by that alone
    if _name(plan).startswith(_SHOWS):
        return
    for each in _nodes(plan):
        if _name(each).startswith(_NO_QUERIES) or _is_command(spark, each):
            first = text.split(maxsplit=1)[0].upper()
            raise InvalidArgument(
                f"{first} ... is no query: tables are only read here, ask by SELECT"
            )


def _name(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())


def _is_command(spark: SparkSession, plan: Any) -> bool:
    gateway = spark.sparkContext._gateway  # noqa: SLF001
    return bool(is_instance_of(gateway, plan, f"{_PLANS}.Command"))


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from _nodes(children.apply(number))


def _sentence(error: PySparkException, names: Sequence[str]) -> str:
    """Spark's first sentence, which names the trouble; and the tables, if one was not found."""
    first = str(error).strip().splitlines()[0]
    if "TABLE_OR_VIEW_NOT_FOUND" in first:
        return f"{first.split(' Verify')[0]} There are: {', '.join(names)}"
    return first
