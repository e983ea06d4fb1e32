"""Who leads the partitions of a cluster, as brokers come and go: ISRs, elections, reassignments.

The rules are in coterie.server.metadata.replicas; this module applies them to all partitions, saves the
result, and moves the group coordinators along with the leaders of `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coterie.server.metadata.brokers import BrokerRegistry
from coterie.server.metadata.replicas import Election, Rules, change_partition, in_sync, reassign
from coterie.server.metadata.topics import ClusterMetadata, TopicMetadata
from coterie.server.partitions.partition import Partition
from coterie.server.partitions.table import PartitionTable
from coterie.server.settings.cluster import ALL_BROKERS, ClusterSettings, ResourceKind
from coterie.server.settings.config import ServerConfig

__all__ = ["Leadership"]


class Leadership:
    """The controller's part of a cluster: changes leaders, ISRs and replicas of partitions."""

    def __init__(
        self,
        config: ServerConfig,
        settings: ClusterSettings,
        metadata: ClusterMetadata,
        brokers: BrokerRegistry,
        partitions: PartitionTable,
    ) -> None:
        self._config = config
        self._settings = settings
        self._metadata = metadata
        self._brokers = brokers
        self._partitions = partitions

    def min_insync_replicas(self, topic: TopicMetadata) -> int:
        """The topic's setting, or that of all brokers, which can change while they run (KIP-966)."""
        name = "min.insync.replicas"
        brokers = self._settings.of(ResourceKind.BROKER, ALL_BROKERS)
        return int(topic.configs.get(name) or brokers[name])

    def broker_left(self, node_id: int) -> None:
        """Take a broker out of all ISRs and elect others where it led."""
        alive = [each for each in self._brokers.alive() if each != node_id]
        changed = False
        for partition in self._partitions:
            isr = partition.metadata.isr
            if node_id in isr:
                rest = [each for each in isr if each != node_id]
                changed |= self._change(partition, alive=alive, isr=rest)
        if changed:
            self._metadata.save()

    def unregister(self, node_id: int) -> None:
        """Take a broker out of the cluster until it is started again."""
        self.broker_left(node_id)
        self._metadata.unregistered.add(node_id)
        self._metadata.save()

    def brokers_returned(self) -> None:
        """Elect leaders where there are none, and put all live replicas back into the ISRs."""
        changed = False
        for partition in self._partitions:
            changed |= self._change(partition)
            changed |= self._catch_up(partition)
            if self._config.auto_leader_rebalance:
                changed |= self._change(partition, election=Election.PREFERRED)
            self._partitions.hand_over(partition, partition.leader)
        if changed:
            self._metadata.save()

    def elect(self, partition: Partition, election: Election) -> bool:
        """Hold an election for one partition; whether it changed anything. The caller saves."""
        changed = self._change(partition, election=election)
        return self._catch_up(partition) or changed

    def reassign(self, partition: Partition, replicas: Sequence[int]) -> None:
        """Move a partition to other replicas. The caller saves."""
        before = partition.leader
        reassign(partition.metadata, replicas, self._rules(partition))
        self._partitions.hand_over(partition, before)

    def _catch_up(self, partition: Partition) -> bool:
        metadata = partition.metadata
        if metadata.adding or metadata.removing:
            before = metadata.partition_epoch
            gone = metadata.removing
            self.reassign(partition, [each for each in metadata.replicas if each not in gone])
            return metadata.partition_epoch != before
        isr = in_sync(metadata, metadata.replicas, self._rules(partition))
        return self._change(partition, isr=isr)

    def _change(
        self,
        partition: Partition,
        *,
        alive: Iterable[int] | None = None,
        isr: Sequence[int] | None = None,
        election: Election | None = None,
    ) -> bool:
        before = partition.leader
        rules = self._rules(partition, alive)
        changed = change_partition(partition.metadata, rules, isr=isr, election=election)
        self._partitions.hand_over(partition, before)
        return changed

    def _rules(self, partition: Partition, alive: Iterable[int] | None = None) -> Rules:
        own = partition.topic.configs.get("unclean.leader.election.enable")
        default = self._config.unclean_leader_election
        return Rules(
            frozenset(self._brokers.alive() if alive is None else alive),
            self.min_insync_replicas(partition.topic),
            default if own is None else own.lower() == "true",
        )
