"""The topics of a cluster with their partitions: finding, creating, changing and deleting them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from coterie.protocol.group_state import partition_for
from coterie.protocol.types import Uuid
from coterie.server.metadata.brokers import BrokerRegistry
from coterie.server.metadata.replicas import place_replicas
from coterie.server.metadata.topics import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from coterie.server.partitions.committer import Committer
from coterie.server.partitions.partition import Partition
from coterie.server.settings.config import ServerConfig
from coterie.server.settings.topics import log_config
from coterie.storage.config import LogConfig
from coterie.storage.partition_log import TopicPartition

__all__ = ["GroupCoordinator", "PartitionTable"]

#: Kafka's transaction.state.log.num.partitions, and the settings of that topic.
_TRANSACTION_PARTITIONS: Final = 50
_TRANSACTION_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "uncompressed",
    "segment.bytes": "104857600",
}


class GroupCoordinator(Protocol):
    """The group coordinator of one broker, which follows the leaders of `__consumer_offsets`."""

    def leads(self, index: int, /) -> bool: ...

    def lead(self, partition: Partition, /) -> None: ...

    def resign(self, index: int, /) -> None: ...

    def topic_deleted(self, name: str, topic_id: Uuid, /) -> None: ...


class PartitionTable:
    """All partitions of a cluster. Metadata and logs change together here."""

    def __init__(
        self,
        *,
        config: ServerConfig,
        metadata: ClusterMetadata,
        brokers: BrokerRegistry,
        committers: Mapping[int, Committer],
        coordinators: Mapping[int, GroupCoordinator],
        topic_defaults: Callable[[int], Mapping[str, str]],
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._brokers = brokers
        #: By broker: a log is in the directory of the broker that led its partition first.
        self._committers = committers
        #: The settings of topics that set nothing themselves, by broker.
        self._topic_defaults = topic_defaults
        #: The group coordinators by broker.
        self._coordinators = coordinators
        #: How many partitions `__consumer_offsets` has; 0 before it is created.
        self.offsets_partitions = 0
        self._partitions: dict[tuple[str, int], Partition] = {}

    def open_all(self) -> None:
        """Open the logs of all topics in the metadata."""
        for topic in self._metadata:
            self._open(topic, 0)

    # -- finding --------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def get(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get((topic, index))

    def offsets_partition(self, group_id: str) -> Partition:
        """The partition that keeps a group; its topic is created when it is first needed."""
        if CONSUMER_OFFSETS not in self._metadata:
            self.create_topic(CONSUMER_OFFSETS, self._config.offsets_topic_partitions, {})
        return self._partitions[CONSUMER_OFFSETS, partition_for(group_id, self.offsets_partitions)]

    def transaction_partition(self, transactional_id: str) -> Partition:
        """The partition that keeps a transactional id; its topic is created when it is first needed."""
        topic = self._metadata.topic(TRANSACTION_STATE)
        if topic is None:
            configs = dict(_TRANSACTION_CONFIGS)
            topic = self.create_topic(TRANSACTION_STATE, _TRANSACTION_PARTITIONS, configs)
        index = partition_for(transactional_id, len(topic.partitions))
        return self._partitions[TRANSACTION_STATE, index]

    # -- topics ---------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int,
        configs: dict[str, str],
        *,
        replication_factor: int | None = None,
        placement: Sequence[Sequence[int]] | None = None,
    ) -> TopicMetadata:
        """Create a topic, on replicas of the caller's choice or on those that `place_replicas` chooses."""
        factor = self.replication_factor(name) if replication_factor is None else replication_factor
        new = self._new_partitions(partitions, factor, placement)
        topic = self._metadata.add_topic(name, new, configs)
        self._open(topic, 0)
        return topic

    def auto_create_topic(self, name: str) -> None:
        """Create a topic that a client asked about, with the settings of the broker."""
        if name == CONSUMER_OFFSETS:
            self.offsets_partition("")
        elif name == TRANSACTION_STATE:
            self.transaction_partition("")
        elif self._config.default_replication_factor <= len(self._brokers.registered):
            self.create_topic(name, self._config.num_partitions, {})

    def create_partitions(
        self,
        topic: TopicMetadata,
        total: int,
        placement: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Add partitions to a topic, with as many replicas as its first partition has."""
        first = len(topic.partitions)
        factor = topic.replication_factor
        self._metadata.add_partitions(topic, self._new_partitions(total - first, factor, placement))
        self._open(topic, first)

    def replication_factor(self, name: str) -> int:
        """How many replicas a new topic has if its creator does not say.

        Kafka cannot create its internal topics with the default factor of 3 on fewer brokers. A cluster of
        one broker must work with the defaults here, so their factor is at most the number of brokers.
        """
        internal = {
            CONSUMER_OFFSETS: self._config.offsets_topic_replication_factor,
            TRANSACTION_STATE: self._config.transaction_topic_replication_factor,
        }
        if name in internal:
            return min(internal[name], len(self._brokers.registered))
        return self._config.default_replication_factor

    def _new_partitions(
        self, count: int, factor: int, placement: Sequence[Sequence[int]] | None
    ) -> list[PartitionMetadata]:
        alive = self._brokers.alive() or list(self._brokers.node_ids)
        if placement is None:
            first = len(self._partitions)
            placement = place_replicas(first, count, factor, alive, self._brokers.registered)
        return [PartitionMetadata.new(replicas, alive) for replicas in placement]

    def delete_topic(self, topic: TopicMetadata) -> None:
        self._metadata.remove_topic(topic.name)
        gone = [self._partitions.pop((topic.name, i)) for i in range(len(topic.partitions))]
        for node_id, committer in self._committers.items():
            here = [TopicPartition(topic.name, p.index) for p in gone if p.metadata.home == node_id]
            if here:
                committer.directory.delete(here)
        for coordinator in self._coordinators.values():
            coordinator.topic_deleted(topic.name, topic.uuid)

    def change_configs(self, topic: TopicMetadata, configs: dict[str, str]) -> None:
        """Replace the settings of a topic."""
        topic.configs = configs
        self._metadata.save()
        for index in range(len(topic.partitions)):
            self._configure(self._partitions[topic.name, index])

    def defaults_changed(self) -> None:
        """Make all logs act on changed settings of brokers."""
        for partition in self:
            self._configure(partition)

    def _configure(self, partition: Partition) -> None:
        partition.log.config = self._log_config(partition.topic, partition.metadata.home)

    def _log_config(self, topic: TopicMetadata, node_id: int) -> LogConfig:
        return log_config(topic, self._topic_defaults(node_id))

    def _open(self, topic: TopicMetadata, first: int) -> None:
        """Open the logs of a topic's partitions, from the first on that is new."""
        if topic.name == CONSUMER_OFFSETS:
            self.offsets_partitions = len(topic.partitions)
        for node_id, committer in self._committers.items():
            here = [
                index
                for index, each in enumerate(topic.partitions)
                if index >= first and each.home == node_id
            ]
            if not here:
                continue
            config = self._log_config(topic, node_id)
            logs = committer.directory.create(
                [TopicPartition(topic.name, index) for index in here], config
            )
            for index, each in zip(here, logs, strict=True):
                each.config = config
                partition = Partition(topic, index, topic.partitions[index], each, committer)
                self._partitions[topic.name, index] = partition
                if self._brokers.is_running(partition.leader):
                    self.hand_over(partition, partition.leader)

    # -- leaders --------------------------------------------------------------------------------------

    def hand_over(self, partition: Partition, before: int) -> None:
        """Make the leader of a partition of `__consumer_offsets` the coordinator of its groups."""
        if partition.topic.name != CONSUMER_OFFSETS:
            return
        leader = partition.leader
        if before != leader and before in self._coordinators:
            self._coordinators[before].resign(partition.index)
        coordinator = self._coordinators.get(leader)
        if coordinator is not None and not coordinator.leads(partition.index):
            coordinator.lead(partition)
