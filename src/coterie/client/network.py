"""The brokers of a cluster as a client knows them: who there is, a connection to each, a deadline for all.

Connections are opened when first needed and replaced when they broke. A call of the admin client has one
deadline; everything below works within it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from coterie.client.connection import Connection, RequestLog
from coterie.client.settings import ClientSettings
from coterie.errors import BrokerUnreachable, CoterieError, DeadlineExceeded
from coterie.protocol.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from coterie.protocol.schema import Request, Response

__all__ = ["Deadline", "Network", "Node"]

R = TypeVar("R", bound=Response)


class Node(NamedTuple):
    """A broker's id and address."""

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"broker {self.node_id} ({self.host}:{self.port})"


class Deadline:
    """When a call has to be over, how often it was tried, and how long to wait before the next try."""

    def __init__(self, seconds: float, settings: ClientSettings) -> None:
        self._end = time.monotonic() + seconds
        self._seconds = seconds
        self._settings = settings
        self.tries = 0

    @property
    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    async def pause(self) -> bool:
        """Wait before another try, longer each time and never in step with others; False if time is up."""
        self.tries += 1
        most = self._settings.retry_backoff_max_ms
        wait = min(most, self._settings.retry_backoff_ms * 2 ** min(self.tries - 1, 10)) / 1000
        wait *= random.uniform(0.8, 1.2)  # noqa: S311 - jitter, not a secret
        if wait >= self.left:
            return False
        await asyncio.sleep(wait)
        return True

    def exceeded(self, what: str, cause: BaseException | str | None) -> DeadlineExceeded:
        tried = f"{self.tries + 1} tries" if self.tries else "one try"
        return DeadlineExceeded(
            f"{what}: no answer within {self._seconds:g} s and {tried}; the last cause: {cause}"
        )


class Network:
    """Connections to all brokers; knows nothing of groups."""

    def __init__(self, settings: ClientSettings, note: RequestLog | None = None) -> None:
        self.settings = settings
        self.nodes: dict[int, Node] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None
        self._note = note
        self._open: dict[tuple[str, int], Connection] = {}
        self._opening: dict[tuple[str, int], asyncio.Task[Connection]] = {}

    # -- connections ----------------------------------------------------------------------------------

    async def connect(self, host: str, port: int) -> Connection:
        """The connection to an address; several who ask at once share one attempt."""
        key = (host, port)
        connection = self._open.get(key)
        if connection is not None and not connection.closed:
            return connection
        task = self._opening.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._connect(key))
            self._opening[key] = task
            task.add_done_callback(lambda _: self._opening.pop(key, None))
        # Shielded: whoever stops waiting must not take the connection from the others.
        return await asyncio.shield(task)

    async def _connect(self, key: tuple[str, int]) -> Connection:
        settings = self.settings
        connection = await Connection.open(
            *key,
            client_id=settings.client_id,
            max_frame=settings.receive_message_max_bytes,
            note=self._note,
            timeout=settings.connection_setup_timeout_ms / 1000,
        )
        self._open[key] = connection
        return connection

    async def to(self, node: Node) -> Connection:
        return await self.connect(node.host, node.port)

    async def ask(
        self,
        node: Node,
        request: Request,
        expect: type[R],
        deadline: Deadline,
        version: int | None = None,
    ) -> R:
        """One request to one broker, within the call's deadline and the time a request may take."""
        seconds = min(deadline.left, self.settings.request_timeout_ms / 1000)
        try:
            async with asyncio.timeout(seconds):
                connection = await self.to(node)
                return await connection.ask(request, expect, version)
        except TimeoutError:
            raise BrokerUnreachable(f"{node} did not answer within {seconds:.3g} s") from None

    async def close(self) -> None:
        for task in list(self._opening.values()):
            task.cancel()
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        await asyncio.sleep(0)

    # -- who there is ---------------------------------------------------------------------------------

    async def refresh(self, deadline: Deadline, topics: tuple[str, ...] = ()) -> MetadataResponse:
        """Ask any broker for the brokers (and topics); the known ones first, then the bootstrap ones."""
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=each) for each in topics),
            allow_auto_topic_creation=False,
        )
        answer = await self.any(request, MetadataResponse, deadline)
        self.nodes = {
            each.node_id: Node(each.node_id, each.host, each.port) for each in answer.brokers
        }
        self.controller_id = answer.controller_id
        self.cluster_id = answer.cluster_id
        return answer

    async def brokers(self, deadline: Deadline) -> list[Node]:
        if not self.nodes:
            await self.refresh(deadline)
        return list(self.nodes.values())

    async def any(
        self,
        request: Request,
        expect: type[R],
        deadline: Deadline,
        *,
        check: Callable[[Connection], None] | None = None,
    ) -> R:
        """Ask whoever answers first of those that are connected, or can be connected to.

        `check` may refuse a broker, by raising what the caller is to hear.
        """
        last: CoterieError | None = None
        while True:
            for address in self._candidates():
                seconds = min(deadline.left, self.settings.request_timeout_ms / 1000)
                try:
                    async with asyncio.timeout(seconds):
                        connection = await self.connect(*address)
                        if check is not None:
                            check(connection)
                        return await connection.ask(request, expect)
                except BrokerUnreachable as error:
                    last = error
                except TimeoutError:
                    place = ":".join(map(str, address))
                    last = BrokerUnreachable(f"{place} did not answer in {seconds:.3g} s")
            if not await deadline.pause():
                raise deadline.exceeded("no broker can be reached", last)

    def _candidates(self) -> list[tuple[str, int]]:
        """Addresses to try: open connections, known brokers, bootstrap servers; each once."""
        connected = [key for key, each in self._open.items() if not each.closed]
        known = [(node.host, node.port) for node in self.nodes.values()]
        return list(dict.fromkeys([*connected, *known, *self.settings.addresses]))
