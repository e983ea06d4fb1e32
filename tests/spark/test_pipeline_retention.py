"""compact --retention: days that stay tell after it what they told before."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from coterie.simulation import simulate
from coterie.simulation.simulator import START_MS
from coterie.spark.pipeline.build import build
from coterie.spark.pipeline.compaction import compact
from coterie.spark.pipeline.end_offsets import import_end_offsets
from coterie.spark.pipeline.ingest import ingest
from coterie.spark.pipeline.origin import SegmentOrigin
from coterie.spark.pipeline.store import TableStore
from tests.unit.spark.tables import rows_of

#: Midnight, in the middle of what is simulated.
CUT = datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(days=1)
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def stores(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[TableStore, TableStore]:
    """The same log, whole and without what was before midnight, with marts."""
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
    for store in (whole, cut):
        build(spark, store)
    return whole, cut


def _since(store: TableStore, mart: str, time: str) -> Rows:
    return [row for row in rows_of(store, mart) if row[time] >= CUT]


@pytest.mark.parametrize(
    ("mart", "time"),
    [
        ("rebalances", "completed_at"),
        ("offset_resets", "time"),
        ("commit_rates", "period_start"),
    ],
)
def test_days_that_stay_are_as_they_were(
    stores: tuple[TableStore, TableStore], mart: str, time: str
) -> None:
    whole, cut = stores
    expected = _since(whole, mart, time)
    assert expected
    assert _since(cut, mart, time) == expected


def test_lag_is_as_it_was_but_how_old_is_known_since_the_cut(
    stores: tuple[TableStore, TableStore],
) -> None:
    whole, cut = (rows_of(store, "lag") for store in stores)
    assert len(cut) == len(whole) > 0
    for before, after in zip(whole, cut, strict=True):
        timeless = {"lag_seconds": 0, "at_least": False}
        assert {**after, **timeless} == {**before, **timeless}
        if after["lag_seconds"] != before["lag_seconds"]:
            assert after["at_least"]
            assert after["lag_seconds"] < before["lag_seconds"]


@pytest.mark.parametrize("mart", ["stale_groups", "topic_subscribers"])
def test_what_holds_now_is_as_it_was(stores: tuple[TableStore, TableStore], mart: str) -> None:
    whole, cut = stores
    assert rows_of(cut, mart) == rows_of(whole, mart) != []
