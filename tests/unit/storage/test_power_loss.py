"""Power lost at every single change of one operation, with many of the disks that may leave (F56).

tests/property/test_storage.py plays any history; these are the histories in which one forgotten sync shows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.protocol.records import build_batch
from coterie.storage import DataDirectory, LogConfig, PartitionLog, TopicPartition
from tests.kit.fault_fs import FaultFS, PowerCut

ROOT = Path("/data")
ONE = TopicPartition("topic", 0)
SEEDS = range(40)

Scenario = Callable[[], tuple[FaultFS, Callable[[], object]]]
Found = list[tuple[int, bytes]]


def opened(fs: FaultFS) -> DataDirectory:
    return DataDirectory.open(ROOT, fs, journal_bytes=8192)


def fill(data: DataDirectory, log: PartitionLog, *values: bytes, time: int = 1000) -> None:
    for n, value in enumerate(values):
        key = value[:1]
        data.stage(log, build_batch([(key, value, time + n, ())]).encode())
    data.flush()


def found(log: PartitionLog) -> Found:
    return [(r.offset, (r.value or b"")[:2]) for b in log.batches() for r in b.records()]


def every_disk(scenario: Scenario) -> list[DataDirectory]:
    """What opens after a cut at each change of the scenario's operation, and after all of it."""
    outcomes = []
    change = 1
    done = False
    while not done:
        fs, operation = scenario()
        fs.cut_power_at(change)
        try:
            operation()
            done = True
        except PowerCut:
            change += 1
        outcomes += [opened(fs.crash(seed)) for seed in SEEDS]
    assert change > 2
    return outcomes


def test_a_swap_of_several_segments() -> None:
    config = LogConfig(segment_ms=0, cleanup_policy=frozenset({"compact"}))

    def scenario() -> tuple[FaultFS, Callable[[], object]]:
        fs = FaultFS()
        data = opened(fs)
        (log,) = data.create([ONE], config)
        fill(data, log, b"a1", b"b1", b"a2", b"c1", b"b2", b"zz")
        data.checkpoint()
        cleaned = data.clean(log, 0)
        return fs, lambda: data.swap(cleaned)

    before = [(0, b"a1"), (1, b"b1"), (2, b"a2"), (3, b"c1"), (4, b"b2"), (5, b"zz")]
    after = [(2, b"a2"), (3, b"c1"), (4, b"b2"), (5, b"zz")]
    outcomes = [found(data.log(ONE)) for data in every_disk(scenario)]
    assert {tuple(outcome) for outcome in outcomes} == {tuple(before), tuple(after)}


def test_retention_of_everything_keeps_the_end_offset() -> None:
    def scenario() -> tuple[FaultFS, Callable[[], object]]:
        fs = FaultFS()
        data = opened(fs)
        (log,) = data.create([ONE], LogConfig(segment_ms=0, retention_ms=10))
        fill(data, log, b"a1", b"b1", b"c1")
        data.checkpoint()
        return fs, lambda: data.apply_retention(5000)

    for data in every_disk(scenario):
        log = data.log(ONE)
        assert log.high_watermark == 3
        everything = [(0, b"a1"), (1, b"b1"), (2, b"c1")]
        assert found(log) == everything[log.log_start_offset :]
        assert not data.warnings


@pytest.mark.parametrize("large", [10, 700])
def test_a_round_that_never_reached_the_journal(large: int) -> None:
    """Its bytes may lie in the segments in any state; that is no damage."""

    def scenario() -> tuple[FaultFS, Callable[[], object]]:
        fs = FaultFS()
        data = opened(fs)
        (log,) = data.create([ONE], LogConfig(segment_bytes=3000))
        fill(data, log, b"a1")
        data.checkpoint()
        values = [b"%d" % n + b"x" * large for n in range(6)]
        return fs, lambda: fill(data, log, *values)

    for data in every_disk(scenario):
        assert not any(torn.acknowledged for torn in data.warnings)
        entries = found(data.log(ONE))
        expected = [(0, b"a1"), *((n + 1, b"%dx" % n) for n in range(6))]
        assert entries == expected[: len(entries)]


def test_the_first_rounds_of_a_partition() -> None:
    """Before any checkpoint no file's name is sure to be there: not even that of the first segment."""

    def scenario() -> tuple[FaultFS, Callable[[], object]]:
        fs = FaultFS()
        data = opened(fs)
        (log,) = data.create([ONE], LogConfig(segment_ms=0))
        return fs, lambda: fill(data, log, b"a1", b"b1", b"c1")

    for data in every_disk(scenario):
        log = data.log(ONE)
        assert log.log_start_offset == 0
        assert found(log) == [(0, b"a1"), (1, b"b1"), (2, b"c1")][: log.high_watermark]


def test_files_that_recovery_removed_do_not_come_back() -> None:
    """An unacknowledged segment is dropped at the first start; a second power loss must not return it."""
    shown = 0
    for seed in range(150):
        fs = FaultFS()
        data = opened(fs)
        (log,) = data.create([ONE], LogConfig(segment_ms=0))
        fill(data, log, b"a1")
        data.checkpoint()
        # Three segments are written, the journal is not.
        fs.cut_power_at(7)
        with pytest.raises(PowerCut):
            fill(data, log, b"b1", b"c1", b"d1", time=2000)
        fs = fs.crash(seed)
        data = opened(fs)
        log = data.log(ONE)
        kept = found(log)
        if log.high_watermark != 1 or not data.warnings:
            continue
        shown += 1
        fill(data, log, b"e1")
        data.checkpoint()
        for again in range(10):
            assert found(opened(fs.crash(again)).log(ONE)) == [*kept, (1, b"e1")]
    assert shown > 3
