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
from collections.abc import Iterable, Mapping
from pathlib import Path

from coterie.addresses import address_text
from coterie.errors import CoterieError
from coterie.protocol.types import Uuid
from coterie.security.acls import AclBinding
from coterie.security.secrets import Secret
from coterie.server.broker import Broker
from coterie.server.clock import Clock, SystemClock
from coterie.server.connections.listeners import Listeners
from coterie.server.dispatch import served_apis
from coterie.server.group_service import GroupService
from coterie.server.metadata.brokers import BrokerRegistry
from coterie.server.metadata.client_quotas import ClientQuotas
from coterie.server.metadata.cluster_log import ClusterLog
from coterie.server.metadata.features import ClusterFeatures
from coterie.server.metadata.replicas import Election
from coterie.server.metadata.topics import ClusterMetadata
from coterie.server.partitions.committer import Committer
from coterie.server.partitions.housekeeping import keep_house
from coterie.server.partitions.leadership import Leadership
from coterie.server.partitions.table import PartitionTable
from coterie.server.quotas import MutationUsage
from coterie.server.requests.calls import BackgroundTasks
from coterie.server.security.cluster_security import (
    ClusterSecurity,
    load_invention_key,
    take_over_security_file,
)
from coterie.server.services import Services
from coterie.server.settings.brokers import BrokerSettings
from coterie.server.settings.cluster import ClusterSettings
from coterie.server.settings.config import ServerConfig
from coterie.server.settings.topics import acting_settings
from coterie.server.transactions.coordinator import TransactionCoordinator
from coterie.server.transactions.markers import TransactionMarkers
from coterie.storage.config import Durability
from coterie.storage.data_directory import DataDirectory
from coterie.storage.errors import StorageError
from coterie.storage.files import FileSystem, MemoryFileSystem, OsFileSystem

__all__ = ["Cluster"]

log = logging.getLogger("coterie.server")

_METADATA_FILE = "cluster.json"
_BROKER_DIRECTORY = re.compile(r"broker-(\d+)")


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
        self.registry: BrokerRegistry
        self.metadata: ClusterMetadata
        self.partitions: PartitionTable
        self.security: ClusterSecurity
        self.storage_error: StorageError | None = None
        self._leadership: Leadership
        self._transactions: TransactionCoordinator | None = None
        self._settings: dict[int, BrokerSettings] = {}
        self._groups: dict[int, GroupService] = {}
        self._root = root or Path("memory")
        self._fs: FileSystem = fs or (OsFileSystem() if root else MemoryFileSystem())
        self._node_ids = range(first_broker_id, first_broker_id + brokers)
        wanted = dict(zip(self._node_ids, [*ports, *[0] * brokers], strict=False))
        self.listeners = Listeners(self.config, self._node_ids, host, wanted)
        self._max_versions = dict(max_versions or {})
        self._committers: dict[int, Committer] = {}
        self._users = dict(users or {})
        self._acls = tuple(acls)
        self._background: list[asyncio.Task[None]] = []
        #: Set when storage broke: the process should end, since nothing can be acknowledged any more.
        self.broken = asyncio.Event()

    # -- life -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the directories, recover, listen, and take up leadership; all of it or nothing."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        self._check_directories()
        self._open_directories()
        controller = self._committers[self._node_ids[0]].directory
        self.metadata = ClusterMetadata(
            controller.load(_METADATA_FILE),
            new_uuid=_new_uuid,
            save=lambda state: controller.save(_METADATA_FILE, state),
        )
        self.registry = BrokerRegistry(self._node_ids, self.metadata)
        cluster_log = ClusterLog(controller, self.clock)
        features = ClusterFeatures(cluster_log)
        self.security = ClusterSecurity(
            self.config.security,
            cluster_log,
            self.clock,
            mechanisms=self.listeners.mechanisms,
            know_clients=self.listeners.know_clients,
            invention_key=load_invention_key(controller, keep=bool(self.listeners.mechanisms)),
            new_uuid=_new_uuid,
        )
        quotas = ClientQuotas(cluster_log)
        settings = ClusterSettings(self.config, cluster_log)
        cluster_log.load()
        await self._secure(controller)
        self._build(features, quotas, settings)
        ignored = sorted(set(self.config.others) - acting_settings())
        if ignored:
            log.info("settings that are accepted and have no effect here: %s", ", ".join(ignored))
        self.partitions.open_all()
        for broker in self.brokers.values():
            await broker.listen()
        self.metadata.unregistered.clear()
        self._leadership.brokers_returned()
        if self._transactions is not None:
            self._transactions.start()
        first = self.brokers[self._node_ids[0]]
        work = [keep_house(self._committers.values(), self.clock, lambda: first.config)]
        if self.security.tokens.enabled:
            work.append(self.security.tokens.keep_removing_expired())
        self._background = [asyncio.get_running_loop().create_task(each) for each in work]

    def _open_directories(self) -> None:
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

    def _build(
        self, features: ClusterFeatures, quotas: ClientQuotas, settings: ClusterSettings
    ) -> None:
        """Make the services of the cluster and of its brokers, and give each what it needs."""
        config, clock, metadata, registry = self.config, self.clock, self.metadata, self.registry
        own = self._settings = {each: BrokerSettings(settings, each) for each in self._node_ids}
        self.partitions = partitions = PartitionTable(
            config=config,
            metadata=metadata,
            brokers=registry,
            committers=self._committers,
            coordinators=self._groups,
            topic_defaults=lambda node_id: own[node_id].topic_defaults,
        )
        for node_id in self._node_ids:
            self._groups[node_id] = GroupService(
                settings, own[node_id], metadata, partitions, clock
            )
        self._leadership = Leadership(config, settings, metadata, registry, partitions)
        markers = TransactionMarkers(partitions, self._groups, clock)
        self._transactions = transactions = TransactionCoordinator(
            config=config,
            metadata=metadata,
            features=features,
            partitions=partitions,
            markers=markers,
            clock=clock,
        )
        mutations = MutationUsage(config.controller_quota_window)
        settings.on_broker_change = self._broker_settings_changed
        settings.on_group_change = self._group_settings_changed
        for node_id in self._node_ids:
            served = served_apis(self._max_versions)
            services = Services(
                node_id=node_id,
                versions={api: (row.lowest, row.highest) for api, row in served.items()},
                broker_settings=own[node_id],
                directory=self._committers[node_id].directory,
                groups=self._groups[node_id],
                tasks=BackgroundTasks(node_id),
                clock=clock,
                brokers=registry,
                features=features,
                leadership=self._leadership,
                markers=markers,
                metadata=metadata,
                mutations=mutations,
                partitions=partitions,
                quotas=quotas,
                security=self.security,
                settings=settings,
                transactions=transactions,
            )
            self.brokers[node_id] = Broker(services, served, self.listeners.endpoints(node_id))

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
        """Users, ACLs and certificates, before a client can connect. In threads: passwords are hashed."""
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
        if self._transactions is not None:
            self._transactions.stop()
        for groups in self._groups.values():
            groups.resign_all()
        for committer in self._committers.values():
            await committer.drain()
        for broker in self.brokers.values():
            await broker.stop()
        for committer in self._committers.values():
            await committer.close()
        self._committers.clear()
        self._groups.clear()
        self.brokers.clear()

    @property
    def bootstrap_servers(self) -> str:
        """The advertised addresses of the first listener."""
        return self.bootstrap_servers_of(next(iter(self.listeners)))

    def bootstrap_servers_of(self, listener: str) -> str:
        """The advertised addresses of a listener, as clients take them."""
        name = self.listeners[listener].name
        return ",".join(
            address_text(*self.registry.advertised(each)[name]) for each in self.brokers
        )

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

    async def stop_broker(self, node_id: int) -> None:
        """An orderly stop: leadership moves first, then the listener closes."""
        broker = self.broker(node_id)
        self._leadership.broker_left(node_id)
        await broker.stop()

    async def kill_broker(self, node_id: int) -> None:
        """A broker that is gone from one moment to the next."""
        self.broker(node_id).kill()
        self._leadership.broker_left(node_id)

    async def start_broker(self, node_id: int) -> None:
        """Bring a broker back on its old port; partitions that prefer it move back to it."""
        if self.broker(node_id).running:
            raise CoterieError(f"broker {node_id} is running already")
        await self.brokers[node_id].listen()
        self.metadata.unregistered.discard(node_id)
        self._leadership.brokers_returned()

    async def pause_broker(self, node_id: int) -> None:
        self.broker(node_id).pause()

    async def resume_broker(self, node_id: int) -> None:
        self.broker(node_id).resume()

    async def move_coordinator(self, group_id: str, to: int) -> None:
        """Make another broker the coordinator of a group, and of all that share its partition."""
        if not self.broker(to).running:
            raise CoterieError(f"broker {to} is not running, so it cannot coordinate a group")
        partition = self.partitions.offsets_partition(group_id)
        others = [each for each in partition.metadata.replicas if each != to]
        factor = len(partition.metadata.replicas)
        self._leadership.reassign(partition, [to, *others][:factor])
        self._leadership.elect(partition, Election.PREFERRED)
        self.metadata.save()

    async def settled(self) -> None:
        """Wait until no coordinator loads any more."""
        for groups in self._groups.values():
            await groups.settled()

    def _broker_settings_changed(self) -> None:
        """Let brokers and logs act on settings that have changed."""
        for settings in self._settings.values():
            settings.refresh()
        self.partitions.defaults_changed()

    def _group_settings_changed(self, group_id: str) -> None:
        for groups in self._groups.values():
            groups.settings_changed(group_id)


def _new_uuid() -> Uuid:
    return Uuid(secrets.token_bytes(16))
