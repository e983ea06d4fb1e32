"""EmbeddedCluster: the embedded cluster in a thread of its own, for code that blocks; and its asyncio twin.

Both take the same arguments and have the same methods. Ports come from the system, so that tests can run
in parallel; without a directory nothing touches the disk.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypedDict, TypeVar, Unpack

from coterie.errors import CoterieError
from coterie.protocol.catalog import find_api
from coterie.security.acls import AclBinding
from coterie.security.secrets import Secret
from coterie.server.cluster import Cluster
from coterie.server.requests.faults import Fault
from coterie.server.settings.config import ServerConfig
from coterie.server.settings.security import STANDARD_AUTHORIZER
from coterie.testing.scenes import Scenes

__all__ = ["AsyncEmbeddedCluster", "EmbeddedCluster"]

P = ParamSpec("P")
T = TypeVar("T")

_MOST_REPLICAS = 3
#: Tests do not want to wait three seconds for a group's first member (Kafka's default).
_TEST_DEFAULTS = {"group.initial.rebalance.delay.ms": "0"}


class _Options(TypedDict, total=False):
    first_broker_id: int
    data_dir: Path | str | None
    config: Mapping[str, str | int | bool] | None
    max_versions: Mapping[str, int] | None
    host: str
    port: int
    users: Mapping[str, str] | None
    super_users: Iterable[str]
    acls: Iterable[AclBinding] | None


class AsyncEmbeddedCluster:
    """A cluster in the running event loop.

    `config` takes Kafka's setting names. `max_versions={"FindCoordinator": 3}` makes the brokers old ones.
    `users` (name to password) makes clients authenticate by SASL; `super_users` or `acls` turn ACLs on.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        first_broker_id: int = 1,
        data_dir: Path | str | None = None,
        config: Mapping[str, str | int | bool] | None = None,
        max_versions: Mapping[str, int] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        users: Mapping[str, str] | None = None,
        super_users: Iterable[str] = (),
        acls: Iterable[AclBinding] | None = None,
    ) -> None:
        settings = {name: str(value) for name, value in (config or {}).items()}
        # Topics survive a killed broker, unless a test asks for fewer replicas.
        if brokers > 1:
            replicas = min(brokers, _MOST_REPLICAS)
            settings.setdefault("default.replication.factor", str(replicas))
        if users:
            settings.setdefault("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512")
        super_users = list(super_users)
        if super_users or acls is not None:
            settings.setdefault("authorizer.class.name", STANDARD_AUTHORIZER)
            settings.setdefault("super.users", ";".join(super_users))
        self._users = {name: Secret(password) for name, password in (users or {}).items()}
        self._acls = tuple(acls or ())
        self._brokers = brokers
        self._first_broker_id = first_broker_id
        self._root = None if data_dir is None else Path(data_dir)
        self._config = ServerConfig.from_properties(_TEST_DEFAULTS | settings)
        self._max_versions = dict(max_versions or {})
        self._host = host
        self._ports = [port + i for i in range(brokers)] if port else []
        self._cluster: Cluster | None = None
        self._scenes: Scenes | None = None

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None:
            raise CoterieError("the cluster is not running; use it inside its `with` block")
        return self._cluster

    @property
    def bootstrap_servers(self) -> str:
        """The advertised addresses of the first listener."""
        return self.cluster.bootstrap_servers

    def bootstrap_servers_of(self, listener: str) -> str:
        """The advertised addresses of a listener, by its name."""
        return self.cluster.bootstrap_servers_of(listener)

    async def start(self) -> Self:
        cluster = Cluster(
            brokers=self._brokers,
            first_broker_id=self._first_broker_id,
            root=self._root,
            config=self._config,
            host=self._host,
            ports=self._ports,
            max_versions=self._max_versions,
            users=self._users,
            acls=self._acls,
        )
        await cluster.start()
        self._cluster = cluster
        return self

    async def stop(self) -> None:
        scenes, self._scenes = self._scenes, None
        if scenes is not None:
            await scenes.end()
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            await cluster.stop()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        replication_factor: int | None = None,
    ) -> None:
        """Create a topic; without a replication factor on all brokers, three at most."""
        cluster = self.cluster
        if name in cluster.metadata:
            raise CoterieError(f"there is a topic {name!r} already")
        if replication_factor is not None and replication_factor not in range(
            1, len(cluster.registry.registered) + 1
        ):
            raise CoterieError(
                f"topic {name!r} cannot have {replication_factor} replicas on "
                f"{len(cluster.registry.registered)} brokers"
            )
        cluster.partitions.create_topic(
            name, partitions, dict(configs or {}), replication_factor=replication_factor
        )

    async def stop_broker(self, node_id: int) -> None:
        """An orderly stop; leadership moves to the others."""
        await self.cluster.stop_broker(node_id)

    async def start_broker(self, node_id: int) -> None:
        """Back on the same port; its partitions move back to it."""
        await self.cluster.start_broker(node_id)

    async def kill_broker(self, node_id: int) -> None:
        """Gone without a word; connections are reset."""
        await self.cluster.kill_broker(node_id)

    async def pause_broker(self, node_id: int) -> None:
        """It accepts connections and hears nothing, as after SIGSTOP."""
        await self.cluster.pause_broker(node_id)

    async def resume_broker(self, node_id: int) -> None:
        await self.cluster.resume_broker(node_id)

    async def move_coordinator(self, group_id: str, to: int) -> None:
        await self.cluster.move_coordinator(group_id, to)

    async def coordinator_of(self, group_id: str) -> int:
        """The node id of a group's coordinator."""
        return self.cluster.partitions.offsets_partition(group_id).leader

    async def inject(
        self,
        api: str,
        *,
        broker: int | None = None,
        delay_ms: int = 0,
        error_code: int | None = None,
        drop: bool = False,
        close: bool = False,
        times: int | None = 1,
        match: str = "",
    ) -> None:
        """Make an API misbehave on one broker or on all: be slow, answer an error, never answer, hang up.

        The next `times` requests are struck (None: all), those only whose printed form contains `match`.
        """
        nodes = self.cluster.brokers if broker is None else [broker]
        for node_id in nodes:
            fault = Fault(delay_ms, error_code, drop, close, times, match)
            self.cluster.broker(node_id).faults.add(find_api(api), fault)

    async def clear_faults(self) -> None:
        for broker in self.cluster.brokers.values():
            broker.faults.clear()

    async def requests(self, api: str) -> int:
        """How many requests of an API all brokers have received: for tests that count."""
        key = find_api(api)
        return sum(broker.requests[key] for broker in self.cluster.brokers.values())

    @property
    def scenes(self) -> Scenes:
        """Groups in every state, made to order."""
        if self._scenes is None:
            self._scenes = Scenes(self.cluster)
        return self._scenes


def _blocking(
    method: Callable[Concatenate[AsyncEmbeddedCluster, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[EmbeddedCluster, P], T]:
    """The method of the twin with the same arguments, which waits for the result."""

    @functools.wraps(method)
    def wait(self: EmbeddedCluster, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._twin, *args, **kwargs))

    return wait


class EmbeddedCluster:
    """The same for code that blocks: the cluster runs in a thread of its own."""

    def __init__(self, brokers: int = 1, **options: Unpack[_Options]) -> None:
        self._twin = AsyncEmbeddedCluster(brokers, **options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="coterie-cluster", daemon=True
        )
        self._thread.start()
        try:
            self._run(self._twin.start())
        except BaseException:
            self._end_loop()
            raise
        return self

    def stop(self) -> None:
        if self._loop is None:
            return
        try:
            self._run(self._twin.stop())
        finally:
            self._end_loop()

    def _end_loop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise CoterieError("the cluster is not running; use it inside its `with` block")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """The advertised addresses of the first listener."""
        return self._twin.bootstrap_servers

    def bootstrap_servers_of(self, listener: str) -> str:
        """The advertised addresses of a listener, by its name."""
        return self._twin.bootstrap_servers_of(listener)

    create_topic = _blocking(AsyncEmbeddedCluster.create_topic)
    stop_broker = _blocking(AsyncEmbeddedCluster.stop_broker)
    start_broker = _blocking(AsyncEmbeddedCluster.start_broker)
    kill_broker = _blocking(AsyncEmbeddedCluster.kill_broker)
    pause_broker = _blocking(AsyncEmbeddedCluster.pause_broker)
    resume_broker = _blocking(AsyncEmbeddedCluster.resume_broker)
    move_coordinator = _blocking(AsyncEmbeddedCluster.move_coordinator)
    coordinator_of = _blocking(AsyncEmbeddedCluster.coordinator_of)
    inject = _blocking(AsyncEmbeddedCluster.inject)
    clear_faults = _blocking(AsyncEmbeddedCluster.clear_faults)
    requests = _blocking(AsyncEmbeddedCluster.requests)

    def scene(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Set a scene by its name in coterie.testing.scenes.Scenes: `scene("stable_group", "orders-app")`."""

        async def play() -> Any:
            return await getattr(self._twin.scenes, name)(*arguments, **options)

        return self._run(play())
