"""Spark's filters as a selection: which of them narrow what is asked for, and which are left to Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from coterie.datasets.schemas import LOG
from coterie.datasets.times import EPOCH
from coterie.spark.options import WITH_TOPICS, SourceOptions

__all__ = ["push"]

#: Columns whose wanted values decide what is asked for, and the field of the selection for each.
_NAMES: Final = {"group_id": "groups", "state": "states", "type": "types", "topic": "topics"}
_MS: Final = timedelta(milliseconds=1)


def push(options: SourceOptions, filters: Iterable[Filter]) -> tuple[SourceOptions, list[Filter]]:
    """Options narrowed by filters, and the filters that Spark still has to apply."""
    left = []
    for each in filters:
        narrowed, exact = _push(options, each)
        options = narrowed
        if not exact:
            left.append(each)
    return options, left


def _push(options: SourceOptions, each: Filter) -> tuple[SourceOptions, bool]:
    """The options with this filter, and whether it is fully honoured by them."""
    column = _column(each)
    columns = {known.name for known in options.dataset.columns}
    if column is None or column not in columns:
        return options, False
    if isinstance(each, StringStartsWith) and column == "group_id":
        chosen = options.selection.beginning(each.value)
        return msgspec.structs.replace(options, selection=chosen), True
    values = _values(each)
    if values is not None and column in _NAMES and _is_selected(options, column):
        chosen = options.selection.narrowed(_NAMES[column], values)
        return msgspec.structs.replace(options, selection=chosen), True
    if options.dataset.name in LOG:
        return _push_place(options, each, column, values)
    return options, False


def _is_selected(options: SourceOptions, column: str) -> bool:
    """Whether rows are chosen by this column, not only requests."""
    return column != "topic" or options.dataset.name in WITH_TOPICS


def _column(each: Filter) -> str | None:
    path: tuple[str, ...] = getattr(each, "attribute", ())
    return path[0] if len(path) == 1 else None


def _values(each: Filter) -> list[str] | None:
    """The values that a column may have; null never equals anything."""
    if isinstance(each, In):
        return [value for value in each.value if value is not None]
    if isinstance(each, EqualTo) or (isinstance(each, EqualNullSafe) and each.value is not None):
        return [each.value] if each.value is not None else []
    return None


def _push_place(
    options: SourceOptions, each: Filter, column: str, values: Collection[Any] | None
) -> tuple[SourceOptions, bool]:
    """Partitions and times of the log: less is read, and Spark looks at what remains."""
    if column == "partition" and values is not None:
        numbers = frozenset(int(value) for value in values)
        both = numbers if options.partitions is None else numbers & options.partitions
        return msgspec.structs.replace(options, partitions=both), True
    if column == "timestamp" and isinstance(getattr(each, "value", None), datetime):
        return _push_time(options, each), False
    return options, False


def _push_time(options: SourceOptions, each: Any) -> SourceOptions:
    """Times as options have them: the first, and the one behind the last, in milliseconds."""
    # A time without a zone is the machine's own.
    since = (each.value if each.value.tzinfo else each.value.astimezone()) - EPOCH
    reached = max(0, -(-since // _MS))  # the first millisecond that is not before it
    passed = max(0, since // _MS + 1)  # the first one behind it
    if isinstance(each, (GreaterThan, GreaterThanOrEqual)):
        start = passed if isinstance(each, GreaterThan) else reached
        return msgspec.structs.replace(options, start_ms=max(start, options.start_ms or 0))
    if isinstance(each, (LessThan, LessThanOrEqual)):
        end = reached if isinstance(each, LessThan) else passed
        known = options.end_ms
        return msgspec.structs.replace(options, end_ms=end if known is None else min(end, known))
    return options
