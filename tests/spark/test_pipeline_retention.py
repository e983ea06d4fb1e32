"""compact --retention: days that stay tell after it what they told before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from coterie.simulation import simulate
from coterie.simulation.simulator import START_MS
from coterie.spark.marts import make_mart
from coterie.spark.pipeline.compaction import compact
from coterie.spark.pipeline.end_offsets import import_end_offsets
from coterie.spark.pipeline.frames import read_table
from coterie.spark.pipeline.ingest import ingest
from coterie.spark.pipeline.origin import SegmentOrigin
from coterie.spark.pipeline.store import TableStore
from tests.spark.marts_kit import quick, with_marts

#: Midnight, in the middle of what is simulated.
CUT = datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(days=1)
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def stores(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[TableStore, TableStore]:
    """The same log, whole and without what was before midnight."""
    home = tmp_path_factory.mktemp("retention")
    simulate(
        home / "segments",
        groups=40,
        hours=8,
        seed=9,
        partitions=4,
        start_ms=START_MS + 20 * 3_600_000,
    )
    whole = TableStore(home / "whole")
    ingest(spark, whole, SegmentOrigin(home / "segments"))
    import_end_offsets(whole, home / "segments")
    shutil.copytree(whole.root, home / "cut")
    cut = TableStore(home / "cut")
    done = compact(cut, retention=timedelta(0), now=CUT + timedelta(hours=1))
    assert all(each.rows_dropped for each in done)
    return whole, cut


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    with quick(spark) as quick_session:
        yield quick_session


@pytest.fixture(scope="module")
def tables(
    session: SparkSession, stores: tuple[TableStore, TableStore]
) -> list[dict[str, DataFrame]]:
    """Of both: raw tables, and marts that several others are made from."""
    raw = ("commits", "group_events", "end_offsets")
    given = ({name: read_table(session, store, name) for name in raw} for store in stores)
    return [with_marts(session, each, None, "lag", "groups_now", "members_now") for each in given]


def made(tables: dict[str, DataFrame], mart: str) -> Rows:
    """The rows of a mart, in order."""
    rows = tables[mart].collect() if mart in tables else make_mart(mart, tables).collect()
    return sorted((row.asDict(recursive=True) for row in rows), key=str)


@pytest.mark.parametrize(
    ("mart", "time"),
    [
        ("rebalances", "completed_at"),
        ("offset_resets", "time"),
        ("commit_rates", "period_start"),
    ],
)
def test_days_that_stay_are_as_they_were(
    tables: list[dict[str, DataFrame]], mart: str, time: str
) -> None:
    midnight = CUT.replace(tzinfo=None)  # as Spark gives times, in UTC
    whole, cut = ([row for row in made(each, mart) if row[time] >= midnight] for each in tables)
    assert whole
    assert cut == whole


def test_lag_is_as_it_was_but_how_old_is_known_since_the_cut(
    tables: list[dict[str, DataFrame]],
) -> None:
    def place(row: dict[str, Any]) -> tuple[str, str, int]:
        return row["group_id"], row["topic"], row["partition"]

    whole, cut = (sorted(made(each, "lag"), key=place) for each in tables)
    assert len(cut) == len(whole) > 0
    for before, after in zip(whole, cut, strict=True):
        timeless = {"lag_seconds": 0, "at_least": False}
        assert {**after, **timeless} == {**before, **timeless}
        if after["lag_seconds"] != before["lag_seconds"]:
            assert after["at_least"]
            assert after["lag_seconds"] < before["lag_seconds"]


@pytest.mark.parametrize("mart", ["stale_groups", "topic_subscribers"])
def test_what_holds_now_is_as_it_was(tables: list[dict[str, DataFrame]], mart: str) -> None:
    whole, cut = (made(each, mart) for each in tables)
    assert cut == whole != []
