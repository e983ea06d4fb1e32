"""The cluster: its brokers, who is alive, who leads what, and the topics they share.

All of it lives in one event loop. There is no replication to imitate: a partition's log is in one place,
and leadership moves in an instant; what clients see of a move (NOT_COORDINATOR, loading, a new leader and
epoch in Metadata) is as with Kafka.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from coterie.coordinator.partitioner import partition_for
from coterie.errors import CoterieError
from coterie.protocol.types import Uuid
from coterie.security.acls import AclBinding
from coterie.security.secrets import Secret
from coterie.server.broker import Broker
from coterie.server.clock import Clock, SystemClock
from coterie.server.cluster_log import ClusterLog
from coterie.server.committer import Committer
from coterie.server.config import ServerConfig
from coterie.server.dispatch import served_apis
from coterie.server.housekeeping import keep_house
from coterie.server.metadata import CONSUMER_OFFSETS, ClusterMetadata, TopicMetadata
from coterie.server.partitions import Partition
from coterie.server.security import ClusterSecurity
from coterie.server.security_files import load_invention_key, take_over_security_file
from coterie.server.tls_listener import ListenerTls
from coterie.server.topic_configs import log_config
from coterie.server.transaction_coordinator import TransactionCoordinator
from coterie.storage.config import Durability
from coterie.storage.data_directory import DataDirectory
from coterie.storage.errors import StorageError
from coterie.storage.files import FileSystem, MemoryFileSystem, OsFileSystem
from coterie.storage.partition_log import TopicPartition

__all__ = ["Cluster"]

log = logging.getLogger("coterie.server")

_METADATA_FILE = "cluster.json"


class Cluster:
    """Brokers 1 to N on one machine. Use `start` and `stop`; a stopped cluster can be started again."""

    def __init__(
        self,
        *,
        brokers: int = 1,
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
        self.config = config or ServerConfig()
        if root is None:
            # There is no disk to wait for.
            self.config = dataclasses.replace(self.config, durability=Durability.OS)
        self.clock: Clock = clock or SystemClock()
        self.host = host
        self.brokers: dict[int, Broker] = {}
        self.metadata: ClusterMetadata
        self.security: ClusterSecurity
        #: Only where listeners speak TLS.
        self.tls: ListenerTls | None = None
        self.transactions: TransactionCoordinator
        #: How many partitions `__consumer_offsets` has; 0 before it was made.
        self.offsets_partitions = 0
        self.storage_error: StorageError | None = None
        self._root = root or Path("memory")
        self._fs: FileSystem = fs or (OsFileSystem() if root else MemoryFileSystem())
        self._node_ids = range(1, brokers + 1)
        self._ports = dict(zip(self._node_ids, [*ports, *[0] * brokers], strict=False))
        self._max_versions = dict(max_versions or {})
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._committers: dict[int, Committer] = {}
        self._users = dict(users or {})
        self._acls = tuple(acls)
        self._housekeeper: asyncio.Task[None] | None = None
        self._tls_watcher: asyncio.Task[None] | None = None
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
        for topic in self.metadata:
            self._open_partitions(topic, 0)
        for node_id in self._node_ids:
            await self._listen(node_id)
        self._elect()
        self.transactions.start()
        self._housekeeper = asyncio.get_running_loop().create_task(
            keep_house(
                self._committers.values(),
                self.clock,
                self.config.log_retention_check_interval_ms,
            )
        )

    async def _secure(self, controller: DataDirectory) -> None:
        """Users, ACLs and certificates, before anybody can connect. In threads: passwords are hashed."""
        config = self.config.security
        self.security = ClusterSecurity(
            config,
            ClusterLog(controller, self.clock),
            invention_key=load_invention_key(controller, keep=bool(config.mechanisms)),
            new_uuid=_new_uuid,
        )
        take_over_security_file(controller, self.security)
        if self._users or self._acls or self.security.mechanisms:
            await asyncio.to_thread(self.security.set_up, self._users, self._acls)
        tls = config.tls
        if tls is not None:
            self.tls = await asyncio.to_thread(ListenerTls, tls)
            self._tls_watcher = asyncio.get_running_loop().create_task(self.tls.watch())

    async def stop(self) -> None:
        """Answer or close everything, flush, unlock."""
        if self._tls_watcher is not None:
            self._tls_watcher.cancel()
            await asyncio.wait([self._tls_watcher])
        if self._housekeeper is not None:
            self._housekeeper.cancel()
            await asyncio.wait([self._housekeeper])
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
        return ",".join(f"{broker.host}:{broker.port}" for broker in self.brokers.values())

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
        return [node_id for node_id, broker in self.brokers.items() if broker.running]

    @property
    def controller_id(self) -> int:
        alive = self.alive()
        return alive[0] if alive else -1

    async def _listen(self, node_id: int) -> None:
        broker = self.brokers[node_id]
        await broker.listen(self.host, broker.port or self._ports[node_id])

    async def stop_broker(self, node_id: int) -> None:
        """An orderly stop: leadership moves first, then the listener closes."""
        broker = self.broker(node_id)
        self._move_away(node_id)
        await broker.stop()

    async def kill_broker(self, node_id: int) -> None:
        """A broker that is gone from one moment to the next."""
        self.broker(node_id).kill()
        self._move_away(node_id)

    async def start_broker(self, node_id: int) -> None:
        """Bring a broker back on its old port; partitions that prefer it move back to it."""
        if self.broker(node_id).running:
            raise CoterieError(f"broker {node_id} is running already")
        await self._listen(node_id)
        self._elect()

    async def pause_broker(self, node_id: int) -> None:
        self.broker(node_id).pause()

    async def resume_broker(self, node_id: int) -> None:
        self.broker(node_id).resume()

    # -- leadership -----------------------------------------------------------------------------------

    def _elect(self) -> None:
        """Every partition to its preferred leader if that is alive, else to one that is."""
        alive = self.alive()
        for partition in self._partitions.values():
            preferred = partition.metadata.preferred_leader
            if preferred in alive:
                self._lead(partition, preferred)
            elif partition.leader not in alive:
                self._lead(partition, alive[partition.index % len(alive)] if alive else -1)

    def _move_away(self, node_id: int) -> None:
        others = [each for each in self.alive() if each != node_id]
        for partition in self._partitions.values():
            if partition.leader == node_id:
                self._lead(partition, others[partition.index % len(others)] if others else -1)

    def _lead(self, partition: Partition, leader: int) -> None:
        """Make a broker the leader, which for `__consumer_offsets` makes it the coordinator."""
        before = partition.leader
        if before != leader:
            partition.metadata.leader = leader
            partition.metadata.leader_epoch += 1
        if partition.topic.name != CONSUMER_OFFSETS:
            return
        if before != leader and before in self.brokers:
            self.brokers[before].groups.resign(partition.index)
        if leader in self.brokers and not self.brokers[leader].groups.leads(partition.index):
            self.brokers[leader].groups.lead(partition)

    async def move_coordinator(self, group_id: str, to: int) -> None:
        """Make another broker the coordinator of a group, and of all that share its partition."""
        self.broker(to)
        partition = self.offsets_partition(group_id)
        partition.metadata.preferred_leader = to
        self._lead(partition, to)
        self.metadata.save()

    async def settled(self) -> None:
        """Wait until no coordinator loads any more."""
        for broker in self.brokers.values():
            await broker.groups.settled()

    # -- topics ---------------------------------------------------------------------------------------

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

    def create_topic(
        self,
        name: str,
        partitions: int,
        configs: dict[str, str],
        leaders: list[int] | None = None,
    ) -> TopicMetadata:
        """With leaders of the caller's choice, or of ours."""
        topic = self.metadata.add_topic(name, leaders or self._leaders(partitions), configs)
        self._open_partitions(topic, 0)
        return topic

    def create_partitions(
        self, topic: TopicMetadata, total: int, leaders: list[int] | None = None
    ) -> None:
        first = len(topic.partitions)
        self.metadata.add_partitions(topic, leaders or self._leaders(total - first))
        self._open_partitions(topic, first)

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
        config = log_config(topic)
        for index in range(len(topic.partitions)):
            self._partitions[topic.name, index].log.config = config

    def transaction_coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional id."""
        return self.transactions.partition_of(transactional_id).leader

    def _leaders(self, count: int) -> list[int]:
        """Preferred leaders of new partitions, in turn over the brokers that are alive."""
        alive = self.alive() or list(self._node_ids)
        start = len(self._partitions)
        return [alive[(start + i) % len(alive)] for i in range(count)]

    def _open_partitions(self, topic: TopicMetadata, first: int) -> None:
        config = log_config(topic)
        if topic.name == CONSUMER_OFFSETS:
            self.offsets_partitions = len(topic.partitions)
        for node_id, committer in self._committers.items():
            here = [
                index
                for index, each in enumerate(topic.partitions)
                if index >= first and each.home == node_id
            ]
            logs = committer.directory.create(
                [TopicPartition(topic.name, index) for index in here], config
            )
            for index, each in zip(here, logs, strict=True):
                each.config = config
                partition = Partition(topic, index, topic.partitions[index], each, committer)
                self._partitions[topic.name, index] = partition
                if partition.leader in self.brokers and self.brokers[partition.leader].running:
                    self._lead(partition, partition.leader)


def _new_uuid() -> Uuid:
    return Uuid(secrets.token_bytes(16))
