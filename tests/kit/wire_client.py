"""The plainest client there can be: coterie.protocol over a blocking socket, one request at a time.

For tests that ask a broker, ours or Apache Kafka, in exact versions and look at exact answers. Not a
client for users: it knows no retries, no leaders and no time-outs but one.
"""

from __future__ import annotations

import socket
import ssl
from types import TracebackType
from typing import Self, TypeVar

from coterie.protocol.api import ApiKey
from coterie.protocol.frames import FrameBuffer, InFlight
from coterie.protocol.messages.session import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from coterie.protocol.schema import Request, Response
from coterie.security.sasl import SaslClient

__all__ = ["WireClient"]

R = TypeVar("R", bound=Response)


class WireClient:
    """A connection to one broker that knows which versions the broker serves."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str = "wire-client",
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.address = host, port
        self.client_id = client_id
        self._socket = socket.create_connection(self.address, timeout=30)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        self._frames = FrameBuffer()
        self._in_flight = InFlight(client_id)
        try:
            # Version 0 is served by every broker there ever was.
            answer = self.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
        except BaseException:
            self.close()
            raise
        self.served = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}

    def versions(self, api: ApiKey) -> list[int]:
        """The versions that both sides speak."""
        lowest, highest = self.served[api]
        return [version for version in api.versions.each() if lowest <= version <= highest]

    def ask(self, request: Request, expect: type[R], version: int | None = None) -> R:
        """Send a request, in the newest common version unless told, and wait for its answer."""
        self.send(request, version)
        return self.receive(expect)

    def send(self, request: Request, version: int | None = None) -> None:
        """Send a request and do not wait: some are not answered before others have done their part."""
        if version is None:
            version = self.versions(ApiKey(type(request).__key__))[-1]
        _, data = self._in_flight.send(request, version)
        self._socket.sendall(data)

    def receive(self, expect: type[R]) -> R:
        """The answer to the oldest request that has none yet."""
        _, response = self._in_flight.receive(self._read_frame())
        assert isinstance(response, expect)
        return response

    def authenticate(self, machine: SaslClient) -> SaslAuthenticateResponse:
        """A whole SASL exchange; the last answer, which says whether it worked."""
        handshake = self.ask(SaslHandshakeRequest(machine.mechanism), SaslHandshakeResponse, 1)
        assert handshake.error_code == 0, handshake
        token: bytes | None = machine.start()
        while True:
            answer = self.ask(SaslAuthenticateRequest(token or b""), SaslAuthenticateResponse)
            if answer.error_code:
                return answer
            token = machine.respond(answer.auth_bytes)
            if token is None:
                return answer

    def _read_frame(self) -> bytes:
        while True:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("the broker closed the connection")
            frames = self._frames.feed(data)
            if frames:
                (only,) = frames
                return only

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
