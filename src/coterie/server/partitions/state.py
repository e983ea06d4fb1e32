"""The state of a partition besides its log: producers and leader epochs.

What this is: the content of `Partition.state`, made from the log when first needed and kept up with it.
What this is not: the log, or its leader; `Partition` is. Used by producing, fetching, ListOffsets and the
transaction coordinator.

Batches that the data plane appends are fed in when they are staged, because the next batch of the same
producer is judged by them. Batches that others append (the group coordinator's) are read from the log.
"""

from __future__ import annotations

from coterie.protocol.records import RecordBatch
from coterie.server.partitions.committer import CommitRound
from coterie.server.partitions.partition import Partition
from coterie.server.partitions.producers import Producers
from coterie.storage.errors import StorageError

__all__ = ["PartitionState", "state_of"]


class PartitionState:
    """The state of one partition; ask `state_of` for it, which brings it up to date."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.last_round: CommitRound | None = None
        self._forget()

    def _forget(self) -> None:
        self.producers = Producers()
        #: Leader epochs in the log, each with the offset of its first batch.
        self.epochs: list[tuple[int, int]] = []
        self._next_offset = -1

    def catch_up(self) -> None:
        """Look at all published batches that were not looked at yet."""
        log = self.partition.log
        if self._next_offset >= log.high_watermark:
            return
        start = max(self._next_offset, log.log_start_offset)
        for batch in log.batches(start):
            self._observe(batch, batch.base_offset, batch.partition_leader_epoch)
        self._next_offset = log.high_watermark

    def append(self, data: bytes, batch: RecordBatch) -> tuple[int, CommitRound]:
        """Stage a batch with the header `batch`; its base offset and its round."""
        partition = self.partition
        base_offset, round_ = partition.append(data)
        if round_ is not self.last_round:
            self.last_round = round_
            round_.when_durable(self._ended)
        self._observe(batch, base_offset, partition.leader_epoch)
        self._next_offset = partition.log.log_end_offset
        return base_offset, round_

    def _observe(self, batch: RecordBatch, base_offset: int, leader_epoch: int) -> None:
        if not self.epochs or leader_epoch > self.epochs[-1][0]:
            self.epochs.append((leader_epoch, base_offset))
        self.producers.observe(batch, base_offset)

    def _ended(self, error: StorageError | None) -> None:
        """What was staged and is not in the log must not be believed."""
        if error is not None:
            self._forget()

    @property
    def last_stable_offset(self) -> int:
        log = self.partition.log
        # The first record of an open transaction may have been deleted.
        return max(log.log_start_offset, self.producers.last_stable_offset(log.high_watermark))

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to this one and where it ends (LeaderEpochFileCache.endOffsetFor)."""
        log_end = self.partition.log.log_end_offset
        epochs = self.epochs
        current = self.partition.leader_epoch
        if not epochs or epochs[-1][0] < current:
            epochs = [*epochs, (current, log_end)]
        if epoch == epochs[-1][0]:
            return epoch, log_end
        later = next((start for each, start in epochs if each > epoch), None)
        if later is None:
            return -1, -1
        return max((each for each, _ in epochs if each <= epoch), default=epoch), later

    def epoch_at(self, offset: int) -> int:
        """The leader epoch under which the batch at an offset was written."""
        found = [epoch for epoch, start in self.epochs if start <= offset]
        if found:
            return found[-1]
        return self.epochs[0][0] if self.epochs else self.partition.leader_epoch


def state_of(partition: Partition) -> PartitionState:
    """The state of a partition, up to date with its log."""
    state = partition.state
    if not isinstance(state, PartitionState):
        state = partition.state = PartitionState(partition)
    state.catch_up()
    return state
