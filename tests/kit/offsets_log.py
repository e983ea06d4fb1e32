"""Logs of `__consumer_offsets` for tests: the golden one as a broker's disk, and some made to order."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from coterie.protocol.group_records import encode_key, encode_value
from coterie.protocol.group_records.classic import OffsetCommitKey, OffsetCommitValue
from coterie.protocol.records import RecordBatch, build_batch
from tests.kit.golden import DATA

GOLDEN = sorted((DATA / "offsets-log").glob("*.log"))


def golden_disk(root: Path) -> Path:
    """Kafka's own segments, laid out below a directory as on a broker's disk."""
    for segment in GOLDEN:
        number = int(segment.stem.removeprefix("partition-"))
        write_segment(root, number, segment)
    return root


def write_segment(root: Path, partition: int, data: bytes | Path, base_offset: int = 0) -> Path:
    """A segment file of a partition."""
    directory = root / f"__consumer_offsets-{partition}"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020d}.log"
    if isinstance(data, Path):
        shutil.copy(data, path)
    else:
        path.write_bytes(data)
    return path


def commit(
    group: str = "orders-app",
    topic: str = "orders",
    partition: int = 0,
    *,
    version: int = 4,
    **value: object,
) -> tuple[bytes, bytes]:
    """Key and value of a commit."""
    stored = OffsetCommitValue(**{"offset": 42, "commit_timestamp": 1_700_000_000_000} | value)  # type: ignore[arg-type]
    return encode_key(OffsetCommitKey(group, topic, partition)), encode_value(stored, version)


def batch_of(
    records: Iterable[tuple[bytes | None, bytes | None]],
    base_offset: int = 0,
    timestamp: int = 1_700_000_000_000,
    like: RecordBatch | None = None,
) -> bytes:
    """One batch of a log."""
    parts = [(key, value, timestamp, ()) for key, value in records]
    built = build_batch(parts) if like is None else build_batch(parts, like)
    encoded = built.encode()
    # The base offset is outside of what the checksum covers: a broker sets it.
    return base_offset.to_bytes(8, "big") + encoded[8:]
