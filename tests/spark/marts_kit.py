"""What the tests of marts share: tables from rows, and a Spark that is quick with small ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession

from coterie.datasets.log import LogQuery, SegmentSource, read_log
from coterie.datasets.schemas import schema, stored_schema
from coterie.spark.marts import Inputs, make, make_mart, schema_of
from coterie.spark.pipeline.build import side_by_side
from coterie.vocabulary.marts import MARTS

__all__ = [
    "NOW",
    "commit",
    "frame",
    "generation",
    "make_marts",
    "mart",
    "member",
    "quick",
    "read_fleet",
    "stamp",
    "truth",
    "with_marts",
]

#: The moment that tests look at.
NOW = datetime(2026, 3, 3, tzinfo=UTC)
#: Plans of marts are long and these tables short: compiling and adapting would be all that Spark does.
_QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


@contextmanager
def quick(spark: SparkSession, **more: str) -> Iterator[SparkSession]:
    """The session with settings for small tables, for a while."""
    settings = _QUICK | more
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, old in before.items():
        spark.conf.set(name, str(old))


def make_marts(
    spark: SparkSession, tables: dict[str, DataFrame], as_of: datetime
) -> dict[str, list[Row]]:
    """All marts, made from these tables as the pipeline makes them; they join the tables."""

    def rows_of(name: str) -> list[Row]:
        found = make(name, Inputs.of(spark, tables, as_of))
        columns = schema_of(MARTS[name].columns)
        assert found.schema.simpleString() == columns.simpleString(), name
        rows = found.collect()
        tables[name] = spark.createDataFrame(rows, columns)
        return rows

    return side_by_side(rows_of)


def with_marts(
    spark: SparkSession, tables: dict[str, DataFrame], as_of: datetime | None, *marts: str
) -> dict[str, DataFrame]:
    """The tables, and these marts made from them one after the other."""
    found = dict(tables)
    for name in marts:
        found[name] = mart(spark, name, make_mart(name, found, as_of=as_of).collect())
    return found


def mart(spark: SparkSession, name: str, rows: Iterable[Row | dict[str, Any]] = ()) -> DataFrame:
    """Some rows of a mart; what they leave out is null."""
    columns = schema_of(MARTS[name].columns)
    given = [row.asDict() if isinstance(row, Row) else row for row in rows]
    return spark.createDataFrame(
        [[row.get(each) for each in columns.names] for row in given], columns
    )


def frame(spark: SparkSession, dataset: str, rows: list[dict[str, Any]]) -> DataFrame:
    """A dataset of these rows; what they leave out is null."""
    table = pa.Table.from_pylist(rows, schema=stored_schema(dataset))
    return spark.createDataFrame(table)


def read_fleet(spark: SparkSession, directory: Path) -> dict[str, DataFrame]:
    """The tables of a simulated fleet: what ingest would make of its segments."""
    source = SegmentSource.at(str(directory))
    tables = {"end_offsets": spark.read.parquet(str(directory / "end_offsets"))}
    for name in ("commits", "group_events"):
        path = directory / f"{name}.parquet"
        with pq.ParquetWriter(path, schema(name)) as writer:
            for batch in read_log(source, LogQuery(name)):
                writer.write_batch(batch)
        tables[name] = spark.read.parquet(str(path))
    return tables


def truth(directory: Path, name: str) -> list[dict[str, Any]]:
    lines = (directory / "truth" / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def stamp(moment: datetime | None) -> str | None:
    """A time from Spark, which hands out UTC without saying so, as the truth writes it."""
    if moment is None:
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def commit(
    offset: int, committed: int | None, ago: float, *, group: str = "g", **more: Any
) -> dict[str, Any]:
    """A row of `commits`: so many seconds before NOW; without an offset, a removal."""
    at = NOW - timedelta(seconds=ago)
    row = {
        "partition": 0,
        "offset": offset,
        "timestamp": at,
        "group_id": group,
        "topic": "t",
        "topic_partition": 0,
        "committed_offset": committed,
        "commit_timestamp": None if committed is None else at,
        "tombstone": committed is None,
    }
    return row | more


def member(member_id: str, *partitions: int, topic: str = "t", **more: Any) -> dict[str, Any]:
    """A member of a classic group that reads a topic."""
    row = {
        "member_id": member_id,
        "client_id": f"client-{member_id}",
        "client_host": "/10.0.0.1",
        "subscription": [topic],
        "assignment": [{"topic": topic, "partitions": list(partitions)}] if partitions else [],
    }
    return row | more


def generation(
    offset: int, number: int, *members: dict[str, Any], group: str = "g", **more: Any
) -> dict[str, Any]:
    """A GroupMetadata record in `group_events`, a minute after the one with the offset before."""
    at = NOW - timedelta(hours=2) + timedelta(minutes=offset)
    row = {
        "partition": 0,
        "offset": offset,
        "timestamp": at,
        "group_id": group,
        "group_type": "classic",
        "record": "GroupMetadata",
        "tombstone": False,
        "generation": number,
        "protocol_type": "consumer",
        "protocol": "range",
        "leader_id": members[0]["member_id"] if members else None,
        "state_timestamp": at - timedelta(seconds=3),
        "members": list(members),
    }
    return row | more


def only(rows: list[Row]) -> Row:
    (row,) = rows
    return row
