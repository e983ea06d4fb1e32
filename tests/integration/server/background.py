"""A cluster that runs beside the test: its event loop has a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from coterie.coordinator.config import GroupConfig
from coterie.server.cluster import Cluster
from coterie.server.settings.config import ServerConfig
from coterie.storage.config import Durability

__all__ = ["BackgroundCluster"]

T = TypeVar("T")


class BackgroundCluster:
    """Started by `with`. In memory, or with a directory that outlives it."""

    def __init__(
        self, brokers: int = 1, root: Path | None = None, config: ServerConfig | None = None
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cluster", daemon=True)
        self._config = config or ServerConfig(
            durability=Durability.OS, group=GroupConfig(initial_rebalance_delay_ms=0)
        )
        self._brokers = brokers
        self._root = root
        self.cluster: Cluster

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the cluster's loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def ask(self, question: Callable[[Cluster], T]) -> T:
        """Call a function in the cluster's loop."""

        async def asked() -> T:
            return question(self.cluster)

        return self.run(asked())

    @property
    def bootstrap_servers(self) -> str:
        return self.cluster.bootstrap_servers

    def address(self, node_id: int = 1) -> tuple[str, int]:
        broker = self.cluster.brokers[node_id]
        return broker.address

    def leaders(self, topic: str) -> list[int]:
        """Who leads the partitions of a topic."""

        def partitions(cluster: Cluster) -> list[int]:
            metadata = cluster.metadata.topic(topic)
            return [each.leader for each in metadata.partitions] if metadata else []

        return self.ask(partitions)

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self._start())
        return self

    async def _start(self) -> None:
        self.cluster = Cluster(brokers=self._brokers, root=self._root, config=self._config)
        await self.cluster.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.run(self.cluster.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()
