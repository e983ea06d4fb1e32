"""Group commit: everything staged while a write was under way goes to disk together, with one sync.

    base_offset, round_ = committer.stage(log, batch, leader_epoch, header)   # in the event loop
    round_.when_durable(callback)       # called in the event loop when the round is on disk, or has failed

One committer belongs to one data directory. `gather` stages plain records instead: those of one turn of the
event loop become one batch. The worker thread only writes bytes; readers see a batch when its round is
published, in the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, TypeVar

from coterie.protocol.records import RecordBatch, encode_plain_batch
from coterie.storage.config import Durability
from coterie.storage.data_directory import DataDirectory, SealedRound
from coterie.storage.errors import StorageBroken, StorageError, StorageFull
from coterie.storage.partition_log import PartitionLog

__all__ = ["CommitRound", "Committer", "PlainRecord", "StorageLate", "when_all_end"]

T = TypeVar("T")

#: Key and value, encoded; without a value it is a tombstone.
PlainRecord = tuple[bytes, bytes | None]

#: As Kafka's coordinator writes: no producer, but a sequence.
_LIKE_KAFKA: Final = RecordBatch(base_sequence=0)
#: Far below max.message.bytes: what is gathered beyond it goes into a batch of its own.
_GATHERED_BYTES: Final = 256 * 1024

#: Called with None when the round is durable, or with the reason why it never will be.
Callback = Callable[[StorageError | None], None]


class StorageLate(StorageError):
    """A round is not on disk in time. It may be later: callers cannot know whether it will be."""


class CommitRound:
    """Batches that become durable together, and who waits for that."""

    __slots__ = ("_callbacks", "done")

    def __init__(self) -> None:
        self.done = False
        self._callbacks: list[Callback] = []

    def when_durable(self, callback: Callback) -> None:
        """Call back when the round ends. Check `done` first: a round that has ended calls nothing."""
        self._callbacks.append(callback)

    def give_up(self, error: StorageLate) -> None:
        """Report to all callbacks that the round takes too long; the round itself continues."""
        self._call(error)

    def end(self, error: StorageError | None) -> None:
        self.done = True
        self._call(error)

    def _call(self, error: StorageError | None) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(error)


def when_all_end(
    rounds: Iterable[CommitRound | None], done: Callable[[set[CommitRound]], None]
) -> None:
    """Call `done` with the rounds that failed, once all have ended: now, if none is under way."""
    pending = {each for each in rounds if each is not None and not each.done}
    failed: set[CommitRound] = set()
    if not pending:
        done(failed)
        return

    def ended(round_: CommitRound, error: StorageError | None) -> None:
        if error is not None:
            failed.add(round_)
        pending.discard(round_)
        if not pending:
            done(failed)

    for each in tuple(pending):
        each.when_durable(lambda error, each=each: ended(each, error))  # type: ignore[misc]


class _Gathered:
    """Records that become one batch of a log."""

    __slots__ = ("leader_epoch", "now_ms", "records", "size")

    def __init__(self, leader_epoch: int, now_ms: int) -> None:
        self.leader_epoch = leader_epoch
        self.now_ms = now_ms
        self.records: list[PlainRecord] = []
        self.size = 0

    def add(self, records: Sequence[PlainRecord]) -> None:
        self.records += records
        for key, value in records:
            self.size += len(key) + len(value or b"")


class _Worker:
    """A thread that does one thing after the other, and tells the event loop what came of each.

    An executor would do, but hands over futures, and that costs as much again as the wake-ups do.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Callable[[Any], object]] | None] = (
            SimpleQueue()
        )
        # A process that ends without `stop` does not wait for it.
        self._thread = Thread(target=self._run, name="coterie-commit", daemon=True)
        self._thread.start()

    def do(self, work: Callable[[], T], done: Callable[[T], object]) -> None:
        """Do some work, which may not raise, and call `done` in the event loop."""
        self._jobs.put((work, done))

    async def ask(self, work: Callable[[], T]) -> T:
        """What some work gives, or raises."""
        answer: asyncio.Future[T] = self._loop.create_future()

        def guarded() -> Callable[[], None]:
            try:
                return partial(answer.set_result, work())
            except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
                return partial(answer.set_exception, error)

        self.do(guarded, lambda settle: None if answer.done() else settle())
        return await answer

    def stop(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, done = job
            result = work()
            with suppress(RuntimeError):  # the loop is closed, so no caller waits
                self._loop.call_soon_threadsafe(done, result)


class Committer:
    """Stages batches and drives rounds. After `StorageBroken` nothing is ever acknowledged again."""

    def __init__(
        self,
        directory: DataDirectory,
        durability: Durability,
        *,
        timeout_ms: int,
        on_broken: Callable[[StorageError], None],
    ) -> None:
        self.directory = directory
        self._timeout = timeout_ms / 1000
        self.broken: StorageError | None = None
        self._on_broken = on_broken
        self._open = CommitRound()
        self._under_way: CommitRound | None = None
        self._kicked = False
        self._gathered: dict[PartitionLog, _Gathered] = {}
        self._loop = asyncio.get_running_loop()
        # Without a sync a write is a copy into the page cache: not worth a thread's round trip.
        self._worker = _Worker(self._loop) if durability is Durability.FSYNC else None

    def stage(
        self, log: PartitionLog, batch: bytes, leader_epoch: int, header: RecordBatch | None
    ) -> tuple[int, CommitRound]:
        """Give a batch its offsets; its base offset, and the round in which it becomes durable."""
        if self.broken is not None:
            raise self.broken
        if log in self._gathered:
            self._stage_gathered(log)
        base_offset = self.directory.stage(log, batch, leader_epoch, header)
        self._kick_soon()
        return base_offset, self._open

    def gather(
        self, log: PartitionLog, records: Sequence[PlainRecord], leader_epoch: int, now_ms: int
    ) -> CommitRound:
        """Append records in one batch with all others of this turn of the loop, as Kafka's coordinator
        does within its append.linger.ms; the round in which they become durable."""
        if self.broken is not None:
            raise self.broken
        gathered = self._gathered.get(log)
        if gathered is None:
            gathered = self._gathered[log] = _Gathered(leader_epoch, now_ms)
            self._kick_soon()
        gathered.add(records)
        if gathered.size > _GATHERED_BYTES:
            self._stage_gathered(log)
        return self._open

    def has_gathered(self, log: PartitionLog) -> bool:
        """Whether there are records that are not staged yet."""
        return log in self._gathered

    def _stage_gathered(self, log: PartitionLog) -> None:
        gathered = self._gathered.pop(log)
        header, batch = encode_plain_batch(gathered.records, gathered.now_ms, _LIKE_KAFKA)
        self.stage(log, batch, gathered.leader_epoch, header)

    def _kick_soon(self) -> None:
        if not self._kicked and self._under_way is None:
            self._kicked = True
            # At the end of this turn of the loop, so that all that has arrived goes together.
            self._loop.call_soon(self._kick)

    @property
    def idle(self) -> bool:
        return self._under_way is None and not self._kicked

    def _kick(self) -> None:
        self._kicked = True  # what is staged here belongs to this round
        try:
            for log in tuple(self._gathered):
                self._stage_gathered(log)
        except StorageError as error:
            self._kicked = False
            self._fail(CommitRound(), error)
            return
        self._kicked = False
        sealed = self.directory.seal()
        if sealed is None:
            return
        self._under_way, self._open = self._open, CommitRound()
        if self._worker is None:
            self._finish(sealed, self._write(sealed))
        else:
            late = self._loop.call_later(self._timeout, self._late)
            self._worker.do(partial(self._write, sealed), partial(self._written, sealed, late))

    def _late(self) -> None:
        """The disk is slow: report it to all who wait, also for the next round, and continue to wait."""
        error = StorageLate(f"{self.directory.root} takes longer than {self._timeout:g} s to write")
        for round_ in (self._under_way, self._open):
            if round_ is not None:
                round_.give_up(error)

    def _written(
        self, sealed: SealedRound, late: asyncio.TimerHandle, error: StorageError | None
    ) -> None:
        late.cancel()
        self._finish(sealed, error)

    def _write(self, sealed: SealedRound) -> StorageError | None:
        try:
            self.directory.write(sealed)
        except StorageError as error:
            return error
        except Exception as error:  # noqa: BLE001 - whatever it is, what the disk holds is unknown
            return StorageBroken(f"{self.directory.root}: {error!r}")
        return None

    def _finish(self, sealed: SealedRound, error: StorageError | None) -> None:
        round_, self._under_way = self._under_way or CommitRound(), None
        if error is None:
            self.directory.publish(sealed)
            round_.end(None)
        else:
            self._fail(round_, error)
        if not self._kicked:
            self._kick()

    def _fail(self, round_: CommitRound, error: StorageError) -> None:
        """What was staged after a failed round built on it, so all of it goes."""
        if not isinstance(error, StorageFull):
            self.broken = error if isinstance(error, StorageBroken) else StorageBroken(str(error))
        self.directory.rollback()
        self._gathered.clear()
        later, self._open = self._open, CommitRound()
        round_.end(error)
        later.end(error)
        if self.broken is not None:
            self._on_broken(self.broken)

    async def in_worker(self, work: Callable[[], T]) -> T:
        """Run slow work of the directory where rounds are written: between two of them."""
        return work() if self._worker is None else await self._worker.ask(work)

    async def drain(self) -> None:
        """Wait until nothing is staged or being written."""
        while not self.idle:
            ended = asyncio.Event()
            (self._under_way or self._open).when_durable(lambda _error, ended=ended: ended.set())  # type: ignore[misc]
            await ended.wait()

    async def close(self) -> None:
        await self.drain()
        if self._worker is not None:
            self._worker.stop()
        self.directory.close()
