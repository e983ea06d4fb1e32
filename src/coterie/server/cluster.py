"""The cluster: its brokers, who is alive, who leads what, and the topics they share.

All of it runs in one event loop. A partition's log is in one place and is not copied; its replicas, its ISR
and its leader change as in Kafka, only without delay (coterie.server.partitions.leadership, ADR 0006).
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from coterie.addresses import address_text
from coterie.coordinator.partitioner import partition_for
from coterie.errors import CoterieError
from coterie.protocol.types import Uuid
from coterie.security.acls import AclBinding
from coterie.security.secrets import Secret
from coterie.server.broker import Broker
from coterie.server.clock import Clock, SystemClock
from coterie.server.connections.listeners import Listeners
from coterie.server.dispatch import served_apis
from coterie.server.metadata.client_quotas import ClientQuotas
from coterie.server.metadata.cluster_log import ClusterLog
from coterie.server.metadata.features import ClusterFeatures
from coterie.server.metadata.replicas import Election, place_replicas
from coterie.server.metadata.topics import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from coterie.server.partitions.committer import Committer
from coterie.server.partitions.housekeeping import keep_house
from coterie.server.partitions.leadership import Leadership
from coterie.server.partitions.partition import Partition
from coterie.server.quotas.throttling import MutationUsage
from coterie.server.security.cluster_security import ClusterSecurity
from coterie.server.security.files import load_invention_key, take_over_security_file
from coterie.server.settings.cluster import ClusterSettings
from coterie.server.settings.config import ServerConfig
from coterie.server.settings.topics import acting_settings, log_config, topic_defaults
from coterie.server.transactions.coordinator import TransactionCoordinator
from coterie.storage.config import Durability, LogConfig
from coterie.storage.data_directory import DataDirectory
from coterie.storage.errors import StorageError
from coterie.storage.files import FileSystem, MemoryFileSystem, OsFileSystem
from coterie.storage.partition_log import TopicPartition

__all__ = ["Cluster", "LogDir"]

log = logging.getLogger("coterie.server")

_METADATA_FILE = "cluster.json"
_BROKER_DIRECTORY = re.compile(r"broker-(\d+)")


class LogDir(NamedTuple):
    """A broker's log directory with the size and the free bytes of its disk; -1 if there is no disk."""

    path: str
    total_bytes: int
    usable_bytes: int


class Cluster:
    """Brokers on one machine, numbered from `first_broker_id`.

    Use `start` and `stop`; a stopped cluster can be started again.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        first_broker_id: int = 1,
        root: Path | None = None,
        config: ServerConfig | None = None,
        clock: Clock | None = None,
        host: str = "127.0.0.1",
        ports: Iterable[int] = (),
        max_versions: Mapping[str, int] | None = None,
        fs: FileSystem | None = None,
        users: Mapping[str, Secret] | None = None,
        acls: Iterable[AclBinding] = (),
    ) -> None:
        if brokers < 1:
            raise CoterieError(f"a cluster needs at least one broker, not {brokers}")
        if first_broker_id < 0:
            raise CoterieError(f"broker ids start at 0 or above, not at {first_broker_id}")
        self.config = config or ServerConfig()
        if root is None:
            # There is no disk to wait for.
            self.config = dataclasses.replace(self.config, durability=Durability.OS)
        self.clock: Clock = clock or SystemClock()
        self.brokers: dict[int, Broker] = {}
        self.metadata: ClusterMetadata
        self.features: ClusterFeatures
        self.security: ClusterSecurity
        self.quotas: ClientQuotas
        self.mutations = MutationUsage(self.config.controller_quota_window)
        self.settings: ClusterSettings
        self.transactions: TransactionCoordinator
        self.leadership = Leadership(self)
        #: How many partitions `__consumer_offsets` has; 0 before it was made.
        self.offsets_partitions = 0
        self.storage_error: StorageError | None = None
        self._root = root or Path("memory")
        self._fs: FileSystem = fs or (OsFileSystem() if root else MemoryFileSystem())
        self._node_ids = range(first_broker_id, first_broker_id + brokers)
        wanted = dict(zip(self._node_ids, [*ports, *[0] * brokers], strict=False))
        self.listeners = Listeners(self.config, self._node_ids, host, wanted)
        self._max_versions = dict(max_versions or {})
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._committers: dict[int, Committer] = {}
        self._users = dict(users or {})
        self._acls = tuple(acls)
        self._background: list[asyncio.Task[None]] = []
        #: Set when storage broke: the process should end, since nothing can be acknowledged any more.
        self.broken = asyncio.Event()

    # -- life -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the directories, recover, listen, and take up leadership; all of it or nothing."""
        self.transactions = TransactionCoordinator(self)
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        self._check_directories()
        for node_id in self._node_ids:
            directory = DataDirectory.open(
                self._root / f"broker-{node_id}", self._fs, durability=self.config.durability
            )
            for warning in directory.warnings:
                log.warning("%s", warning)
            self._committers[node_id] = Committer(
                directory,
                self.config.durability,
                timeout_ms=self.config.offsets_commit_timeout_ms,
                on_broken=self._storage_broke,
            )
        controller = self._committers[self._node_ids[0]].directory
        self.metadata = ClusterMetadata(
            controller.load(_METADATA_FILE),
            new_uuid=_new_uuid,
            save=lambda state: controller.save(_METADATA_FILE, state),
        )
        await self._secure(controller)
        for node_id in self._node_ids:
            served = served_apis(self._max_versions)
            self.brokers[node_id] = Broker(self, node_id, served)
        ignored = sorted(set(self.config.others) - acting_settings())
        if ignored:
            log.info("settings that are accepted and have no effect here: %s", ", ".join(ignored))
        self.settings.on_broker_change = self._broker_settings_changed
        self.settings.on_group_change = self._group_settings_changed
        for topic in self.metadata:
            self._open_partitions(topic, 0)
        for node_id in self._node_ids:
            await self.brokers[node_id].listen()
        self.metadata.unregistered.clear()
        self.leadership.brokers_returned()
        self.transactions.start()
        house = keep_house(
            self._committers.values(), self.clock, lambda: self.brokers[self._node_ids[0]].config
        )
        loop = asyncio.get_running_loop()
        self._background = [loop.create_task(house)]
        if self.security.tokens.enabled:
            self._background.append(loop.create_task(self.security.tokens.keep_removing_expired()))

    def _check_directories(self) -> None:
        """Refuse directories of brokers that would not run: their logs would be missing."""
        if not self._fs.exists(self._root):
            return
        names = [_BROKER_DIRECTORY.fullmatch(name) for name in self._fs.listdir(self._root)]
        found = sorted(int(name[1]) for name in names if name)
        wanted = self._node_ids
        if found and (found[0] != wanted[0] or found[-1] > wanted[-1]):
            raise CoterieError(
                f"{self._root} belongs to a cluster with brokers {found[0]} to {found[-1]}, not "
                f"{wanted[0]} to {wanted[-1]}: start {len(found)} or more brokers with first broker "
                f"id {found[0]}, or choose another directory"
            )

    async def _secure(self, controller: DataDirectory) -> None:
        """Users, ACLs and certificates, before anybody can connect. In threads: passwords are hashed."""
        cluster_log = ClusterLog(controller, self.clock)
        self.features = ClusterFeatures(cluster_log)
        self.security = ClusterSecurity(
            self.config.security,
            cluster_log,
            self.clock,
            mechanisms=self.listeners.mechanisms,
            know_clients=self.listeners.know_clients,
            invention_key=load_invention_key(controller, keep=bool(self.listeners.mechanisms)),
            new_uuid=_new_uuid,
        )
        self.quotas = ClientQuotas(cluster_log)
        self.settings = ClusterSettings(self.config, cluster_log)
        cluster_log.load()
        take_over_security_file(controller, self.security)
        if self._users or self._acls or self.security.mechanisms:
            await asyncio.to_thread(self.security.set_up, self._users, self._acls)
        await self.listeners.start()

    async def stop(self) -> None:
        """Answer or close everything, flush, unlock."""
        await self.listeners.stop()
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)
        self.transactions.stop()
        for broker in self.brokers.values():
            broker.groups.resign_all()
        for committer in self._committers.values():
            await committer.drain()
        for broker in self.brokers.values():
            await broker.stop()
        for committer in self._committers.values():
            await committer.close()
        self._partitions.clear()
        self._committers.clear()
        self.brokers.clear()

    @property
    def bootstrap_servers(self) -> str:
        """The advertised addresses of the first listener."""
        return self.bootstrap_servers_of(next(iter(self.listeners)))

    def bootstrap_servers_of(self, listener: str) -> str:
        """The advertised addresses of a listener, as clients take them."""
        name = self.listeners[listener].name
        return ",".join(address_text(*each.advertised[name]) for each in self.brokers.values())

    def _storage_broke(self, error: StorageError) -> None:
        self.storage_error = error
        log.critical("storage is broken, nothing is acknowledged any more: %s", error)
        self.broken.set()

    # -- brokers --------------------------------------------------------------------------------------

    def broker(self, node_id: int) -> Broker:
        try:
            return self.brokers[node_id]
        except KeyError:
            raise CoterieError(
                f"there is no broker {node_id}; there are {sorted(self.brokers)}"
            ) from None

    def alive(self) -> list[int]:
        """Brokers that run and are registered."""
        gone = self.metadata.unregistered
        return [
            each for each, broker in self.brokers.items() if broker.running and each not in gone
        ]

    @property
    def controller_id(self) -> int:
        alive = self.alive()
        return alive[0] if alive else -1

    async def stop_broker(self, node_id: int) -> None:
        """An orderly stop: leadership moves first, then the listener closes."""
        broker = self.broker(node_id)
        self.leadership.broker_left(node_id)
        await broker.stop()

    async def kill_broker(self, node_id: int) -> None:
        """A broker that is gone from one moment to the next."""
        self.broker(node_id).kill()
        self.leadership.broker_left(node_id)

    async def start_broker(self, node_id: int) -> None:
        """Bring a broker back on its old port; partitions that prefer it move back to it."""
        if self.broker(node_id).running:
            raise CoterieError(f"broker {node_id} is running already")
        await self.brokers[node_id].listen()
        self.metadata.unregistered.discard(node_id)
        self.leadership.brokers_returned()

    def unregister_broker(self, node_id: int) -> None:
        """Take a broker out of the cluster until it is started again."""
        self.leadership.broker_left(node_id)
        self.metadata.unregistered.add(node_id)
        self.metadata.save()

    def log_dir(self, node_id: int) -> LogDir:
        """Where a broker keeps its logs."""
        path = self._committers[node_id].directory.root
        if not isinstance(self._fs, OsFileSystem):
            return LogDir(f"/{path}", -1, -1)
        disk = shutil.disk_usage(path)
        return LogDir(str(path.absolute()), disk.total, disk.free)

    async def pause_broker(self, node_id: int) -> None:
        self.broker(node_id).pause()

    async def resume_broker(self, node_id: int) -> None:
        self.broker(node_id).resume()

    async def move_coordinator(self, group_id: str, to: int) -> None:
        """Make another broker the coordinator of a group, and of all that share its partition."""
        if not self.broker(to).running:
            raise CoterieError(f"broker {to} is not running, so it cannot coordinate a group")
        partition = self.offsets_partition(group_id)
        others = [each for each in partition.metadata.replicas if each != to]
        factor = len(partition.metadata.replicas)
        self.leadership.reassign(partition, [to, *others][:factor])
        self.leadership.elect(partition, Election.PREFERRED)
        self.metadata.save()

    async def settled(self) -> None:
        """Wait until no coordinator loads any more."""
        for broker in self.brokers.values():
            await broker.groups.settled()

    # -- topics ---------------------------------------------------------------------------------------

    def partitions(self) -> Iterable[Partition]:
        return self._partitions.values()

    def partition(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get((topic, index))

    def offsets_partition(self, group_id: str) -> Partition:
        """The partition that keeps a group; the topic is made when it is first needed."""
        if CONSUMER_OFFSETS not in self.metadata:
            self.create_topic(CONSUMER_OFFSETS, self.config.offsets_topic_partitions, {})
        return self._partitions[CONSUMER_OFFSETS, partition_for(group_id, self.offsets_partitions)]

    @property
    def node_ids(self) -> Sequence[int]:
        """All brokers there are, also those that are down."""
        return self._node_ids

    @property
    def registered(self) -> list[int]:
        """Brokers that can have replicas: all but those that were unregistered while down."""
        return [each for each in self._node_ids if each not in self.metadata.unregistered]

    def create_topic(
        self,
        name: str,
        partitions: int,
        configs: dict[str, str],
        *,
        replication_factor: int | None = None,
        placement: Sequence[Sequence[int]] | None = None,
    ) -> TopicMetadata:
        """Create a topic, on replicas of the caller's choice or on such as `place_replicas` finds."""
        factor = self.replication_factor(name) if replication_factor is None else replication_factor
        topic = self.metadata.add_topic(
            name, self._new_partitions(partitions, factor, placement), configs
        )
        self._open_partitions(topic, 0)
        return topic

    def auto_create_topic(self, name: str) -> None:
        """Create a topic that a client asked about, with the settings of the broker."""
        if name == CONSUMER_OFFSETS:
            self.offsets_partition("")
        elif name == TRANSACTION_STATE:
            self.transactions.partition_of("")
        elif self.config.default_replication_factor <= len(self.registered):
            self.create_topic(name, self.config.num_partitions, {})

    def create_partitions(
        self,
        topic: TopicMetadata,
        total: int,
        placement: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Add partitions to a topic, with as many replicas as its first partition has."""
        first = len(topic.partitions)
        factor = topic.replication_factor
        self.metadata.add_partitions(topic, self._new_partitions(total - first, factor, placement))
        self._open_partitions(topic, first)

    def replication_factor(self, name: str) -> int:
        """How many replicas a new topic has if its creator does not say.

        Kafka cannot create its internal topics with the default factor of 3 on fewer brokers. A cluster of
        one broker must work with the defaults here, so their factor is at most the number of brokers.
        """
        internal = {
            CONSUMER_OFFSETS: self.config.offsets_topic_replication_factor,
            TRANSACTION_STATE: self.config.transaction_topic_replication_factor,
        }
        if name in internal:
            return min(internal[name], len(self.registered))
        return self.config.default_replication_factor

    def _new_partitions(
        self, count: int, factor: int, placement: Sequence[Sequence[int]] | None
    ) -> list[PartitionMetadata]:
        alive = self.alive() or list(self._node_ids)
        if placement is None:
            first = len(self._partitions)
            placement = place_replicas(first, count, factor, alive, self.registered)
        return [PartitionMetadata.new(replicas, alive) for replicas in placement]

    def delete_topic(self, topic: TopicMetadata) -> None:
        self.metadata.remove_topic(topic.name)
        gone = [self._partitions.pop((topic.name, i)) for i in range(len(topic.partitions))]
        for node_id, committer in self._committers.items():
            here = [TopicPartition(topic.name, p.index) for p in gone if p.metadata.home == node_id]
            if here:
                committer.directory.delete(here)
        for broker in self.brokers.values():
            broker.groups.topic_deleted(topic.name, topic.uuid)

    def change_topic_configs(self, topic: TopicMetadata, configs: dict[str, str]) -> None:
        topic.configs = configs
        self.metadata.save()
        for index in range(len(topic.partitions)):
            partition = self._partitions[topic.name, index]
            partition.log.config = self._log_config(topic, partition.metadata.home)

    def _log_config(self, topic: TopicMetadata, node_id: int) -> LogConfig:
        return log_config(topic, self.brokers[node_id].topic_defaults)

    def _broker_settings_changed(self) -> None:
        """Let brokers and logs act on settings that have changed."""
        for node_id, broker in self.brokers.items():
            broker.config = self.settings.server_config(node_id)
            broker.topic_defaults = topic_defaults(self.settings, node_id)
        for partition in self._partitions.values():
            partition.log.config = self._log_config(partition.topic, partition.metadata.home)

    def _group_settings_changed(self, group_id: str) -> None:
        for broker in self.brokers.values():
            broker.groups.settings_changed(group_id)

    def transaction_coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional id."""
        return self.transactions.partition_of(transactional_id).leader

    def _open_partitions(self, topic: TopicMetadata, first: int) -> None:
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
                if partition.leader in self.brokers and self.brokers[partition.leader].running:
                    self.leadership.hand_over(partition, partition.leader)


def _new_uuid() -> Uuid:
    return Uuid(secrets.token_bytes(16))
