"""Transaction markers: the control records that commit or abort a transaction in a partition.

Called by the transaction coordinator, and by WriteTxnMarkers for tools that abort a hanging transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coterie.protocol.records import ControlRecordType, control_batch
from coterie.server.clock import Clock
from coterie.server.group_service import GroupService, HostedShard
from coterie.server.metadata.topics import CONSUMER_OFFSETS
from coterie.server.partitions.committer import CommitRound, when_all_end
from coterie.server.partitions.partition import Partition
from coterie.server.partitions.state import state_of
from coterie.server.partitions.table import PartitionTable
from coterie.storage.errors import StorageError

__all__ = ["TransactionMarker", "TransactionMarkers"]


class TransactionMarker(NamedTuple):
    """The end of one producer's transaction."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int


class TransactionMarkers:
    """Writes markers into the partitions of a cluster."""

    def __init__(
        self, partitions: PartitionTable, groups: Mapping[int, GroupService], clock: Clock
    ) -> None:
        self._partitions = partitions
        #: The group coordinators by broker.
        self._groups = groups
        self._clock = clock

    async def write_all(
        self, marker: TransactionMarker, partitions: Iterable[tuple[str, int]]
    ) -> bool:
        """Write a marker to every partition; True when all are durable. A repeated marker does no harm."""
        found = [self._partitions.get(*each) for each in sorted(partitions)]
        there = [each for each in found if each is not None and not each.log.is_deleted]
        await self.settled(there)
        try:
            rounds = [self.write(marker, each) for each in there]
        except StorageError:
            return False
        all_ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        when_all_end(rounds, lambda failed: all_ended.set_result(not failed))
        return await all_ended

    async def settled(self, partitions: Iterable[Partition]) -> None:
        """Wait until no shard of these partitions is loading: it would miss a marker, or see it too early."""
        offsets = [each for each in partitions if each.topic.name == CONSUMER_OFFSETS]
        while any((hosted := self._hosted(each)) and not hosted.loaded for each in offsets):
            for groups in self._groups.values():
                await groups.settled()

    def write(self, marker: TransactionMarker, partition: Partition) -> CommitRound:
        """Stage the marker of one partition."""
        batch = control_batch(
            ControlRecordType.COMMIT if marker.commit else ControlRecordType.ABORT,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=self._clock.now_ms(),
        )
        if partition.topic.name != CONSUMER_OFFSETS:
            return state_of(partition).append(batch.encode(), batch)[1]
        _, round_ = partition.append(batch.encode())
        hosted = self._hosted(partition)
        if hosted is not None:
            self._groups[partition.leader].follow(hosted, round_)
            hosted.shard.end_transaction(marker.producer_id, commit=marker.commit)
        return round_

    def _hosted(self, partition: Partition) -> HostedShard | None:
        """The shard of an offsets partition; None while it has no leader: then loading finds the marker."""
        groups = self._groups.get(partition.leader)
        shards = groups.hosted() if groups is not None else []
        return next((each for each in shards if each.partition is partition), None)
