"""The partitions of a cluster as they are served: their logs, who leads them, who waits for data.

A log lives in the data directory of the broker that first led it. When leadership moves, the log stays
and the new leader serves it from there: in one process that is as good as a replica, and instant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from coterie.protocol.records import RecordBatch
from coterie.server.metadata.topics import PartitionMetadata, TopicMetadata
from coterie.server.partitions.committer import CommitRound, Committer, PlainRecord
from coterie.storage.errors import StorageError
from coterie.storage.partition_log import PartitionLog

__all__ = ["Partition"]


class Partition:
    """One partition of the cluster, led by any broker."""

    __slots__ = (
        "_round",
        "_waiting",
        "committer",
        "index",
        "log",
        "metadata",
        "state",
        "topic",
    )

    def __init__(
        self,
        topic: TopicMetadata,
        index: int,
        metadata: PartitionMetadata,
        log: PartitionLog,
        committer: Committer,
    ) -> None:
        self.topic = topic
        self.index = index
        self.metadata = metadata
        self.log = log
        self.committer = committer
        #: Producers and their transactions, in addition to the log; created when needed.
        self.state: object | None = None
        self._waiting: list[Callable[[], None]] = []
        self._round: CommitRound | None = None

    @property
    def leader(self) -> int:
        return self.metadata.leader

    @property
    def leader_epoch(self) -> int:
        return self.metadata.leader_epoch

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it, nor on its way into it."""
        empty = self.log.log_end_offset == self.log.log_start_offset
        return empty and not self.committer.has_gathered(self.log)

    def append(self, batch: bytes, header: RecordBatch | None = None) -> tuple[int, CommitRound]:
        """Stage an encoded batch; its base offset, and the round in which it becomes durable.

        A caller that has just built the batch passes its header, and it is not decoded again.
        """
        base_offset, round_ = self.committer.stage(self.log, batch, self.leader_epoch, header)
        self._watch(round_)
        return base_offset, round_

    def gather(self, records: Sequence[PlainRecord], now_ms: int) -> CommitRound:
        """Append records in one batch with all others of this turn of the loop."""
        round_ = self.committer.gather(self.log, records, self.leader_epoch, now_ms)
        self._watch(round_)
        return round_

    async def written(self) -> None:
        """Wait until everything that was appended so far is on disk, or will never be."""
        while self._round is not None and not self._round.done:
            ended = asyncio.Event()
            self._round.when_durable(lambda _error, ended=ended: ended.set())  # type: ignore[misc]
            await ended.wait()

    def _watch(self, round_: CommitRound) -> None:
        if round_ is not self._round:
            # Also when no reader waits now: one may begin to wait before the round has ended.
            self._round = round_
            round_.when_durable(self._ended)

    def _ended(self, error: StorageError | None) -> None:
        if error is None and self._waiting:
            self._wake()

    def when_more(self, callback: Callable[[], None]) -> None:
        """Call once when more can be read than now; for Fetch requests that wait."""
        self._waiting.append(callback)

    def stop_waiting(self, callback: Callable[[], None]) -> None:
        if callback in self._waiting:
            self._waiting.remove(callback)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()
