"""Segments of `__consumer_offsets` that Apache Kafka wrote, against what its own tool says is in them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from coterie.protocol.group_records import decode_record
from coterie.protocol.group_records.classic import GroupMetadataValue
from coterie.protocol.kafka_json import to_json
from coterie.protocol.records import Record, RecordBatch, decode_batches, decode_control_record
from coterie.protocol.schema import Message
from coterie.protocol.versioned import (
    Undecoded,
    decode_assignment,
    decode_subscription,
    leading_number,
)
from tests.kit.golden import DATA
from tests.kit.offsets_log import printed

SEGMENTS = sorted((DATA / "offsets-log").glob("*.log"))


@pytest.mark.parametrize("segment", SEGMENTS, ids=lambda path: path.stem)
def test_a_segment_decodes_to_what_kafkas_dump_tool_printed(segment: Path) -> None:
    found = decode_batches(segment.read_bytes())
    assert found.trailing_bytes == 0
    ours: list[dict[str, Any]] = []
    position = 0
    for batch in found.batches:
        ours += dump(batch, position)
        position += batch.size_in_bytes
    assert ours == printed(segment.with_suffix(".txt"))


def test_all_four_segments_are_here() -> None:
    assert [path.stem for path in SEGMENTS] == [f"partition-{n}" for n in range(4)]


def dump(batch: RecordBatch, position: int) -> list[dict[str, Any]]:
    """A batch and its records in the words of Kafka's dump."""
    row = {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.records_count,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "isTransactional": str(batch.is_transactional).lower(),
        "isControl": str(batch.is_control).lower(),
        "deleteHorizonMs": "OptionalLong.empty",
        "position": position,
        "CreateTime": batch.max_timestamp,
        "size": batch.size_in_bytes,
        "magic": 2,
        "compresscodec": batch.compression.name.lower(),
        "crc": batch.crc,
        "isvalid": "true",
    }
    assert batch.delete_horizon_ms is None
    lines = [{key: str(value) for key, value in row.items()}]
    return lines + [dump_record(record, control=batch.is_control) for record in batch.records()]


def dump_record(record: Record, *, control: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "offset": str(record.offset),
        "CreateTime": str(record.timestamp),
        "keySize": str(len(record.key or b"")),
        "valueSize": str(-1 if record.value is None else len(record.value)),
        "sequence": str(record.sequence),
        "headerKeys": "[]",
    }
    assert record.headers == ()
    if control:
        marker = decode_control_record(record)
        return row | {
            "endTxnMarker": marker.type.name,
            "coordinatorEpoch": str(marker.coordinator_epoch),
        }
    key, value = decode_record(record.key, record.value)
    assert isinstance(key, Message)
    row["key"] = {"type": str(type(key).__key__), "data": to_json(key, 0)}
    row["payload"] = None
    if value is not None:
        assert isinstance(value, Message)
        version = leading_number(record.value or b"") or 0
        data = to_json(value, version)
        if isinstance(value, GroupMetadataValue) and value.protocol_type == "consumer":
            data["members"] = [dump_member(member) for member in data["members"]]
        row["payload"] = {"version": str(version), "data": data}
    return row


def dump_member(member: dict[str, Any]) -> dict[str, Any]:
    """The tool looks into a consumer's blobs, with the newest version's fields and no nulls."""
    subscription = decode_subscription(base64.b64decode(member["subscription"]))
    assignment = decode_assignment(base64.b64decode(member["assignment"]))
    assert not isinstance(subscription, Undecoded)
    assert not isinstance(assignment, Undecoded)
    blobs = {"subscription": to_json(subscription, 3), "assignment": to_json(assignment, 3)}
    for blob in blobs.values():
        for name in ("userData", "rackId"):
            if blob.get(name, "") is None:
                blob[name] = ""
    return member | blobs
