"""The services that the handlers of one broker use, each of them an object of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.protocol.api import ApiKey
from coterie.server.clock import Clock
from coterie.server.group_service import GroupService
from coterie.server.metadata.brokers import BrokerRegistry
from coterie.server.metadata.client_quotas import ClientQuotas
from coterie.server.metadata.features import ClusterFeatures
from coterie.server.metadata.topics import ClusterMetadata
from coterie.server.partitions.leadership import Leadership
from coterie.server.partitions.table import PartitionTable
from coterie.server.quotas import MutationUsage
from coterie.server.requests.calls import BackgroundTasks
from coterie.server.security.cluster_security import ClusterSecurity
from coterie.server.settings.brokers import BrokerSettings
from coterie.server.settings.cluster import ClusterSettings
from coterie.server.settings.config import ServerConfig
from coterie.server.transactions.coordinator import TransactionCoordinator
from coterie.server.transactions.markers import TransactionMarkers
from coterie.storage.data_directory import DataDirectory

__all__ = ["Services"]


@dataclass(frozen=True, slots=True)
class Services:
    """What a handler may use. The first group belongs to one broker, the second to all of a cluster."""

    node_id: int
    #: The versions that the broker serves, by API.
    versions: Mapping[ApiKey, tuple[int, int]]
    broker_settings: BrokerSettings
    directory: DataDirectory
    groups: GroupService
    tasks: BackgroundTasks

    clock: Clock
    brokers: BrokerRegistry
    features: ClusterFeatures
    leadership: Leadership
    markers: TransactionMarkers
    metadata: ClusterMetadata
    mutations: MutationUsage
    partitions: PartitionTable
    quotas: ClientQuotas
    security: ClusterSecurity
    settings: ClusterSettings
    transactions: TransactionCoordinator

    @property
    def config(self) -> ServerConfig:
        """The present settings of the broker."""
        return self.broker_settings.config
