"""What a simulation leaves on disk: segments, the history of end offsets, and the truth as lines of JSON.

Segments lie as a broker has them, `__consumer_offsets-N/<base offset>.log` below a `meta.properties`, so that
anything which reads a broker's disk can read them.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from coterie.datasets.schemas import schema
from coterie.protocol.group_state import partition_for
from coterie.protocol.records import assign_offsets
from coterie.protocol.types import Uuid
from coterie.simulation.fleet import Fleet
from coterie.simulation.stage import Written
from coterie.simulation.traffic import SWING, TURN, TopicPlan

__all__ = [
    "groups_by_partition",
    "offsets_directory",
    "write_end_offsets",
    "write_identity",
    "write_lines",
    "write_segments",
]

#: offsets.topic.segment.bytes
_SEGMENT_BYTES = 100 * 1024 * 1024


def offsets_directory(root: Path, partition: int) -> Path:
    return root / f"__consumer_offsets-{partition}"


def write_identity(root: Path, seed: str) -> None:
    """Which cluster's log this is, as a broker says it: logs of two clusters are never taken for one."""
    text = f"version=1\ncluster.id={_cluster_id(seed)}\nnode.id=0\n"
    (root / "meta.properties").write_text(text, encoding="ascii", newline="\n")


def _cluster_id(seed: str) -> Uuid:
    """Like Kafka's own, it never begins with a hyphen: commands would take it for an option."""
    digests = (hashlib.sha256(f"{seed}/{n}".encode()).digest() for n in itertools.count())
    return next(found for each in digests if not str(found := Uuid(each[:16])).startswith("-"))


def write_segments(directory: Path, batches: Iterable[Written], moves: list[int]) -> int:
    """The log of one partition, in the order of time; every move begins a leader epoch. Records written."""
    directory.mkdir()
    offset = size = 0
    data = bytearray()
    base = 0
    for batch in sorted(batches):
        if data and size + len(batch.data) > _SEGMENT_BYTES:
            _write_segment(directory, base, data)
            base, size, data = offset, 0, bytearray()
        epoch = sum(at_ms <= batch.at_ms for at_ms in moves)
        data += batch.data
        assign_offsets(data, size, offset, epoch)
        size += len(batch.data)
        offset += batch.records
    _write_segment(directory, base, data)
    return offset


def _write_segment(directory: Path, base: int, data: bytearray) -> None:
    (directory / f"{base:020d}.log").write_bytes(data)


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> int:
    """JSON, an object per line."""
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
            count += 1
    return count


def groups_by_partition(fleet: Fleet) -> dict[int, list[int]]:
    """Which groups live in which partition of the offsets topic, by their numbers in the fleet."""
    found: dict[int, list[int]] = {index: [] for index in range(fleet.partitions)}
    for number, plan in enumerate(fleet.groups):
        found[partition_for(plan.group_id, fleet.partitions)].append(number)
    return found


_SAMPLE_MS = 60_000
_Moments = npt.NDArray[np.int64]


def write_end_offsets(directory: Path, fleet: Fleet) -> int:
    """Write the history; how many rows it has."""
    directory.mkdir(parents=True)
    rows = 0
    columns = schema("end_offsets")
    with pq.ParquetWriter(directory / "part-0.parquet", columns) as writer:
        for plan in fleet.topics.values():
            table = pa.table(_samples(plan, fleet), schema=columns)
            writer.write_table(table)
            rows += table.num_rows
    return rows


def _samples(plan: TopicPlan, fleet: Fleet) -> dict[str, Any]:
    moments = np.arange(fleet.start_ms, fleet.end_ms + 1, _SAMPLE_MS, dtype=np.int64)
    parts: dict[str, list[_Moments]] = {
        name: [] for name in ("taken_at", "partition", "log_start", "log_end")
    }
    for index in range(plan.count(fleet.end_ms)):
        begun = moments[moments >= plan.begin_of(index)]
        parts["taken_at"].append(begun * 1000)
        parts["partition"].append(np.full(len(begun), index, dtype=np.int64))
        parts["log_start"].append(_ends(plan, index, begun - plan.retention_ms))
        parts["log_end"].append(_ends(plan, index, begun))
    found = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return {
        "taken_at": found["taken_at"],
        "topic": [plan.name] * len(found["taken_at"]),
        "partition": found["partition"].astype(np.int32),
        "log_start": found["log_start"],
        "log_end": found["log_end"],
    }


def _ends(plan: TopicPlan, index: int, moments: _Moments) -> _Moments:
    seconds = np.maximum((moments - plan.begin_of(index)) / 1000, 0.0)
    wave = np.cos(plan.phase) - np.cos(TURN * seconds + plan.phase)
    ends: _Moments = (plan.rate_of(index) * (seconds + SWING * wave / TURN)).astype(np.int64)
    return ends
