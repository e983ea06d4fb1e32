"""Marts: tables that answer questions about groups, each made by a function from DataFrames to a DataFrame.

    make_mart("lag", {"commits": commits, "end_offsets": end_offsets})

`coterie.vocabulary.marts.MARTS` declares their columns and what each is made from.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Container, Iterable, Mapping
from datetime import datetime
from graphlib import TopologicalSorter
from types import MappingProxyType
from typing import Any, Final

from pyspark.sql import DataFrame

from coterie.datasets.schemas import DATASETS
from coterie.errors import InvalidArgument
from coterie.spark.marts.burrow import Burrow
from coterie.spark.marts.commit_rates import commit_rates
from coterie.spark.marts.group_summary import group_summary
from coterie.spark.marts.groups_now import groups_now
from coterie.spark.marts.health import HealthRules, health
from coterie.spark.marts.inputs import Inputs, schema_of
from coterie.spark.marts.lag import lag
from coterie.spark.marts.lag_history import lag_history
from coterie.spark.marts.members_now import members_now
from coterie.spark.marts.offset_resets import offset_resets
from coterie.spark.marts.rebalances import rebalances
from coterie.spark.marts.stale import delete_plan, stale_groups
from coterie.spark.marts.topic_subscribers import topic_subscribers
from coterie.vocabulary.datasets import GAPS
from coterie.vocabulary.marts import MARTS

__all__ = [
    "Burrow",
    "HealthRules",
    "Inputs",
    "delete_plan",
    "dependencies",
    "make",
    "make_mart",
    "schema_of",
]

#: The function that makes each mart from its inputs.
_MAKERS: Final[Mapping[str, Callable[..., DataFrame]]] = MappingProxyType(
    {
        maker.__name__: maker
        for maker in (
            lag,
            groups_now,
            members_now,
            rebalances,
            offset_resets,
            commit_rates,
            stale_groups,
            lag_history,
            health,
            topic_subscribers,
            group_summary,
        )
    }
)


def make_mart(
    name: str,
    tables: Mapping[str, DataFrame],
    *,
    as_of: datetime | None = None,
    **settings: Any,
) -> DataFrame:
    """Make one mart from datasets, and first the marts that it is made from.

    `tables` has datasets by name, `gaps`, and marts that are made already: these are not made again. `as_of`
    is the moment that the mart describes, the newest time in the datasets by default. `settings` are those
    of the mart, such as `idle_for` of `stale_groups`.
    """
    _check(name, tables, settings)
    made = dict(tables)
    inputs = Inputs.of(next(iter(made.values())).sparkSession, made, as_of)
    for each in dependencies([name], made).static_order():
        inputs = inputs.plus(each, make(each, inputs, **(settings if each == name else {})))
    return inputs[name]


def make(name: str, inputs: Inputs, **settings: Any) -> DataFrame:
    """Make one mart from what it needs, which must be among the inputs."""
    return _MAKERS[name](inputs.only(MARTS[name].needs), **settings)


def dependencies(names: Iterable[str] = MARTS, made: Container[str] = ()) -> TopologicalSorter[str]:
    """Some marts, and the marts that they are made from, in the order of their dependencies."""
    graph: dict[str, list[str]] = {}
    wanted = list(names)
    while wanted:
        name = wanted.pop()
        graph[name] = [each for each in MARTS[name].needs if each in MARTS and each not in made]
        wanted += [each for each in graph[name] if each not in graph]
    return TopologicalSorter(graph)


def _check(name: str, tables: Mapping[str, DataFrame], settings: Mapping[str, Any]) -> None:
    _must_be_one_of([name], MARTS, "mart")
    _must_be_one_of(tables, [*DATASETS, GAPS.name, *MARTS], "table")
    _, *own = inspect.signature(_MAKERS[name]).parameters
    _must_be_one_of(settings, own, f"setting of {name}")
    if not tables:
        raise InvalidArgument(f"mart {name!r} needs at least one dataset, and none was given")


def _must_be_one_of(names: Iterable[str], known: Iterable[str], what: str) -> None:
    there = list(known)
    for name in names:
        if name not in there:
            near = difflib.get_close_matches(name, there, n=1)
            choice = f"there are {', '.join(there)}" if there else "there are none"
            hint = f"did you mean {near[0]!r}?" if near else choice
            raise InvalidArgument(f"there is no {what} {name!r}; {hint}")
