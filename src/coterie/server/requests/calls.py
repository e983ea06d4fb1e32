"""One request on its way through a broker, and the ways in which it can be answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from coterie.protocol.api import ApiKey
from coterie.protocol.codec import encode
from coterie.protocol.frames import frame_response
from coterie.protocol.messages.headers import RequestHeader
from coterie.protocol.messages.membership import JoinGroupResponse
from coterie.protocol.schema import Request, Response
from coterie.storage.errors import StorageError

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.connections.connection import Connection
    from coterie.server.connections.slots import Slot
    from coterie.server.partitions.committer import CommitRound
    from coterie.server.quotas.throttling import Meter
    from coterie.server.security.access_rules import Access
    from coterie.server.security.guard import Guard

__all__ = ["Answer", "Call", "Handler"]

R = TypeVar("R", bound=Response)


class Call:
    """A request, who sent it, and the slot that its answer belongs to.

    A handler returns the response, or None and answers later by `answer` or `answer_when_durable`;
    exactly one answer per call. As an object it is its own identity: the coordinator parks calls by it.
    """

    __slots__ = ("api", "connection", "guard", "header", "meter", "request", "slot", "version")

    def __init__(
        self,
        connection: Connection,
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
        #: What an authorizer has to say about the answer; None where there is no security.
        self.guard: Guard | None = None
        #: Counts the call for client quotas; None where there are none, and after it has counted.
        self.meter: Meter | None = None

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""

    @property
    def client_host(self) -> str:
        return self.connection.client_host

    def finish(self, response: Response) -> Response:
        """A response as its receiver may see it."""
        return response if self.guard is None else self.guard.finish(response)

    def encode(self, response: Response) -> bytes:
        """A response's frame, for the receiver's eyes."""
        if self.guard is not None:
            response = self.guard.finish(response)
        return self.encode_finished(self.charge(response))

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
        if isinstance(response, JoinGroupResponse) and response.error_code and self.version >= 7:
            # A join that failed has no protocol; from version 7 on that can be said (KIP-559).
            response = msgspec.structs.replace(response, protocol_name=None)
        return self.frame(encode(response, self.version))

    def frame(self, body: bytes) -> bytes:
        """An answer whose body is bytes already."""
        correlation_id = self.header.correlation_id
        return frame_response(self.api, body, self.version, correlation_id=correlation_id)

    def answer(self, response: Response) -> None:
        """Answer now; the bytes leave when all earlier requests of the connection are answered."""
        self.slot.data = self.encode(response)
        if self.guard is not None:
            self.guard.record(response)
        self.connection.answered()

    def no_answer(self) -> None:
        """A request that wants none: Produce with acks 0."""
        if self.meter is not None:
            self.meter.charge_unanswered()
        self.slot.data = b""
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
            self.slot.data = data
            if self.guard is not None:
                self.guard.record(response)
            self.connection.answered()

        round_.when_durable(done)


#: Given the request once more, typed as the API's own: the dispatch table pairs the two.
Handler = Callable[["Broker", Call, Any], Response | None]


class Answer(NamedTuple):
    """How one API is served: the lowest and highest version, by what, and who may ask."""

    lowest: int
    highest: int
    request: type[Request]
    handler: Handler
    access: Access
