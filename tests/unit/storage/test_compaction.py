"""Compaction keeps what must stay: the last record of a key, tombstones for a while, transactions intact."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from coterie.protocol.records import (
    CompressionType,
    ControlRecordType,
    RecordBatch,
    build_batch,
    control_batch,
)
from coterie.protocol.records.batch import TRANSACTIONAL_FLAG_MASK
from coterie.storage import (
    DataDirectory,
    LogConfig,
    PartitionLog,
    StorageBroken,
    StorageDamaged,
    StorageFull,
    TopicPartition,
)
from tests.kit.fault_fs import FaultFS

ROOT = Path("/data")
NOW = 1_000_000
DAY = 24 * 60 * 60 * 1000
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_ms=0, min_cleanable_dirty_ratio=0.5
)

Pair = tuple[str, str | None]


class Cleaner:
    """A directory with one compacted log, whose every batch gets a segment of its own by its time."""

    def __init__(self) -> None:
        self.fs = FaultFS()
        self.data = DataDirectory.open(ROOT, self.fs, journal_bytes=64 * 1024)
        self.log: PartitionLog = self.data.create([TopicPartition("t", 0)], CONFIG)[0]
        self.time = NOW

    def append(self, *pairs: Pair, like: RecordBatch = RecordBatch()) -> None:  # noqa: B008 - it is frozen
        self.time += 1
        records = [
            (key.encode(), None if value is None else value.encode(), self.time, ())
            for key, value in pairs
        ]
        self.data.stage(self.log, build_batch(records, like).encode())

    def transactional(self, producer: int, *pairs: Pair) -> None:
        attributes = TRANSACTIONAL_FLAG_MASK
        self.append(*pairs, like=RecordBatch(attributes=attributes, producer_id=producer))

    def marker(self, kind: ControlRecordType, producer: int) -> None:
        self.time += 1
        marker = control_batch(
            kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=self.time
        )
        self.data.stage(self.log, marker.encode())

    def clean(self, now_ms: int = NOW) -> int:
        """All but the last batch is cleanable."""
        self.append(("active", "segment"))
        self.data.flush()
        self.data.checkpoint()
        return self.data.swap(self.data.clean(self.log, now_ms))

    def reopen(self) -> None:
        self.data.close()
        self.data = DataDirectory.open(ROOT, self.fs)
        self.log = self.data.log(TopicPartition("t", 0))
        self.log.config = CONFIG

    def pairs(self) -> list[tuple[int, str, str | None]]:
        return [
            (r.offset, (r.key or b"").decode(), None if r.value is None else r.value.decode())
            for batch in self.log.batches()
            if not batch.is_control
            for r in batch.records()
            if r.key != b"active"
        ]

    def markers(self) -> list[int]:
        return [batch.base_offset for batch in self.log.batches() if batch.is_control]


@pytest.fixture
def cleaner() -> Cleaner:
    return Cleaner()


def test_the_last_record_of_a_key_stays_at_its_offset(cleaner: Cleaner) -> None:
    cleaner.append(("a", "1"), ("b", "1"), ("c", "1"))
    cleaner.append(("a", "2"))
    cleaner.append(("c", "2"), ("d", "1"), ("c", "3"))
    assert cleaner.clean() > 0
    expected = [(1, "b", "1"), (3, "a", "2"), (5, "d", "1"), (6, "c", "3")]
    assert cleaner.pairs() == expected
    # Batches keep the offsets that they span.
    spans = [(batch.base_offset, batch.last_offset) for batch in cleaner.log.batches()]
    assert spans == [(0, 2), (3, 3), (4, 6), (7, 7)]
    assert len(cleaner.log.segments) == 2  # one for all that was cleaned, and the active one
    cleaner.reopen()
    assert cleaner.pairs() == expected
    assert not cleaner.data.warnings


def test_untouched_batches_keep_their_bytes_and_others_their_codec(cleaner: Cleaner) -> None:
    cleaner.append(("a", "1"), ("b", "1"), like=RecordBatch(attributes=CompressionType.ZSTD))
    cleaner.append(("c", "1"), like=RecordBatch(attributes=CompressionType.GZIP))
    cleaner.append(("a", "2"))
    cleaner.data.flush()
    untouched = cleaner.log.read(2, 1)
    cleaner.clean()
    assert cleaner.log.read(2, 1) == untouched
    assert next(cleaner.log.batches()).compression is CompressionType.ZSTD
    assert cleaner.pairs() == [(1, "b", "1"), (2, "c", "1"), (3, "a", "2")]


def test_the_active_segment_is_never_touched(cleaner: Cleaner) -> None:
    cleaner.append(("a", "1"))
    cleaner.data.flush()
    cleaner.data.checkpoint()
    assert cleaner.data.logs_to_clean(NOW) == []
    assert cleaner.data.clean(cleaner.log, NOW) == []


def test_what_only_the_journal_makes_durable_is_not_touched(cleaner: Cleaner) -> None:
    for n in range(3):
        cleaner.append(("a", str(n)))
    cleaner.data.flush()
    assert cleaner.data.clean(cleaner.log, NOW) == []


def test_dirtiness_decides_when(cleaner: Cleaner) -> None:
    cleaner.append(("a", "1"))
    cleaner.append(("b", "1"))
    cleaner.clean()
    assert cleaner.data.logs_to_clean(NOW) == []
    cleaner.append(("b", "2"))
    cleaner.append(("b", "3"))
    cleaner.data.flush()
    assert cleaner.data.logs_to_clean(NOW) == []
    cleaner.data.checkpoint()
    assert cleaner.data.logs_to_clean(NOW) == [cleaner.log]
    cleaner.log.config = LogConfig()
    assert cleaner.data.logs_to_clean(NOW) == []


def test_records_younger_than_the_lag_are_not_compacted(cleaner: Cleaner) -> None:
    cleaner.log.config = replace(CONFIG, min_compaction_lag_ms=1_000)
    cleaner.append(("a", "1"))
    cleaner.append(("a", "2"))
    cleaner.clean(NOW + 500)
    assert cleaner.data.logs_to_clean(NOW + 500) == []
    assert len(cleaner.pairs()) == 2
    cleaner.clean(NOW + 2_000)
    assert [pair for pair in cleaner.pairs() if pair[1] == "a"] == [(1, "a", "2")]


def test_a_record_as_old_as_the_longest_lag_makes_its_log_due(cleaner: Cleaner) -> None:
    cleaner.log.config = replace(CONFIG, min_cleanable_dirty_ratio=1.1, max_compaction_lag_ms=1_000)
    cleaner.append(("a", "1"))
    cleaner.append(("a", "2"))
    cleaner.data.flush()
    cleaner.data.checkpoint()
    assert cleaner.data.logs_to_clean(NOW + 500) == []
    assert cleaner.data.logs_to_clean(NOW + 2_000) == [cleaner.log]


def test_tombstones_stay_for_delete_retention_ms(cleaner: Cleaner) -> None:
    cleaner.append(("a", "1"), ("b", "1"))
    cleaner.append(("a", None), ("c", "1"))
    cleaner.clean(NOW)
    assert cleaner.pairs() == [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    horizons = [batch.delete_horizon_ms for batch in cleaner.log.batches()]
    assert horizons == [None, NOW + DAY, None]
    cleaner.clean(NOW + DAY - 1)
    assert (2, "a", None) in cleaner.pairs()
    cleaner.clean(NOW + DAY)
    assert cleaner.pairs() == [(1, "b", "1"), (3, "c", "1")]
    timestamps = {r.timestamp for batch in cleaner.log.batches() for r in batch.records()}
    assert max(timestamps) < NOW + 100, "the horizon is not a record's time"


def test_records_without_a_key_go(cleaner: Cleaner) -> None:
    cleaner.time += 1
    batch = build_batch([(None, b"x", cleaner.time, ()), (b"k", b"y", cleaner.time, ())])
    cleaner.data.stage(cleaner.log, batch.encode())
    cleaner.clean()
    assert cleaner.pairs() == [(1, "k", "y")]


def test_aborted_records_go_and_do_not_supersede(cleaner: Cleaner) -> None:
    cleaner.append(("a", "old"))
    cleaner.transactional(7, ("a", "aborted"), ("b", "aborted"))
    cleaner.marker(ControlRecordType.ABORT, 7)
    cleaner.transactional(7, ("c", "committed"))
    cleaner.marker(ControlRecordType.COMMIT, 7)
    cleaner.transactional(8, ("a", "new"))
    cleaner.marker(ControlRecordType.COMMIT, 8)
    cleaner.clean()
    assert cleaner.pairs() == [(4, "c", "committed"), (6, "a", "new")]
    assert cleaner.markers() == [3, 5, 7]
    # The marker of the aborted transaction goes a day later, those with records stay.
    cleaner.clean(NOW + DAY)
    assert cleaner.markers() == [5, 7]
    assert cleaner.pairs() == [(4, "c", "committed"), (6, "a", "new")]
    # Records that were superseded later take their marker with them, in time.
    cleaner.append(("c", "later"))
    cleaner.append(("a", "later"))
    cleaner.clean(NOW + DAY)
    assert cleaner.markers() == [5, 7]
    cleaner.clean(NOW + 3 * DAY)
    cleaner.clean(NOW + 5 * DAY)
    assert cleaner.markers() == []


def test_nothing_behind_an_open_transaction_is_touched(cleaner: Cleaner) -> None:
    cleaner.append(("a", "1"))
    cleaner.append(("a", "2"))
    cleaner.transactional(7, ("a", "open"))
    cleaner.append(("a", "3"))
    cleaner.clean()
    assert cleaner.pairs() == [(1, "a", "2"), (2, "a", "open"), (3, "a", "3")]
    cleaner.marker(ControlRecordType.COMMIT, 7)
    cleaner.clean()
    assert cleaner.pairs() == [(3, "a", "3")]


def test_a_live_producers_last_batch_is_kept_empty(cleaner: Cleaner) -> None:
    for sequence in range(2):
        cleaner.append(("a", "1"), like=RecordBatch(producer_id=5, base_sequence=sequence))
    cleaner.append(("a", "2"))
    cleaner.clean(NOW)
    empty, last, _ = cleaner.log.batches()
    assert (empty.base_offset, empty.last_offset, empty.records_count) == (1, 1, 0)
    assert (empty.producer_id, empty.last_sequence) == (5, 1)
    assert last.base_offset == 2
    cleaner.reopen()
    assert [batch.base_offset for batch in cleaner.log.batches()][:2] == [1, 2]
    cleaner.clean(NOW + 2 * DAY)
    assert next(cleaner.log.batches()).base_offset == 2


def test_segments_of_which_nothing_stays(cleaner: Cleaner) -> None:
    cleaner.append(("a", "1"))
    cleaner.append(("a", None))
    cleaner.clean()
    cleaner.append(("a", None))
    for _ in range(2):
        cleaner.clean(NOW + 2 * DAY)
        cleaner.clean(NOW + 4 * DAY)
        assert cleaner.pairs() == []
        assert cleaner.log.read(0, 1)
        end = cleaner.log.high_watermark
        cleaner.reopen()
        assert cleaner.log.high_watermark == end


def test_segments_that_went_meanwhile_are_left_alone(cleaner: Cleaner) -> None:
    for n in range(3):
        cleaner.append(("a", str(n)))
    cleaner.data.flush()
    cleaner.data.checkpoint()
    cleaned = cleaner.data.clean(cleaner.log, NOW)
    cleaner.data.delete_records(cleaner.log, 1)
    assert cleaner.data.swap(cleaned) == 0
    assert not [n for n in cleaner.fs.listdir(cleaner.log.directory) if not n.endswith(".log")]
    cleaned = cleaner.data.clean(cleaner.log, NOW)
    cleaner.data.delete([cleaner.log.partition])
    assert cleaner.data.swap(cleaned) == 0
    assert cleaner.data.clean(cleaner.log, NOW) == []


def test_a_full_disk_leaves_the_log_as_it_was(cleaner: Cleaner) -> None:
    for n in range(3):
        cleaner.append(("a", str(n)))
    cleaner.data.flush()
    cleaner.data.checkpoint()
    cleaner.fs.fail("pwrite", errno.ENOSPC)
    with pytest.raises(StorageFull):
        cleaner.data.clean(cleaner.log, NOW)
    assert len(cleaner.pairs()) == 3
    assert not [n for n in cleaner.fs.listdir(cleaner.log.directory) if not n.endswith(".log")]
    cleaner.fs.heal()
    assert cleaner.clean() > 0


def test_a_swap_that_fails_half_way_is_the_end(cleaner: Cleaner) -> None:
    for n in range(3):
        cleaner.append(("a", str(n)))
    cleaner.data.flush()
    cleaner.data.checkpoint()
    cleaned = cleaner.data.clean(cleaner.log, NOW)
    cleaner.fs.fail("sync_directory", errno.EIO)
    with pytest.raises(StorageBroken):
        cleaner.data.swap(cleaned)
    for seed in range(20):
        data = DataDirectory.open(ROOT, cleaner.fs.crash(seed))
        last = list(data.log(TopicPartition("t", 0)).batches())[-1]
        assert last.records()[0].value == b"2"


def test_damage_is_told_with_its_place(cleaner: Cleaner) -> None:
    for n in range(3):
        cleaner.append(("a", str(n)))
    cleaner.data.flush()
    cleaner.data.checkpoint()
    path = cleaner.log.segments[0].path
    cleaner.fs.open(path).pwrite(b"rubbish", 30)
    with pytest.raises(StorageDamaged) as caught:
        cleaner.data.clean(cleaner.log, NOW)
    assert (caught.value.path, caught.value.position) == (path, 0)


def test_rewrites_are_grouped_up_to_segment_bytes(cleaner: Cleaner) -> None:
    for n in range(6):
        cleaner.append((str(n), "x" * 100))
    cleaner.append(("0", "y"))
    cleaner.data.flush()
    size = cleaner.log.segments[0].size
    cleaner.log.config = replace(CONFIG, segment_bytes=2 * size)
    cleaner.clean()
    assert [segment.base_offset for segment in cleaner.log.segments] == [0, 2, 4, 6, 7]
    assert [pair[0] for pair in cleaner.pairs()] == [1, 2, 3, 4, 5, 6]


def test_a_disk_that_fills_up_half_way_gets_its_space_back(cleaner: Cleaner) -> None:
    for n in range(4):
        cleaner.append((str(n), "x" * 100))
    cleaner.data.flush()
    cleaner.data.checkpoint()
    cleaner.log.config = replace(CONFIG, segment_bytes=cleaner.log.segments[0].size)
    cleaner.fs.fail("pwrite", errno.ENOSPC, at=3)
    with pytest.raises(StorageFull):
        cleaner.data.clean(cleaner.log, NOW)
    assert not [n for n in cleaner.fs.listdir(cleaner.log.directory) if not n.endswith(".log")]
