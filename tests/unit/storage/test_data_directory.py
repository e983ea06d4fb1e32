"""The data directory: rounds, threads, creating and deleting, starts and ends of logs, reopening."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from coterie.protocol.records import build_batch
from coterie.storage import (
    DataDirectory,
    Durability,
    LogConfig,
    MemoryFileSystem,
    OffsetOutOfRange,
    StorageDamaged,
    TopicPartition,
    UnknownPartition,
)
from coterie.storage.small_files import load_offsets, save_offsets
from tests.kit.fault_fs import FaultFS

ROOT = Path("/data")
ONE = TopicPartition("topic", 0)
TWO = TopicPartition("topic", 1)


def batch(value: bytes = b"v", timestamp: int = 1000) -> bytes:
    return build_batch([(b"k", value, timestamp, ())]).encode()


SIZE = len(batch())


def values(data: DataDirectory, partition: TopicPartition) -> list[bytes | None]:
    return [r.value for b in data.log(partition).batches() for r in b.records()]


def opened(
    fs: MemoryFileSystem | FaultFS, durability: Durability = Durability.FSYNC
) -> DataDirectory:
    return DataDirectory.open(ROOT, fs, durability=durability, journal_bytes=16 * 1024)


@pytest.mark.parametrize("durability", Durability)
def test_a_round_is_seen_after_publish_and_survives(durability: Durability, tmp_path: Path) -> None:
    data = DataDirectory.open(tmp_path / "new" / "data", durability=durability, journal_bytes=16384)
    one, two = data.create([ONE, TWO])
    assert [data.stage(log, batch(b"%d" % n)) for n, log in enumerate((one, two, one))] == [0, 0, 1]
    sealed = data.seal()
    assert sealed is not None
    assert len(sealed) == 3
    assert data.stage(two, batch(b"next")) == 1
    data.write(sealed)
    assert (one.high_watermark, two.high_watermark) == (0, 0)
    data.publish(sealed)
    assert (one.high_watermark, two.high_watermark) == (2, 1)
    data.close()
    data = DataDirectory.open(tmp_path / "new" / "data", durability=durability)
    assert values(data, ONE) == [b"0", b"2"]
    assert values(data, TWO) == [b"1", b"next"]
    data.close()


def test_one_sync_for_all_partitions_of_a_round() -> None:
    fs = FaultFS()
    data = opened(fs)
    logs = data.create(TopicPartition("offsets", n) for n in range(50))
    for log in logs:
        data.stage(log, batch())
    before = fs.calls.copy()
    data.flush()
    assert fs.calls["sync"] - before["sync"] == 1
    assert fs.calls["sync_directory"] == before["sync_directory"]
    fs = fs.crash(3)
    assert all(log.high_watermark == 1 for log in opened(fs).logs.values())


def test_without_fsync_nothing_is_synced_and_a_kill_loses_nothing() -> None:
    fs = FaultFS()
    data = opened(fs, Durability.OS)
    (log,) = data.create([ONE])
    before = fs.calls["sync"]
    data.stage(log, batch())
    data.flush()
    assert fs.calls["sync"] == before
    assert not fs.exists(ROOT / "journal")
    data = opened(fs.kill(), Durability.OS)
    assert values(data, ONE) == [b"v"]


def test_the_durability_may_change_between_runs() -> None:
    fs = FaultFS()
    data = opened(fs)
    data.stage(data.create([ONE])[0], batch(b"fsync"))
    data.flush()
    for durability in (Durability.OS, Durability.FSYNC, Durability.OS):
        data = opened(fs.kill(), durability)
        data.stage(data.log(ONE), batch(durability.value.encode()))
        data.flush()
    data = opened(fs.kill())
    assert values(data, ONE) == [b"fsync", b"os", b"fsync", b"os"]


def test_a_full_journal_makes_a_checkpoint() -> None:
    fs = FaultFS()
    data = opened(fs)
    (log,) = data.create([ONE])
    for n in range(100):
        data.stage(log, batch(b"%d" % n))
        data.flush()
    assert 0 < log.recovery_point < 100
    assert values(opened(fs.crash(0)), ONE) == [b"%d" % n for n in range(100)]


def test_a_round_larger_than_the_journal() -> None:
    fs = FaultFS()
    data = opened(fs)
    (log,) = data.create([ONE])
    for n in range(3):
        data.stage(log, batch(bytes([n]) * 50_000))
        data.flush()
    assert [v and (v[0], len(v)) for v in values(opened(fs.crash(0)), ONE)] == [
        (n, 50_000) for n in range(3)
    ]


def test_rounds_come_one_at_a_time() -> None:
    data = opened(MemoryFileSystem())
    (log,) = data.create([ONE])
    assert data.seal() is None
    data.flush()
    data.stage(log, batch())
    sealed = data.seal()
    data.stage(log, batch())
    with pytest.raises(RuntimeError):
        data.seal()
    assert sealed is not None
    data.write(sealed)
    data.publish(sealed)
    with pytest.raises(RuntimeError):
        data.publish(sealed)


def test_a_worker_thread_writes_while_the_owner_stages_and_reads(tmp_path: Path) -> None:
    data = DataDirectory.open(tmp_path, journal_bytes=64 * 1024)
    logs = data.create((TopicPartition("t", n) for n in range(4)), LogConfig(segment_bytes=5000))
    staged = 0
    for _ in range(100):
        for log in logs:
            data.stage(log, batch(b"%d" % log.log_end_offset))
        sealed = data.seal()
        assert sealed is not None
        worker = threading.Thread(target=data.write, args=(sealed,))
        worker.start()
        for log in logs:
            data.stage(log, batch(b"%d" % log.log_end_offset))
            staged += 1
            assert log.read(log.high_watermark, 100) == b""
            if log.high_watermark:
                assert log.read(log.high_watermark - 1, 100)
        worker.join()
        data.publish(sealed)
    data.close()
    data = DataDirectory.open(tmp_path)
    for log in data.logs.values():
        assert values(data, log.partition) == [b"%d" % n for n in range(200)]
    data.close()


def test_create_and_delete() -> None:
    fs = FaultFS()
    data = opened(fs)
    one, two = data.create([ONE, TWO])
    assert data.create([ONE]) == [one]
    data.stage(one, batch())
    data.stage(two, batch())
    data.flush()
    data.stage(one, batch())
    sealed = data.seal()
    data.stage(one, batch())
    data.stage(two, batch())
    assert sealed is not None
    data.delete([ONE])
    data.write(sealed)
    data.publish(sealed)
    data.flush()
    assert list(data.logs) == [TWO]
    for call in (lambda: data.log(ONE), lambda: data.delete([TWO, ONE])):
        with pytest.raises(UnknownPartition):
            call()
    assert values(data, TWO) == [b"v", b"v"]
    # Born again it knows nothing of its former life, whatever the journal held.
    (again,) = data.create([ONE])
    assert again.high_watermark == 0
    for seed in range(20):
        after = opened(fs.crash(seed))
        assert values(after, ONE) == []
        assert values(after, TWO) == [b"v", b"v"]


def test_leftovers_of_a_deletion_are_removed() -> None:
    fs = MemoryFileSystem()
    opened(fs).close()
    fs.mkdir(ROOT / "topic-0-delete")
    fs.open(ROOT / "topic-0-delete" / "00000000000000000000.log", create=True)
    data = opened(fs)
    assert not data.logs
    assert not fs.exists(ROOT / "topic-0-delete")
    fs.mkdir(ROOT / "topic-0-delete")
    data.create([ONE])
    data.delete([ONE])
    assert not fs.exists(ROOT / "topic-0-delete")


def test_delete_records_moves_the_start_and_drops_whole_segments() -> None:
    fs = FaultFS()
    data = opened(fs)
    (log,) = data.create([ONE], LogConfig(segment_bytes=2 * SIZE))
    for n in range(7):
        data.stage(log, batch(b"%d" % n))
    data.flush()
    assert data.delete_records(log, 3) == 3
    assert len(log.segments) == 4, "not yet durable without the journal"
    data.checkpoint()
    assert data.delete_records(log, 5) == 5
    assert data.delete_records(log, 1) == 5
    assert [segment.base_offset for segment in log.segments] == [4, 6]
    with pytest.raises(OffsetOutOfRange):
        log.read(4, 100)
    for offset in (-1, 8):
        with pytest.raises(OffsetOutOfRange):
            data.delete_records(log, offset)
    assert data.delete_records(log, 7) == 7
    assert log.read(7, 100) == b""
    for seed in range(20):
        log = opened(fs.crash(seed)).log(ONE)
        assert (log.log_start_offset, log.high_watermark) == (7, 7)


def test_retention_empties_even_the_active_segment_and_keeps_the_end() -> None:
    fs = FaultFS()
    data = opened(fs)
    (log,) = data.create([ONE], LogConfig(segment_bytes=2 * SIZE, retention_ms=100))
    for n in range(5):
        data.stage(log, batch(timestamp=1000 + n))
    data.flush()
    assert data.apply_retention(1050) == 0
    data.checkpoint()
    assert data.apply_retention(1102) == 1
    assert (log.log_start_offset, log.high_watermark) == (2, 5)
    assert data.apply_retention(10_000) == 2
    assert (log.log_start_offset, log.high_watermark) == (5, 5)
    assert data.apply_retention(20_000) == 0
    assert data.stage(log, batch(timestamp=20_000)) == 5
    data.flush()
    for seed in range(20):
        log = opened(fs.crash(seed)).log(ONE)
        assert (log.log_start_offset, log.high_watermark) == (5, 6)


def test_small_files_are_replaced_whole() -> None:
    fs = FaultFS()
    data = opened(fs)
    assert data.load("topics.json") is None
    data.save("topics.json", b"old")
    data.save("topics.json", b"new")
    assert data.load("topics.json") == b"new"
    assert opened(fs.crash(0)).load("topics.json") == b"new"


def test_offset_checkpoints_are_kafkas() -> None:
    fs = MemoryFileSystem()
    fs.mkdir(ROOT)
    path = ROOT / "recovery-point-offset-checkpoint"
    save_offsets(fs, path, {ONE: 5, TopicPartition("__consumer_offsets", 12): 2**40})
    text = fs.open(path).pread(1000, 0)
    assert text == b"0\n2\ntopic 0 5\n__consumer_offsets 12 1099511627776\n"
    assert load_offsets(fs, path) == {ONE: 5, TopicPartition("__consumer_offsets", 12): 2**40}
    for damaged in (
        b"",
        b"0\n3\ntopic 0 5\n",
        b"1\n0\n",
        b"0\n1\ntopic 0\n",
        b"0\n1\nt x 1\n",
        b"\xff",
    ):
        fs.unlink(path)
        fs.open(path, create=True).pwrite(damaged, 0)
        with pytest.raises(StorageDamaged):
            load_offsets(fs, path)


def test_many_empty_partitions_cost_no_descriptor(tmp_path: Path) -> None:
    data = DataDirectory.open(tmp_path, journal_bytes=4096)
    before = len(list(Path("/proc/self/fd").iterdir()))
    data.create(TopicPartition("many", n) for n in range(200))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    data.close()
    data = DataDirectory.open(tmp_path)
    assert len(data.logs) == 200
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    data.close()
