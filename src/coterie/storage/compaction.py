"""Log compaction (Kafka's LogCleaner): of all records with the same key, only the last stays.

What goes: records with a later one of the same key, records without a key, records of aborted transactions,
and, delete.retention.ms after compaction first met them, tombstones and the markers of transactions of which
no record is left (KIP-534: the batch carries that time as its delete horizon). What stays: offsets, so that
gaps appear; the last batch of a live producer, if need be emptied, for its sequence; everything of the active
segment, behind an open transaction, or not yet durable in its segment.

`clean` reads and writes files of its own and may run in the worker thread; `swap` puts the result in place
and is the owner's. A crash between leaves names that say what to do: `.cleaned` is thrown away, and
`BASE-END.swap` is complete and takes the place of all segments from BASE to END (`finish_swaps`).
Called by coterie.storage.data_directory. Memory is bounded by the keys, not by the records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import msgspec

from coterie.crash_points import crash_point, write_with_crash_point
from coterie.errors import RecordBatchError
from coterie.files import File
from coterie.protocol.records import (
    ControlRecordType,
    Record,
    RecordBatch,
    assign_offsets,
    build_batch,
    decode_batches,
    decode_control_record,
)
from coterie.protocol.records.batch import DELETE_HORIZON_FLAG_MASK
from coterie.storage.errors import StorageDamaged
from coterie.storage.files import FileSystem
from coterie.storage.partition_log import PartitionLog
from coterie.storage.segment import LOG_SUFFIX, Segment, place_of, scan_batches, segment_name

__all__ = [
    "Cleaned",
    "Transactions",
    "clean",
    "dirty_ratio",
    "finish_swaps",
    "marker_type",
    "needs_cleaning",
    "swap",
    "write_anew",
]


def marker_type(batch: RecordBatch) -> ControlRecordType:
    """COMMIT or ABORT for a transaction marker; other types for other control batches."""
    records = batch.records()
    return decode_control_record(records[0]).type if records else ControlRecordType.UNKNOWN


class Transactions:
    """The transactions of a log, from its batches in order, up to and including the active segment."""

    def __init__(self, batches: Iterable[RecordBatch]) -> None:
        self._open: dict[int, int] = {}  # producer id -> first offset
        self._aborted: dict[
            int, list[tuple[int, int]]
        ] = {}  # producer id -> first and marker's offset
        # For each producer, the base offsets of its last batch of records and of its last marker.
        self.last_batch: dict[int, int] = {}
        self.last_marker: dict[int, int] = {}
        for batch in batches:
            self._add(batch)

    def _add(self, batch: RecordBatch) -> None:
        producer = batch.producer_id
        if producer < 0:
            return
        if not batch.is_control:
            self.last_batch[producer] = batch.base_offset
            if batch.is_transactional:
                self._open.setdefault(producer, batch.base_offset)
            return
        self.last_marker[producer] = batch.base_offset
        first = self._open.pop(producer, None)
        if first is not None and marker_type(batch) is ControlRecordType.ABORT:
            self._aborted.setdefault(producer, []).append((first, batch.base_offset))

    def first_unstable_offset(self, end: int) -> int:
        """The first offset of a transaction that is still open, else `end` (the last stable offset)."""
        return min(self._open.values(), default=end)

    def is_aborted(self, batch: RecordBatch) -> bool:
        """Whether the records of this batch belong to an aborted transaction."""
        if not batch.is_transactional or batch.is_control:
            return False
        ranges = self._aborted.get(batch.producer_id, [])
        at = bisect_right(ranges, batch.base_offset, key=lambda aborted: aborted[0]) - 1
        return at >= 0 and batch.base_offset < ranges[at][1]


_CLEANED_SUFFIX = ".cleaned"
_SWAP_SUFFIX = ".swap"


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A finished rewrite of some segments, waiting under a name that recovery throws away."""

    log: PartitionLog
    sources: tuple[Segment, ...]
    path: Path
    end_offset: int
    bytes_before: int
    bytes_after: int


def needs_cleaning(log: PartitionLog, now_ms: int) -> bool:
    """Whether the dirty part has reached min.cleanable.dirty.ratio, or a record max.compaction.lag.ms."""
    cleanable = _cleanable_segments(log, now_ms)
    dirty = [s for s in cleanable if s.next_offset > log.cleaned_offset]
    if not dirty:
        return False
    if dirty_ratio(log, now_ms) >= log.config.min_cleanable_dirty_ratio:
        return True
    return now_ms - dirty[0].first_timestamp > log.config.max_compaction_lag_ms


def dirty_ratio(log: PartitionLog, now_ms: int) -> float:
    """How much of what may be cleaned was never looked at (min.cleanable.dirty.ratio)."""
    cleanable = _cleanable_segments(log, now_ms)
    total = sum(segment.size for segment in cleanable)
    dirty = sum(s.size for s in cleanable if s.next_offset > log.cleaned_offset)
    return dirty / total if total else 0.0


def clean(
    fs: FileSystem, log: PartitionLog, segments: Sequence[Segment], now_ms: int
) -> list[Cleaned]:
    """Rewrite `segments`, all of the log's, in groups of up to segment.bytes; the results for `swap`."""
    transactions = Transactions(_read(fs, segments))
    stable = transactions.first_unstable_offset(segments[-1].next_offset)
    cleanable = [
        s
        for s in _old_enough(segments[:-1], log, now_ms)
        if s.next_offset <= min(stable, log.recovery_point)
    ]
    latest: dict[bytes, int] = {}
    for batch in _read(fs, cleanable):
        if not batch.is_control and not transactions.is_aborted(batch):
            latest.update((r.key, r.offset) for r in batch.records() if r.key is not None)
    cleaner = _Cleaner(latest, transactions, log, now_ms)
    done: list[Cleaned] = []
    try:
        for group in _groups(cleanable, log.config.segment_bytes):
            done.append(_rewrite(fs, log, group, cleaner))  # noqa: PERF401 - what is done is needed below
    except OSError:
        for cleaned in done:
            fs.unlink(cleaned.path)
        raise
    return done


def _cleanable_segments(log: PartitionLog, now_ms: int) -> list[Segment]:
    old = _old_enough(log.segments[:-1], log, now_ms)
    return [s for s in old if s.next_offset <= log.recovery_point]


def _old_enough(segments: Sequence[Segment], log: PartitionLog, now_ms: int) -> Iterator[Segment]:
    """The segments before the first with a record younger than min.compaction.lag.ms."""
    lag = log.config.min_compaction_lag_ms
    return takewhile(lambda s: not lag or s.max_timestamp <= now_ms - lag, segments)


def _groups(segments: Sequence[Segment], limit: int) -> Iterator[tuple[Segment, ...]]:
    """Neighbours that fit into one segment together (groupSegmentsBySize)."""
    group: list[Segment] = []
    size = 0
    for segment in segments:
        if group and size + segment.size > limit:
            yield tuple(group)
            group, size = [], 0
        group.append(segment)
        size += segment.size
    if group:
        yield tuple(group)


def _read(fs: FileSystem, segments: Sequence[Segment]) -> Iterator[RecordBatch]:
    """The batches of segments, through handles of our own: theirs are the owner's."""
    for segment in segments:
        if segment.size:
            file = fs.open(segment.path)
            try:
                for _, batch in scan_batches(file, 0, segment.size):
                    yield batch
            except RecordBatchError as error:
                raise StorageDamaged(segment.path, error.offset or 0, error.reason) from error
            finally:
                file.close()


def write_anew(fs: FileSystem, log: PartitionLog, batches: Iterable[bytes]) -> Cleaned:
    """Batches that say all that a whole log says, at the offsets behind it; the result is for `swap`."""
    path = log.directory / (segment_name(log.segments[0].base_offset) + _CLEANED_SUFFIX)
    file = fs.open(path, create=True, private=log.config.private)
    position, offset = 0, log.high_watermark
    try:
        file.truncate(0)
        for batch in batches:
            data = bytearray(batch)
            assign_offsets(data, 0, offset, 0)
            write_with_crash_point("compaction.mid_write", file, data, position)
            position += len(data)
            offset = decode_batches(data, check_crc=False).batches[0].last_offset + 1
        file.sync()
    except OSError:
        fs.unlink(path)
        raise
    finally:
        file.close()
    crash_point("compaction.after_cleaned")
    return Cleaned(log, log.segments, path, offset, log.size_in_bytes, position)


def _rewrite(
    fs: FileSystem, log: PartitionLog, group: tuple[Segment, ...], cleaner: _Cleaner
) -> Cleaned:
    path = log.directory / (segment_name(group[0].base_offset) + _CLEANED_SUFFIX)
    file = fs.open(path, create=True)
    try:
        size = _write_kept(fs, file, group, cleaner)
    except OSError:
        fs.unlink(path)  # a full disk needs the space
        raise
    finally:
        file.close()
    crash_point("compaction.after_cleaned")
    before = sum(segment.size for segment in group)
    return Cleaned(log, group, path, group[-1].next_offset, before, size)


def _write_kept(fs: FileSystem, file: File, group: tuple[Segment, ...], cleaner: _Cleaner) -> int:
    file.truncate(0)
    position = 0
    for batch in _read(fs, group):
        kept = cleaner.filter(batch)
        if kept is not None:
            data = kept.encode()
            write_with_crash_point("compaction.mid_write", file, data, position)
            position += len(data)
    file.sync()
    return position


class _Cleaner:
    """What stays of a batch; batches come in the order of the log."""

    def __init__(
        self, latest: dict[bytes, int], transactions: Transactions, log: PartitionLog, now_ms: int
    ) -> None:
        self._latest = latest
        self._transactions = transactions
        self._now_ms = now_ms
        self._horizon_ms = now_ms + log.config.delete_retention_ms
        self._producer_expiry_ms = now_ms - log.config.producer_id_expiration_ms
        # Producers with a transactional batch kept since their last marker.
        self._has_records: set[int] = set()

    def filter(self, batch: RecordBatch) -> RecordBatch | None:
        """The batch itself if all of it stays, a smaller one, or None."""
        if batch.is_control:
            return self._filter_marker(batch)
        if self._transactions.is_aborted(batch):
            return self._emptied(batch)
        records = batch.records()
        kept = [record for record in records if self._stays(record, batch)]
        if not kept:
            return self._emptied(batch)
        if batch.is_transactional:
            self._has_records.add(batch.producer_id)
        sets_horizon = batch.delete_horizon_ms is None and any(r.value is None for r in kept)
        if len(kept) == len(records) and not sets_horizon:
            return batch
        return _rebuilt(batch, kept, self._horizon_ms if sets_horizon else None)

    def _stays(self, record: Record, batch: RecordBatch) -> bool:
        if record.key is None or self._latest.get(record.key, -1) > record.offset:
            return False
        horizon = batch.delete_horizon_ms
        return record.value is not None or horizon is None or self._now_ms < horizon

    def _filter_marker(self, batch: RecordBatch) -> RecordBatch | None:
        """A marker is needed as long as a record of its transaction is there, and a while longer."""
        if batch.producer_id < 0 or not batch.is_transactional:
            return batch
        if batch.producer_id in self._has_records:
            self._has_records.remove(batch.producer_id)
            return batch
        horizon = batch.delete_horizon_ms
        if horizon is None:
            return _rebuilt(batch, batch.records(), self._horizon_ms)
        if self._now_ms < horizon or self._is_last_of_producer(
            batch, self._transactions.last_marker
        ):
            return batch
        return None

    def _emptied(self, batch: RecordBatch) -> RecordBatch | None:
        """None, or for the last batch of a live producer its header (Kafka's RETAIN_EMPTY)."""
        if not self._is_last_of_producer(batch, self._transactions.last_batch):
            return None
        if batch.is_transactional:
            # To a reader an emptied batch opens a transaction like any other.
            self._has_records.add(batch.producer_id)
        return msgspec.structs.replace(batch, records_count=0, payload=b"")

    def _is_last_of_producer(self, batch: RecordBatch, last: dict[int, int]) -> bool:
        is_last = last.get(batch.producer_id) == batch.base_offset
        return is_last and batch.max_timestamp >= self._producer_expiry_ms


def _rebuilt(batch: RecordBatch, records: list[Record], horizon_ms: int | None) -> RecordBatch:
    """The batch with these of its records: same base offset, last offset and sequence."""
    like = batch
    if horizon_ms is not None:
        like = msgspec.structs.replace(
            batch,
            attributes=batch.attributes | DELETE_HORIZON_FLAG_MASK,
            base_timestamp=horizon_ms,
        )
    rebuilt = build_batch(
        [(r.key, r.value, r.timestamp, r.headers) for r in records],
        like,
        offset_deltas=[r.offset - batch.base_offset for r in records],
    )
    return msgspec.structs.replace(rebuilt, last_offset_delta=batch.last_offset_delta)


def swap(fs: FileSystem, cleaned: Cleaned) -> bool:
    """Put a rewrite in place of its segments; False if some of those have gone in the meantime."""
    log = cleaned.log
    if any(segment not in log.segments for segment in cleaned.sources):
        fs.unlink(cleaned.path)
        return False
    base = cleaned.sources[0].base_offset
    name = f"{segment_name(base)}-{segment_name(cleaned.end_offset)}{_SWAP_SUFFIX}"
    fs.rename(cleaned.path, log.directory / name)
    fs.sync_directory(log.directory)
    crash_point("compaction.after_swap")
    _finish_swap(fs, log.directory, name)
    segment = Segment(fs, log.directory, base, log.config)
    for position, batch in scan_batches(segment.file(), 0, cleaned.bytes_after):
        segment.admit(place_of(batch, position))
    segment.next_offset = cleaned.end_offset
    log.replace_segments(cleaned.sources, segment)
    log.cleaned_offset = max(log.cleaned_offset, cleaned.end_offset)
    return True


def finish_swaps(fs: FileSystem, directory: Path) -> None:
    """After a crash: throw away what was not finished, put in place what was."""
    for name in fs.listdir(directory):
        if name.endswith(_CLEANED_SUFFIX):
            fs.unlink(directory / name)
        elif name.endswith(_SWAP_SUFFIX):
            _finish_swap(fs, directory, name)


def _finish_swap(fs: FileSystem, directory: Path, name: str) -> None:
    base, end = (int(part) for part in name.removesuffix(_SWAP_SUFFIX).split("-"))
    others = [
        other
        for other in fs.listdir(directory)
        if other.endswith(LOG_SUFFIX) and base < int(other.removesuffix(LOG_SUFFIX)) < end
    ]
    for other in others:
        fs.unlink(directory / other)
    if others:
        # Before the rename: a new file beside an old one that comes back would hold offsets twice.
        fs.sync_directory(directory)
    crash_point("compaction.after_unlink")
    fs.rename(directory / name, directory / (segment_name(base) + LOG_SUFFIX))
    fs.sync_directory(directory)
    crash_point("compaction.after_rename")
