"""Durability under faults: F55 to F62, on real files and real processes where the fault is real.

What this is: kill -9 at every named crash point, tails cut at every byte, flipped bits, a full disk, a disk
that fails to sync, a directory that is locked, read-only or too new. Power loss (F56) is in
tests/property/test_storage.py. Run as a program, this file is the child that is killed.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.crash_points import CRASH_POINTS
from coterie.protocol.records import build_batch
from coterie.storage import (
    DataDirectory,
    Durability,
    LogConfig,
    MemoryFileSystem,
    PartitionLog,
    StorageBroken,
    StorageDamaged,
    StorageFull,
    StorageLocked,
    StorageUnwritable,
    TopicPartition,
    UnsupportedFormat,
    repair,
)
from tests.kit.fault_fs import FaultFS

REPOSITORY = Path(__file__).parents[2]
ROOT = Path("/data")
PLAIN = TopicPartition("plain", 0)
AGED = TopicPartition("aged", 0)
COMPACTED = TopicPartition("compacted", 0)
SCRATCH = TopicPartition("scratch", 0)
CONFIGS = {
    PLAIN: LogConfig(segment_bytes=2000, retention_ms=-1),
    AGED: LogConfig(segment_bytes=500, retention_ms=20),
    COMPACTED: LogConfig(
        segment_bytes=2000,
        segment_ms=5,
        cleanup_policy=frozenset({"compact"}),
        min_cleanable_dirty_ratio=0.0,
    ),
}
KEYS = 5


def numbered(number: int) -> bytes:
    """A batch with one record whose value and timestamp are its number."""
    return build_batch([(b"k%d" % (number % KEYS), b"%d" % number, number, ())]).encode()


def numbers(log: PartitionLog) -> list[int]:
    return [
        int(record.value or b"-1")
        for batch in log.batches()
        for record in batch.records()
        if record.offset >= log.log_start_offset
    ]


# F55


def child(root: Path) -> None:
    """Append numbered batches, doing all else that storage does in between, and say what is acknowledged."""
    for _ in range(3):
        data = DataDirectory.open(root, journal_bytes=16 * 1024)
        logs = data.create(CONFIGS)
        for log in logs:
            log.config = CONFIGS[log.partition]
        for step in range(24):
            number = logs[0].log_end_offset
            for log in logs:
                data.stage(log, numbered(log.log_end_offset))
            data.stage(data.create([SCRATCH])[0], numbered(number))
            data.flush()
            for log in logs:
                sys.stdout.write(f"{log.partition.topic} {log.high_watermark - 1}\n")
            sys.stdout.flush()
            if step % 5 == 4:
                data.checkpoint()
                data.apply_retention(number)
                for log in data.logs_to_clean(number):
                    data.swap(data.clean(log, number))
            if step % 8 == 7:
                data.delete([SCRATCH])
        data.close()


def run_child(root: Path, crash_at: str | None) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "COTERIE_CRASH_AT"}
    if crash_at is not None:
        environment["COTERIE_CRASH_AT"] = crash_at
    return subprocess.run(
        [sys.executable, "-m", "tests.faults.test_storage_faults", str(root)],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def acknowledged(output: str) -> dict[TopicPartition, int]:
    lines = (line.split() for line in output.splitlines())
    return {TopicPartition(topic, 0): int(number) for topic, number in lines}


def check_logs(root: Path, acked: dict[TopicPartition, int]) -> None:
    data = DataDirectory.open(root)
    try:
        assert not data.warnings or not any(torn.acknowledged for torn in data.warnings)
        for partition, last in acked.items():
            found = numbers(data.log(partition))
            end = data.log(partition).high_watermark
            assert end > last
            if partition == COMPACTED:
                assert found == sorted(set(found))
                assert set(range(max(0, end - KEYS), end)) <= set(found)
            else:
                assert found == list(range(data.log(partition).log_start_offset, end))
        assert PLAIN not in acked or numbers(data.log(PLAIN))[0] == 0
    finally:
        data.close()


@pytest.mark.parametrize("time", [1, 3])
@pytest.mark.parametrize("name", CRASH_POINTS)
def test_f55_kill_at_every_crash_point(tmp_path: Path, name: str, time: int) -> None:
    root = tmp_path / "data"
    if name == "journal.mid_create":
        time = 1  # there is one journal, and it is made once
    killed = run_child(root, f"{name}:{time}")
    assert killed.returncode == 137, f"{name} was not reached: {killed.stderr}"
    acked = acknowledged(killed.stdout)
    check_logs(root, acked)
    # And what is left is good for another life.
    again = run_child(root, None)
    assert again.returncode == 0, again.stderr
    check_logs(root, acknowledged(again.stdout))


def test_f55_an_unknown_crash_point_is_refused(tmp_path: Path) -> None:
    process = run_child(tmp_path, "journal.somewhere")
    assert process.returncode == 1
    assert "COTERIE_CRASH_AT" in process.stderr


# F57, F58


def filled(fs: MemoryFileSystem, durability: Durability = Durability.FSYNC, count: int = 5) -> Path:
    """A cleanly closed directory with one partition of a few batches; the path of its segment."""
    data = DataDirectory.open(ROOT, fs, durability=durability, journal_bytes=4096)
    (log,) = data.create([PLAIN])
    for number in range(count):
        data.stage(log, numbered(number))
    data.flush()
    data.close()
    return ROOT / "plain-0" / "00000000000000000000.log"


def reopened(
    fs: MemoryFileSystem, durability: Durability = Durability.FSYNC
) -> Iterator[DataDirectory]:
    data = DataDirectory.open(ROOT, fs, durability=durability, journal_bytes=4096)
    yield data
    data.close()


@pytest.mark.parametrize("durability", Durability)
def test_f57_last_batch_cut_at_every_byte(durability: Durability) -> None:
    size = len(numbered(0))
    for kept in range(size):
        fs = MemoryFileSystem()
        path = filled(fs, durability)
        fs.open(path).truncate(4 * size + kept)
        for data in reopened(fs, durability):
            (torn,) = data.warnings
            assert (torn.path, torn.position, torn.offset) == (path, 4 * size, 4)
            assert torn.bytes_cut == kept
            assert torn.acknowledged
            assert "acknowledged records are lost" in str(torn)
            assert numbers(data.log(PLAIN)) == [0, 1, 2, 3]
            data.stage(data.log(PLAIN), numbered(4))
            data.flush()
        for data in reopened(fs, durability):
            assert not data.warnings
            assert numbers(data.log(PLAIN)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "garbage", [bytes(10_000), bytes(7), b"\x02" * 3000, bytes(range(256)) * 9]
)
def test_f57_a_tail_of_zeros_or_rubbish_is_cut(garbage: bytes) -> None:
    fs = MemoryFileSystem()
    path = filled(fs)
    fs.open(path).pwrite(garbage, fs.open(path).size())
    for data in reopened(fs):
        (torn,) = data.warnings
        assert not torn.acknowledged
        assert torn.bytes_cut == len(garbage)
        assert numbers(data.log(PLAIN)) == [0, 1, 2, 3, 4]


def test_f57_flipped_bit_in_the_last_batch() -> None:
    size = len(numbered(0))
    for position in range(4 * size + 16, 5 * size):
        fs = MemoryFileSystem()
        path = filled(fs)
        flip(fs, path, position)
        for data in reopened(fs):
            assert len(data.warnings) == 1
            assert numbers(data.log(PLAIN)) == [0, 1, 2, 3]


def flip(fs: MemoryFileSystem, path: Path, position: int) -> None:
    file = fs.open(path)
    file.pwrite(bytes([file.pread(1, position)[0] ^ 0x10]), position)


@pytest.mark.parametrize("durability", Durability)
def test_f58_flipped_bit_in_the_middle_is_refused(durability: Durability) -> None:
    size = len(numbered(0))
    for position in [*range(2 * size + 8, 2 * size + 12), *range(2 * size + 16, 3 * size)]:
        fs = MemoryFileSystem()
        path = filled(fs, durability)
        flip(fs, path, position)
        before = fs.open(path).pread(10_000, 0)
        with pytest.raises(StorageDamaged) as caught:
            DataDirectory.open(ROOT, fs, durability=durability)
        assert caught.value.path == path
        assert caught.value.position == 2 * size
        assert "coterie server --repair /data" in str(caught.value)
        assert fs.open(path).pread(10_000, 0) == before
        with pytest.raises(StorageDamaged):  # and the lock was let go
            DataDirectory.open(ROOT, fs, durability=durability)


def test_f58_zeroed_block_in_the_middle_and_damage_in_an_earlier_segment() -> None:
    size = len(numbered(0))
    fs = MemoryFileSystem()
    path = filled(fs)
    fs.open(path).pwrite(bytes(size + 20), size)
    with pytest.raises(StorageDamaged):
        DataDirectory.open(ROOT, fs)

    fs = MemoryFileSystem()
    data = DataDirectory.open(ROOT, fs, journal_bytes=4096)
    (log,) = data.create([PLAIN], LogConfig(segment_bytes=2 * size))
    for number in range(5):
        data.stage(log, numbered(number))
    data.close()
    fs.open(log.segments[1].path).truncate(2 * size - 1)
    with pytest.raises(StorageDamaged) as caught:
        DataDirectory.open(ROOT, fs)
    assert (caught.value.path, caught.value.position) == (log.segments[1].path, size)


@pytest.mark.parametrize("base", [1, 4])
def test_f58_offsets_that_go_back_are_damage(base: int) -> None:
    fs = MemoryFileSystem()
    path = filled(fs, Durability.OS)
    size = len(numbered(0))
    # A copied file, inside the offsets of the first or right in its place.
    copy = fs.open(path.with_name(f"{base:020d}.log"), create=True)
    copy.pwrite(fs.open(path).pread(size, base * size), 0)
    with pytest.raises(StorageDamaged, match=f"it ends at offset 5, but 0+{base}.log follows"):
        DataDirectory.open(ROOT, fs, durability=Durability.OS)
    (done,) = repair(ROOT, fs)
    assert done.bytes_cut == size
    for data in reopened(fs, Durability.OS):
        assert numbers(data.log(PLAIN)) == [0, 1, 2, 3, 4]
    fs = MemoryFileSystem()
    path = filled(fs)
    fs.open(path).pwrite(fs.open(path).pread(size, 0), 2 * size)
    with pytest.raises(StorageDamaged, match="offsets 0 to 0 behind 2"):
        DataDirectory.open(ROOT, fs)


@pytest.mark.parametrize("lost", [0, 1])
def test_f58_a_lost_segment_is_damage(lost: int) -> None:
    """Without a journal, what lies behind the recovery point is acknowledged all the same."""
    fs = FaultFS()
    data = DataDirectory.open(ROOT, fs, durability=Durability.OS)
    (log,) = data.create([PLAIN], LogConfig(segment_bytes=1))
    for number in range(3):
        data.stage(log, numbered(number))
    data.flush()
    fs = fs.kill()
    fs.unlink(log.segments[lost].path)
    with pytest.raises(StorageDamaged, match=f"it ends at offset {lost}, but 0+{lost + 1}.log"):
        DataDirectory.open(ROOT, fs, durability=Durability.OS)
    (done,) = repair(ROOT, fs)
    assert done.bytes_cut == (2 - lost) * len(numbered(0))
    assert numbers(DataDirectory.open(ROOT, fs).log(PLAIN)) == [0][:lost]


def test_f58_repair_cuts_at_the_damage_and_keeps_the_rest() -> None:
    size = len(numbered(0))
    fs = MemoryFileSystem()
    path = filled(fs)
    flip(fs, path, 2 * size + 40)
    rest = fs.open(path).pread(10_000, 2 * size)
    (done,) = repair(ROOT, fs)
    assert done.kept_in is not None
    assert fs.open(done.kept_in).pread(10_000, 0) == rest
    assert str(done.kept_in) in str(done)
    for data in reopened(fs):
        assert not data.warnings
        assert numbers(data.log(PLAIN)) == [0, 1]
    assert repair(ROOT, fs) == ()


def test_f58_damage_below_what_the_journal_holds() -> None:
    fs = FaultFS()
    data = DataDirectory.open(ROOT, fs, journal_bytes=4096)
    (log,) = data.create([PLAIN])
    data.stage(log, numbered(0))
    data.flush()
    data.checkpoint()
    data.stage(log, numbered(1))
    data.flush()
    fs = fs.kill()
    # Bytes that the journal has too are healed; those before it are not.
    fs.open(log.segments[0].path).pwrite(b"rubbish", len(numbered(0)) + 30)
    data = DataDirectory.open(ROOT, fs)
    assert numbers(data.log(PLAIN)) == [0, 1]
    data.stage(data.log(PLAIN), numbered(2))
    data.flush()
    fs = fs.kill()
    fs.open(log.segments[0].path).pwrite(b"rubbish", 30)
    with pytest.raises(StorageDamaged):
        DataDirectory.open(ROOT, fs)
    (done,) = repair(ROOT, fs)
    assert (done.offset, done.acknowledged) == (0, True)
    assert numbers(DataDirectory.open(ROOT, fs).log(PLAIN)) == []


def test_f58_a_damaged_journal_is_refused_and_repaired() -> None:
    fs = FaultFS()
    data = DataDirectory.open(ROOT, fs, journal_bytes=8192)
    (log,) = data.create([PLAIN])
    for number in range(3):
        data.stage(log, numbered(number))
        data.flush()
    fs = fs.kill()
    fs.open(ROOT / "journal").pwrite(b"rubbish", 512 * 2 + 60)  # the second of three rounds
    with pytest.raises(StorageDamaged) as caught:
        DataDirectory.open(ROOT, fs)
    assert "round 1 is unreadable, but round 2 follows" in str(caught.value)
    assert caught.value.position == 1024
    repair(ROOT, fs)
    assert fs.exists(ROOT / "journal.damaged")
    assert numbers(DataDirectory.open(ROOT, fs).log(PLAIN)) == [0, 1, 2]


# F59, F60


@pytest.mark.parametrize("at", range(1, 4))
def test_f59_no_space_fails_the_round_and_nothing_else(at: int) -> None:
    fs = FaultFS()
    data = DataDirectory.open(ROOT, fs, journal_bytes=4096)
    logs = data.create([PLAIN, AGED], LogConfig(segment_bytes=100))
    for log in logs:
        data.stage(log, numbered(0))
    data.flush()
    fs.fail("pwrite", errno.ENOSPC, at=at)  # the first segment, the second, the journal
    for _ in range(2):
        for log in logs:
            assert data.stage(log, numbered(1)) == 1
        with pytest.raises(StorageFull):
            data.flush()
        assert [numbers(log) for log in logs] == [[0], [0]]
    fs.heal()
    for log in logs:
        assert data.stage(log, numbered(2)) == 1
    data.flush()
    for _ in range(2):
        assert [numbers(data.log(log.partition)) for log in logs] == [[0, 2], [0, 2]]
        fs = fs.crash(at)
        data = DataDirectory.open(ROOT, fs)
        assert not data.warnings


def test_f59_no_space_for_a_checkpoint() -> None:
    fs = FaultFS()
    data = DataDirectory.open(ROOT, fs, journal_bytes=4096)
    (log,) = data.create([PLAIN])
    data.stage(log, numbered(0))
    data.flush()
    fs.fail("create", errno.ENOSPC)
    with pytest.raises(StorageFull):
        data.checkpoint()
    with pytest.raises(StorageFull):
        data.delete_records(log, 1)
    assert log.log_start_offset == 0
    data.stage(log, numbered(1))
    data.flush()
    fs.heal()
    data.checkpoint()
    assert numbers(DataDirectory.open(ROOT, fs.crash(0)).log(PLAIN)) == [0, 1]


@pytest.mark.parametrize("operation", ["flush", "checkpoint"])
def test_f60_a_failed_sync_is_the_end_of_acknowledging(operation: str) -> None:
    fs = FaultFS()
    data = DataDirectory.open(ROOT, fs, journal_bytes=4096)
    (log,) = data.create([PLAIN])
    data.stage(log, numbered(0))
    data.flush()
    data.stage(log, numbered(1))
    fs.fail("sync", errno.EIO, times=1)
    with pytest.raises(StorageBroken):
        getattr(data, operation)()
    syncs = fs.calls["sync"]
    for attempt in (
        lambda: data.stage(log, numbered(1)),
        data.checkpoint,
        lambda: data.create([AGED]),
        lambda: data.delete_records(log, 1),
        lambda: data.apply_retention(0),
        lambda: data.save("name", b"content"),
    ):
        with pytest.raises(StorageBroken):
            attempt()
    assert fs.calls["sync"] == syncs, "a failed sync must not be tried again"
    assert numbers(log) == [0]
    if operation == "checkpoint":
        with pytest.raises(StorageBroken):
            data.close()
    assert numbers(DataDirectory.open(ROOT, fs.crash(1)).log(PLAIN))[0] == 0


def test_f60_a_failed_write_that_is_not_for_want_of_space() -> None:
    fs = FaultFS()
    data = DataDirectory.open(ROOT, fs, journal_bytes=4096)
    (log,) = data.create([PLAIN])
    data.stage(log, numbered(0))
    fs.fail("pwrite", errno.EIO, times=1)
    with pytest.raises(StorageBroken, match="Input/output error"):
        data.flush()
    with pytest.raises(StorageBroken):
        data.stage(log, numbered(0))


def test_f60_no_space_and_no_way_back() -> None:
    fs = FaultFS()
    data = DataDirectory.open(ROOT, fs, journal_bytes=4096)
    (log,) = data.create([PLAIN])
    data.stage(log, numbered(0))
    data.flush()
    data.stage(log, numbered(1))
    fs.fail("pwrite", errno.ENOSPC)
    fs.fail("truncate", errno.EIO)
    with pytest.raises(StorageBroken):
        data.flush()


# F61, F62


def test_f61_locked_by_another_process(tmp_path: Path) -> None:
    holder = (
        "import sys, pathlib\n"
        "from coterie.storage import DataDirectory\n"
        "data = DataDirectory.open(pathlib.Path(sys.argv[1]))\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(StorageLocked) as caught:
            DataDirectory.open(tmp_path)
        assert caught.value.pid == process.pid
        assert f"in use by process {process.pid}" in str(caught.value)
        process.kill()
        process.wait()
    DataDirectory.open(tmp_path).close()


@pytest.mark.parametrize("call", ["mkdir", "lock", "create", "rename"])
@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_f61_a_directory_that_cannot_be_written(call: str, code: int) -> None:
    fs = FaultFS()
    fs.fail(call, code)
    with pytest.raises(StorageUnwritable) as caught:
        DataDirectory.open(ROOT, fs)
    assert os.strerror(code) in str(caught.value)
    fs.heal()
    DataDirectory.open(ROOT, fs, journal_bytes=4096).close()


def test_f61_a_directory_that_is_someone_elses(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(StorageUnwritable, match="not empty"):
        DataDirectory.open(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StorageUnwritable):
        DataDirectory.open(tmp_path / "file")


@pytest.mark.parametrize(
    "meta", [b'{"format": 2, "durability": "fsync"}', b"{}", b"rubbish", b'{"format": 1}', b"[1]"]
)
def test_f62_a_newer_or_unreadable_format_is_refused(meta: bytes) -> None:
    fs = MemoryFileSystem()
    path = filled(fs)
    before = fs.open(path).pread(10_000, 0)
    fs.unlink(ROOT / "coterie.meta")
    fs.open(ROOT / "coterie.meta", create=True).pwrite(meta, 0)
    with pytest.raises(UnsupportedFormat):
        DataDirectory.open(ROOT, fs)
    assert fs.open(path).pread(10_000, 0) == before


if __name__ == "__main__":
    child(Path(sys.argv[1]))
