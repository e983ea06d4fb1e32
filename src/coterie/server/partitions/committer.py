"""Group commit: everything staged while a write was under way goes to disk together, with one sync.

    ticket = committer.stage(log, batch)      # in the event loop; the batch has its offsets now
    ticket.round.when_durable(callback)       # called in the event loop once the round is on disk

One committer belongs to one data directory. The worker thread only writes bytes; what readers see moves
in the event loop, when a round is published.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeVar

from coterie.protocol.records import RecordBatch
from coterie.storage.config import Durability
from coterie.storage.data_directory import DataDirectory
from coterie.storage.data_directory import Round as SealedRound
from coterie.storage.errors import StorageBroken, StorageError, StorageFull
from coterie.storage.partition_log import PartitionLog

__all__ = ["CommitRound", "Committer", "Gatherer", "StorageLate"]

T = TypeVar("T")

#: Called with None when the round is durable, or with the reason why it never will be.
Callback = Callable[[StorageError | None], None]


class StorageLate(StorageError):
    """A round is not on disk in time. It may be later: whoever is told this cannot know which."""


class Gatherer(Protocol):
    """Gathers records for the open round, and makes a batch of them when its time has come."""

    def stage_gathered(self) -> None: ...

    def drop_gathered(self) -> None: ...


class CommitRound:
    """Batches that become durable together, and who waits for that."""

    __slots__ = ("_callbacks", "done")

    def __init__(self) -> None:
        self.done = False
        self._callbacks: list[Callback] = []

    def when_durable(self, callback: Callback) -> None:
        """Rounds end once; a callback for one that has ended is called by nobody, so ask `done` first."""
        self._callbacks.append(callback)

    def give_up(self, error: StorageLate) -> None:
        """Tell everyone who waits that it takes too long; the round itself goes on."""
        self._call(error)

    def end(self, error: StorageError | None) -> None:
        self.done = True
        self._call(error)

    def _call(self, error: StorageError | None) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(error)


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
            with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
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
        self._gatherers: list[Gatherer] = []
        self._loop = asyncio.get_running_loop()
        # Without a sync a write is a copy into the page cache: not worth a thread's round trip.
        self._worker = _Worker(self._loop) if durability is Durability.FSYNC else None

    def stage(
        self, log: PartitionLog, batch: bytes, leader_epoch: int, header: RecordBatch | None
    ) -> tuple[int, CommitRound]:
        """Give a batch its offsets; the round tells when it is durable."""
        if self.broken is not None:
            raise self.broken
        base_offset = self.directory.stage(log, batch, leader_epoch, header)
        self._kick_soon()
        return base_offset, self._open

    def open_round(self) -> CommitRound:
        """The round that takes what is staged now."""
        if self.broken is not None:
            raise self.broken
        return self._open

    def gather(self, gatherer: Gatherer) -> None:
        """Let a gatherer stage when the open round is about to be written, or drop if it never will be."""
        self._gatherers.append(gatherer)
        self._kick_soon()

    def _kick_soon(self) -> None:
        if not self._kicked and self._under_way is None:
            self._kicked = True
            # At the end of this turn of the loop, so that all that has arrived goes together.
            self._loop.call_soon(self._kick)

    @property
    def idle(self) -> bool:
        return self._under_way is None and not self._kicked

    def _kick(self) -> None:
        error = self._stage_gathered()
        self._kicked = False
        if error is not None:
            self._fail(CommitRound(), error)
            return
        sealed = self.directory.seal()
        if sealed is None:
            return
        self._under_way, self._open = self._open, CommitRound()
        if self._worker is None:
            self._finish(sealed, self._write(sealed))
        else:
            late = self._loop.call_later(self._timeout, self._late)
            self._worker.do(partial(self._write, sealed), partial(self._written, sealed, late))

    def _stage_gathered(self) -> StorageError | None:
        self._kicked = True  # what is staged here goes with this round
        gatherers, self._gatherers = self._gatherers, []
        try:
            for each in gatherers:
                each.stage_gathered()
        except StorageError as error:
            return error
        return None

    def _late(self) -> None:
        """The disk is slow: tell those who wait, also for the round behind, and go on waiting."""
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
        """What was staged behind a failed round built on it, so all of it goes."""
        if not isinstance(error, StorageFull):
            self.broken = error if isinstance(error, StorageBroken) else StorageBroken(str(error))
        self.directory.rollback()
        gatherers, self._gatherers = self._gatherers, []
        for each in gatherers:
            each.drop_gathered()
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
