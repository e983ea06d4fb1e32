"""The Arrow schemas of all datasets, from the columns that coterie.vocabulary.datasets declares.

Columns are never renamed or retyped without a new SCHEMA_VERSION. Times are UTC, topic ids are spelled as
Kafka spells them, and what is not known is null: every column may be null for a reader, and `optional`
says of which of them it is ordinary.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Final

from coterie.errors import InvalidArgument
from coterie.vocabulary.columns import Column, Table
from coterie.vocabulary.datasets import DATASETS, LIVE, LOG, SNAPSHOT_COLUMNS

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError("datasets need pyarrow: pip install 'coterie[arrow]'") from error

__all__ = [
    "DATASETS",
    "LIVE",
    "LOG",
    "SCHEMA_VERSION",
    "TIMESTAMP",
    "arrow_schema",
    "dataset",
    "pruned",
    "schema",
    "stored_schema",
]

#: Written beside stored tables; grows when a column changes its name, type or meaning.
SCHEMA_VERSION: Final = 1

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_TYPES: Final = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "timestamp": TIMESTAMP,
}


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The Arrow schema of declared columns."""
    return pa.schema([(column.name, _arrow_type(column.type)) for column in columns])


def _arrow_type(ddl: str) -> pa.DataType:
    """A type in Spark's DDL as an Arrow type. Items of lists are named as Spark names them."""
    kind, _, inner = ddl.removesuffix(">").partition("<")
    if kind == "array":
        return pa.list_(pa.field("element", _arrow_type(inner)))
    if kind == "struct":
        fields = (field.split(":", 1) for field in _fields(inner))
        return pa.struct([(name, _arrow_type(type_)) for name, type_ in fields])
    return _TYPES[ddl]


def _fields(ddl: str) -> Iterator[str]:
    """The fields of a struct: split at commas that are not inside of another type."""
    depth = start = 0
    for at, char in enumerate(ddl):
        depth += (char == "<") - (char == ">")
        if char == "," and not depth:
            yield ddl[start:at]
            start = at + 1
    yield ddl[start:]


def dataset(name: str) -> Table:
    """A dataset by its name."""
    found = DATASETS.get(name)
    if found is None:
        near = difflib.get_close_matches(name, DATASETS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(DATASETS)}"
        raise InvalidArgument(f"there is no dataset {name!r}; {hint}")
    return found


def schema(name: str) -> pa.Schema:
    """The Arrow schema of a dataset."""
    return arrow_schema(dataset(name).columns)


def stored_schema(name: str) -> pa.Schema:
    """The Arrow schema of a dataset in a table of many snapshots: with the id and the time of each."""
    columns = schema(name)
    if name in LOG or "taken_at" in columns.names:
        return columns
    return pa.schema([*arrow_schema(SNAPSHOT_COLUMNS), *columns])


def pruned(name: str, columns: Iterable[str] | None) -> pa.Schema:
    """The schema of some columns of a dataset, in the order asked for; of all without `columns`."""
    whole = schema(name)
    if columns is None:
        return whole
    wanted = list(columns)
    if not wanted:
        raise InvalidArgument(f"columns is empty; leave it out for all columns of {name!r}")
    for column in wanted:
        if column not in whole.names:
            near = difflib.get_close_matches(column, whole.names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(whole.names)}"
            raise InvalidArgument(f"dataset {name!r} has no column {column!r}; {hint}")
    return pa.schema([whole.field(column) for column in dict.fromkeys(wanted)])
