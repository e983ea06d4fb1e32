"""Opening a data directory: lock, format, leftovers, and the recovery of every log.

What this is: everything that happens before the first request. What this is not: the open directory, which is
coterie.storage.data_directory, the caller. When it returns all that it found or re-applied is durable.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from coterie.files import Buffer
from coterie.storage.config import Durability, LogConfig
from coterie.storage.errors import StorageDamaged, StorageUnwritable, TornTail, UnsupportedFormat
from coterie.storage.files import FileLock, FileSystem
from coterie.storage.group_commit import GroupCommit
from coterie.storage.journal import JOURNAL_NAME, Journal, JournalEntry
from coterie.storage.partition_log import (
    CLUSTER_LOG,
    CLUSTER_LOG_CONFIG,
    PartitionLog,
    TopicPartition,
)
from coterie.storage.recovery import DAMAGED_SUFFIX, LogRecovery
from coterie.storage.small_files import (
    LOG_START_OFFSETS,
    NEW_SUFFIX,
    RECOVERY_POINTS,
    load_file,
    load_offsets,
    save_file,
)

__all__ = ["DELETE_SUFFIX", "Opened", "Opening", "remove_tree"]

DELETE_SUFFIX = "-delete"

_LOCK = ".lock"
_META = "coterie.meta"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Opened:
    """What an opening makes."""

    lock: FileLock
    commit: GroupCommit
    logs: dict[TopicPartition, PartitionLog]
    warnings: tuple[TornTail, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """One attempt to open a directory; `durability` None keeps what the directory has."""

    root: Path
    fs: FileSystem
    durability: Durability | None
    config: LogConfig
    journal_bytes: int
    repairing: bool = False

    def run(self) -> Opened:
        try:
            self._make_root()
            lock = self.fs.lock(self.root / _LOCK)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            return self._run_locked(lock)
        except OSError as error:
            lock.release()
            raise self._unwritable(error) from error
        except BaseException:
            lock.release()
            raise

    def _make_root(self) -> None:
        new = [p for p in (self.root, *self.root.parents) if not self.fs.exists(p)]
        self.fs.mkdir(self.root)
        for path in new:
            self.fs.sync_directory(path.parent)

    def _unwritable(self, error: OSError) -> StorageUnwritable:
        return StorageUnwritable(
            f"{error.filename or self.root}: {error.strerror or error}; the server needs to read and"
            f" write all of {self.root}"
        )

    def _run_locked(self, lock: FileLock) -> Opened:
        before = self._check_meta()
        now = self.durability or before or Durability.FSYNC
        if before is None:
            self._save_meta(now)
        for name in self.fs.listdir(self.root):
            if name.endswith(DELETE_SUFFIX):
                remove_tree(self.fs, self.root / name)
        journal, entries = self._open_journal(now)
        try:
            commit, logs, torn = self._recover(journal, entries, before or now)
        except BaseException:
            if journal is not None:
                journal.close()
            raise
        if journal is not None and now is Durability.OS:
            journal.close()
            commit = commit.without_journal()
        if before is not None and before is not now:
            self._save_meta(now)
        return Opened(lock, commit, logs, tuple(torn))

    def _check_meta(self) -> Durability | None:
        """The durability that the directory was last opened with; None for a new directory."""
        path = self.root / _META
        content = load_file(self.fs, path)
        if content is None:
            others = set(self.fs.listdir(self.root)) - {_LOCK, _META + NEW_SUFFIX}
            if others:
                raise StorageUnwritable(
                    f"{self.root} is not empty and has no {_META}: it is no data directory"
                )
            return None
        try:
            meta = json.loads(content)
            version, durability = int(meta["format"]), Durability(meta["durability"])
        except (ValueError, KeyError, TypeError):
            raise UnsupportedFormat(f"{path} is not what this version writes") from None
        if version > _FORMAT:
            raise UnsupportedFormat(
                f"{self.root} has format {version}, and this version knows formats up to {_FORMAT};"
                " open it with the version that wrote it, or a newer one"
            )
        return durability

    def _save_meta(self, durability: Durability) -> None:
        content = json.dumps({"format": _FORMAT, "durability": durability.value}) + "\n"
        save_file(self.fs, self.root / _META, content.encode())

    def _open_journal(self, durability: Durability) -> tuple[Journal | None, list[JournalEntry]]:
        path = self.root / JOURNAL_NAME
        if durability is Durability.OS and not self.fs.exists(path):
            return None, []
        try:
            return Journal.open(self.fs, self.root, self.journal_bytes)
        except StorageDamaged:
            if not self.repairing:
                raise
            self.fs.rename(path, path.with_name(JOURNAL_NAME + DAMAGED_SUFFIX))
            return Journal.open(self.fs, self.root, self.journal_bytes)

    def _recover(
        self, journal: Journal | None, entries: list[JournalEntry], before: Durability
    ) -> tuple[GroupCommit, dict[TopicPartition, PartitionLog], list[TornTail]]:
        starts = load_offsets(self.fs, self.root / LOG_START_OFFSETS)
        points = load_offsets(self.fs, self.root / RECOVERY_POINTS)
        batches: dict[str, list[Buffer]] = defaultdict(list)
        for entry in entries:
            batches[entry.name.decode()].append(entry.batch)
        found = map(TopicPartition.of_directory, self.fs.listdir(self.root))
        partitions = [partition for partition in found if partition is not None]
        commit = GroupCommit(
            self.fs, self.root, journal, {p: points[p] for p in partitions if p in points}
        )
        logs: dict[TopicPartition, PartitionLog] = {}
        torn: list[TornTail] = []
        for partition in partitions:
            recovery = LogRecovery(
                fs=self.fs,
                root=self.root,
                partition=partition,
                config=CLUSTER_LOG_CONFIG if partition == CLUSTER_LOG else self.config,
                log_start_offset=starts.get(partition, 0),
                recovery_point=points.get(partition, 0),
                entries=batches[partition.directory_name],
                is_journaled=before is Durability.FSYNC and partition != CLUSTER_LOG,
                repairing=self.repairing,
            )
            logs[partition] = log = recovery.run()
            torn += recovery.torn
            if recovery.dirty or recovery.torn:
                commit.note_recovered(log, recovery.dirty)
        commit.checkpoint()
        if journal is not None and not journal.is_empty:
            journal.restart()  # all its entries were of partitions that are deleted
        return commit, logs, torn


def remove_tree(fs: FileSystem, directory: Path) -> None:
    """Remove a partition's directory, which has no directories in it."""
    for name in fs.listdir(directory):
        fs.unlink(directory / name)
    fs.rmdir(directory)
