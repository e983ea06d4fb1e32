"""What a mart is: a table with documented columns, made from datasets and from earlier marts.

`docs/marts.md` is held to these columns by a test. `conform` gives a frame exactly the columns of its mart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

__all__ = ["Mart", "MartColumn", "conform"]


@dataclass(frozen=True, slots=True)
class MartColumn:
    """A column: its name, its type in Spark's DDL, and what it means."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Mart:
    """A table of the pipeline and the function that makes it."""

    name: str
    meaning: str
    columns: tuple[MartColumn, ...]
    #: Datasets and earlier marts, as the names of `make`'s arguments; each may be None.
    needs: tuple[str, ...]
    make: Callable[..., DataFrame]

    @property
    def schema(self) -> StructType:
        return schema_of(self.columns)


def schema_of(columns: tuple[MartColumn, ...]) -> StructType:
    ddl = ", ".join(f"`{column.name}` {column.type}" for column in columns)
    found = StructType.fromDDL(ddl)
    if not isinstance(found, StructType):
        raise TypeError(f"{ddl} is no table")
    return found


def conform(frame: DataFrame, columns: tuple[MartColumn, ...]) -> DataFrame:
    """Exactly these columns, in this order, as these types."""
    return frame.select([F.col(each.name).cast(each.type).alias(each.name) for each in columns])
