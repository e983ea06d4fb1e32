"""The columnar reader against the one that makes objects, on Kafka's bytes and on damaged ones."""

from __future__ import annotations

import importlib
import subprocess
import sys
from itertools import chain
from typing import Any

import numpy as np
import pytest

from coterie.errors import RecordBatchError
from coterie.protocol.records import CompressionType, RecordBatch, build_batch, decode_batches
from coterie.protocol.records import columns as columns_module
from coterie.protocol.records.batch import TIMESTAMP_TYPE_MASK
from coterie.protocol.records.columns import RecordColumns, gather, read_columns
from tests.unit.protocol.records.golden import CODECS, cases, segment

pytestmark = pytest.mark.usefixtures("readers")

READABLE = [
    pytest.param(case["buffer"], id=f"{name}-{case['case']}")
    for name in (*CODECS, "control", "sequences")
    for case in cases(name).values()
]


def rows(columns: RecordColumns) -> list[tuple[Any, ...]]:
    """Offset, timestamp, key, value and batch of each record."""

    def cut(starts: Any, lengths: Any) -> list[bytes | None]:
        pairs = zip(starts.tolist(), lengths.tolist(), strict=True)
        return [bytes(columns.buffer[s : s + n]) if n >= 0 else None for s, n in pairs]

    keys = cut(columns.key_start, columns.key_length)
    values = cut(columns.value_start, columns.value_length)
    numbers = (columns.offset.tolist(), columns.timestamp.tolist())
    return list(zip(*numbers, keys, values, columns.batch.tolist(), strict=True))


def expected_rows(buffer: bytes) -> list[tuple[Any, ...]]:
    return [
        (record.offset, record.timestamp, record.key, record.value, index)
        for index, batch in enumerate(decode_batches(buffer).batches)
        for record in batch.records()
    ]


def assert_same(buffer: bytes) -> None:
    columns = read_columns(buffer)
    decoded = decode_batches(buffer)
    assert rows(columns) == expected_rows(buffer)
    assert columns.trailing_bytes == decoded.trailing_bytes
    for name in (
        "base_offset",
        "last_offset",
        "partition_leader_epoch",
        "attributes",
        "producer_id",
        "producer_epoch",
        "is_transactional",
        "is_control",
    ):
        wanted = [getattr(batch, name) for batch in decoded.batches]
        assert getattr(columns.batches, name).tolist() == wanted
    counts = [batch.records_count for batch in decoded.batches]
    assert columns.batches.column("records_count").tolist() == counts


@pytest.fixture(params=[1, 3, 128], ids=["vector-steps", "both", "loop"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of finding records: all batches at once, and one after another."""
    monkeypatch.setattr(columns_module, "_FEW", request.param)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("buffer", READABLE)
def test_reads_what_kafka_wrote(buffer: bytes) -> None:
    assert_same(buffer)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("partition", range(4))
def test_reads_consumer_offsets(partition: int) -> None:
    assert_same(segment(partition)[0])


@pytest.mark.usefixtures("few")
def test_reads_all_of_it_in_one_buffer() -> None:
    names = (*CODECS, "control", "sequences")
    whole = [case for name in names for case in cases(name).values() if "trailingBytes" not in case]
    assert_same(b"".join(case["buffer"] for case in whole))


@pytest.mark.parametrize("size", range(0, 300, 7))
def test_many_batches_of_different_sizes(size: int) -> None:
    """Enough of them for vector steps, then a loop over the few with most records."""
    parts = []
    for index in range(150 + size):
        count = 1 + index % 3 if index % 50 else size + 1
        records = [(b"k" * (index % 90), bytes(n % 200), 10 * n, ()) for n in range(count)]
        parts.append(build_batch(records, RecordBatch(base_offset=1000 * index)).encode())
    assert_same(b"".join(parts))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_takes_any_buffer(kind: Any) -> None:
    log = segment(3)[0]
    columns = read_columns(kind(log))
    assert rows(columns) == expected_rows(log)


def test_big_batches_are_checked_without_a_copy() -> None:
    whole = build_batch([(None, bytes(10_000), 0, ())]).encode()
    assert_same(whole)
    with pytest.raises(RecordBatchError, match="checksum"):
        read_columns(whole[:-2] + b"!!")


def test_an_uncompressed_buffer_is_not_copied() -> None:
    log = segment(0)[0]
    assert read_columns(log).buffer is log


def test_empty_and_emptied() -> None:
    assert len(read_columns(b"").offset) == 0
    emptied = RecordBatch(last_offset_delta=4, attributes=CompressionType.GZIP, payload=b"?")
    one = build_batch([(b"k", None, 1, ())]).encode()
    columns = read_columns(emptied.encode() + one + emptied.encode())
    assert columns.batch.tolist() == [1]
    assert columns.batches.last_offset.tolist() == [4, 0, 4]


def test_log_append_time() -> None:
    like = RecordBatch(attributes=TIMESTAMP_TYPE_MASK, max_timestamp=99)
    records = [(b"a", None, 5, ()), (b"b", None, 7, ())]
    both = build_batch(records, like).encode() + build_batch(records).encode()
    assert read_columns(both).timestamp.tolist() == [99, 99, 5, 7]


def test_offsets_and_timestamps_wrap_as_in_java() -> None:
    payload = build_batch([(b"k", b"v", 0, ()), (b"k", b"v", -5, ())]).payload
    far = RecordBatch(
        base_offset=2**63 - 1, base_timestamp=-(2**63), records_count=2, payload=payload
    )
    assert_same(far.encode())
    assert read_columns(far.encode()).offset.tolist() == [2**63 - 1, -(2**63)]


@pytest.mark.usefixtures("few")
def test_every_width_of_varint() -> None:
    deltas = [0, 63, 64, 8191, 8192, 2**20 - 1, 2**20, 2**27, 2**31 - 1, -1, -(2**31)]
    times = [0, *(sign * (1 << bits) for bits in range(0, 62, 5) for sign in (1, -1))][
        : len(deltas)
    ]
    times[-2:] = [2**63 - 1, -(2**63)]
    records = [(b"", None, time, ()) for time in times]
    like = RecordBatch(attributes=0x40, base_timestamp=0)
    assert_same(build_batch(records, like, offset_deltas=deltas).encode())
    sizes = [0, 62, 63, 64, 8191, 8192, 2**20]
    assert_same(build_batch([(bytes(n), bytes(n), 0, ()) for n in sizes]).encode())


@pytest.mark.usefixtures("few")
def test_headers_are_measured() -> None:
    headers = [("a", b"1"), ("", None)]
    records = [(b"k", b"v", 1, headers), (b"k", b"v", 1, ()), (b"k", b"v", 1, headers * 70)]
    assert_same(build_batch(records).encode())


@pytest.mark.parametrize("name", sorted(cases("invalid")))
def test_refuses_what_kafka_refuses(name: str) -> None:
    with pytest.raises(RecordBatchError):
        read_columns(cases("invalid")[name]["buffer"])


def test_an_old_magic_is_refused_by_name_even_in_the_middle() -> None:
    one = build_batch([(b"k", b"v", 1, ())]).encode()
    old = bytearray(one)
    old[16] = 1
    for buffer in (bytes(old), one + old + one):
        with pytest.raises(RecordBatchError, match=r"magic 1, the format before Kafka 0\.11"):
            read_columns(buffer)


def test_the_checksum_may_be_left_unchecked() -> None:
    bad = cases("invalid")["bad-crc"]["buffer"][:-1] + b"\x00"
    bad = bad[:17] + b"\x00\x00\x00\x00" + bad[21:]
    with pytest.raises(RecordBatchError, match="checksum 0") as caught:
        read_columns(bad)
    assert (caught.value.field, caught.value.offset) == ("crc", 0)
    assert len(read_columns(bad, check_crc=False).offset) == 2


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("payload", "count", "field"),
    [
        (b"\x0c\x00\x00\x00\x01\x01\x00", -1, "records_count"),
        (b"\x0c\x00\x00\x00\x01\x01\x00", 2, "records_count"),
        (b"\x0c\x00\x00\x00\x01\x01\x00" + bytes(7), 2, "length"),
        (b"\x0c\x00\x00\x00\x01\x01\x00!", 1, "length"),
        (b"\x0e\x00\x00\x00\x01\x01\x00", 1, "length"),
        (b"\x0a\x00\x00\x00\x01\x01\x00", 1, "length"),
        (b"\x0b\x00\x00\x00\x01\x01\x00", 1, "length"),
        (b"\x01\x00\x00\x00\x01\x01\x00", 1, "length"),
        (b"\xff\xff\xff\xff\xff\xff\xff", 1, "length"),
        (b"\xfe\xff\xff\xff\x0f\x01\x00", 1, "length"),
        (b"\x80\x80\x80\x80\x10\x01\x00", 1, "length"),
        (b"\x0c\x00\x00\x00\x01\x01\x00" * 2 + b"\xff", 2, "length"),
        (b"\x0c\x00\x00\x00\x01\x01\x00" + b"\x18" + bytes(5) + b"\xff", 2, "length"),
        (b"\x0e\x00\x00\x00\x01\x01\x00\x00", 1, "headers"),
        (b"\x0c\x00\x00\x00\x08\x01\x00", 1, "key"),
        (b"\x0c\x00\x00\x00\x01\x04\x00", 1, "value"),
        (b"\x0c\x00\x00\x00\x01\x01\x01", 1, "headers"),
        (b"\x0c\x00\x00\x00\x01\x01\x02", 1, "headers"),
        (b"\x0c\x00\x00\x00\x01\x01\x80", 1, "headers"),
        (b"\x1a\x00" + b"\x80" * 10 + b"\x01\x00", 1, "timestamp"),
        (b"\x1a\x00" + b"\x80" * 9 + b"\x02\x00\x00", 1, "timestamp"),
        (b"\x0e\x00\x00\x80\x80\x80\x80\x80", 1, "offset"),
    ],
)
def test_refuses_damaged_records(payload: bytes, count: int, field: str) -> None:
    batch = RecordBatch(records_count=count, payload=payload).encode()
    with pytest.raises(RecordBatchError):
        list(chain.from_iterable(b.records() for b in decode_batches(batch).batches))
    with pytest.raises(RecordBatchError) as caught:
        read_columns(batch)
    assert caught.value.field in (field, "")  # a lone varint does not know what it is the length of


def test_a_count_that_runs_out_between_vector_steps_and_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(columns_module, "_FEW", 2)
    one = build_batch([(b"k", b"v", 1, ())]).encode()
    short = RecordBatch(records_count=2, payload=b"\x1a" + bytes(13)).encode()
    with pytest.raises(RecordBatchError) as caught:
        read_columns(one + short)
    assert (caught.value.field, caught.value.offset) == ("length", len(one + short))


def test_limits_are_for_one_batch_and_for_all() -> None:
    like = RecordBatch(attributes=CompressionType.GZIP)
    one = build_batch([(b"k", bytes(100_000), 1, ())], like).encode()
    assert len(read_columns(one * 3, limit=110_000, total_limit=330_000).offset) == 3
    with pytest.raises(RecordBatchError, match="larger than 90000 bytes"):
        read_columns(one, limit=90_000)
    with pytest.raises(RecordBatchError, match="gzip payload damaged, or larger"):
        read_columns(one * 3, total_limit=300_000)
    assert len(read_columns(one * 3, most_records=3).offset) == 3
    with pytest.raises(RecordBatchError, match="3 records at once, more than 2"):
        read_columns(one * 3, most_records=2)


def test_gather_reads_zeros_behind_the_end() -> None:
    at = np.array([0, 1, 2, 3, 4, 5, 1000])
    assert gather(b"\x01\x02\x03\x04", ">u2", at).tolist() == [0x102, 0x203, 0x304, 0x400, 0, 0, 0]
    assert gather(b"", ">i8", at[:1]).tolist() == [0]
    pair = np.dtype([("a", ">u2"), ("b", "u1")])
    assert gather(b"\x01\x02\x03\x04", pair, at[:3]).tolist() == [(258, 3), (515, 4), (772, 0)]


def test_without_numpy_there_is_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.delitem(sys.modules, "coterie.protocol.records.columns")
    with pytest.raises(ImportError, match=r"pip install 'coterie\[columns\]'"):
        importlib.import_module("coterie.protocol.records.columns")


def test_the_package_does_not_import_numpy() -> None:
    code = "import sys, coterie.protocol.records; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
