"""SASL on one connection of a client: the first authentication, and those before a session ends (KIP-368).

While a client authenticates again, other requests of the connection wait: a broker takes none in between.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from coterie.error_codes import ErrorCode
from coterie.errors import AuthenticationFailed, CoterieError
from coterie.protocol.api import ApiKey
from coterie.protocol.messages.session import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from coterie.protocol.schema import Request, Response
from coterie.security.sasl import SaslClient, SaslFailed

if TYPE_CHECKING:
    from coterie.client.security import ClientSecurity

__all__ = ["Login"]

R = TypeVar("R", bound=Response)

#: A session is renewed somewhere in this part of its life, so that not all come at once, as in Kafka.
_RENEW_FROM, _RENEW_TO = 0.85, 0.95
#: With this version tokens come in frames of their own; before, as bare bytes.
_FRAMED_HANDSHAKE: Final = 1
#: SCRAM needs two, OAUTHBEARER two to be refused; a broker that asks for more is not believed.
_MOST_STEPS: Final = 4


class Authenticating(Protocol):
    """The connection that a login works for."""

    @property
    def address(self) -> str: ...

    def highest(self, api: ApiKey) -> int: ...

    async def send(self, request: Request, expect: type[R], version: int) -> R: ...

    def close(self, error: CoterieError | None = None) -> None: ...


class Login:
    """Keeps one connection authenticated."""

    def __init__(self, connection: Authenticating, security: ClientSecurity) -> None:
        self._connection = connection
        self._security = security
        self._renew_at = float("inf")
        self._renewing: asyncio.Task[None] | None = None

    @property
    def due(self) -> bool:
        """Whether a request has to wait for a renewal."""
        return self._renewing is not None or time.monotonic() >= self._renew_at

    async def renew(self) -> None:
        """Authenticate again, or wait for the call that does. If it fails, the connection is closed."""
        if self._renewing is None:
            self._renewing = asyncio.get_running_loop().create_task(self._renew())
        await asyncio.shield(self._renewing)

    async def _renew(self) -> None:
        try:
            await self.authenticate()
        except AuthenticationFailed as error:
            self._connection.close(error)
        finally:
            self._renewing = None

    async def authenticate(self) -> None:
        """The whole exchange. Raises AuthenticationFailed with what the broker, or the mechanism, says."""
        connection = self._connection
        machine = await self._security.exchange()
        handshake = await connection.send(
            SaslHandshakeRequest(machine.mechanism), SaslHandshakeResponse, _FRAMED_HANDSHAKE
        )
        if handshake.error_code:
            # No other mechanism is tried: a broker, or an attacker in between, could offer a weaker one.
            offered = ", ".join(handshake.mechanisms) or "none"
            raise AuthenticationFailed(
                f"{connection.address} does not take {machine.mechanism}; it offers {offered}"
            )
        version = connection.highest(ApiKey.SASL_AUTHENTICATE)
        lifetime_ms = await self._exchange(machine, version)
        if not machine.complete:
            raise AuthenticationFailed(
                f"{connection.address}: {machine.mechanism} ended before the broker had proved itself"
            )
        self._renew_at = float("inf")
        if lifetime_ms > 0:
            part = random.uniform(_RENEW_FROM, _RENEW_TO)  # noqa: S311 - jitter, not a secret
            self._renew_at = time.monotonic() + lifetime_ms / 1000 * part

    async def _exchange(self, machine: SaslClient, version: int) -> int:
        """Tokens back and forth; the lifetime of the session in the end."""
        connection = self._connection
        token: bytes | None = machine.start()
        for _ in range(_MOST_STEPS):
            request = SaslAuthenticateRequest(token or b"")
            answer = await connection.send(request, SaslAuthenticateResponse, version)
            if answer.error_code:
                why = answer.error_message or ErrorCode.of(answer.error_code).message
                raise AuthenticationFailed(f"{connection.address}: {why}")
            try:
                if machine.is_slow:
                    token = await asyncio.to_thread(machine.respond, answer.auth_bytes)
                else:
                    token = machine.respond(answer.auth_bytes)
            except SaslFailed as failed:
                raise AuthenticationFailed(f"{connection.address}: {failed}") from None
            if token is None:
                return answer.session_lifetime_ms
        raise AuthenticationFailed(
            f"{connection.address}: {machine.mechanism} does not come to an end"
        )
