"""One broker: its listeners, its connections, and the table of what it serves.

Brokers of a cluster live in one event loop and share its metadata and partitions; what a broker owns is
its connections and its faults. Leaders are elected in coterie.server.partitions.leadership.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping

from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.codec import encode
from coterie.protocol.frames import frame
from coterie.protocol.messages.headers import RequestHeader, ResponseHeader
from coterie.protocol.messages.session import ApiVersion, ApiVersionsResponse
from coterie.safe_text import shown
from coterie.server.connections.connection import Connection
from coterie.server.connections.listeners import Endpoint
from coterie.server.dispatch import Row
from coterie.server.quotas import Throttling
from coterie.server.requests.calls import Call
from coterie.server.requests.faults import Fault, Faults
from coterie.server.security.guard import AccessControl
from coterie.server.services import Services
from coterie.server.settings.config import ServerConfig

__all__ = ["Broker"]

log = logging.getLogger("coterie.server")


class Broker:
    """Serves requests on its listeners. `served` may be less than Coterie can do (`max_versions`)."""

    def __init__(
        self,
        services: Services,
        served: Mapping[ApiKey, Row],
        endpoints: Mapping[str, Endpoint],
    ) -> None:
        self.services = services
        self.served = served
        #: The listeners of this broker by name.
        self.endpoints = endpoints
        self.node_id = services.node_id
        self.clock = services.clock
        self.loop = asyncio.get_running_loop()
        self.paused = False
        self.faults = Faults()
        self.throttling = Throttling(
            services.quotas, self.config.quota_window, services.mutations, services.clock
        )
        #: Requests by API and closed connections by reason, for the log and for tests.
        self.requests: Counter[ApiKey] = Counter()
        self.closed: Counter[str] = Counter()
        self._access = AccessControl(services.security, services.metadata, services.broker_settings)
        self.connections: set[Connection] = set()
        #: Connections that have answers to send.
        self._to_flush: list[Connection] = []
        self._second = 0
        self._in_this_second = 0
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def config(self) -> ServerConfig:
        """The present settings."""
        return self.services.broker_settings.config

    @property
    def running(self) -> bool:
        return self.services.brokers.is_running(self.node_id)

    @property
    def address(self) -> tuple[str, int]:
        """Where the socket of the first listener is bound."""
        first = next(iter(self.endpoints.values()))
        return first.host, first.port

    # -- life -----------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Open the listeners; port 0 takes a free one and keeps it across restarts of the broker."""
        try:
            for endpoint in self.endpoints.values():
                await endpoint.open(lambda listener: Connection(self, listener), self.closed)
        except BaseException:
            self._close_listeners()
            raise
        self.services.brokers.started(
            self.node_id,
            {name: (each.host, each.port) for name, each in self.endpoints.items()},
            {name: each.advertised for name, each in self.endpoints.items()},
        )
        self._sweep()

    def _close_listeners(self) -> None:
        self.services.brokers.stopped(self.node_id)
        for endpoint in self.endpoints.values():
            endpoint.close()
        if self._sweeper is not None:
            self._sweeper.cancel()

    async def stop(self) -> None:
        """Stop accepting, let answers that are due leave, close."""
        if not self.running:
            return
        self._close_listeners()
        # One turn of the loop, so that what was answered a moment ago is written.
        await asyncio.sleep(0)
        for connection in list(self.connections):
            connection.close("the broker stops")
        if any(each.listener.tls is not None for each in self.endpoints.values()):
            # In TLS both sides close the session; do not wait for a peer that does not.
            await asyncio.sleep(0)
            for connection in list(self.connections):
                connection.end()

    def kill(self) -> None:
        """Stop at once, as after kill -9: no answer leaves any more."""
        if not self.running:
            return
        self._close_listeners()
        for connection in list(self.connections):
            connection.abort()

    def pause(self) -> None:
        """Read nothing until `resume`, like a stopped process; requests that arrive meanwhile wait."""
        self._set_paused(paused=True)

    def resume(self) -> None:
        self._set_paused(paused=False)

    def _set_paused(self, *, paused: bool) -> None:
        self.paused = paused
        for connection in self.connections:
            connection.regulate()

    # -- connections ----------------------------------------------------------------------------------

    def admit(self, connection: Connection) -> str | None:
        """Take a new connection in, or say why not."""
        self.connections.add(connection)
        if len(self.connections) > self.config.max_connections:
            return "too many connections"
        if self._newcomers() > self.config.max_connection_creation_rate:
            return "too many new connections in a second"
        same = sum(each.address == connection.address for each in self.connections)
        if same > self.config.max_connections_per_ip:
            return "too many connections from one address"
        if self.paused:
            connection.regulate()
        if self.throttling.quotas.limit_connections:
            self._limit_rate(connection)
        return None

    def _limit_rate(self, connection: Connection) -> None:
        """Let a connection beyond the quota of its address wait, and close it (KIP-612)."""
        wait_ms = self.throttling.connection_wait_ms(connection.address)
        if wait_ms:
            connection.hold()
            reason = "too many new connections from one address"
            self.loop.call_later(wait_ms / 1000, connection.close, reason)

    def _newcomers(self) -> int:
        """How many connections were made in this second, the newest included."""
        second = int(self.clock.monotonic())
        if second != self._second:
            self._second, self._in_this_second = second, 0
        self._in_this_second += 1
        return self._in_this_second

    def forget(self, connection: Connection) -> None:
        self.connections.discard(connection)

    def closing(self, connection: Connection, reason: str) -> None:
        self.closed[reason] += 1
        # One line per reason until it doubles: a client that fails in a loop must not fill the disk.
        if self.closed[reason].bit_count() == 1:
            log.info(
                "broker %d closed a connection from %s: %s (%d so far)",
                self.node_id,
                connection.address,
                shown(reason),
                self.closed[reason],
            )

    def _sweep(self) -> None:
        """End connections that are overdue. One timer for all: deadlines here are in seconds."""
        now = self.clock.monotonic()
        for connection in list(self.connections):
            reason = connection.overdue(now)
            if reason is not None:
                connection.close(reason)
        self._sweeper = self.loop.call_later(1, self._sweep)

    def flush_soon(self, connection: Connection) -> None:
        """Let a connection send its answers at the end of this turn of the loop, with all others."""
        if not self._to_flush:
            self.loop.call_soon(self._flush)
        self._to_flush.append(connection)

    def _flush(self) -> None:
        due, self._to_flush = self._to_flush, []
        for connection in due:
            try:
                connection.flush()
            except Exception:  # one connection's failure must not keep the others' answers
                log.exception("broker %d failed to answer %s", self.node_id, connection.address)
                connection.abort()

    # -- requests -------------------------------------------------------------------------------------

    def serve(self, call: Call) -> None:
        """Hand a request to its handler; what the handler returns is the answer."""
        self.requests[call.api] += 1
        if self.faults:
            fault = self.faults.take(call.api, call.request)
            if fault is not None:
                self._strike(call, fault)
                return
        self._run(call)

    def _run(self, call: Call) -> None:
        row = self.served[call.api]
        try:
            if self._access.is_on and not self._access.admit(call, row.access):
                return
            response = row.handler(self.services, call, call.request)
        except Exception:  # one bad request must not end the server, nor its connection's others
            log.exception("broker %d failed on %s v%d", self.node_id, call.api.name, call.version)
            response = call.refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
        if response is not None:
            call.answer(response)
        elif call.meter is not None:
            call.meter.parked()

    def _strike(self, call: Call, fault: Fault) -> None:
        if fault.delay_ms:
            again = Fault(error_code=fault.error_code, drop=fault.drop, close=fault.close)
            self.loop.call_later(fault.delay_ms / 1000, self._strike, call, again)
        elif fault.close:
            call.connection.close("a fault was asked for")
        elif fault.error_code is not None:
            call.answer(call.refusal(ErrorCode.of(fault.error_code)))
        elif not fault.drop:
            self._run(call)

    def unsupported_api_versions(self, header: RequestHeader) -> bytes:
        """The answer to ApiVersions in a version from the future: in version 0, with error 35 (KIP-511)."""
        row = self.served[ApiKey.API_VERSIONS]
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=(ApiVersion(ApiKey.API_VERSIONS, row.lowest, row.highest),),
        )
        head = encode(ResponseHeader(correlation_id=header.correlation_id), 0)
        return frame(head + encode(response, 0))
