"""Record batches: round trips, the columnar reader beside the other, and bytes from anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie import compiled
from coterie.errors import RecordBatchError
from coterie.protocol.batch_layout import BATCH_OVERHEAD
from coterie.protocol.records import (
    CompressionType,
    RecordBatch,
    build_batch,
    decode_batches,
    decode_control_record,
)
from coterie.protocol.records import columns as columns_module
from coterie.protocol.records.columns import read_columns

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMES = st.one_of(st.integers(-1, 2**42), st.integers(-(2**61), 2**61))
CONTENT = st.one_of(st.none(), st.binary(max_size=100), st.binary(min_size=60, max_size=300))
HEADERS = st.lists(st.tuples(st.text(max_size=5), CONTENT), max_size=3)
RECORDS = st.lists(st.tuples(CONTENT, CONTENT, TIMES, HEADERS), min_size=1, max_size=8)
LIKE = st.builds(
    RecordBatch,
    base_offset=st.integers(0, 2**62),
    partition_leader_epoch=INT32,
    attributes=st.builds(
        lambda codec, flags: codec | flags,
        st.sampled_from(CompressionType),
        st.integers(0, 15).map(lambda bits: bits << 3),
    ),
    base_timestamp=TIMES,
    max_timestamp=TIMES,
    producer_id=INT64,
    producer_epoch=INT16,
    base_sequence=st.integers(-1, 2**31 - 1),
)


@st.composite
def batches(draw: st.DrawFn) -> RecordBatch:
    records = draw(RECORDS)
    deltas = draw(
        st.none()
        | st.lists(INT32, min_size=len(records), max_size=len(records), unique=True).map(sorted)
    )
    return build_batch(records, draw(LIKE), offset_deltas=deltas)


def object_rows(buffer: bytes) -> list[tuple[Any, ...]]:
    return [
        (record.offset, record.timestamp, record.key, record.value, index)
        for index, batch in enumerate(decode_batches(buffer).batches)
        for record in batch.records(limit=1 << 20)
    ]


def column_rows(buffer: bytes) -> list[tuple[Any, ...]]:
    columns = read_columns(buffer, limit=1 << 20)
    found = []
    for index in range(len(columns.offset)):
        contents = []
        for start, length in (
            (int(columns.key_start[index]), int(columns.key_length[index])),
            (int(columns.value_start[index]), int(columns.value_length[index])),
        ):
            contents.append(bytes(columns.buffer[start : start + length]) if length >= 0 else None)
        numbers = int(columns.offset[index]), int(columns.timestamp[index])
        found.append((*numbers, *contents, int(columns.batch[index])))
    return found


def attempt(read: Callable[[bytes], list[tuple[Any, ...]]], buffer: bytes) -> Any:
    """The rows, or None where the bytes are refused; nothing but a RecordBatchError may come out."""
    try:
        return read(buffer)
    except RecordBatchError:
        return None


WAYS = {"vector-steps": 1, "both": 2, "loop": 128, "compiled": None}


@pytest.fixture(params=WAYS.values(), ids=list(WAYS), scope="module")
def few(request: pytest.FixtureRequest) -> Any:
    """The ways of finding records: all batches at once, one after another, first so, then so; compiled."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param is None:
            request.getfixturevalue("native")
        else:
            patch.setattr(compiled, "native", None)
            patch.setattr(columns_module, "_FEW", request.param)
        yield


@given(RECORDS, LIKE)
def test_records_round_trip(records: list[tuple[Any, ...]], like: RecordBatch) -> None:
    (batch,) = decode_batches(build_batch(records, like).encode()).batches
    read = batch.records()
    assert [(r.key, r.value, list(r.headers)) for r in read] == [
        (k, v, h) for k, v, _, h in records
    ]
    assert [r.offset for r in read] == [like.base_offset + index for index in range(len(records))]
    times = [time for _, _, time, _ in records]
    if like.is_log_append_time:
        times = [like.max_timestamp] * len(records)
    assert [r.timestamp for r in read] == times
    assert batch.attributes == like.attributes
    assert batch.producer_id == like.producer_id
    assert batch.partition_leader_epoch == like.partition_leader_epoch


@given(batches())
def test_headers_round_trip(batch: RecordBatch) -> None:
    encoded = batch.encode()
    (again,) = decode_batches(encoded).batches
    assert again.encode() == encoded
    assert again.records() == batch.records()


@pytest.mark.usefixtures("few")
@given(st.lists(batches(), max_size=6), st.integers(0, BATCH_OVERHEAD + 20))
def test_columns_are_the_records(parts: list[RecordBatch], cut: int) -> None:
    encoded = [part.encode() for part in parts]
    buffer = b"".join(encoded)
    tail = encoded[0][: min(cut, len(encoded[0]) - 1)] if encoded else b""
    assert column_rows(buffer + tail) == object_rows(buffer + tail)
    assert read_columns(buffer + tail).trailing_bytes == len(tail)


@pytest.mark.usefixtures("few")
@given(st.binary(max_size=300))
def test_arbitrary_bytes(buffer: bytes) -> None:
    assert attempt(column_rows, buffer) == attempt(object_rows, buffer)


@pytest.mark.usefixtures("few")
@given(st.binary(max_size=120), st.integers(-2, 20), st.sampled_from(CompressionType))
def test_arbitrary_records(payload: bytes, count: int, codec: CompressionType) -> None:
    """Past the checksum: whatever the object reader accepts, the columns accept and agree on."""
    buffer = RecordBatch(attributes=codec, records_count=count, payload=payload).encode()
    expected = attempt(object_rows, buffer)
    found = attempt(column_rows, buffer)
    assert expected is None or found == expected


@pytest.mark.usefixtures("few")
@given(st.lists(batches(), min_size=1, max_size=4), st.data())
def test_mutated_records(parts: list[RecordBatch], data: st.DataObject) -> None:
    """Batches with a byte or two of their records changed, and the checksum made right again."""
    changed = []
    for part in parts:
        payload = bytearray(part.payload)
        for _ in range(data.draw(st.integers(0, 2))):
            payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
        values = {name: getattr(part, name) for name in part.__struct_fields__}
        changed.append(RecordBatch(**values | {"payload": bytes(payload)}).encode())
    buffer = b"".join(changed)
    expected = attempt(object_rows, buffer)
    found = attempt(column_rows, buffer)
    # Only damage inside the record headers, which the columns do not read, may be seen by one alone.
    assert expected is None or found == expected


@pytest.mark.usefixtures("few")
@given(st.lists(batches(), min_size=1, max_size=3), st.data())
def test_mutated_bytes(parts: list[RecordBatch], data: st.DataObject) -> None:
    buffer = bytearray(b"".join(part.encode() for part in parts))
    for _ in range(data.draw(st.integers(1, 3))):
        buffer[data.draw(st.integers(0, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    size = data.draw(st.integers(0, len(buffer)))
    expected = attempt(object_rows, bytes(buffer[:size]))
    found = attempt(column_rows, bytes(buffer[:size]))
    assert expected is None or found == expected


@given(batches())
def test_any_record_as_a_control_record(batch: RecordBatch) -> None:
    for record in batch.records():
        try:
            decode_control_record(record)
        except RecordBatchError:
            continue
