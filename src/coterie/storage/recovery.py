"""From the files of a partition to an open log: what a crash may have left, and what it may not.

Batches are trusted up to the first that is cut, damaged or out of order. What is behind it is

- re-applied from the journal, if the journal has entries for this partition: they begin exactly where the
  segments were last synced, so the log is cut there and the entries are appended again;
- a tail that was never acknowledged, if every acknowledged batch would be in the journal: cut;
- a torn tail, if it is in the last segment and no valid batch follows: cut, and told;
- damage otherwise: StorageDamaged, and nothing is changed. A repair cuts too, but keeps what it cuts.

What this is not: the live log. Called by coterie.storage.data_directory at open, once for each partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from coterie.crash_points import crash_point
from coterie.errors import RecordBatchError
from coterie.files import Buffer, File
from coterie.protocol.batch_layout import LENGTH_END, MAGIC, MAGIC_AT
from coterie.protocol.records import decode_batches
from coterie.storage.compaction import finish_swaps
from coterie.storage.config import LogConfig
from coterie.storage.errors import StorageDamaged, TornTail
from coterie.storage.files import FileSystem
from coterie.storage.partition_log import PartitionLog, TopicPartition
from coterie.storage.segment import LOG_SUFFIX, Segment, place_of, scan_batches

__all__ = ["DAMAGED_SUFFIX", "LogRecovery"]

DAMAGED_SUFFIX = ".damaged"

_LENGTH_AND_MAGIC = Struct(">qi4xb")  # base offset, length, (leader epoch,) magic
_MAGIC_BYTE = bytes([MAGIC])
_SEARCH_CHUNK = 1024 * 1024
# Offsets of a batch behind damage are a little larger than before it; chance bytes are anywhere.
_OFFSET_SPAN = 2**31


class _End(NamedTuple):
    """Where the trusted part of a log ends, and why if not where its last file does."""

    segment: int  # its index
    position: int
    offset: int
    damage: str | None = None


@dataclass(slots=True, kw_only=True)
class LogRecovery:
    """One partition's recovery: what is known before, and after `run` what was found."""

    fs: FileSystem
    root: Path
    partition: TopicPartition
    config: LogConfig
    log_start_offset: int
    recovery_point: int
    # Batches of the journal, in order.
    entries: Sequence[Buffer]
    # Whether every acknowledged batch is below the recovery point or in the journal.
    is_journaled: bool
    repairing: bool = False
    torn: list[TornTail] = field(default_factory=list)
    # Segments whose bytes may not be durable yet.
    dirty: list[Segment] = field(default_factory=list)

    def run(self) -> PartitionLog:
        """The log, with the journal re-applied and nothing synced yet; StorageDamaged as said above."""
        finish_swaps(self.fs, self._directory)
        segments = self._open_segments()
        end = self._scan(segments)
        self._judge(segments, end)
        self._cut(segments, end)
        log = PartitionLog(
            self.fs,
            self._directory,
            self.partition,
            self.config,
            segments=segments[: end.segment + 1],
            log_start_offset=min(self.log_start_offset, end.offset),
        )
        crash_point("recovery.before_replay")
        for entry in self.entries:
            log.append(entry, decode_batches(entry).batches[0].partition_leader_epoch)
        crash_point("recovery.after_replay")
        log.log_start_offset = max(
            log.log_start_offset, min(self.log_start_offset, log.high_watermark)
        )
        log.recovery_point = min(self.recovery_point, end.offset)
        self.dirty = [
            s for s in log.segments if s in self.dirty or s.next_offset > log.recovery_point
        ]
        for segment in log.segments[:-1]:
            if segment not in self.dirty:
                segment.close()
        return log

    @property
    def _directory(self) -> Path:
        return self.root / self.partition.directory_name

    def _open_segments(self) -> list[Segment]:
        """The segments, without those that the log start offset had passed when the crash came."""
        names = [n for n in self.fs.listdir(self._directory) if n.endswith(LOG_SUFFIX)]
        bases = sorted(int(n.removesuffix(LOG_SUFFIX)) for n in names)
        segments = [Segment(self.fs, self._directory, base, self.config) for base in bases]
        passed = min(self.log_start_offset, self.recovery_point)  # the journal begins at the latter
        while len(segments) > 1 and segments[1].base_offset <= passed:
            self.fs.unlink(segments.pop(0).path)
        return segments

    def _scan(self, segments: list[Segment]) -> _End:
        if not segments:
            return _End(-1, 0, 0 if self.entries else self.log_start_offset)
        limit = decode_batches(self.entries[0]).batches[0].base_offset if self.entries else None
        if limit is not None and segments[0].base_offset > limit:
            # Only later files' names have reached the disk: as if there were none.
            return _End(-1, 0, 0)
        end = _End(-1, 0, self.log_start_offset)
        for index, segment in enumerate(segments):
            if limit is not None and index and segment.base_offset >= limit:
                break
            # Compaction leaves gaps, but only below the recovery point: one above it is a lost file.
            is_gap = segment.base_offset > max(end.offset, self.recovery_point)
            is_overlap = index > 0 and segment.base_offset < end.offset
            if is_gap or is_overlap:
                reason = f"it ends at offset {end.offset}, but {segment.path.name} follows"
                return end._replace(damage=reason)
            end = _scan_segment(segment, index, limit)
            if end.damage is not None or end.position < segment.file().size():
                break
        return end

    def _judge(self, segments: list[Segment], end: _End) -> None:
        """Raise for damage, and warn of what will be cut."""
        if self.entries:
            begins = decode_batches(self.entries[0]).batches[0].base_offset
            if begins == end.offset:
                return
            reason = end.damage or f"it ends at offset {end.offset}, the journal begins at {begins}"
            self._refuse(segments, end, reason)
            self.entries = ()
        elif end.damage is not None:
            if not self._may_cut(segments, end):
                self._refuse(segments, end, end.damage)
            else:
                self._warn(segments, end, end.damage)
        elif end.offset < self.recovery_point:
            self._warn(segments, end, f"it had been durable up to offset {self.recovery_point}")

    def _may_cut(self, segments: list[Segment], end: _End) -> bool:
        if self.is_journaled and end.offset >= self.recovery_point:
            return True
        if end.segment < len(segments) - 1:
            return False
        file = segments[end.segment].file()
        return not _valid_batch_follows(file, end.position, file.size(), end.offset)

    def _refuse(self, segments: list[Segment], end: _End, reason: str) -> None:
        """Raise, or when repairing keep what is going to be cut."""
        path = segments[end.segment].path if end.segment >= 0 else self._directory
        if not self.repairing:
            for segment in segments:
                segment.close()
            raise StorageDamaged(path, end.position, reason, root=self.root)
        kept = path.with_name(f"{path.name}.{end.position}{DAMAGED_SUFFIX}")
        side = self.fs.open(kept, create=True, private=self.config.private)
        at = 0
        for segment, start, size in _tails(segments, end):
            side.pwrite(segment.file().pread(size, start), at)
            at += size
        for entry in self.entries:
            side.pwrite(entry, at)
            at += len(entry)
        side.sync()
        side.close()
        self.fs.sync_directory(kept.parent)
        self._warn(segments, end, reason, kept)

    def _warn(
        self, segments: list[Segment], end: _End, reason: str, kept: Path | None = None
    ) -> None:
        lost = end.offset < self.recovery_point or kept is not None
        size = sum(size for _, _, size in _tails(segments, end))
        path = segments[end.segment].path if end.segment >= 0 else self._directory
        self.torn.append(TornTail(path, end.position, end.offset, size, reason, lost, kept))

    def _cut(self, segments: list[Segment], end: _End) -> None:
        if end.segment >= 0 and segments[end.segment].file().size() > end.position:
            segments[end.segment].file().truncate(end.position)
            self.dirty.append(segments[end.segment])
        for segment in segments[end.segment + 1 :]:
            segment.close()
            self.fs.unlink(segment.path)
        if end.segment + 1 < len(segments):
            # Else a later crash could bring them back, beside what is appended in their place.
            self.fs.sync_directory(self._directory)


def _scan_segment(segment: Segment, index: int, limit: int | None) -> _End:
    """Admit all batches up to damage, the journal's first offset, or the end of the file."""
    file = segment.file()
    size = file.size()
    try:
        for position, batch in scan_batches(file, 0, size):
            if limit is not None and batch.base_offset >= limit:
                return _End(index, position, segment.next_offset)
            if batch.base_offset < segment.next_offset or batch.last_offset_delta < 0:
                reason = f"offsets {batch.base_offset} to {batch.last_offset} behind {segment.next_offset}"
                return _End(index, position, segment.next_offset, reason)
            segment.admit(place_of(batch, position))
    except RecordBatchError as error:
        return _End(index, error.offset or 0, segment.next_offset, error.reason)
    return _End(index, size, segment.next_offset)


def _tails(segments: list[Segment], end: _End) -> list[tuple[Segment, int, int]]:
    """What is behind the end, in its segment and in all later ones: segment, position, size."""
    return [
        (segment, start, segment.file().size() - start)
        for index, segment in enumerate(segments[max(end.segment, 0) :], max(end.segment, 0))
        for start in [end.position if index == end.segment else 0]
    ]


def _valid_batch_follows(file: File, position: int, end: int, offset: int) -> bool:
    """Whether any whole, later batch is behind the damaged one at `position`.

    A damaged batch that fills the file to its end is the last one, whatever its records look like. Else
    its length cannot be trusted, and every place that could be a batch is looked at.
    """
    header = file.pread(_LENGTH_AND_MAGIC.size, position)
    if len(header) == _LENGTH_AND_MAGIC.size:
        _, length, magic = _LENGTH_AND_MAGIC.unpack(header)
        if magic == MAGIC and position + LENGTH_END + length == end:
            return False
    start = position + 1
    while start < end:
        window = file.pread(_SEARCH_CHUNK + MAGIC_AT, start)
        found = window.find(_MAGIC_BYTE, MAGIC_AT)
        while found >= 0:
            at = found - MAGIC_AT
            base, length, _ = _LENGTH_AND_MAGIC.unpack_from(window, at)
            size = LENGTH_END + length
            fits = 0 < size <= end - start - at and offset < base < offset + _OFFSET_SPAN
            if fits and _is_batch(file.pread(size, start + at)):
                return True
            found = window.find(_MAGIC_BYTE, found + 1)
        start += _SEARCH_CHUNK
    return False


def _is_batch(data: bytes) -> bool:
    try:
        return bool(decode_batches(data).batches)
    except RecordBatchError:
        return False
