"""SASL on one connection of the server: what may be asked before, during and after it (KIP-43, 152, 368).

Frames go through `takes` until the client is authenticated, and again when it re-authenticates. A
step that hashes runs in a thread; meanwhile the connection reads nothing. A failure is answered late,
always in the same words, and ends the connection.
"""

from __future__ import annotations

import asyncio
import random
from enum import Enum
from typing import Final, Protocol

from coterie.error_codes import ErrorCode
from coterie.errors import ProtocolError
from coterie.protocol.api import ApiKey
from coterie.protocol.codec import decode_prefix
from coterie.protocol.frames import decode_request_header, encode_response, frame
from coterie.protocol.messages.headers import RequestHeader
from coterie.protocol.messages.session import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from coterie.protocol.schema import Response
from coterie.security.principals import ANONYMOUS, user
from coterie.security.sasl import SaslFailed, SaslServer
from coterie.server.clock import Clock
from coterie.server.connections.listeners import Listener
from coterie.server.requests.calls import BackgroundTasks
from coterie.server.requests.refusals import refusal
from coterie.server.security.cluster_security import ClusterSecurity

__all__ = ["Authenticating", "SaslGate"]

#: Frames begin with the key of their API.
_HANDSHAKE_KEY: Final = ApiKey.SASL_HANDSHAKE.to_bytes(2, "big")
#: A client may not authenticate again more often, as in Kafka.
_REAUTH_PAUSE_SECONDS: Final = 1.0
_JITTER: Final = 0.2


class _State(Enum):
    HANDSHAKE = "handshake"
    TOKENS = "tokens"
    DONE = "done"


class Authenticating(Protocol):
    """The connection of a client that authenticates."""

    address: str

    def send(self, data: bytes, correlation_id: int | None, /) -> None:
        """Send an answer; a bare token has no correlation id."""

    def hold(self) -> None:
        """Read nothing until `release`."""

    def release(self) -> None: ...

    def authenticated(self, principal: str, /, *, by_token: bool) -> None: ...

    def close(self, reason: str, /) -> None: ...


class SaslGate:
    """Lets a connection's requests through once its client has said who it is."""

    def __init__(
        self,
        connection: Authenticating,
        listener: Listener,
        security: ClusterSecurity,
        tasks: BackgroundTasks,
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._security = security
        self._tasks = tasks
        self._clock = clock
        self._config = listener.security
        self._enabled = listener.mechanisms
        self._state = _State.HANDSHAKE
        self._machine: SaslServer | None = None
        self._framed = True
        self._began = self._clock.monotonic()
        #: Set while a client authenticates again: what it was, and may not stop being.
        self._was: tuple[str, str] | None = None
        self._mechanism = ""
        self._principal = ANONYMOUS
        self._expires_at: float | None = None
        self._last_reauth = -_REAUTH_PAUSE_SECONDS

    @property
    def open(self) -> bool:
        return self._state is _State.DONE

    def overdue(self, now: float) -> bool:
        limit = self._config.authentication_deadline_ms / 1000
        return not self.open and now - self._began > limit

    def takes(self, data: bytes) -> bool:
        """Handle a frame that belongs to authentication; False if it is a request like any other."""
        if self._state is _State.DONE:
            now = self._clock.monotonic()
            if data[:2] == _HANDSHAKE_KEY and now - self._last_reauth >= _REAUTH_PAUSE_SECONDS:
                self._last_reauth = self._began = now
                self._was = (self._mechanism, self._principal)
                self._state = _State.HANDSHAKE
            else:
                expired = self._expires_at is not None and now > self._expires_at
                if expired:
                    self._connection.close("the session is over and the client did not renew it")
                return expired
        if self._state is _State.TOKENS and not self._framed:
            self._step(data, None)
            return True
        return self._takes_request(data)

    def _takes_request(self, data: bytes) -> bool:
        api, header, at = decode_request_header(data)
        if self._state is _State.HANDSHAKE:
            if api is ApiKey.API_VERSIONS and self._was is None:
                return False
            if api is not ApiKey.SASL_HANDSHAKE:
                raise ProtocolError(f"{api.api_name} came before the client was authenticated")
            self._handshake(header, data, at)
        elif api is not ApiKey.SASL_AUTHENTICATE:
            request, _ = decode_prefix(api.request, data, header.request_api_version, offset=at)
            code = ErrorCode.ILLEGAL_SASL_STATE
            self._fail(
                refusal(request, api.response, header.request_api_version, code),
                header,
                f"{api.api_name} came during SASL authentication",
            )
        else:
            self._version(api, header)
            version = header.request_api_version
            token, _ = decode_prefix(SaslAuthenticateRequest, data, version, offset=at)
            self._step(token.auth_bytes, header)
        return True

    @staticmethod
    def _version(api: ApiKey, header: RequestHeader) -> None:
        if header.request_api_version not in api.versions:
            raise ProtocolError(f"{api.api_name} v{header.request_api_version} is not served")

    # -- handshake ------------------------------------------------------------------------------------

    def _handshake(self, header: RequestHeader, data: bytes, at: int) -> None:
        self._version(ApiKey.SASL_HANDSHAKE, header)
        version = header.request_api_version
        asked, _ = decode_prefix(SaslHandshakeRequest, data, version, offset=at)
        enabled = self._enabled
        if asked.mechanism not in enabled or (self._was and asked.mechanism != self._was[0]):
            known = asked.mechanism in enabled
            why = "another mechanism than before" if known else "a mechanism that is not enabled"
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            self._fail(SaslHandshakeResponse(code, enabled), header, f"the client asked for {why}")
            return
        self._mechanism = asked.mechanism
        self._machine = self._security.sasl_server(asked.mechanism)
        # Version 0 is followed by bare tokens, without Kafka's headers.
        self._framed = version > 0
        self._state = _State.TOKENS
        self._answer(SaslHandshakeResponse(ErrorCode.NONE, enabled), header)

    # -- tokens ---------------------------------------------------------------------------------------

    def _step(self, token: bytes, header: RequestHeader | None) -> None:
        machine = self._machine
        assert machine is not None  # noqa: S101 - the state says so
        if not machine.is_slow:
            try:
                answer = machine.respond(token)
            except SaslFailed as failed:
                self._refuse(failed, header)
            else:
                self._stepped(machine, answer, header)
            return
        self._connection.hold()
        self._tasks.keep(self._slow_step(machine, token, header))

    async def _slow_step(
        self, machine: SaslServer, token: bytes, header: RequestHeader | None
    ) -> None:
        try:
            answer = await asyncio.to_thread(machine.respond, token)
        except SaslFailed as failed:
            self._refuse(failed, header)
        else:
            self._stepped(machine, answer, header)
            self._connection.release()

    def _stepped(self, machine: SaslServer, answer: bytes, header: RequestHeader | None) -> None:
        lifetime = 0
        if machine.complete:
            principal = user(machine.user)
            if self._was is not None and principal != self._was[1]:
                self._refuse(SaslFailed("the client became another principal"), header)
                return
            lifetime = self._welcome(principal, machine.token_expiry_ms)
        if header is None:
            self._connection.send(frame(answer), None)
        else:
            self._answer(
                SaslAuthenticateResponse(
                    error_message=None, auth_bytes=answer, session_lifetime_ms=lifetime
                ),
                header,
            )

    def _welcome(self, principal: str, token_expiry_ms: int | None) -> int:
        """From here on requests are served; the lifetime of the session, in milliseconds."""
        lifetimes = [self._config.max_reauth_ms] if self._config.max_reauth_ms else []
        if token_expiry_ms is not None:
            lifetimes.append(max(0, token_expiry_ms - self._clock.now_ms()))
        lifetime = min(lifetimes, default=0)
        self._machine = None
        self._was = None
        self._state = _State.DONE
        self._principal = principal
        now = self._clock.monotonic()
        self._expires_at = now + lifetime / 1000 if lifetimes else None
        self._connection.authenticated(principal, by_token=token_expiry_ms is not None)
        return lifetime

    # -- failure --------------------------------------------------------------------------------------

    def _refuse(self, failed: SaslFailed, header: RequestHeader | None) -> None:
        again = "re-authentication" if self._was else "authentication"
        public = failed.public or (
            f"Authentication failed during {again} due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        self._fail(SaslAuthenticateResponse(code, public), header, str(failed))

    def _fail(self, response: Response, header: RequestHeader | None, why: str) -> None:
        """Say no, but not at once: guessing must be slow, and every no must take the same time."""
        connection, security = self._connection, self._security
        if security.audit is not None:
            security.audit.authentication(connection.address, self._mechanism, why)
        self._machine = None
        connection.hold()
        delay = self._config.failed_authentication_delay_ms / 1000

        def end() -> None:
            if header is not None:
                self._answer(response, header)
            connection.close("the client could not be authenticated")

        jitter = random.uniform(1, 1 + _JITTER)  # noqa: S311 - not a secret
        asyncio.get_running_loop().call_later(delay * jitter, end)

    def _answer(self, response: Response, header: RequestHeader) -> None:
        version, number = header.request_api_version, header.correlation_id
        self._connection.send(encode_response(response, version, correlation_id=number), number)
