"""Logs of `__consumer_offsets` for tests: the golden one as a broker's disk, and some made to order."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

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


def printed(path: Path) -> list[dict[str, Any]]:
    """The lines of Kafka's dump, as values."""
    found: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8").splitlines()[2:]:
        head, _, rest = line.removeprefix("| ").partition(" key: ")
        row: dict[str, Any] = dict(re.findall(r"(\w+): (\S+)", head))
        if rest:
            key, _, payload = rest.partition(" payload: ")
            row["key"] = json.loads(key)
            row["payload"] = None if payload == "<DELETE>" else json.loads(payload)
        found.append(row)
    return found


def dumped() -> list[dict[str, Any]]:
    """Every record of Kafka's dump, with its partition, the batch around it, and the JSON of both."""
    found: list[dict[str, Any]] = []
    for path in sorted((DATA / "offsets-log").glob("*.txt")):
        batch: dict[str, Any] = {}
        for row in printed(path):
            if "baseOffset" in row:
                batch = row
            else:
                number = int(path.stem.removeprefix("partition-"))
                found.append(row | {"partition": number, "batch": batch})
    return found


def at(milliseconds: str | int) -> datetime | None:
    moment = int(milliseconds)
    return None if moment < 0 else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment)


def expected_commit(row: dict[str, Any]) -> dict[str, Any]:
    key = row["key"]["data"]
    payload = row["payload"]
    value = payload["data"] if payload else {}
    transactional = row["batch"]["isTransactional"] == "true"
    epoch = value.get("leaderEpoch", -1)
    return {
        "partition": row["partition"],
        "offset": int(row["offset"]),
        "timestamp": at(row["CreateTime"]),
        "group_id": key["group"],
        "topic": key["topic"],
        "topic_partition": key["partition"],
        "committed_offset": value.get("offset"),
        "leader_epoch": epoch if epoch >= 0 else None,
        "metadata": value.get("metadata"),
        "commit_timestamp": at(value["commitTimestamp"]) if value else None,
        "expire_timestamp": at(value.get("expireTimestamp", -1)),
        "topic_id": value.get("topicId"),
        "tombstone": payload is None,
        "key_version": int(row["key"]["type"]),
        "value_version": int(payload["version"]) if payload else None,
        "producer_id": int(row["batch"]["producerId"]) if transactional else None,
    }
