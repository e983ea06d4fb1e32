"""One request on its way through a broker, and the ways in which it can be answered.

Each request gets a slot when it arrives. Answers fill slots in any order and leave in the order of the
slots: Kafka promises that order, and clients match answers to requests by it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol, TypeVar

from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.codec import encode
from coterie.protocol.frames import frame_response
from coterie.protocol.messages.headers import RequestHeader
from coterie.protocol.schema import Request, Response
from coterie.security.acls import Operation, ResourceType
from coterie.server.partitions.committer import CommitRound
from coterie.server.requests import observer
from coterie.server.requests.refusals import refusal
from coterie.storage.errors import StorageError

__all__ = [
    "BackgroundTasks",
    "Call",
    "Client",
    "Meter",
    "Permissions",
    "Slot",
    "Slots",
]


class Slot:
    """The place of one answer; None until it is there. A request without an answer fills it with b""."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data: bytes | None = None

    def fill(self, data: bytes) -> None:
        if observer.current is not None:
            observer.current.answer(self, data)
        self.data = data


class Slots:
    """The slots of one connection, oldest first."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[Slot] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def open(self) -> Slot:
        slot = Slot()
        self._waiting.append(slot)
        return slot

    def take_ready(self) -> bytes:
        """The bytes that may leave now, joined."""
        waiting = self._waiting
        ready: list[bytes] = []
        while waiting and (data := waiting[0].data) is not None:
            ready.append(data)
            waiting.popleft()
        return ready[0] if len(ready) == 1 else b"".join(ready)


class Client(Protocol):
    """The connection that a request came by."""

    principal: str
    address: str
    #: The address as Java prints it.
    client_host: str

    @property
    def listener_name(self) -> str:
        """The listener that the client connected to; answers name brokers by its addresses."""

    @property
    def may_manage_tokens(self) -> bool:
        """Whether the client authenticated, and not by a delegation token."""

    def answered(self) -> None:
        """A slot was filled."""

    def mute(self, time_ms: int, /) -> None:
        """Read nothing more for a time; answers that are due leave (KIP-219)."""

    def close(self, reason: str, /) -> None: ...


class Permissions(Protocol):
    """What an authorizer decided about one call."""

    #: Kind and names of what a request changes, for the audit log; None if it changes nothing.
    changes: tuple[str, Iterable[str]] | None

    def finish(self, response: Response, /) -> Response:
        """The response as the caller may see it."""

    def record(self, response: Response, /) -> None:
        """Write a change into the audit log."""

    def allowed(
        self, operation: Operation, resource: ResourceType, names: Iterable[str], /
    ) -> set[str]: ...

    def operations(self, resource: ResourceType, name: str, /, *, all_of_them: int) -> int: ...


R = TypeVar("R", bound=Response)


class Meter(Protocol):
    """Counts one call for the quotas of its client."""

    def parked(self) -> None:
        """The handler has returned and the answer comes later."""

    def charge(self, response: R, /) -> R:
        """Count the call and its response; the response with its throttle time."""

    def charge_unanswered(self) -> None:
        """Count a request that wants no answer."""

    def may_change(self, partitions: int, /, *, strict: bool, throttles: bool) -> bool:
        """Count partitions that are created or deleted; False if the quota refuses them."""

    def most_bytes(self, wanted: int, /) -> int:
        """The bytes that a Fetch may return."""


class Call:
    """A request, who sent it, and the slot that its answer belongs to.

    A handler returns the response, or None and answers later by `answer` or `answer_when_durable`;
    exactly one answer per call. As an object it is its own identity: the coordinator parks calls by it.
    """

    __slots__ = ("api", "connection", "guard", "header", "meter", "request", "slot", "version")

    def __init__(
        self,
        connection: Client,
        api: ApiKey,
        header: RequestHeader,
        request: Request,
        slot: Slot,
    ) -> None:
        self.connection = connection
        self.api = api
        self.header = header
        self.version = header.request_api_version
        self.request = request
        self.slot = slot
        #: The decisions of the authorizer; None where there is no security.
        self.guard: Permissions | None = None
        #: Counts the call for client quotas; None where there are none, and after it has counted.
        self.meter: Meter | None = None

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""

    @property
    def client_host(self) -> str:
        return self.connection.client_host

    def finish(self, response: Response) -> Response:
        """A response as the caller may see it."""
        return response if self.guard is None else self.guard.finish(response)

    def encode(self, response: Response) -> bytes:
        """The frame of a response, as the caller may see it."""
        if self.guard is not None:
            response = self.guard.finish(response)
        if self.meter is not None:
            response = self.charge(response)
        return self.encode_finished(response)

    def charge(self, response: R) -> R:
        """A response with its throttle time; the call has been counted for its client's quotas then."""
        meter, self.meter = self.meter, None
        return response if meter is None else meter.charge(response)

    def may_change(self, partitions: int, *, strict_from: int = 0, throttles: bool = True) -> bool:
        """Whether the client's quota allows it to create or delete so many partitions (KIP-599).

        Before version `strict_from` nothing is refused, since clients do not know the error.
        """
        return self.meter is None or self.meter.may_change(
            partitions, strict=self.version >= strict_from, throttles=throttles
        )

    def encode_finished(self, response: Response) -> bytes:
        return self.frame(encode(response.for_version(self.version), self.version))

    def frame(self, body: bytes) -> bytes:
        """An answer whose body is bytes already."""
        correlation_id = self.header.correlation_id
        return frame_response(self.api, body, self.version, correlation_id=correlation_id)

    def refusal(self, error: ErrorCode) -> Response:
        """The response that says an error for everything the request named."""
        return refusal(self.request, self.api.response, self.version, error)

    def answer(self, response: Response) -> None:
        """Answer now; the bytes leave when all earlier requests of the connection are answered."""
        data = self.encode(response)
        if self.guard is not None:
            self.guard.record(response)
        self.answer_encoded(data)

    def no_answer(self) -> None:
        """A request that wants none: Produce with acks 0."""
        if self.meter is not None:
            self.meter.charge_unanswered()
        self.answer_encoded(b"")

    def answer_encoded(self, data: bytes) -> None:
        """Answer a request that changes nothing with a frame."""
        self.slot.fill(data)
        self.connection.answered()

    def answer_when_durable(
        self, round_: CommitRound, response: Response, failed: Callable[[StorageError], Response]
    ) -> None:
        """Answer when a round is on disk, or with what `failed` makes of the reason it never will be.

        The response is encoded now, so that the end of a round only hands out bytes.
        """
        data = self.encode(response)

        def done(error: StorageError | None) -> None:
            if error is not None:
                self.answer(failed(error))
                return
            if self.guard is not None:
                self.guard.record(response)
            self.answer_encoded(data)

        round_.when_durable(done)


log = logging.getLogger("coterie.server")


class BackgroundTasks:
    """The tasks of one broker. asyncio keeps no reference to its tasks, so they are kept here."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._tasks: set[asyncio.Task[None]] = set()

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something concurrently."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def run(self, work: Coroutine[Any, Any, None], call: Call) -> None:
        """Run a handler concurrently; if it fails, its call is answered with an error."""

        async def guarded() -> None:
            try:
                await work
            except Exception:  # one request that fails must not leave its client without an answer
                log.exception("broker %d failed on %s", self._node_id, call.api.name)
                call.answer(call.refusal(ErrorCode.UNKNOWN_SERVER_ERROR))

        self.keep(guarded())
