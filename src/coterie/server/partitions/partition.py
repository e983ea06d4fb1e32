"""The partitions of a cluster as they are served: their logs, who leads them, who waits for data.

A log lives in the data directory of the broker that first led it. When leadership moves, the log stays
and the new leader serves it from there: in one process that is as good as a replica, and instant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from coterie.protocol.records import RecordBatch, encode_plain_batch
from coterie.server.metadata.topics import PartitionMetadata, TopicMetadata
from coterie.server.partitions.committer import CommitRound, Committer
from coterie.storage.errors import StorageError
from coterie.storage.partition_log import PartitionLog

__all__ = ["Partition", "PlainRecord"]

#: Key and value, encoded; without a value it is a tombstone.
PlainRecord = tuple[bytes, bytes | None]

#: As Kafka's coordinator writes: no producer, and yet a sequence.
_LIKE_KAFKA: Final = RecordBatch(base_sequence=0)
#: Far below max.message.bytes: what is gathered beyond it goes into a batch of its own.
_GATHERED_BYTES: Final = 256 * 1024


class Partition:
    """One partition, whoever leads it."""

    __slots__ = (
        "_gathered",
        "_gathered_at_ms",
        "_gathered_bytes",
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
        #: What the data plane keeps beside the log (producers and their transactions), made when needed.
        self.state: object | None = None
        self._waiting: list[Callable[[], None]] = []
        self._round: CommitRound | None = None
        self._gathered: list[PlainRecord] = []
        self._gathered_bytes = 0
        self._gathered_at_ms = 0

    @property
    def leader(self) -> int:
        return self.metadata.leader

    @property
    def leader_epoch(self) -> int:
        return self.metadata.leader_epoch

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it, nor on its way into it."""
        return not self._gathered and self.log.log_end_offset == self.log.log_start_offset

    def append(self, batch: bytes, header: RecordBatch | None = None) -> tuple[int, CommitRound]:
        """Stage an encoded batch; its base offset, and the round in which it becomes durable.

        Whoever has just built the batch gives its header, and it is not looked at again.
        """
        if self._gathered:
            self.stage_gathered()
        base_offset, round_ = self.committer.stage(self.log, batch, self.leader_epoch, header)
        self._watch(round_)
        return base_offset, round_

    def gather(self, records: Sequence[PlainRecord], now_ms: int) -> CommitRound:
        """Append records in one batch with all others of this turn of the loop, as Kafka's coordinator
        does within its append.linger.ms; the round in which they become durable."""
        round_ = self.committer.open_round()
        if not self._gathered:
            self._gathered_at_ms = now_ms
            self.committer.gather(self)
        self._gathered += records
        for key, value in records:
            self._gathered_bytes += len(key) + len(value or b"")
        if self._gathered_bytes > _GATHERED_BYTES:
            self.stage_gathered()
        self._watch(round_)
        return round_

    def stage_gathered(self) -> None:
        """One batch of what was gathered; the committer's call, and anybody's who appends behind it."""
        records = self._gathered
        if records:
            self.drop_gathered()
            header, batch = encode_plain_batch(records, self._gathered_at_ms, _LIKE_KAFKA)
            self.committer.stage(self.log, batch, self.leader_epoch, header)

    def drop_gathered(self) -> None:
        self._gathered = []
        self._gathered_bytes = 0

    async def written(self) -> None:
        """Wait until everything that was appended so far is on disk, or will never be."""
        while self._round is not None and not self._round.done:
            ended = asyncio.Event()
            self._round.when_durable(lambda _error, ended=ended: ended.set())  # type: ignore[misc]
            await ended.wait()

    def _watch(self, round_: CommitRound) -> None:
        if round_ is not self._round:
            # Also when nobody waits now: a reader may come to wait before the round has ended.
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
