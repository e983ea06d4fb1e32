"""The brokers of a cluster, a connection to each, and the deadline of a call.

Connections are opened when first needed and replaced when they broke. A call of the admin client has one
deadline; everything below works within it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from coterie.addresses import address_text
from coterie.client.connection import Connection, RequestLog
from coterie.client.settings import ClientSettings
from coterie.errors import BrokerUnreachable, CoterieError, DeadlineExceeded, ProtocolError
from coterie.protocol.api import ApiKey
from coterie.protocol.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from coterie.protocol.schema import Request, Response

if TYPE_CHECKING:
    from coterie.client.security import ClientSecurity

__all__ = ["PATIENCE_SECONDS", "Deadline", "Network", "Node", "end_task", "together"]

R = TypeVar("R", bound=Response)
T = TypeVar("T")
Address = tuple[str, int]

#: How long a broker may be silent before another one is asked as well.
PATIENCE_SECONDS: Final = 1.0

#: The part of a call's time that coordinators may take if logs are read after them.
_COORDINATORS_SHARE: Final = 0.8

#: Less than this is no time for an answer.
_SHORTEST_TRY_SECONDS: Final = 0.01

_log = logging.getLogger("coterie.client")


class Node(NamedTuple):
    """A broker's id and address."""

    node_id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        return address_text(self.host, self.port)

    def __str__(self) -> str:
        return f"broker {self.node_id} ({self.address})"


class Deadline:
    """When a call has to be over, and how long to wait before another try."""

    def __init__(self, seconds: float, settings: ClientSettings) -> None:
        self._end = time.monotonic() + seconds
        self._seconds = seconds
        self._settings = settings

    @property
    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    @property
    def over(self) -> bool:
        """Whether there is no time left for an answer."""
        return self.left < _SHORTEST_TRY_SECONDS

    def within(self, seconds: float) -> Deadline:
        """The same, but no longer than this from now."""
        return Deadline(min(seconds, self.left), self._settings)

    def for_coordinators(self) -> Deadline:
        """Most of the time that is left: what coordinators do not use is for reading logs afterwards."""
        return self.within(self.left * _COORDINATORS_SHARE)

    def restarted(self) -> Deadline:
        """The same time again, from now."""
        return Deadline(self._seconds, self._settings)

    async def pause(self, tries: int) -> bool:
        """Wait before another try, longer each time and never in step with others; False if time is up."""
        most = self._settings.retry_backoff_max_ms
        wait = min(most, self._settings.retry_backoff_ms * 2 ** min(tries, 10)) / 1000
        wait *= random.uniform(0.8, 1.2)  # noqa: S311 - jitter, not a secret
        if wait >= self.left:
            # Whoever has a short deadline still gets a last try just before it.
            wait = self.left - 0.05
            if wait <= 0:
                return False
        await asyncio.sleep(wait)
        # On a busy machine sleep ends late; a try without time would only hide the true cause.
        return not self.over

    def exceeded(self, what: str, cause: object, tries: int) -> DeadlineExceeded:
        tried = f"{tries} tries" if tries > 1 else "one try"
        return DeadlineExceeded(
            f"{what}: no answer within {self._seconds:.3g} s and {tried}; the last cause: {cause}"
        )


class Network:
    """Connections to all brokers; knows nothing of groups."""

    def __init__(self, settings: ClientSettings, note: RequestLog | None = None) -> None:
        self.settings = settings
        self.nodes: dict[int, Node] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None
        #: Called with every Metadata response.
        self.on_metadata: list[Callable[[MetadataResponse], None]] = []
        self._note = note
        self._security: ClientSecurity | None = None
        if settings.security.protocol != "PLAINTEXT":
            from coterie.client.security import ClientSecurity

            self._security = ClientSecurity(settings.security)
        self._open: dict[Address, Connection] = {}
        self._opening: dict[Address, asyncio.Task[Connection]] = {}
        self._closed = False
        self._connected_once = False

    # -- connections ----------------------------------------------------------------------------------

    async def connect(self, host: str, port: int) -> Connection:
        """The connection to an address; several who ask at once share one attempt."""
        key = (host, port)
        self.check_open()
        connection = self._open.get(key)
        if connection is not None and not connection.closed:
            return connection
        task = self._opening.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._connect(key))
            self._opening[key] = task
            task.add_done_callback(lambda done: self._opened(key, done))
        # Shielded: a caller that stops waiting must not take the connection from the others.
        return await asyncio.shield(task)

    def _opened(self, key: Address, task: asyncio.Task[Connection]) -> None:
        self._opening.pop(key, None)
        # Read here, because no caller may be waiting for it any more.
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.info("no connection to %s: %s", address_text(*key), error)

    async def _connect(self, key: Address) -> Connection:
        settings = self.settings
        connection = await Connection.open(
            *key,
            client_id=settings.client_id,
            max_frame=settings.receive_message_max_bytes,
            note=self._note,
            timeout=settings.connection_setup_timeout_ms / 1000,
            security=self._security,
        )
        self._open[key] = connection
        self._connected_once = True
        return connection

    def check_open(self) -> None:
        if self._closed:
            raise BrokerUnreachable("the client is closed; use it inside its `with` block")

    async def to(self, node: Node, deadline: Deadline) -> Connection:
        """The connection to a broker, for callers that need the versions it serves."""
        try:
            async with asyncio.timeout(deadline.left):
                return await self.connect(node.host, node.port)
        except TimeoutError:
            raise BrokerUnreachable(f"{node} does not answer") from None

    async def ask(
        self,
        node: Node,
        request: Request,
        expect: type[R],
        deadline: Deadline,
        *,
        at_most: int = 32767,
    ) -> R:
        """One request to one broker, within the call's deadline and the time a request may take."""
        return await self._ask((node.host, node.port), request, expect, deadline, at_most=at_most)

    async def _ask(
        self,
        address: Address,
        request: Request,
        expect: type[R],
        deadline: Deadline,
        *,
        check: Callable[[Connection], None] | None = None,
        at_most: int = 32767,
    ) -> R:
        longest = self.settings.request_timeout_ms / 1000
        seconds = min(deadline.left, longest)
        try:
            async with asyncio.timeout(seconds):
                connection = await self.connect(*address)
                if check is not None:
                    check(connection)
                version = connection.highest(ApiKey(type(request).__key__), at_most=at_most)
                return await connection.ask(request, expect, version)
        except TimeoutError:
            place = ":".join(map(str, address))
            error = BrokerUnreachable(f"{place} did not answer within {seconds:.3g} s")
            if seconds == longest and address in self._open:
                # Not only this caller's patience has ended: the next one gets a new connection.
                self._open[address].close(error)
            raise error from None

    async def close(self) -> None:
        self._closed = True
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        if opening:
            await asyncio.wait(opening)
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        # One turn of the loop, in which the transports close their sockets.
        await asyncio.sleep(0)

    # -- brokers ---------------------------------------------------------------------------------

    async def refresh(
        self, deadline: Deadline, topics: tuple[str, ...] | None = ()
    ) -> MetadataResponse:
        """Ask any broker for the brokers, and for topics (None: all)."""
        asked = (
            None if topics is None else tuple(MetadataRequestTopic(name=each) for each in topics)
        )
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        tries = 0
        # A broker that has just started may know of none, itself included: that is no answer.
        while not (answer := await self.any(request, MetadataResponse, deadline)).brokers:
            tries += 1
            if not await deadline.pause(tries - 1):
                raise deadline.exceeded(
                    "the brokers", "a broker answered that there are none", tries
                )
        self.nodes = {
            each.node_id: Node(each.node_id, each.host, each.port) for each in answer.brokers
        }
        self.controller_id = answer.controller_id
        self.cluster_id = answer.cluster_id
        for learn in self.on_metadata:
            learn(answer)
        return answer

    async def any(
        self,
        request: Request,
        expect: type[R],
        deadline: Deadline,
        *,
        check: Callable[[Connection], None] | None = None,
        at_most: int = 32767,
    ) -> R:
        """Ask the first broker that answers, beginning with those that are connected.

        `check` may refuse a broker, by raising what the caller is to hear.
        """
        tries = 0
        while True:
            causes: list[CoterieError] = []
            calls = [
                self._ask(address, request, expect, deadline, check=check, at_most=at_most)
                for address in self._candidates()
            ]
            answer = await _first(calls, causes)
            if answer is not None:
                return answer
            tries += 1
            self._fail_at_once(causes)
            if not await deadline.pause(tries - 1):
                raise deadline.exceeded("no broker can be reached", _sentence(causes), tries)

    def _fail_at_once(self, causes: list[CoterieError]) -> None:
        """Waiting does not help against a wrong address; a cluster that was there may come back."""
        strangers = [each for each in causes if isinstance(each, ProtocolError)]
        if len(strangers) == len(causes) and strangers:
            raise strangers[0]
        if not self._connected_once and causes:
            raise BrokerUnreachable(f"no broker can be reached: {_sentence(causes)}")

    def _candidates(self) -> list[Address]:
        """Addresses to try: open connections, known brokers, bootstrap servers; each once."""
        connected = [key for key, each in self._open.items() if not each.closed]
        known = [(node.host, node.port) for node in self.nodes.values()]
        # The least busy first, so that one that hangs is asked once and not each time.
        connected.sort(key=lambda key: self._open[key].under_way)
        return list(dict.fromkeys([*connected, *known, *self.settings.addresses]))


async def _first(calls: list[Coroutine[Any, Any, R]], causes: list[CoterieError]) -> R | None:
    """The first answer. The next is asked when one has failed, or was silent for too long."""
    waiting = list(reversed(calls))
    tasks: set[asyncio.Task[R]] = set()
    done: set[asyncio.Task[R]] = set()
    try:
        while waiting or tasks:
            if waiting:
                tasks.add(asyncio.get_running_loop().create_task(waiting.pop()))
            done, tasks = await asyncio.wait(
                tasks,
                timeout=PATIENCE_SECONDS if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                try:
                    return task.result()
                except (BrokerUnreachable, ProtocolError) as error:
                    causes.append(error)
    finally:
        for call in waiting:
            call.close()
        for task in (*tasks, *done):
            await end_task(task)
    return None


async def end_task(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it has ended."""
    if task.cancel():  # else it has ended
        await asyncio.wait([task])
    if not task.cancelled():
        task.exception()


async def together(*work: Coroutine[Any, Any, T]) -> list[T]:
    """All at once; the first error cancels the rest and is raised."""
    if len(work) == 1:
        return [await work[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except ExceptionGroup as trouble:
        raise trouble.exceptions[0] from None
    return [task.result() for task in tasks]


def _sentence(causes: list[CoterieError]) -> str:
    return "; ".join(str(each) for each in causes)
