"""Any history of appends, rounds, checkpoints, retention, compaction and power cuts keeps what was committed.

The model is a list of records for each partition. Power is cut at rest or in the middle of any operation;
then one of the disks that this may leave is opened, and what was acknowledged must be on it, at its offset,
with its bytes. What was in flight may be there or not, but only as a whole and in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, rule

from coterie.protocol.records import build_batch
from coterie.storage import DataDirectory, LogConfig, PartitionLog, TopicPartition
from tests.kit.campaign import EXAMPLES
from tests.kit.fault_fs import FaultFS, PowerCut

ROOT = Path("/data")
JOURNAL_BYTES = 4096
KEEPING = [TopicPartition("keep", n) for n in range(2)]
COMPACTED = TopicPartition("compact", 0)
SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100, retention_ms=1000)
# Segments roll by time and are merged by size, so that one rewrite takes the place of several.
COMPACTING = LogConfig(
    segment_bytes=4000,
    segment_ms=15,
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=50,
)
PARTITIONS = [*KEEPING, COMPACTED]

# Offset, key, value.
Entry = tuple[int, bytes, bytes | None]


@dataclass
class Model:
    start: int = 0
    next_offset: int = 0
    committed: list[Entry] = field(default_factory=list)
    # Batches that were staged, in order.
    in_flight: list[list[Entry]] = field(default_factory=list)

    def commit(self) -> None:
        for batch in self.in_flight:
            self.committed += batch
        self.in_flight.clear()


def entries_of(log: PartitionLog) -> list[Entry]:
    return [
        (record.offset, record.key or b"", record.value)
        for batch in log.batches()
        for record in batch.records()
    ]


class StorageMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.fs = FaultFS()
        self.models = {partition: Model() for partition in PARTITIONS}
        self.now_ms = 1000
        self.counter = 0
        self.data = self.open()

    def open(self) -> DataDirectory:
        data = DataDirectory.open(ROOT, self.fs, journal_bytes=JOURNAL_BYTES, config=SMALL)
        for partition in KEEPING:
            data.create([partition], SMALL)[0].config = SMALL
        data.create([COMPACTED], COMPACTING)[0].config = COMPACTING
        return data

    @rule(
        partition=st.sampled_from(PARTITIONS),
        keys=st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=4),
        tombstone=st.booleans(),
        size=st.sampled_from([1, 80, 700]),
    )
    def stage(
        self, *, partition: TopicPartition, keys: list[bytes], tombstone: bool, size: int
    ) -> None:
        log, model = self.data.log(partition), self.models[partition]
        self.counter += 1
        self.now_ms += 10
        value = None if tombstone else b"%d" % self.counter + b"." * size
        batch = build_batch([(key, value, self.now_ms, ()) for key in keys]).encode()
        base = log.log_end_offset
        assert self.data.stage(log, batch) == base
        model.in_flight.append([(base + i, key, value) for i, key in enumerate(keys)])
        # Nothing that is not committed is visible.
        assert log.high_watermark <= base

    @rule(
        partition=st.sampled_from(PARTITIONS),
        count=st.integers(2, 8),
        size=st.sampled_from([1, 80, 250]),
        durable=st.booleans(),
    )
    def fill(self, *, partition: TopicPartition, count: int, size: int, durable: bool) -> None:
        for n in range(count):
            keys = [(b"a", b"b", b"c")[n % 3]]
            self.stage(partition=partition, keys=keys, tombstone=n % 4 == 3, size=size)
        self.flush()
        if durable:
            self.data.checkpoint()

    @rule()
    def flush(self) -> None:
        self.data.flush()
        self.committed()

    def committed(self) -> None:
        for model in self.models.values():
            model.commit()
        self.check()

    @rule()
    def checkpoint(self) -> None:
        self.data.checkpoint()

    @rule()
    def compact(self) -> None:
        self.now_ms += 20
        self.run_compaction()
        self.check()

    def run_compaction(self) -> None:
        for log in self.data.logs_to_clean(self.now_ms):
            self.data.swap(self.data.clean(log, self.now_ms))

    @rule(wait=st.sampled_from([0, 500, 5000]))
    def retain(self, wait: int) -> None:
        self.now_ms += wait
        self.data.apply_retention(self.now_ms)
        for partition in KEEPING:
            log, model = self.data.log(partition), self.models[partition]
            self.start_moved(log, model)
        self.check()

    def start_moved(self, log: PartitionLog, model: Model) -> None:
        assert model.start <= log.log_start_offset <= log.high_watermark
        model.start = log.log_start_offset
        model.committed = [e for e in model.committed if e[0] >= model.start]

    @rule(partition=st.sampled_from(KEEPING), share=st.floats(0, 1))
    def delete_records(self, partition: TopicPartition, share: float) -> None:
        log, model = self.data.log(partition), self.models[partition]
        model.start += int((log.high_watermark - model.start) * share)
        assert self.data.delete_records(log, model.start) == model.start
        self.check()

    @rule(partition=st.sampled_from(PARTITIONS))
    def recreate(self, partition: TopicPartition) -> None:
        config = self.data.log(partition).config
        self.data.delete([partition])
        self.data.create([partition], config)
        self.models[partition] = Model()
        self.check()

    @rule(clean=st.booleans())
    def reopen(self, *, clean: bool) -> None:
        if clean:
            self.data.close()
            for model in self.models.values():
                model.commit()
        self.fs = self.fs.kill()
        self.after_crash()

    @rule(seed=st.integers(0, 2**32))
    def lose_power(self, seed: int) -> None:
        self.fs = self.fs.crash(seed)
        self.after_crash()

    @rule(
        seed=st.integers(0, 2**32),
        change=st.integers(1, 40),
        kind=st.sampled_from(["flush", "checkpoint", "compact", "retain", "close", "open"]),
        reboots=st.integers(0, 2),
    )
    def lose_power_during(self, seed: int, change: int, kind: str, reboots: int) -> None:
        if kind == "open":
            self.fs.kill()
        self.fs.cut_power_at(change)
        operations: dict[str, Callable[[], Any]] = {
            "flush": self.data.flush,
            "checkpoint": self.data.checkpoint,
            "compact": self.run_compaction,
            "retain": lambda: self.data.apply_retention(self.now_ms + 5000),
            "close": self.data.close,
            "open": self.open,
        }
        acknowledged = self.survives(operations[kind])
        if acknowledged and kind in ("flush", "close"):
            for model in self.models.values():
                model.commit()
        # Recovery itself may be cut short, again and again.
        for reboot in range(reboots):
            self.fs = self.fs.crash(seed + reboot)
            self.fs.cut_power_at(change + 7 * reboot)
            self.survives(self.open)
        self.fs = self.fs.crash(seed + reboots)
        self.after_crash()

    def survives(self, operation: Callable[[], Any]) -> bool:
        try:
            operation()
        except PowerCut:
            return False
        return True

    def after_crash(self) -> None:
        self.data = self.open()
        for partition, model in self.models.items():
            log = self.data.log(partition)
            for batch in model.in_flight:
                # In flight: there as a whole, or not at all and nothing after it either.
                if log.high_watermark > batch[0][0]:
                    model.committed += batch
            model.in_flight.clear()
            if partition in KEEPING:
                self.start_moved(log, model)
        assert not any(torn.acknowledged for torn in self.data.warnings)
        self.check()

    def check(self) -> None:
        for partition, model in self.models.items():
            log = self.data.log(partition)
            found = [entry for entry in entries_of(log) if entry[0] >= model.start]
            expected = [entry for entry in model.committed if entry[0] >= model.start]
            if partition == COMPACTED:
                check_compacted(found, expected)
            else:
                assert found == expected
            if expected:
                assert log.high_watermark == expected[-1][0] + 1


def check_compacted(found: list[Entry], expected: list[Entry]) -> None:
    """Nothing invented, nothing moved, and the last value of every key is there."""
    assert set(found) <= set(expected)
    assert [entry[0] for entry in found] == sorted({entry[0] for entry in found})
    latest = {key: (offset, key, value) for offset, key, value in expected}
    assert {entry for entry in latest.values() if entry[2] is not None} <= set(found)


TestStorage = StorageMachine.TestCase
TestStorage.settings = settings(max_examples=200 * EXAMPLES, stateful_step_count=30)
