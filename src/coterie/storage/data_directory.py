"""All logs of a server under one directory: the door to storage.

    .lock                               held by the running server, with its pid
    coterie.meta                        format and durability, JSON
    journal                             coterie.storage.journal; only with Durability.FSYNC
    recovery-point-offset-checkpoint    up to where each log is durable in its segments (as in Kafka)
    log-start-offset-checkpoint         log start offsets that DeleteRecords or retention moved (as in Kafka)
    __cluster_metadata-0/               CLUSTER_LOG: not in the journal, private
    TOPIC-N/                            one partition: segments in Kafka's format, no index files
    TOPIC-N-delete/                     a deleted partition on its way out

Threads: one owner, the event loop's, and one worker. The worker writes bytes; what readers see changes in
the owner's calls alone, so neither needs a lock for memory:

    base_offset = data.stage(log, batch)    # owner: offsets assigned, no I/O, readers do not see it yet
    sealed = data.seal()                    # owner: takes what is staged, by swapping a list
    data.write(sealed)                      # worker: one write, one fdatasync; the owner goes on staging
    data.publish(sealed)                    # owner: the high watermarks move, readers see the batches

One round at a time. If `write` raises StorageFull, `rollback` instead of `publish`: everything staged, of
this round and since, is gone, and the caller's own memory of it has to go too. After StorageBroken nothing
is acknowledged any more; end the process. Opening, creating, deleting, retention and `close` do their I/O in
the calling thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from coterie.crash_points import crash_point
from coterie.files import Buffer
from coterie.protocol.records import RecordBatch
from coterie.storage.compaction import Cleaned, clean, dirty_ratio, needs_cleaning, swap, write_anew
from coterie.storage.config import DEFAULT_JOURNAL_BYTES, Durability, LogConfig
from coterie.storage.errors import OffsetOutOfRange, StorageFull, TornTail, UnknownPartition
from coterie.storage.files import FileSystem, OsFileSystem
from coterie.storage.opening import DELETE_SUFFIX, Opened, Opening, remove_tree
from coterie.storage.partition_log import PartitionLog, StagedBatch, TopicPartition
from coterie.storage.small_files import (
    LOG_START_OFFSETS,
    load_file,
    remove_file,
    save_file,
    save_offsets,
)

__all__ = ["DataDirectory", "SealedRound", "repair"]


@dataclass(frozen=True, slots=True)
class SealedRound:
    """The staged batches of one group commit, sealed."""

    staged: list[StagedBatch]

    def __len__(self) -> int:
        return len(self.staged)


class DataDirectory:
    """An open data directory; see the module for its threads. `open` makes one."""

    def __init__(self, root: Path, fs: FileSystem, opened: Opened) -> None:
        self.root = root
        self.warnings = opened.warnings
        self.fs = fs
        self._lock = opened.lock
        self._commit = opened.commit
        self._logs = opened.logs
        self._pending: list[StagedBatch] = []
        self._sealed: SealedRound | None = None

    @classmethod
    def open(
        cls,
        root: Path,
        fs: FileSystem | None = None,
        *,
        durability: Durability = Durability.FSYNC,
        config: LogConfig | None = None,
        journal_bytes: int = DEFAULT_JOURNAL_BYTES,
    ) -> DataDirectory:
        """Lock a directory, recover its logs, and leave all of it durable.

        All logs open with `config`; the caller then sets `log.config` from each topic's settings. What
        recovery cut off is in `warnings`. Raises StorageLocked, StorageUnwritable, UnsupportedFormat,
        StorageDamaged. An existing journal keeps its size.
        """
        fs = fs or OsFileSystem()
        opening = Opening(
            root=root,
            fs=fs,
            durability=durability,
            config=config or LogConfig(),
            journal_bytes=journal_bytes,
        )
        return cls(root, fs, opening.run())

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        return MappingProxyType(self._logs)

    def log(self, partition: TopicPartition) -> PartitionLog:
        try:
            return self._logs[partition]
        except KeyError:
            raise UnknownPartition(f"{self.root} has no {'-'.join(map(str, partition))}") from None

    def create(
        self, partitions: Iterable[TopicPartition], config: LogConfig | None = None
    ) -> list[PartitionLog]:
        """Make partitions, durably; one that exists is returned as it is."""
        partitions = list(partitions)
        new = [p for p in dict.fromkeys(partitions) if p not in self._logs]
        directories = {partition: self.root / partition.directory_name for partition in new}
        with self._commit.exclusive():
            self._commit.guarded(lambda: self._make_directories(directories.values()))
            for partition, path in directories.items():
                self._logs[partition] = PartitionLog(
                    self.fs, path, partition, config or LogConfig()
                )
        return [self._logs[partition] for partition in partitions]

    def _make_directories(self, directories: Iterable[Path]) -> None:
        for directory in directories:
            self.fs.mkdir(directory)
        crash_point("partition.after_mkdir")
        self.fs.sync_directory(self.root)

    def delete(self, partitions: Iterable[TopicPartition]) -> None:
        """Delete partitions, durably, with all that is staged for them; UnknownPartition before any is."""
        doomed = [self.log(partition) for partition in partitions]
        with self._commit.exclusive():
            # The journal names partitions: it must not know one that may be created again.
            self._commit.forget(doomed)
            self._commit.whole(lambda: self._rename_away(doomed))
            for log in doomed:
                log.is_deleted = True
                log.close()
                del self._logs[log.partition]
            self._pending = [staged for staged in self._pending if not staged.log.is_deleted]
            self._commit.save_recovery_points()
            self._save_start_offsets()
        for log in doomed:
            self._commit.guarded(partial(remove_tree, self.fs, _deleted_name(log.directory)))

    def _rename_away(self, doomed: Iterable[PartitionLog]) -> None:
        for log in doomed:
            target = _deleted_name(log.directory)
            if self.fs.exists(target):
                remove_tree(self.fs, target)
            self.fs.rename(log.directory, target)
            crash_point("partition.after_delete_rename")
        self.fs.sync_directory(self.root)

    def stage(
        self,
        log: PartitionLog,
        batch: Buffer,
        leader_epoch: int = 0,
        header: RecordBatch | None = None,
    ) -> int:
        """Give one encoded batch its offsets and put it into the next round; its base offset.

        The batch is copied. RecordBatchError if it is not exactly one whole and undamaged batch; with its
        header it is believed to be.
        """
        self._commit.check()
        staged = log.stage(batch, leader_epoch, header)
        self._pending.append(staged)
        return staged.place.base_offset

    def seal(self) -> SealedRound | None:
        """Everything staged since the last time, for `write`; None if that is nothing."""
        if self._sealed is not None:
            raise RuntimeError("a round is sealed already: publish or roll it back first")
        if not self._pending:
            return None
        self._sealed = SealedRound(self._pending)
        self._pending = []
        return self._sealed

    def write(self, sealed: SealedRound) -> None:
        """Make a round durable. The worker's call; raises StorageFull or StorageBroken."""
        self._commit.write(sealed.staged)

    def publish(self, sealed: SealedRound) -> None:
        """Let readers see a round that was written."""
        if sealed is not self._sealed:
            raise RuntimeError("this round is not the sealed one")
        self._sealed = None
        for staged in sealed.staged:
            if not staged.log.is_deleted:
                staged.log.publish(staged)

    def rollback(self) -> None:
        """Forget everything that is staged and not published; for after StorageFull."""
        sealed, self._sealed = self._sealed, None
        pending, self._pending = self._pending, []
        for staged in (*(sealed.staged if sealed else ()), *pending):
            staged.log.rollback()

    def flush(self) -> None:
        """Seal, write and publish in the calling thread; rolled back if that fails."""
        sealed = self.seal()
        if sealed is None:
            return
        try:
            self.write(sealed)
        except BaseException:
            self.rollback()
            raise
        self.publish(sealed)

    def append(self, log: PartitionLog, batch: Buffer, header: RecordBatch) -> None:
        """Write one batch at once, in the calling thread and past the journal, which others may read."""
        staged = log.stage(batch, 0, header)
        try:
            self._commit.write_past_journal(staged)
        except BaseException:
            log.rollback()
            raise
        log.publish(staged)

    def write_anew(self, log: PartitionLog, batches: Iterable[bytes]) -> None:
        """Put batches in place of all that a log has; after a crash there is the one or the other."""
        self.checkpoint()
        with self._commit.exclusive():
            one = self._commit.guarded(partial(write_anew, self.fs, log, batches))
            self._commit.whole(partial(swap, self.fs, one))

    def checkpoint(self) -> None:
        """Make all segments durable by themselves and restart the journal. The worker's call.

        It happens by itself when the journal is full; call it now and then (Kafka does every
        log.flush.offset.checkpoint.interval.ms, 60000) so that starts after a crash stay short, and so
        that retention and compaction may touch the segments: they leave alone what only the journal
        makes durable.
        """
        self._commit.checkpoint()

    def delete_records(self, log: PartitionLog, before_offset: int) -> int:
        """Move the log start offset up (DeleteRecords), durably; the new log start offset."""
        if not 0 <= before_offset <= log.high_watermark:
            raise OffsetOutOfRange(before_offset, log.log_start_offset, log.high_watermark)
        if before_offset > log.log_start_offset:
            self._move_starts({log: before_offset})
        return log.log_start_offset

    def apply_retention(self, now_ms: int) -> int:
        """Delete old segments of all logs as retention.ms and retention.bytes say; how many went."""
        self._commit.check()
        starts: dict[PartitionLog, int] = {}
        for log in self._logs.values():
            self._commit.guarded(partial(log.roll_if_too_old, now_ms))
            if (offset := log.retention_offset(now_ms)) > log.log_start_offset:
                starts[log] = offset
        return self._move_starts(starts) if starts else 0

    def _move_starts(self, starts: Mapping[PartitionLog, int]) -> int:
        """The new starts are durable before any segment goes: removals may reach the disk in any order."""
        self._commit.check()
        before = {log: log.log_start_offset for log in starts}
        for log, offset in starts.items():
            log.log_start_offset = offset
        try:
            self._save_start_offsets()
        except BaseException:
            for log, offset in before.items():
                log.log_start_offset = offset
            raise
        return self._commit.whole(lambda: sum(log.drop_segments_before_start() for log in starts))

    def _save_start_offsets(self) -> None:
        starts = {p: log.log_start_offset for p, log in self._logs.items() if log.log_start_offset}
        self._commit.guarded(lambda: save_offsets(self.fs, self.root / LOG_START_OFFSETS, starts))

    def logs_to_clean(self, now_ms: int) -> list[PartitionLog]:
        """The compacted logs that are due by the settings of the cleaner, dirtiest first."""
        compacted = [log for log in self._logs.values() if log.config.is_compacted]
        due = [log for log in compacted if needs_cleaning(log, now_ms)]
        return sorted(due, key=lambda log: -dirty_ratio(log, now_ms))

    def clean(self, log: PartitionLog, now_ms: int) -> list[Cleaned]:
        """Compact what may be compacted of a log, into new files. For any thread, one at a time."""
        try:
            return clean(self.fs, log, log.segments, now_ms)
        except FileNotFoundError:
            return []  # retention or a deletion was faster
        except OSError as error:
            # Nothing of the log has changed yet: a later try may do better, whatever the reason.
            raise StorageFull(f"{log.directory}: not compacted: {error.strerror}") from error

    def swap(self, cleaned: Iterable[Cleaned]) -> int:
        """Put what `clean` made in place; how many bytes that saved."""
        saved = 0
        for one in cleaned:
            if not one.log.is_deleted and self._commit.whole(partial(swap, self.fs, one)):
                saved += one.bytes_before - one.bytes_after
        return saved

    def save(self, name: str, content: bytes, *, private: bool = False) -> None:
        """Replace a small file of the caller's in the directory's root, atomically and durably."""
        path = self.root / name
        self._commit.check()
        self._commit.guarded(lambda: save_file(self.fs, path, content, private=private))

    def load(self, name: str, *, private: bool = False) -> bytes | None:
        """What was saved under a name; what is private has been made so when this returns."""
        return load_file(self.fs, self.root / name, private=private)

    def remove(self, name: str) -> None:
        """Remove a file that was saved, durably."""
        self._commit.guarded(lambda: remove_file(self.fs, self.root / name))

    def close(self) -> None:
        """Flush and checkpoint if that is still possible, and unlock in any case."""
        try:
            self.flush()
            self.checkpoint()
        finally:
            for log in self._logs.values():
                log.close()
            if self._commit.journal is not None:
                self._commit.journal.close()
            crash_point("close.before_unlock")
            self._lock.release()


def repair(root: Path, fs: FileSystem | None = None) -> tuple[TornTail, ...]:
    """Cut every damaged log at its damage, keeping what is cut in side files; what was done."""
    fs = fs or OsFileSystem()
    opening = Opening(
        root=root,
        fs=fs,
        durability=None,
        config=LogConfig(),
        journal_bytes=DEFAULT_JOURNAL_BYTES,
        repairing=True,
    )
    data = DataDirectory(root, fs, opening.run())
    data.close()
    return data.warnings


def _deleted_name(directory: Path) -> Path:
    return directory.with_name(directory.name + DELETE_SUFFIX)
