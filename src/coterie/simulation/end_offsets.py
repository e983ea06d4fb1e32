"""The history of end offsets: where every partition's log began and ended, minute by minute.

The `end_offsets` dataset as Parquet, computed for a whole topic at once. Same formula as TopicPlan.end, in
numpy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from coterie.datasets.schemas import schema
from coterie.simulation.fleet import Fleet
from coterie.simulation.traffic import SWING, TURN, TopicPlan

__all__ = ["write_end_offsets"]

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
