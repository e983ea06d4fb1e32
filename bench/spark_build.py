"""`coterie pipeline build` over the commits of 10,000 groups, with 4 GB for Spark's driver.

COTERIE_BENCH_COMMITS is how many commits there are (1,000,000; the goal is meant for 10,000,000). The tables
are written with numpy, a day of a fleet: every group commits two partitions again and again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bench.harness import Disagreement, Measurement
from coterie.spark.pipeline.end_offsets import write_days
from coterie.spark.pipeline.store import TableStore
from coterie.spark.pipeline.tables import raw_table

__all__ = ["fill", "measurements"]

GOAL_SECONDS: Final = 120.0
_GROUPS: Final = 10_000
_TOPICS: Final = 1_000
_DAY_US: Final = 86_400_000_000
_START_US: Final = 1_772_409_600_000_000  # Monday, 2026-03-02
_RATE: Final = 50  # records a second into each partition


def measurements(*, commits: int | None = None) -> Iterator[Measurement]:
    """Seconds of the whole command, its start included."""
    number = commits or int(os.environ.get("COTERIE_BENCH_COMMITS", "1000000"))
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as home:
        fill(Path(home), number)
        yield Measurement(
            name="spark.build_10_000_groups",
            ours=lambda: _build(home),
            peers={"goal": lambda: GOAL_SECONDS},
            goal=1.0,
            agree=lambda: _agree(home),
            unit="s",
            max_rounds=1,
        )


def _build(home: str) -> float:
    command = [str(Path(sys.executable).with_name("coterie")), "pipeline", "build", "--out", home]
    begin = perf_counter()
    subprocess.run(
        [*command, "--driver-memory", "4g", "--master", "local[2]"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return perf_counter() - begin


def _agree(home: str) -> None:
    _build(home)
    summary = TableStore(home).manifest("group_summary")
    if summary is None or summary.rows != _GROUPS:
        raise Disagreement(f"group_summary has {summary and summary.rows} rows, not {_GROUPS}")


def fill(root: Path, commits: int) -> None:
    """Tables of a day: commits, group events, the history of end offsets."""
    store = TableStore(root)
    with store.write() as transaction:
        for name, rows in (
            ("commits", _commits(commits)),
            ("group_events", _group_events()),
            ("end_offsets", _end_offsets()),
        ):
            table = raw_table(name)
            write_days(transaction.directory(name), rows.select(table.schema.names), name)
            transaction.append(name, table.schema, table.version)
        transaction.commit()


def _table(name: str, rows: int, **columns: Any) -> pa.Table:
    """Rows of a raw table; columns that are not given are null."""
    schema = raw_table(name).schema
    arrays = [
        pa.array(columns[column.name], column.type)
        if column.name in columns
        else pa.nulls(rows, column.type)
        for column in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _commits(number: int) -> pa.Table:
    rows = np.arange(number)
    group = rows % _GROUPS
    partition = (rows // _GROUPS) % 2
    at = _START_US + rows * (_DAY_US // number)
    # A tenth of the groups falls behind, more and more.
    slow = np.where(group % 10 == 0, 0.5, 0.99)
    committed = ((at - _START_US) // 1_000_000 * _RATE * slow).astype(np.int64)
    names = pa.array([f"group-{n}" for n in range(_GROUPS)])
    topics = pa.array([f"topic-{n}" for n in range(_TOPICS)])
    return _table(
        "commits",
        number,
        partition=(group % 50).astype(np.int32),
        offset=rows.astype(np.int64),
        timestamp=at,
        group_id=names.take(pa.array(group)),
        topic=topics.take(pa.array(group % _TOPICS)),
        topic_partition=partition.astype(np.int32),
        committed_offset=committed,
        leader_epoch=np.zeros(number, np.int32),
        metadata=pa.array(["", ""]).take(pa.array(partition)),
        commit_timestamp=at,
        tombstone=np.zeros(number, np.bool_),
        key_version=np.ones(number, np.int16),
        value_version=np.full(number, 3, np.int16),
    )


def _group_events() -> pa.Table:
    """One generation of one member for every group."""
    rows = []
    for number in range(_GROUPS):
        assignment = [{"topic": f"topic-{number % _TOPICS}", "partitions": [0, 1]}]
        member = {
            "member_id": f"member-{number}",
            "client_id": "consumer",
            "client_host": "/10.0.0.1",
            "session_timeout_ms": 45_000,
            "rebalance_timeout_ms": 300_000,
            "subscription": [f"topic-{number % _TOPICS}"],
            "assignment": assignment,
        }
        rows.append(
            {
                "partition": number % 50,
                "offset": 10_000_000_000 + number,
                "timestamp": _START_US + number,
                "group_id": f"group-{number}",
                "group_type": "classic",
                "record": "GroupMetadata",
                "tombstone": False,
                "generation": 1,
                "protocol_type": "consumer",
                "protocol": "range",
                "leader_id": f"member-{number}",
                "state_timestamp": _START_US,
                "members": [member],
            }
        )
    return pa.Table.from_pylist(rows, schema=raw_table("group_events").schema)


def _end_offsets() -> pa.Table:
    samples = np.arange(0, _DAY_US, 600_000_000)
    rows = len(samples) * _TOPICS * 2
    at = np.tile(samples, _TOPICS * 2)
    place = np.repeat(np.arange(_TOPICS * 2), len(samples))
    topics = pa.array([f"topic-{n}" for n in range(_TOPICS)])
    return _table(
        "end_offsets",
        rows,
        taken_at=_START_US + at,
        topic=topics.take(pa.array(place // 2)),
        partition=(place % 2).astype(np.int32),
        log_start=np.zeros(rows, np.int64),
        log_end=at // 1_000_000 * _RATE,
    )
