"""One client's connection: frames in, calls out, answers back in order, and an end to every wait.

A small state machine on asyncio's Protocol: no task and no stream per connection. What is wrong with the
bytes closes this connection and touches no other.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Protocol, cast

from coterie.addresses import java_address
from coterie.errors import CoterieError, ProtocolError, UnsupportedVersion
from coterie.protocol.api import ApiKey
from coterie.protocol.codec import decode_prefix
from coterie.protocol.frames import FrameBuffer, decode_request_header
from coterie.protocol.messages.headers import RequestHeader
from coterie.security.principals import ANONYMOUS
from coterie.server.connections.authentication import SaslGate
from coterie.server.connections.listeners import Listener
from coterie.server.dispatch import Row
from coterie.server.quotas import Meter, Throttling
from coterie.server.requests import observer
from coterie.server.requests.calls import Call, Slot, Slots
from coterie.server.services import Services

__all__ = ["Connection", "Server"]


#: How long a connection that is being closed waits for the client to read what it was sent.
_LAST_WORDS_SECONDS = 5
#: Bytes of answers that a client may leave unread before the server stops reading its requests.
_WRITE_BUFFER = 256 * 1024


class Server(Protocol):
    """The broker that a connection belongs to."""

    #: Reads nothing from any connection.
    paused: bool

    @property
    def served(self) -> Mapping[ApiKey, Row]: ...

    @property
    def services(self) -> Services: ...

    @property
    def throttling(self) -> Throttling: ...

    def admit(self, connection: Connection, /) -> str | None:
        """Take a new connection in, or say why not."""

    def serve(self, call: Call, /) -> None:
        """Have a request answered, now or later."""

    def unsupported_api_versions(self, header: RequestHeader, /) -> bytes:
        """The answer to ApiVersions in a version that is not served."""

    def flush_soon(self, connection: Connection, /) -> None:
        """Call `flush` at the end of this turn of the loop."""

    def closing(self, connection: Connection, reason: str, /) -> None:
        """The connection is being closed by this side."""

    def forget(self, connection: Connection, /) -> None:
        """The connection is gone."""


class Connection(asyncio.Protocol):
    """Reads while it may: not while the client owes us reading, nor with too many calls under way."""

    def __init__(self, server: Server, listener: Listener) -> None:
        self.server = server
        #: The listener that the client connected to; answers name brokers by its addresses.
        self.listener = listener
        self.client_host = "/"
        self.address = ""
        #: Who the client is; for the authorizer and the audit log.
        self.principal = ANONYMOUS
        #: Whether the client logged in with a delegation token.
        self.by_token = False
        self._clock = server.services.clock
        self._settings = server.services.broker_settings
        self.last_heard = self._clock.monotonic()
        #: When the frame that is incomplete now was begun; None if there is none.
        self.frame_begun: float | None = None
        self._transport: asyncio.Transport | None = None
        self._closing: asyncio.Transport | None = None
        self._frames = FrameBuffer(self._settings.config.max_request_bytes)
        #: Only where clients must authenticate; the others pay nothing for it.
        self._gate: SaslGate | None = None
        #: How many things must end before the connection reads on.
        self._held = 0
        #: Ends a throttle time; None if the client is not throttled.
        self._muted: asyncio.TimerHandle | None = None
        self._waiting_frames: list[bytes] = []
        self._slots = Slots()
        self._flush_due = False
        self._reading = True
        self._writable = True

    @property
    def listener_name(self) -> str:
        return self.listener.name

    # -- asyncio's side -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername") or ("", 0)
        self.address = java_address(str(peer[0]))
        self.client_host = f"/{self.address}"  # as Java prints an InetAddress
        limit = self._settings.config.max_write_buffer_bytes
        self._transport.set_write_buffer_limits(high=min(_WRITE_BUFFER, limit))
        # As in Kafka: the kernel detects a peer that is gone without closing the connection.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        refusal = self.server.admit(self) or self._identify(transport)
        if refusal:
            self.close(refusal)

    def _identify(self, transport: asyncio.BaseTransport) -> str | None:
        """Set the principal of the client's certificate, or require SASL; the reason to close, if any."""
        listener = self.listener
        if listener.mechanisms:
            services = self.server.services
            self._gate = SaslGate(self, listener, services.security, services.tasks, services.clock)
            self._frames.max_frame = listener.security.max_receive_size
        elif certificate := transport.get_extra_info("peercert"):
            try:
                self.principal = listener.mapper.principal(certificate)
            except CoterieError as error:
                return str(error)
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._muted is not None:
            # A throttle time can be days, and the timer would keep this object.
            self._muted.cancel()
        self.server.forget(self)

    def pause_writing(self) -> None:
        self._writable = False
        self._regulate()

    def resume_writing(self) -> None:
        self._writable = True
        self._regulate()

    def data_received(self, data: bytes) -> None:
        self.last_heard = self._clock.monotonic()
        try:
            frames = self._frames.feed(data)
        except ProtocolError as error:
            self.close(str(error))
            return
        if not len(self._frames):
            self.frame_begun = None
        elif frames or self.frame_begun is None:
            # A byte now and then does not renew the deadline of a frame (slow loris).
            self.frame_begun = self.last_heard
        self._waiting_frames += frames
        self._work()
        if self._frames.error is not None:
            self.close(str(self._frames.error))

    # -- requests -------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Handle the frames that are here, as far as the limits allow."""
        frames = self._waiting_frames
        done = 0
        for frame in frames:
            if not self._may_read() or self._transport is None:
                break
            done += 1
            self._handle(frame)
        del frames[:done]
        self._regulate()

    def _handle(self, frame: bytes) -> None:
        server = self.server
        try:
            if self._gate is not None and self._gate.takes(frame):
                return
            api, header, at = decode_request_header(frame)
            served = server.served.get(api)
            version = header.request_api_version
            if served is None or not served.lowest <= version <= served.highest:
                self._refuse(api, header)
                return
            request, _ = decode_prefix(served.request, frame, version, offset=at)
        except (ProtocolError, UnsupportedVersion) as error:
            self.close(str(error))
            return
        call = Call(self, api, header, request, self._open_slot(header.correlation_id))
        if server.throttling.quotas.limit_clients:
            call.meter = Meter(server.throttling, call, len(frame))
        server.serve(call)

    def _refuse(self, api: ApiKey, header: RequestHeader) -> None:
        """A version that is not served ends the connection, as in Kafka; but ApiVersions is answered
        in version 0, so that the client can learn which versions there are (KIP-511)."""
        if api is not ApiKey.API_VERSIONS:
            self.close(f"{api.api_name} v{header.request_api_version} is not served")
            return
        self.send(self.server.unsupported_api_versions(header), header.correlation_id)

    def _open_slot(self, correlation_id: int | None) -> Slot:
        slot = self._slots.open()
        if observer.current is not None:
            observer.current.request(self, slot, correlation_id)
        return slot

    # -- authentication -------------------------------------------------------------------------------

    @property
    def may_manage_tokens(self) -> bool:
        """Delegation tokens are for clients that authenticated, and not by a token (KIP-48)."""
        return self.principal != ANONYMOUS and not self.by_token

    def authenticated(self, principal: str, *, by_token: bool) -> None:
        self.principal = principal
        self.by_token = by_token
        self._frames.max_frame = self._settings.config.max_request_bytes

    def hold(self) -> None:
        """Read nothing more until `release`, such as while a password is checked."""
        self._held += 1
        self._regulate()

    def release(self) -> None:
        """End one `hold`."""
        self._held -= 1
        self.answered()

    def mute(self, time_ms: int) -> None:
        """Read nothing more for a time; answers that are due leave (KIP-219)."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + time_ms / 1000
        if self._muted is None:
            self.hold()
        elif self._muted.when() >= ends_at:
            return
        else:
            self._muted.cancel()
        self._muted = loop.call_at(ends_at, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        self.release()

    def send(self, data: bytes, correlation_id: int | None) -> None:
        """An answer that no call makes."""
        self._open_slot(correlation_id).fill(data)
        self.answered()

    # -- answers --------------------------------------------------------------------------------------

    def answered(self) -> None:
        """A slot was filled: send what may leave at the end of this turn of the loop, all at once."""
        if not self._flush_due:
            self._flush_due = True
            self.server.flush_soon(self)

    def flush(self) -> None:
        """Send what may leave, and go on with what was waiting for that."""
        self._flush_due = False
        transport = self._transport
        if transport is None:
            return
        ready = self._slots.take_ready()
        if ready:
            self._write(transport, ready)
            # asyncio says when it has to keep some of it; while it need not, there is nothing to measure.
            if (
                not self._writable
                and self.unsent_bytes > self._settings.config.max_write_buffer_bytes
            ):
                self.server.closing(self, "the client does not read its answers")
                self.abort()
                return
        if self._waiting_frames:
            self._work()
        elif not self._reading:
            self._regulate()

    def _write(self, transport: asyncio.Transport, data: bytes) -> None:
        if observer.current is not None:
            observer.current.sent(self, data)
        transport.write(data)

    @property
    def under_way(self) -> int:
        """How many requests have not been answered."""
        return len(self._slots)

    @property
    def incomplete_bytes(self) -> int:
        """The size of the part of a frame that has arrived."""
        return len(self._frames)

    @property
    def unsent_bytes(self) -> int:
        """The size of the answers that the client has not read."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    # -- flow and end ---------------------------------------------------------------------------------

    def _may_read(self) -> bool:
        return (
            self._writable
            and not self._held
            and len(self._slots) < self._settings.config.max_in_flight
        )

    def _regulate(self) -> None:
        """Stop reading from the socket while the client must wait, and go on when it need not."""
        wanted = self._may_read() and not self.server.paused
        if wanted is self._reading:
            return
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            if self.frame_begun is not None:
                # The rest of the frame could not arrive.
                self.frame_begun = self._clock.monotonic()
            transport.resume_reading()
        else:
            transport.pause_reading()

    def regulate(self) -> None:
        """The broker was paused or resumed."""
        self._regulate()

    def overdue(self, now: float) -> str | None:
        """Why this connection has to end, if it has."""
        config = self._settings.config
        if self._closing is not None and now - self.last_heard > _LAST_WORDS_SECONDS:
            self._closing.abort()
        if (
            self._reading
            and self.frame_begun is not None
            and now - self.frame_begun > config.frame_deadline_ms / 1000
        ):
            return "a frame was begun and not finished in time"
        if self._gate is not None and self._gate.overdue(now):
            return "the client did not authenticate in time"
        if not len(self._slots) and now - self.last_heard > config.connections_max_idle_ms / 1000:
            return "the connection was idle"
        return None

    def close(self, reason: str) -> None:
        """End the connection; answers that are ready still leave."""
        transport = self._transport
        if transport is None:
            return
        self.server.closing(self, reason)
        ready = self._slots.take_ready()
        if ready:
            self._write(transport, ready)
        self._transport = None
        self._closing = transport
        self.last_heard = self._clock.monotonic()
        transport.close()

    def end(self) -> None:
        """Wait no longer for the end of a connection that is being closed."""
        if self._closing is not None:
            self._closing.abort()

    def abort(self) -> None:
        """End the connection at once, as a process that dies does."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
