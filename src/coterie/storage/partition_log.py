"""The log of one partition: its segments, its offsets, and what of it readers may see.

What this is: Kafka's UnifiedLog, for one replica. A batch is first *staged* (it has its offsets, a place in a
segment, and no reader sees it), then written by whoever does the I/O, then *published*: the high watermark
moves over it. What is staged and not published can be taken back.
What this is not: durable by itself. Called by coterie.storage.data_directory, which writes and syncs, and
by the server, which reads. All calls are the owner thread's, and reads see only published batches.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Self

from coterie.crash_points import crash_point
from coterie.errors import RecordBatchError
from coterie.protocol.records import RecordBatch, assign_offsets, decode_batches
from coterie.storage.config import LogConfig
from coterie.storage.errors import OffsetOutOfRange
from coterie.storage.files import FileSystem
from coterie.storage.segment import Place, Segment

__all__ = [
    "CLUSTER_LOG",
    "CLUSTER_LOG_CONFIG",
    "PartitionLog",
    "StagedBatch",
    "TimestampOffset",
    "TopicPartition",
]

# Kafka's legal topic names (org.apache.kafka.common.internals.Topic); they become directory names here.
_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_DIRECTORY = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})")

# Kafka's index stores offsets relative to the segment's base in 32 bits; its segments keep to that.
_MAX_RELATIVE_OFFSET = 2**31 - 1

_LOAD_BYTES = 1024 * 1024


class TopicPartition(NamedTuple):
    """Kafka's name of a partition, and of the directory that holds its log."""

    topic: str
    partition: int

    @property
    def directory_name(self) -> str:
        """`topic-N`; ValueError for a topic that Kafka would not allow."""
        if self.topic in (".", "..") or not _LEGAL_TOPIC.fullmatch(self.topic):
            raise ValueError(f"{self.topic!r} is no legal topic name")
        if self.partition < 0:
            raise ValueError(f"{self.partition} is no partition number")
        return f"{self.topic}-{self.partition}"

    @classmethod
    def of_directory(cls, name: str) -> Self | None:
        """The partition whose directory has this name; None for other names, `-delete` ones among them."""
        match = _DIRECTORY.fullmatch(name)
        return None if match is None else cls(match[1], int(match[2]))


#: The cluster's own log, as in Kafka. It has secrets in it, so it is private, and it does not go through the
#: journal. It is one segment, which `DataDirectory.append` writes and `DataDirectory.write_anew` replaces;
#: retention and compaction do not touch it.
CLUSTER_LOG: Final = TopicPartition("__cluster_metadata", 0)
CLUSTER_LOG_CONFIG: Final = LogConfig(
    private=True, cleanup_policy=frozenset(), segment_ms=2**63 - 1
)


class TimestampOffset(NamedTuple):
    """A record as ListOffsets answers it."""

    timestamp: int
    offset: int
    leader_epoch: int


class StagedBatch(NamedTuple):
    """A batch with its offsets, on its way into a segment."""

    log: PartitionLog
    segment: Segment
    place: Place
    data: bytearray


def _whole_batch(data: bytearray) -> RecordBatch:
    decoded = decode_batches(data)
    if len(decoded.batches) != 1 or decoded.trailing_bytes:
        raise RecordBatchError("a log takes one whole batch at a time", message="RecordBatch")
    header = decoded.batches[0]
    if header.last_offset_delta < 0:
        raise RecordBatchError(
            f"last offset delta {header.last_offset_delta}", message="RecordBatch"
        )
    return header


class PartitionLog:
    """The published segments of a partition, oldest first and never none, and what is staged behind them."""

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        partition: TopicPartition,
        config: LogConfig,
        *,
        segments: list[Segment] | None = None,
        log_start_offset: int = 0,
    ) -> None:
        self._fs = fs
        self.directory = directory
        self.partition = partition
        self.config = config  # may be replaced at any time
        self.journal_name = directory.name.encode()
        self.is_deleted = False
        self._segments = segments or [self._new_segment(log_start_offset)]
        self.log_start_offset = max(log_start_offset, self._segments[0].base_offset)
        # Behind the last published batch: what reads see, and all that is acknowledged.
        self.high_watermark = max(self._segments[-1].next_offset, self.log_start_offset)
        # Behind the last batch that is durable in its segment, without the journal (Kafka's name).
        self.recovery_point = 0
        # Behind the last batch that compaction has looked at (Kafka's cleaner checkpoint).
        self.cleaned_offset = 0
        self.rollback()

    def rollback(self) -> None:
        """Forget every batch that is staged and not published."""
        self._staging = self._segments[-1]
        self._staging_end = self._staging.size
        self._staging_first_timestamp = self._staging.first_timestamp
        # Behind the last staged batch.
        self.log_end_offset = self.high_watermark

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments)

    @property
    def size_in_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def stage(
        self,
        batch: bytes | bytearray | memoryview,
        leader_epoch: int,
        header: RecordBatch | None = None,
    ) -> StagedBatch:
        """Give one encoded batch its offsets and its place.

        Without its header, from whoever has just built it, the batch is looked at: RecordBatchError if it
        is not one whole batch with the right checksum, which the next start would take for damage.
        """
        data = bytearray(batch)
        header = header or _whole_batch(data)
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        assign_offsets(data, 0, base_offset, leader_epoch)
        if self._must_roll(len(data), last_offset, header.max_timestamp):
            self._staging = self._new_segment(base_offset)
            self._staging_end = 0
        if not self._staging_end:
            self._staging_first_timestamp = header.max_timestamp
        place = Place(self._staging_end, len(data), base_offset, last_offset, header.max_timestamp)
        self._staging_end += len(data)
        self.log_end_offset = last_offset + 1
        return StagedBatch(self, self._staging, place, data)

    def _must_roll(self, size: int, last_offset: int, timestamp: int) -> bool:
        """Kafka's LogSegment.shouldRoll; its segment.ms counts in the records' time, so no clock is asked."""
        if not self._staging_end:
            return False
        return (
            self._staging_end + size > self.config.segment_bytes
            or timestamp - self._staging_first_timestamp > self.config.segment_ms
            or last_offset - self._staging.base_offset > _MAX_RELATIVE_OFFSET
        )

    def _new_segment(self, base_offset: int) -> Segment:
        return Segment(self._fs, self.directory, base_offset, self.config)

    def publish(self, staged: StagedBatch) -> None:
        """Let readers see a batch that is written; batches come in the order of staging."""
        if staged.segment is not self._segments[-1]:
            self._segments.append(staged.segment)
        staged.segment.admit(staged.place)
        self.high_watermark = staged.place.last_offset + 1

    def append(self, batch: bytes | bytearray | memoryview, leader_epoch: int) -> int:
        """Stage, write and publish at once, without any sync; the base offset. For recovery and tests."""
        staged = self.stage(batch, leader_epoch)
        staged.segment.write(staged.data, staged.place.position)
        self.publish(staged)
        return staged.place.base_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `offset` on: at least one, else up to `max_bytes`.

        Empty at the high watermark; OffsetOutOfRange outside of the log. As in Kafka the answer comes
        from one segment, and the first batch may begin before `offset`.
        """
        if not self.log_start_offset <= offset <= self.high_watermark:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.high_watermark)
        at = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1
        for segment in self._segments[max(at, 0) :]:
            if data := segment.read(offset, max_bytes):
                return data
        return b""

    def batches(self, offset: int | None = None) -> Iterator[RecordBatch]:
        """All published batches from `offset` (else the log's start) on; for loading."""
        at = self.log_start_offset if offset is None else offset
        while data := self.read(at, _LOAD_BYTES):
            for batch in decode_batches(data).batches:
                yield batch
                at = batch.last_offset + 1

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record of this time or later."""
        for segment in self._segments:
            for batch in segment.find_timestamp(timestamp):
                for record in batch.records():
                    if record.timestamp >= timestamp and record.offset >= self.log_start_offset:
                        epoch = batch.partition_leader_epoch
                        return TimestampOffset(record.timestamp, record.offset, epoch)
        return None

    def max_timestamp(self) -> TimestampOffset | None:
        """The first of the records with the largest timestamp (ListOffsets' -3)."""
        largest = max(segment.max_timestamp for segment in self._segments)
        found = self.offset_for_timestamp(largest) if self.high_watermark else None
        if found is None and self.high_watermark > self.log_start_offset:
            # The largest was deleted from the front of its segment: look at what is left.
            found = max(
                (
                    TimestampOffset(record.timestamp, record.offset, batch.partition_leader_epoch)
                    for batch in self.batches()
                    for record in batch.records()
                    if record.offset >= self.log_start_offset
                ),
                key=lambda place: (place.timestamp, -place.offset),
                default=None,
            )
        return found

    def retention_offset(self, now_ms: int) -> int:
        """Where the log starts once retention.ms and retention.bytes have had their way.

        Only whole segments that are durable without the journal go, and never the active one: the
        journal begins where its log's recovery point is, and must find its place again after a crash.
        """
        offset = self.log_start_offset
        if not self.config.deletes_old_segments:
            return offset
        excess = self.size_in_bytes - self.config.retention_bytes
        for segment in self._segments[:-1]:
            too_old = self._is_too_old(segment, now_ms)
            too_much = self.config.retention_bytes >= 0 and excess >= segment.size
            if segment.next_offset > self.recovery_point or not (too_old or too_much):
                break
            excess -= segment.size
            offset = max(offset, segment.next_offset)
        return offset

    def _is_too_old(self, segment: Segment, now_ms: int) -> bool:
        age_ms = now_ms - segment.max_timestamp
        return segment.max_timestamp >= 0 and 0 <= self.config.retention_ms < age_ms

    def roll_if_too_old(self, now_ms: int) -> bool:
        """Begin a new segment if all of the active one is past retention.ms, so that it can go."""
        active = self._segments[-1]
        idle = self.log_end_offset == self.high_watermark
        if not (idle and self.config.deletes_old_segments and self._is_too_old(active, now_ms)):
            return False
        # The new file's name is all that keeps the end offset once the old segments are gone.
        segment = self._new_segment(self.log_end_offset)
        segment.file()
        self._fs.sync_directory(self.directory)
        self._segments.append(segment)
        self.rollback()
        return True

    def drop_segments_before_start(self) -> int:
        """Remove the segments that the log start offset has passed; returns how many."""
        count = 0
        while len(self._segments) > 1:
            oldest, following = self._segments[:2]
            if following.base_offset > min(self.log_start_offset, self.recovery_point):
                break
            crash_point("retention.before_unlink")
            oldest.close()
            self._fs.unlink(oldest.path)
            crash_point("retention.after_unlink")
            del self._segments[0]
            count += 1
        return count

    def replace_segments(self, old: tuple[Segment, ...], new: Segment) -> None:
        """Put a compacted segment in the place of those that it was made from."""
        at = self._segments.index(old[0])
        self._segments[at : at + len(old)] = [new]
        for segment in old:
            segment.close()
        if at + 1 == len(self._segments):
            # The active one is among them, as in a log that is written anew: nothing may be staged.
            self.high_watermark = new.next_offset
            self.rollback()

    def close(self) -> None:
        for segment in self._segments:
            segment.close()
