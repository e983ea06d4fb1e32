"""Batches and records against Kafka's own bytes, both ways, and damaged ones."""

from __future__ import annotations

import re
from typing import Any

import pytest

from coterie.errors import RecordBatchError
from coterie.protocol.records import (
    CompressionType,
    ControlRecord,
    ControlRecordType,
    Record,
    RecordBatch,
    assign_offsets,
    build_batch,
    control_batch,
    decode_batches,
    decode_control_record,
    increment_sequence,
)
from coterie.protocol.records.batch import (
    COMPRESSION_CODEC_MASK,
    CONTROL_FLAG_MASK,
    DELETE_HORIZON_FLAG_MASK,
    TIMESTAMP_TYPE_MASK,
)
from coterie.protocol.records.compression import decompress
from coterie.protocol.records.varint import encode_varint, read_varint, read_varlong
from tests.unit.protocol.records.golden import CODECS, cases, matches, segment

READABLE = [
    pytest.param(case, id=f"{name}-{case['case']}")
    for name in (*CODECS, "control", "sequences")
    for case in cases(name).values()
]
WRITABLE = [
    pytest.param(case, id=f"{name}-{case['case']}")
    for name in (*CODECS, "control")
    for case in cases(name).values()
]


def only_batch(buffer: bytes) -> RecordBatch:
    (batch,) = decode_batches(buffer).batches
    return batch


def only_batch_unchecked(buffer: bytes) -> RecordBatch:
    (batch,) = decode_batches(buffer, check_crc=False).batches
    return batch


def assert_record(record: Record, expected: dict[str, Any]) -> None:
    assert record.offset == expected["offset"]
    assert record.timestamp == expected["timestamp"]
    assert record.sequence == expected["sequence"]
    assert matches(record.key, expected["key"])
    assert matches(record.value, expected["value"])
    assert [name for name, _ in record.headers] == [name for name, _ in expected["headers"]]
    for (_, content), (_, wanted) in zip(record.headers, expected["headers"], strict=True):
        assert matches(content, wanted)


@pytest.mark.parametrize("case", READABLE)
def test_reads_what_kafka_wrote(case: dict[str, Any]) -> None:
    decoded = decode_batches(case["buffer"])
    assert decoded.trailing_bytes == case.get("trailingBytes", 0)
    for batch, expected in zip(decoded.batches, case["batches"], strict=True):
        assert batch.size_in_bytes == expected["sizeInBytes"]
        assert batch.base_offset == expected["baseOffset"]
        assert batch.last_offset == expected["lastOffset"]
        assert batch.partition_leader_epoch == expected["partitionLeaderEpoch"]
        assert batch.crc == expected["crc"]
        assert batch.attributes == expected["attributes"]
        assert batch.compression.name.lower() == expected["compression"]
        assert batch.is_log_append_time == (expected["timestampType"] == "LogAppendTime")
        assert batch.base_timestamp == expected["baseTimestamp"]
        assert batch.max_timestamp == expected["maxTimestamp"]
        assert batch.producer_id == expected["producerId"]
        assert batch.producer_epoch == expected["producerEpoch"]
        assert batch.base_sequence == expected["baseSequence"]
        assert batch.last_sequence == expected["lastSequence"]
        assert batch.is_transactional == expected["isTransactional"]
        assert batch.is_control == expected["isControl"]
        assert batch.delete_horizon_ms == expected["deleteHorizonMs"]
        assert batch.records_count == expected["count"]
        records = batch.records()
        assert len(records) == len(expected["records"])
        for record, wanted in zip(records, expected["records"], strict=True):
            assert_record(record, wanted)


@pytest.mark.parametrize("case", WRITABLE)
def test_writes_what_kafka_wrote(case: dict[str, Any]) -> None:
    original = only_batch(case["buffer"])
    assert original.encode() == case["buffer"]
    records = original.records()
    if original.is_log_append_time:
        # Kafka kept the producer's timestamps, which reading hides: three ms apart in this case.
        times = [original.base_timestamp + 3 * index for index in range(len(records))]
    else:
        times = [record.timestamp for record in records]
    built = build_batch(
        [(r.key, r.value, time, r.headers) for r, time in zip(records, times, strict=True)],
        original,
        offset_deltas=[record.offset - original.base_offset for record in records],
    )
    if original.compression is CompressionType.NONE:
        assert built.encode() == case["buffer"]
    else:
        codec = original.compression
        assert decompress(built.payload, codec) == decompress(original.payload, codec)
        assert only_batch(built.encode()).records() == records


@pytest.mark.parametrize(
    ("name", "field", "reason"),
    [
        ("bad-crc", "crc", "stored checksum 2134171936, computed 2371838499"),
        ("length-too-small", "length", "5, where an empty batch has 49"),
        ("unknown-magic", "magic", "magic 9, unknown"),
        ("count-too-big", "records_count", "3 records in 9 bytes"),
        ("bad-gzip-payload", "records", "gzip payload damaged"),
    ],
)
def test_refuses_what_kafka_refuses(name: str, field: str, reason: str) -> None:
    with pytest.raises(RecordBatchError, match=reason) as caught:
        only_batch(cases("invalid")[name]["buffer"]).records()
    assert caught.value.field == field
    assert caught.value.message == "RecordBatch"


def test_every_invalid_case_is_tried() -> None:
    assert len(cases("invalid")) == 5


@pytest.mark.parametrize("partition", range(4))
def test_reads_consumer_offsets_as_the_dump_says(partition: int) -> None:
    log, dump = segment(partition)
    decoded = decode_batches(log)
    assert decoded.trailing_bytes == 0
    headers = [dict(re.findall(r"(\w+): (\S+)", line)) for line in dump if line.startswith("base")]
    lines = [dict(re.findall(r"(\w+): (\S+)", line)) for line in dump if line.startswith("|")]
    records = []
    for batch, expected in zip(decoded.batches, headers, strict=True):
        assert batch.crc == int(expected["crc"])
        assert batch.last_offset == int(expected["lastOffset"])
        assert batch.last_sequence == int(expected["lastSequence"])
        assert batch.producer_id == int(expected["producerId"])
        assert batch.is_control == (expected["isControl"] == "true")
        records += batch.records()
    for record, line in zip(records, lines, strict=True):
        assert record.offset == int(line["offset"])
        assert record.timestamp == int(line["CreateTime"])
        assert record.sequence == int(line["sequence"])
        assert len(record.key or b"") == int(line["keySize"])
        assert (-1 if record.value is None else len(record.value)) == int(line["valueSize"])
        if "endTxnMarker" in line:
            marker = decode_control_record(record)
            assert marker.type.name == line["endTxnMarker"]
            assert marker.coordinator_epoch == int(line["coordinatorEpoch"])


@pytest.mark.parametrize("name", ["commit-marker", "abort-marker"])
def test_transaction_markers_both_ways(name: str) -> None:
    case = cases("control")[name]
    (expected,) = case["batches"]
    (record,) = expected["records"]
    marker = ControlRecordType[record["control"]["type"]]
    epoch = record["control"]["coordinatorEpoch"]
    batch = control_batch(
        marker,
        producer_id=expected["producerId"],
        producer_epoch=expected["producerEpoch"],
        coordinator_epoch=epoch,
        timestamp=expected["baseTimestamp"],
    )
    written = bytearray(batch.encode())
    assign_offsets(written, 0, expected["baseOffset"], expected["partitionLeaderEpoch"])
    assert written == case["buffer"]
    assert decode_control_record(batch.records()[0]) == ControlRecord(marker, epoch)


def test_other_control_records_have_a_type_only() -> None:
    (record,) = only_batch(cases("control")["leader-change"]["buffer"]).records()
    assert decode_control_record(record) == ControlRecord(ControlRecordType.LEADER_CHANGE)


def test_a_control_record_of_the_future_is_unknown() -> None:
    record = Record(0, 0, -1, b"\x00\x07\x00\x63and more", b"")
    assert decode_control_record(record) == ControlRecord(ControlRecordType.UNKNOWN)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, None, "0 bytes, where a control record has 4"),
        (b"\x00\x00\x00", None, "3 bytes, where"),
        (b"\xff\xff\x00\x01", b"\x00" * 6, "key: version -1"),
        (b"\x00\x00\x00\x01", None, "0 bytes, where a marker has 6"),
        (b"\x00\x00\x00\x00", b"\xff\xff\x00\x00\x00\x00", "value: version -1"),
    ],
)
def test_refuses_damaged_control_records(key: bytes, value: bytes, reason: str) -> None:
    with pytest.raises(RecordBatchError, match=reason):
        decode_control_record(Record(0, 0, -1, key, value))


def test_a_transaction_ends_with_commit_or_abort_only() -> None:
    with pytest.raises(ValueError, match="not LEADER_CHANGE"):
        control_batch(
            ControlRecordType.LEADER_CHANGE,
            producer_id=1,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=0,
        )


def test_log_append_time_hides_the_producers_timestamps() -> None:
    like = RecordBatch(attributes=TIMESTAMP_TYPE_MASK, max_timestamp=99)
    batch = build_batch([(b"a", None, 5, ()), (b"b", None, 7, ())], like)
    assert (batch.base_timestamp, batch.max_timestamp) == (5, 99)
    assert [record.timestamp for record in batch.records()] == [99, 99]


def test_delete_horizon_takes_the_base_timestamp() -> None:
    like = RecordBatch(attributes=DELETE_HORIZON_FLAG_MASK, base_timestamp=1000)
    batch = only_batch(build_batch([(b"a", None, 5, ()), (b"b", None, 7, ())], like).encode())
    assert batch.delete_horizon_ms == 1000
    assert batch.max_timestamp == 7
    assert [record.timestamp for record in batch.records()] == [5, 7]


def test_an_emptied_batch_has_no_records() -> None:
    batch = RecordBatch(last_offset_delta=4, producer_id=1, producer_epoch=0, base_sequence=3)
    again = only_batch(batch.encode())
    assert again.records() == []
    assert (again.last_offset, again.last_sequence) == (4, 7)


def test_a_batch_is_not_built_from_nothing() -> None:
    with pytest.raises(ValueError, match="one or more records"):
        build_batch([])
    with pytest.raises(ValueError, match="one or more records"):
        build_batch([], RecordBatch(attributes=DELETE_HORIZON_FLAG_MASK))


def test_offset_deltas_are_as_many_as_the_records() -> None:
    with pytest.raises(ValueError, match="shorter"):
        build_batch([(b"a", b"", 1, ()), (b"b", b"", 1, ())], offset_deltas=[0])


def test_sequences_wrap() -> None:
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(2**31 - 2, 1) == 2**31 - 1
    assert increment_sequence(-1, 5) == -1


def test_offsets_are_assigned_in_place_and_keep_the_checksum() -> None:
    one = build_batch([(b"k", b"v", 1, ())]).encode()
    log = bytearray(one + one)
    assign_offsets(log, len(one), 2**40, 17)
    first, second = decode_batches(log).batches
    assert (first.base_offset, second.base_offset) == (0, 2**40)
    assert (first.partition_leader_epoch, second.partition_leader_epoch) == (-1, 17)


def test_offsets_and_timestamps_wrap_as_in_java() -> None:
    batch = build_batch([(b"k", b"v", 1, ())], offset_deltas=[3])
    far = RecordBatch(
        base_offset=2**63 - 1, base_timestamp=-(2**63), records_count=1, payload=batch.payload
    )
    assert far.records()[0].offset == -(2**63) + 2


@pytest.mark.parametrize("magic", [0, 1])
def test_old_magic_is_refused_by_name(magic: int) -> None:
    old = bytearray(build_batch([(b"k", b"v", 1, ())]).encode())
    old[16] = magic
    with pytest.raises(RecordBatchError, match=f"magic {magic}, the format before Kafka 0.11"):
        decode_batches(old)


@pytest.mark.parametrize("size", range(70))
def test_every_cut_is_an_incomplete_batch(size: int) -> None:
    buffer = cases("none")["single"]["buffer"]
    assert len(buffer) == 70
    decoded = decode_batches(buffer[:size])
    assert (decoded.batches, decoded.trailing_bytes) == ((), size)


def test_the_checksum_may_be_left_unchecked() -> None:
    batch = only_batch_unchecked(cases("invalid")["bad-crc"]["buffer"])
    assert batch.crc == 2134171936


def test_unknown_codec() -> None:
    batch = RecordBatch(attributes=6, records_count=1, payload=b"1234567")
    with pytest.raises(RecordBatchError, match="unknown compression codec 6"):
        batch.records()
    assert batch.attributes & COMPRESSION_CODEC_MASK == 6
    assert not batch.attributes & CONTROL_FLAG_MASK


@pytest.mark.parametrize(
    ("payload", "count", "reason"),
    [
        (b"\x0c\x00\x00\x00\x01\x01\x00", -1, "-1 records in 7 bytes"),
        (b"\x0c\x00\x00\x00\x01\x01\x00", 2, "2 records in 7 bytes"),
        (b"\x0c\x00\x00\x00\x01\x01\x00!", 1, "1 bytes are left behind the last of 1 records"),
        (b"\x0e\x00\x00\x00\x01\x01\x00", 1, "length 7, with 6 bytes left"),
        (b"\x0a\x00\x00\x00\x01\x01\x00", 1, "length 5, with 6 bytes left"),
        (b"\x0b\x00\x00\x00\x01\x01\x00", 1, "length -6"),
        (b"\x0e\x00\x00\x00\x01\x01\x00\x00", 1, "length 7, but the fields take 6"),
        (b"\x0c\x00\x00\x00\x08\x01\x00", 1, "4 bytes, with 2 left"),
        (b"\x0c\x00\x00\x00\x01\x04\x00", 1, "2 bytes, with 1 left"),
        (b"\x0c\x00\x00\x00\x01\x01\x01", 1, "-1 headers"),
        (b"\x0c\x00\x00\x00\x01\x01\x02", 1, "1 headers, with 0 bytes left"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x00", 1, "a header without a key"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x06\x00", 1, "3 bytes, with 1 left"),
        (b"\x0c\x00\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 1, "more than 64 bits"),
        (b"\x0c\x00\x00\x80\x80\x80\x80\x80", 1, "more than 32 bits"),
        (b"\x0c\x00\x00\xff\xff\xff\xff\x1f", 1, "more than 32 bits"),
        (b"\xff\xff\xff\xff\xff\xff\xff", 1, "more than 32 bits"),
        (b"\x0c\x00\x00\x00\x01\x01\x80", 1, "the bytes end inside a varint"),
    ],
)
def test_refuses_damaged_records(payload: bytes, count: int, reason: str) -> None:
    batch = RecordBatch(records_count=count, payload=payload)
    with pytest.raises(RecordBatchError, match=reason):
        only_batch(batch.encode()).records()


def test_any_negative_length_is_null_and_broken_text_is_replaced() -> None:
    batch = RecordBatch(records_count=1, payload=b"\x12\x00\x00\x00\x05\x03\x02\x02\xff\x03")
    (record,) = batch.records()
    assert (record.key, record.value) == (None, None)
    assert record.headers == (("\N{REPLACEMENT CHARACTER}", None),)


@pytest.mark.parametrize(
    "value", [0, 1, -1, 63, -64, 64, -65, 8191, -8192, 8192, 2**31 - 1, -(2**31)]
)
def test_varints(value: int) -> None:
    encoded = encode_varint(value)
    assert read_varint(b"!" + encoded, 1) == (value, 1 + len(encoded))
    assert read_varlong(b"!" + encoded, 1) == (value, 1 + len(encoded))


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**63 - 1, -(2**63)])
def test_varlongs(value: int) -> None:
    encoded = encode_varint(value)
    assert read_varlong(encoded, 0) == (value, len(encoded))
    with pytest.raises(RecordBatchError, match="more than 32 bits"):
        read_varint(encoded, 0)


def test_reading_a_varint_behind_the_end() -> None:
    with pytest.raises(RecordBatchError, match="end inside a varint"):
        read_varint(b"", 0)
    with pytest.raises(RecordBatchError, match="end inside a varint"):
        read_varlong(b"\x80", 0)
