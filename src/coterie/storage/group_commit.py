"""The I/O of group commit: rounds into segments and journal, and checkpoints. The worker thread's side.

A round is written to the segments first and to the journal last: with the journal's fdatasync it is
acknowledged, and before it a failure can be taken back by cutting the segments again. The segments are
synced at a checkpoint, which moves the recovery points and restarts the journal.

What this is not: what readers see; that is the owner's, in coterie.storage.data_directory, which calls this.
A lock makes the calls of both threads follow one another.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

from coterie.crash_points import crash_point
from coterie.storage.errors import StorageBroken, StorageFull
from coterie.storage.files import FileSystem
from coterie.storage.journal import Journal, payload_size
from coterie.storage.partition_log import PartitionLog, StagedBatch, TopicPartition
from coterie.storage.segment import Segment
from coterie.storage.small_files import RECOVERY_POINTS, save_offsets

__all__ = ["GroupCommit"]

T = TypeVar("T")

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class GroupCommit:
    """One data directory's writer; `journal` is None for Durability.OS."""

    def __init__(
        self,
        fs: FileSystem,
        root: Path,
        journal: Journal | None,
        recovery_points: dict[TopicPartition, int],
    ) -> None:
        self._fs = fs
        self._root = root
        self._journal = journal
        self._recovery_points = recovery_points
        self._lock = threading.Lock()
        self._broken: StorageBroken | None = None
        # Written since the last checkpoint: segments, directories with new names, logs with their ends.
        self._dirty: dict[Segment, None] = {}
        self._new_names: set[Path] = set()
        self._ends: dict[PartitionLog, int] = {}

    @property
    def journal(self) -> Journal | None:
        return self._journal

    def without_journal(self) -> GroupCommit:
        """The same for Durability.OS."""
        return GroupCommit(self._fs, self._root, None, self._recovery_points)

    def check(self) -> None:
        """Raise StorageBroken if a sync has ever failed."""
        if self._broken is not None:
            raise StorageBroken(str(self._broken))

    def note_recovered(self, log: PartitionLog, segments: Iterable[Segment]) -> None:
        """Recovery left these segments to be synced at the next checkpoint."""
        for segment in segments:
            self._dirty[segment] = None
            self._new_names.add(log.directory)
        self._ends[log] = log.high_watermark

    def write(self, staged: Sequence[StagedBatch]) -> None:
        """Make a round durable, as far as the directory's durability says; all of it or nothing.

        StorageFull: nothing of it is left, and a later round may succeed. StorageBroken: nobody knows.
        """
        with self._lock:
            self.check()
            staged = [batch for batch in staged if not batch.log.is_deleted]
            payload = sum(payload_size(b.log.journal_name, b.data) for b in staged)
            if self._journal and not self._journal.fits(payload):
                self._checkpoint()
            runs = _runs(staged)
            with self._undo_on_failure(runs):
                self._write_segments(runs)
                if self._journal:
                    self._journal.append((b.log.journal_name, b.data) for b in staged)
                    self._sync(self._journal.sync)
            self._note_written(runs, staged)

    def write_past_journal(self, staged: StagedBatch) -> None:
        """Make a batch durable in its segment alone; errors as for `write`."""
        with self._lock:
            self.check()
            runs = _runs([staged])
            with self._undo_on_failure(runs):
                self._write_segments(runs)
            if self._journal:
                self._sync(staged.segment.file().sync)
                if not staged.place.position:
                    self._sync(partial(self._fs.sync_directory, staged.log.directory))
            self._note_written(runs, [staged])

    def _note_written(
        self, runs: dict[Segment, tuple[int, list[bytearray]]], staged: Sequence[StagedBatch]
    ) -> None:
        """For the next checkpoint."""
        for segment, (position, _) in runs.items():
            self._dirty[segment] = None
            if not position:
                self._new_names.add(segment.path.parent)
        for batch in staged:
            self._ends[batch.log] = batch.place.last_offset + 1

    def _write_segments(self, runs: dict[Segment, tuple[int, list[bytearray]]]) -> None:
        crash_point("segment.before_write")
        for segment, (position, parts) in runs.items():
            segment.write(parts[0] if len(parts) == 1 else b"".join(parts), position)
        crash_point("segment.after_write")

    @contextmanager
    def _undo_on_failure(self, runs: dict[Segment, tuple[int, list[bytearray]]]) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            try:
                self._undo(runs)
            except OSError as second:
                self._break(second)
            self._fail(error)

    def _undo(self, runs: dict[Segment, tuple[int, list[bytearray]]]) -> None:
        for segment, (position, _) in runs.items():
            if position:
                segment.file().truncate(position)
            elif self._fs.exists(segment.path):
                # A segment of this round, or one that was empty. Its name must not come back later.
                segment.close()
                self._fs.unlink(segment.path)
                self._fs.sync_directory(segment.path.parent)

    def _fail(self, error: OSError) -> NoReturn:
        if error.errno in _FULL:
            raise StorageFull(
                f"{self._root}: {error.strerror}; nothing of this round is kept"
            ) from error
        self._break(error)

    def _break(self, error: OSError) -> NoReturn:
        self._broken = StorageBroken(
            f"{self._root}: {error.strerror or error}; what the disk holds is unknown, and nothing is"
            " acknowledged any more until a restart has looked"
        )
        raise self._broken from error

    def _sync(self, sync: Callable[[], None]) -> None:
        """Call a sync. A failed one may have dropped the pages that it could not write: no second try."""
        try:
            sync()
        except OSError as error:
            self._break(error)

    def checkpoint(self) -> None:
        """Make all segments durable by themselves, and restart the journal."""
        with self._lock:
            self.check()
            if self._ends or self._dirty:
                self._checkpoint()

    def _checkpoint(self) -> None:
        crash_point("checkpoint.before_sync")
        files = [segment.file() for segment in self._dirty]
        self._sync(partial(self._fs.sync_files, files))
        for directory in self._new_names:
            self._sync(partial(self._fs.sync_directory, directory))
        crash_point("checkpoint.after_sync")
        for log, end in self._ends.items():
            self._recovery_points[log.partition] = end
        self.save_recovery_points()
        crash_point("checkpoint.after_recovery_points")
        if self._journal:
            self._sync(self._journal.restart)
        crash_point("checkpoint.after_restart")
        for log, end in self._ends.items():
            log.recovery_point = end
        self._dirty.clear()
        self._new_names.clear()
        self._ends.clear()

    def guarded(self, change: Callable[[], T]) -> T:
        """Run a change of the owner's that can be tried again; its errors are told apart as for a round."""
        try:
            return change()
        except OSError as error:
            self._fail(error)

    def whole(self, change: Callable[[], T]) -> T:
        """Run a change of the owner's that memory cannot follow half way: any error of it is the end."""
        try:
            return change()
        except OSError as error:
            self._break(error)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep rounds and checkpoints out, for creating and deleting partitions."""
        with self._lock:
            self.check()
            yield

    def forget(self, logs: Sequence[PartitionLog]) -> None:
        """These logs are about to be deleted, and nothing of them may come back (call in `exclusive`)."""
        if any(log in self._ends for log in logs):
            self._checkpoint()
        for log in logs:
            self._recovery_points.pop(log.partition, None)

    def save_recovery_points(self) -> None:
        self.guarded(
            lambda: save_offsets(self._fs, self._root / RECOVERY_POINTS, self._recovery_points)
        )


def _runs(staged: Sequence[StagedBatch]) -> dict[Segment, tuple[int, list[bytearray]]]:
    """The round by segment: where its bytes begin, and the batches that follow one another there."""
    runs: dict[Segment, tuple[int, list[bytearray]]] = {}
    for _, segment, place, data in staged:
        run = runs.get(segment)
        if run is None:
            runs[segment] = (place.position, [data])
        else:
            run[1].append(data)
    return runs
