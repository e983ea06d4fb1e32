"""One connection to one broker: many requests under way, answers in order, safe to cancel.

A call that is cancelled leaves its place in the row: its answer is read and dropped when it comes, so the
connection stays in step. What breaks the protocol ends the connection and all calls on it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

from coterie.addresses import address_text
from coterie.error_codes import ErrorCode
from coterie.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    CoterieError,
    ProtocolError,
    UnsupportedVersion,
)
from coterie.protocol.api import ApiKey
from coterie.protocol.frames import InFlight, ReceiveBuffer
from coterie.protocol.messages.session import ApiVersionsRequest, ApiVersionsResponse
from coterie.protocol.schema import Request, Response

if TYPE_CHECKING:
    from coterie.client.login import Login
    from coterie.client.security import ClientSecurity

__all__ = ["Connection", "RequestLog", "RequestNote"]

R = TypeVar("R", bound=Response)

#: No broker means more than this; one that says so is not believed.
_LONGEST_THROTTLE_SECONDS: Final = 60.0

_log = logging.getLogger("coterie.client")


class RequestNote(NamedTuple):
    """One request and its response, for the hook: counting, timing, tracing."""

    api: str
    version: int
    broker: str
    sent_bytes: int
    received_bytes: int
    milliseconds: float


RequestLog = Callable[[RequestNote], None]


class _Waiting(NamedTuple):
    answer: asyncio.Future[Response]
    request: Request
    version: int
    sent_bytes: int
    began: float


class Connection(asyncio.BufferedProtocol):
    """Open one with `open`; it is of no more use once `closed`."""

    def __init__(
        self, address: str, client_id: str, max_frame: int, note: RequestLog | None
    ) -> None:
        self.address = address
        self.versions: dict[int, tuple[int, int]] = {}
        self._in_flight = InFlight(client_id)
        self._frames = ReceiveBuffer(max_frame)
        self._note = note
        self._waiting: deque[_Waiting] = deque()
        self._transport: asyncio.Transport | None = None
        self._end: CoterieError | None = None
        self._login: Login | None = None
        #: Whether anything but ApiVersions was answered, which is all that a stranger gets.
        self._welcome = False
        #: A broker over its quota answers at once and asks us to wait (KIP-219); we do.
        self._quiet_until = 0.0

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        max_frame: int,
        note: RequestLog | None,
        timeout: float,
        security: ClientSecurity | None = None,
    ) -> Connection:
        """Connect, learn which versions the broker serves, and say who we are."""
        address = address_text(host, port)
        loop = asyncio.get_running_loop()
        protocol = cls(address, client_id, max_frame, note)
        try:
            async with asyncio.timeout(timeout):
                context = None if security is None else await security.context()
                name = None if context is None else host
                await loop.create_connection(
                    lambda: protocol, host, port, ssl=context, server_hostname=name
                )
                await protocol._learn_versions()
                if security is not None and security.uses_sasl:
                    await protocol._authenticate(security)
        except BaseException as error:  # noqa: BLE001 - all are raised again, in better words
            protocol.close()
            encrypted = security is not None and security.uses_tls
            raise _explain(error, address, timeout, encrypted=encrypted) from None
        return protocol

    async def _learn_versions(self) -> None:
        """Every broker understands version 0, whose response has all that is needed."""
        answer = await self.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
        if answer.error_code:
            raise BrokerUnreachable(f"{self.address}: {ErrorCode.of(answer.error_code).message}")
        self.versions = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}

    async def _authenticate(self, security: ClientSecurity) -> None:
        from coterie.client.login import Login

        login = Login(self, security)
        await login.authenticate()
        self._login = login

    @property
    def closed(self) -> bool:
        return self._end is not None

    def highest(self, api: ApiKey, *, at_most: int = 32767) -> int:
        """The newest version of an API that both sides speak."""
        lowest, highest = self.versions.get(api, (0, -1))
        ours = api.versions
        best = min(highest, ours.highest, at_most)
        if best < max(lowest, ours.lowest):
            raise UnsupportedVersion(
                f"broker {self.address} serves {api.api_name} {_spell(lowest, highest)}, "
                f"and {_spell(ours.lowest, min(ours.highest, at_most))} is needed"
            )
        return best

    @property
    def under_way(self) -> int:
        """How many requests wait for their answer."""
        return len(self._waiting)

    async def ask(self, request: Request, expect: type[R], version: int | None = None) -> R:
        """Send a request and wait for its answer."""
        if self._login is not None and self._login.due:
            await self._login.renew()
        return await self.send(request, expect, version)

    async def send(self, request: Request, expect: type[R], version: int | None = None) -> R:
        """The same, also while the connection is not authenticated."""
        quiet = self._quiet_until - time.monotonic()
        if quiet > 0:
            await asyncio.sleep(quiet)
        if self._end is not None or self._transport is None:
            raise BrokerUnreachable(f"{self.address}: {self._end or 'not connected'}")
        if version is None:
            version = self.highest(ApiKey(type(request).__key__))
        _, data = self._in_flight.send(request, version)
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(answer, request, version, len(data), time.perf_counter()))
        self._transport.write(data)
        return cast("R", await answer)

    # -- asyncio's side -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.received(nbytes):
                self._receive(frame)
            if self._frames.error is not None:
                raise self._frames.error
        except ProtocolError as error:
            self.close(error)

    def _receive(self, frame: bytes | memoryview) -> None:
        # Records stay where they are: as slices of a view they are not copied.
        fetched = self._waiting and type(self._waiting[0].request).__key__ == ApiKey.FETCH
        _, response = self._in_flight.receive(memoryview(frame) if fetched else bytes(frame))
        waiting = self._waiting.popleft()
        self._welcome = self._welcome or not isinstance(waiting.request, ApiVersionsRequest)
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self._quiet_until = time.monotonic() + min(
                throttle_ms / 1000, _LONGEST_THROTTLE_SECONDS
            )
        if self._note is not None:
            self._tell(self._note, waiting, len(frame))
        if not waiting.answer.done():
            waiting.answer.set_result(response)

    def _tell(self, note: RequestLog, waiting: _Waiting, received: int) -> None:
        api = ApiKey(type(waiting.request).__key__)
        took = (time.perf_counter() - waiting.began) * 1000
        about = RequestNote(
            api.api_name, waiting.version, self.address, waiting.sent_bytes, received, took
        )
        try:
            note(about)
        except Exception:  # noqa: BLE001 - a failing hook must not break the client
            _log.exception("the hook for requests failed")

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, ssl.SSLError):
            self.close(_explain_tls(exc, self.address))
            return
        why = getattr(exc, "strerror", None) or "the broker closed the connection"
        if self.versions and not self._welcome:
            why += "; if it wants SASL, set security.protocol and sasl.mechanism"
        self.close(BrokerUnreachable(f"{self.address}: {why}"))

    def close(self, reason: CoterieError | None = None) -> None:
        """End the connection; calls under way fail with the reason."""
        if self._end is None:
            self._end = reason or BrokerUnreachable(f"{self.address}: the client was closed")
        if self._transport is not None:
            if self._transport.get_extra_info("sslcontext") is None:
                self._transport.close()
            else:
                # To close in order would mean to wait for the broker's goodbye.
                self._transport.abort()
            self._transport = None
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if not each.answer.done():
                each.answer.set_exception(self._end)


def _explain(
    error: BaseException, address: str, timeout: float, *, encrypted: bool
) -> BaseException:
    """Why there is no connection, in one sentence that says what to look at."""
    if isinstance(error, ssl.SSLError):
        return _explain_tls(error, address)
    if isinstance(error, ProtocolError):
        return ProtocolError(f"{address} does not speak Kafka's protocol, check the port: {error}")
    if isinstance(error, (BrokerUnreachable, ConnectionResetError, ConnectionAbortedError)):
        return BrokerUnreachable(
            f"{address} hung up during the TLS handshake; check that the port speaks TLS "
            "(security.protocol), and ssl.keystore.location if the broker wants a certificate"
            if encrypted
            else f"{address} hung up before it said which versions it serves; "
            "check that the port is a Kafka listener and needs no TLS"
        )
    if not isinstance(error, OSError):
        return error
    for kind, text in _CAUSES.items():
        if isinstance(error, kind):
            return BrokerUnreachable(f"{address}: {text.format(timeout)}")
    return BrokerUnreachable(f"{address}: {error.strerror or error}")


def _explain_tls(error: ssl.SSLError, address: str) -> AuthenticationFailed:
    """Why there is no TLS, and what to look at."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(
            f"{address}: the broker's certificate is not accepted: {error.verify_message}; "
            "check ssl.truststore.location (ssl.ca.location) and the name in the certificate"
        )
    reason = (error.reason or str(error)).replace("_", " ").lower()
    hint = ""
    if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        hint = "; the port does not speak TLS, check security.protocol"
    elif "CERTIFICATE" in (error.reason or "") or "UNKNOWN_CA" in (error.reason or ""):
        hint = "; the broker does not accept our certificate, check ssl.keystore.location"
    return AuthenticationFailed(f"{address}: TLS failed: {reason}{hint}")


_CAUSES: Final[dict[type[OSError], str]] = {
    TimeoutError: "no answer in {:g} s",
    socket.gaierror: "the name is not known; check it, and the DNS",
    ConnectionRefusedError: "connection refused; nothing listens there",
}


def _spell(lowest: int, highest: int) -> str:
    if highest < lowest:
        return "not at all"
    return f"v{lowest}" if lowest == highest else f"v{lowest}-{highest}"
