"""The brokers of a cluster: which are registered, which run, and the addresses of their listeners."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from coterie.server.metadata.topics import ClusterMetadata

__all__ = ["Addresses", "BrokerRegistry"]

#: Host and port by the name of the listener.
Addresses = Mapping[str, tuple[str, int]]


class BrokerRegistry:
    """All brokers of one cluster. They register their addresses here when they start."""

    def __init__(self, node_ids: Sequence[int], metadata: ClusterMetadata) -> None:
        #: All brokers, also those that are down.
        self.node_ids = node_ids
        self._metadata = metadata
        self._running: set[int] = set()
        # The addresses of a broker that is down are kept: it comes back on the same ports.
        self._bound: dict[int, Addresses] = {}
        self._advertised: dict[int, Addresses] = {}

    def started(self, node_id: int, bound: Addresses, advertised: Addresses) -> None:
        self._running.add(node_id)
        self._bound[node_id] = bound
        self._advertised[node_id] = advertised

    def stopped(self, node_id: int) -> None:
        self._running.discard(node_id)

    def is_running(self, node_id: int) -> bool:
        return node_id in self._running

    def is_alive(self, node_id: int) -> bool:
        """Whether a broker runs and is registered."""
        return node_id in self._running and node_id not in self._metadata.unregistered

    def alive(self) -> list[int]:
        """Brokers that run and are registered."""
        running, unregistered = self._running, self._metadata.unregistered
        return [each for each in self.node_ids if each in running and each not in unregistered]

    @property
    def registered(self) -> list[int]:
        """Brokers that can have replicas: all but those that were unregistered while down."""
        return [each for each in self.node_ids if each not in self._metadata.unregistered]

    @property
    def controller_id(self) -> int:
        """The first broker that is alive, or -1."""
        return next(iter(self.alive()), -1)

    def bound(self, node_id: int) -> Addresses:
        """The addresses that the sockets of a broker are bound to."""
        return self._bound[node_id]

    def advertised(self, node_id: int) -> Addresses:
        """The addresses that clients connect to."""
        return self._advertised[node_id]

    def nodes(self, node_ids: Iterable[int], listener: str) -> list[tuple[int, str, int]]:
        """Node id, host and port of brokers, for clients of a listener."""
        return [self.node(each, listener) for each in node_ids]

    def node(self, node_id: int, listener: str) -> tuple[int, str, int]:
        """The same of one broker."""
        host, port = self._advertised[node_id][listener]
        return node_id, host, port
