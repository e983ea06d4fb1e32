"""What the tests of marts share: tables from rows, and a Spark that is quick with small ones."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from coterie.datasets.log import LogQuery, SegmentSource, read_log
from coterie.datasets.schemas import TIMESTAMP, schema
from coterie.errors import InvalidArgument
from coterie.spark.marts import MARTS, Mart
from coterie.spark.pipeline.build import side_by_side

__all__ = [
    "NOW",
    "alone",
    "commit",
    "frame",
    "generation",
    "make_marts",
    "member",
    "quick",
    "read_fleet",
    "stamp",
    "truth",
    "with_marts",
]

#: The moment that tests look at.
NOW = datetime(2026, 3, 3, tzinfo=UTC)
_SNAPSHOT = [("snapshot_id", pa.string()), ("taken_at", TIMESTAMP)]
_LIVE = frozenset({"groups", "members", "assignments", "offsets", "errors"})
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
    """The marts that can be made from these tables, as the pipeline makes them; they join the tables."""

    def make(mart: Mart) -> list[Row] | None:
        given = {name: tables.get(name) for name in mart.needs}
        if not any(each is not None for each in given.values()):
            with pytest.raises(InvalidArgument, match="none was given"):
                mart.make(**given)
            return None
        found = mart.make(**given, as_of=as_of)
        assert found.schema.simpleString() == mart.schema.simpleString(), mart.name
        rows = found.collect()
        tables[mart.name] = spark.createDataFrame(rows, mart.schema)
        return rows

    return {name: rows for name, rows in side_by_side(make).items() if rows is not None}


def alone(mart: str, tables: dict[str, DataFrame], as_of: datetime | None = None) -> list[Row]:
    """One mart: what it needs of others, and is not among the tables, it makes itself."""
    takes = inspect.signature(MARTS[mart].make).parameters
    given = {name: frame for name, frame in tables.items() if name in takes}
    return MARTS[mart].make(**given, as_of=as_of).collect()


def with_marts(
    spark: SparkSession, tables: dict[str, DataFrame], as_of: datetime | None, *marts: str
) -> dict[str, DataFrame]:
    """The tables, and these marts made from them one after the other."""
    found = dict(tables)
    for mart in marts:
        found[mart] = spark.createDataFrame(alone(mart, found, as_of), MARTS[mart].schema)
    return found


def columns_of(dataset: str) -> pa.Schema:
    columns = schema(dataset)
    return pa.schema([*_SNAPSHOT, *columns]) if dataset in _LIVE else columns


def frame(spark: SparkSession, dataset: str, rows: list[dict[str, Any]]) -> DataFrame:
    """A dataset of these rows; what they leave out is null."""
    table = pa.Table.from_pylist(rows, schema=columns_of(dataset))
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
