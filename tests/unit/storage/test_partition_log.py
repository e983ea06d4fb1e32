"""One partition's log: offsets, rolling, reading, times, retention; and segments that Kafka itself wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from coterie.errors import RecordBatchError
from coterie.protocol.records import CompressionType, RecordBatch, build_batch, decode_batches
from coterie.storage import (
    DataDirectory,
    LogConfig,
    MemoryFileSystem,
    OffsetOutOfRange,
    PartitionLog,
    TimestampOffset,
    TopicPartition,
)

DIRECTORY = Path("/data/topic-0")
KAFKA_SEGMENTS = Path(__file__).parents[2] / "data" / "offsets-log"


def batch_of(count: int, *, timestamp: int = 1000, size: int = 10, base_offset: int = 0) -> bytes:
    records = [(b"key", b"v" * size, timestamp + i, ()) for i in range(count)]
    return build_batch(records, RecordBatch(base_offset=base_offset)).encode()


ONE = len(batch_of(1))


def empty_log(config: LogConfig = LogConfig()) -> PartitionLog:  # noqa: B008 - it is frozen
    fs = MemoryFileSystem()
    fs.mkdir(DIRECTORY)
    return PartitionLog(fs, DIRECTORY, TopicPartition("topic", 0), config)


def test_offsets_and_epoch_are_the_brokers() -> None:
    log = empty_log()
    assert log.append(batch_of(3), 7) == 0
    assert log.append(batch_of(2, base_offset=99), 8) == 3
    first, second = log.batches()
    assert (first.base_offset, first.last_offset, first.partition_leader_epoch) == (0, 2, 7)
    assert (second.base_offset, second.last_offset, second.partition_leader_epoch) == (3, 4, 8)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 5, 5)
    # Nothing but those two fields differs from what was sent.
    assert log.read(3, 1)[16:] == batch_of(2, base_offset=99)[16:]


def test_staged_batches_are_seen_when_published_only() -> None:
    log = empty_log()
    staged = log.stage(batch_of(3), 0)
    assert (log.high_watermark, log.log_end_offset) == (0, 3)
    assert log.read(0, 1000) == b""
    staged.segment.write(staged.data, staged.place.position)
    log.publish(staged)
    assert log.high_watermark == 3
    log.stage(batch_of(1), 0)
    log.rollback()
    assert log.stage(batch_of(1), 0).place.base_offset == 3


@pytest.mark.parametrize(
    "batch",
    [
        b"",
        batch_of(1)[:-1],
        batch_of(1) + b"x",
        batch_of(1) + batch_of(1),
        batch_of(1)[:-1] + b"x",
        bytes(100),
    ],
)
def test_only_one_whole_batch_is_taken(batch: bytes) -> None:
    log = empty_log()
    with pytest.raises(RecordBatchError):
        log.stage(batch, 0)
    assert log.log_end_offset == 0


def test_a_negative_offset_delta_is_refused() -> None:
    with pytest.raises(RecordBatchError, match="last offset delta -5"):
        empty_log().stage(RecordBatch(last_offset_delta=-5).encode(), 0)


def test_read_returns_whole_batches_and_at_least_one() -> None:
    log = empty_log(LogConfig(index_interval_bytes=200))
    sizes = [len(batch_of(2, size=size)) for size in (10, 500, 10, 10)]
    for size in (10, 500, 10, 10):
        log.append(batch_of(2, size=size), 0)
    everything = log.read(0, 10_000)
    assert len(everything) == sum(sizes) == log.size_in_bytes
    assert log.read(1, 10_000) == everything
    assert log.read(2, 1) == everything[sizes[0] : sizes[0] + sizes[1]]
    assert log.read(0, sizes[0] + 5) == everything[: sizes[0]]
    assert log.read(4, sizes[2] + sizes[3]) == everything[-sizes[2] - sizes[3] :]
    assert log.read(4, sizes[2] + sizes[3] - 1) == everything[-sizes[2] - sizes[3] : -sizes[3]]
    assert log.read(8, 100) == b""
    for outside in (-1, 9):
        with pytest.raises(OffsetOutOfRange) as caught:
            log.read(outside, 100)
        assert (caught.value.offset, caught.value.start, caught.value.end) == (outside, 0, 8)


def test_every_offset_is_found_through_index_and_segments() -> None:
    log = empty_log(LogConfig(segment_bytes=2000, index_interval_bytes=300))
    for n in range(100):
        log.append(batch_of(1 + n % 3), 0)
    assert len(log.segments) > 3
    for offset in range(log.high_watermark):
        first = decode_batches(log.read(offset, 1)).batches[0]
        assert first.base_offset <= offset <= first.last_offset


def test_rolls_by_size_and_by_the_records_time() -> None:
    size = len(batch_of(1))
    log = empty_log(LogConfig(segment_bytes=2 * size))
    for _ in range(5):
        log.append(batch_of(1), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    assert log.segments[1].path.name == "00000000000000000002.log"
    log = empty_log(LogConfig(segment_ms=50))
    for timestamp in (1000, 1050, 1051, 1101, 1102):
        log.append(batch_of(1, timestamp=timestamp), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    # A batch larger than a segment gets one of its own.
    log = empty_log(LogConfig(segment_bytes=50))
    log.append(batch_of(1), 0)
    log.append(batch_of(1), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_rolls_before_relative_offsets_overflow() -> None:
    log = empty_log()
    big = RecordBatch(last_offset_delta=2**31 - 1).encode()
    log.append(big, 0)
    log.append(batch_of(1), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]


def test_offset_for_timestamp() -> None:
    log = empty_log(LogConfig(segment_bytes=1000, index_interval_bytes=150))
    times = [100, 90, 300, 200, 250, 400, 350, 500, 450, 600] * 3
    for n, timestamp in enumerate(times):
        log.append(batch_of(1, timestamp=timestamp + 1000 * (n // 10)), n)
    every = [(t + 1000 * (n // 10), n, n) for n, t in enumerate(times)]
    for wanted in range(0, 2700, 10):
        first = next((place for place in every if place[0] >= wanted), None)
        assert log.offset_for_timestamp(wanted) == first
    assert log.max_timestamp() == TimestampOffset(2600, 29, 29)


def test_timestamps_inside_a_batch_and_of_an_empty_log() -> None:
    log = empty_log()
    assert log.max_timestamp() is None
    assert log.offset_for_timestamp(0) is None
    records = [(None, b"v", t, ()) for t in (10, 30, 20, 30)]
    log.append(build_batch(records, RecordBatch(attributes=CompressionType.GZIP)).encode(), 5)
    assert log.offset_for_timestamp(15) == (30, 1, 5)
    assert log.max_timestamp() == (30, 1, 5)
    log.log_start_offset = 2
    assert log.max_timestamp() == (30, 3, 5)
    log.log_start_offset = 4
    assert log.max_timestamp() is None


def test_the_largest_time_may_lie_before_the_log_start() -> None:
    log = empty_log()
    for timestamp in (30, 10, 20):
        log.append(batch_of(1, timestamp=timestamp), 0)
    log.log_start_offset = 1
    assert log.max_timestamp() == (20, 2, 0)


@pytest.mark.parametrize(
    ("config", "now_ms", "expected"),
    [
        (LogConfig(), 1000, 0),
        (LogConfig(retention_ms=100), 1131, 3),
        (LogConfig(retention_ms=100), 1130, 2),
        (LogConfig(retention_ms=-1), 10**15, 0),
        (LogConfig(retention_bytes=ONE), 0, 4),
        (LogConfig(retention_bytes=2 * ONE), 0, 3),
        (LogConfig(retention_bytes=2 * ONE - 1), 0, 3),
        (LogConfig(retention_bytes=0, cleanup_policy=frozenset({"compact"})), 0, 0),
    ],
)
def test_retention_takes_whole_old_segments(config: LogConfig, now_ms: int, expected: int) -> None:
    log = empty_log(replace(config, segment_bytes=ONE))
    for n in range(5):
        log.append(batch_of(1, timestamp=1010 + 10 * n), 0)
    assert log.retention_offset(now_ms) == 0, "nothing is durable yet"
    log.recovery_point = 5
    assert log.retention_offset(now_ms) == expected


def test_partition_names() -> None:
    for name, partition in [
        ("__consumer_offsets-49", TopicPartition("__consumer_offsets", 49)),
        ("a-1-2", TopicPartition("a-1", 2)),
        ("a.b_c-0", TopicPartition("a.b_c", 0)),
    ]:
        assert TopicPartition.of_directory(name) == partition
        assert partition.directory_name == name
    for other in ("journal", "a", "a-", "-1", "a-01", "a-1-delete", "a--delete"):
        assert TopicPartition.of_directory(other) is None
    for bad in ("", ".", "..", "a/b", "../x", "a" * 250, "a b", "\n"):
        with pytest.raises(ValueError, match="no legal topic name"):
            _ = TopicPartition(bad, 0).directory_name
    with pytest.raises(ValueError, match="no partition number"):
        _ = TopicPartition("a", -1).directory_name


@pytest.mark.parametrize("number", range(4))
def test_kafkas_own_segments_are_read_byte_for_byte(tmp_path: Path, number: int) -> None:
    original = (KAFKA_SEGMENTS / f"partition-{number}.log").read_bytes()
    partition = TopicPartition("__consumer_offsets", number)
    data = DataDirectory.open(tmp_path, journal_bytes=4096)
    (log,) = data.create([partition])
    data.close()
    (log.directory / "00000000000000000000.log").write_bytes(original)

    data = DataDirectory.open(tmp_path)
    log = data.log(partition)
    assert not data.warnings
    assert log.read(0, len(original)) == original
    assert b"".join(batch.encode() for batch in log.batches()) == original
    # And the same batches, produced anew, make the same file.
    (copy,) = data.create([TopicPartition("copy", number)])
    for batch in decode_batches(original).batches:
        base = data.stage(copy, batch.encode(), batch.partition_leader_epoch)
        assert base == batch.base_offset
    data.close()
    assert (copy.directory / "00000000000000000000.log").read_bytes() == original
