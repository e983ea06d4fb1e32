"""Listeners at run time: what each one requires of clients, the TLS contexts, and the sockets of brokers.

All brokers of a cluster share a TLS context for each listener; it is rebuilt when its files change.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from coterie.errors import CoterieError
from coterie.security.principals import PrincipalMapper
from coterie.security.tls import ReloadableContext, TlsSettings, server_context
from coterie.server.settings.config import ServerConfig
from coterie.server.settings.listeners import EndpointSpec, ListenerSpec

__all__ = [
    "Endpoint",
    "Listener",
    "ListenerTls",
    "Listeners",
]

log = logging.getLogger("coterie.server")

_LOOK_SECONDS: Final = 1.0

#: OpenSSL's reasons that need an explanation.
_HINTS: Final = {
    "HTTP_REQUEST": "this looks like HTTP, not TLS",
    "WRONG_VERSION_NUMBER": "this looks like plain text: the client does not speak TLS",
    "PACKET_LENGTH_TOO_LONG": "this looks like plain text: the client does not speak TLS",
    "UNSUPPORTED_PROTOCOL": "the client wants a version of TLS that is too old",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client showed no certificate, and one is required",
    "CERTIFICATE_VERIFY_FAILED": "the client's certificate is not to be trusted",
}

Stamps = list[tuple[int, int] | None]


class ListenerTls:
    """The certificates of a cluster's listeners."""

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._stamps = self._look()
        self._current = server_context(settings)
        self._listeners: list[ReloadableContext] = []

    def context_for(self, closed: Counter[str]) -> ReloadableContext:
        """The context of one listener; failed handshakes are counted under their reason."""

        def failed(error: ssl.SSLError) -> None:
            reason = (
                f"TLS: {_HINTS.get(error.reason or '', error.reason or 'the handshake failed')}"
            )
            closed[reason] += 1
            if closed[reason].bit_count() == 1:
                log.info("a connection was closed: %s (%d so far)", reason, closed[reason])

        made = ReloadableContext(self._current, failed)
        self._listeners.append(made)
        return made

    async def watch(self) -> None:
        """Look at the files every second. Unusable files are logged, and the old context stays."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = self._look()
            if now != self._stamps:
                self._stamps = now
                await self.reload()

    async def reload(self) -> None:
        try:
            self._current = await asyncio.to_thread(server_context, self._settings)
        except CoterieError as error:
            log.warning("new certificates cannot be used, the old ones stay: %s", error)
            return
        for each in self._listeners:
            each.use(self._current)
        log.info("new certificates are in use for new connections")

    def _look(self) -> Stamps:
        return [_stamp(path) for path in self._settings.files]


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


class Listener:
    """One listener of a cluster; all brokers share its settings and its certificates."""

    def __init__(self, spec: ListenerSpec) -> None:
        self.name = spec.name
        self.protocol = spec.protocol
        self.security = spec.security
        #: Empty where clients do not authenticate by SASL.
        self.mechanisms = spec.security.mechanisms if spec.protocol.uses_sasl else ()
        self.mapper = PrincipalMapper(spec.security.principal_mapping_rules)
        self.tls: ListenerTls | None = None
        self._tls_watcher: asyncio.Task[None] | None = None

    @property
    def knows_clients(self) -> bool:
        """Whether clients prove who they are."""
        by_certificate = self.protocol.uses_tls and self.security.client_auth != "none"
        return bool(self.mechanisms) or by_certificate

    async def start(self) -> None:
        """Load the certificates, and load them again when their files change."""
        settings = self.security.tls
        if self.protocol.uses_tls and settings is not None:
            self.tls = await asyncio.to_thread(ListenerTls, settings)
            self._tls_watcher = asyncio.get_running_loop().create_task(self.tls.watch())

    async def stop(self) -> None:
        watcher, self._tls_watcher = self._tls_watcher, None
        if watcher is not None:
            watcher.cancel()
            await asyncio.wait([watcher])


class Endpoint:
    """A listener of one broker: the socket that it opens and the address that it advertises."""

    def __init__(self, listener: Listener, spec: EndpointSpec) -> None:
        self.listener = listener
        self._listen, self._advertised = spec
        #: The address that the socket is bound to; the port stays the same when a broker restarts.
        self.host, self.port = self._listen.host, self._listen.port
        self._server: asyncio.Server | None = None

    @property
    def advertised(self) -> tuple[str, int]:
        """Host and port for clients, as given; port 0 is the port of the socket, as in Kafka."""
        _, host, port = self._advertised
        return host or socket.getfqdn(), port or self.port

    async def open(
        self, make: Callable[[Listener], asyncio.Protocol], closed: Counter[str]
    ) -> None:
        """Accept connections; failed TLS handshakes are counted in `closed`."""
        loop = asyncio.get_running_loop()
        listener, tls = self.listener, self.listener.tls
        try:
            bound = await self._bind(loop)
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(
                error.errno, f"cannot listen on {self._listen}: {reason.lower()}"
            ) from None
        deadline = listener.security.authentication_deadline_ms / 1000
        self._server = await loop.create_server(
            lambda: make(listener),
            sock=bound,
            ssl=None if tls is None else tls.context_for(closed),
            ssl_handshake_timeout=None if tls is None else deadline,
        )
        self.host, self.port = bound.getsockname()[:2]

    async def _bind(self, loop: asyncio.AbstractEventLoop) -> socket.socket:
        """One socket, as Kafka has: a name is bound at its first address, IPv4 before IPv6.

        No host, and `::`, accept IPv4 and IPv6, where the system can do that with one socket.
        """
        host = self._listen.host
        if host in ("", "::") and socket.has_dualstack_ipv6():
            return socket.create_server(
                ("::", self.port), family=socket.AF_INET6, dualstack_ipv6=True
            )
        found = await loop.getaddrinfo(
            host or None, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
        return socket.create_server(address[:2], family=family)

    @property
    def is_open(self) -> bool:
        return self._server is not None

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()


class Listeners(Mapping[str, Listener]):
    """The listeners of a cluster by name."""

    def __init__(
        self, config: ServerConfig, node_ids: Sequence[int], host: str, ports: Mapping[int, int]
    ) -> None:
        specs = config.listeners.specs(config.security)
        self._listeners = {spec.name: Listener(spec) for spec in specs}
        names = list(self._listeners)
        self._endpoints = config.listeners.endpoints(names, node_ids, host, ports)

    def __getitem__(self, name: str) -> Listener:
        try:
            return self._listeners[name.upper()]
        except KeyError:
            raise CoterieError(
                f"there is no listener {name!r}; there are {', '.join(self)}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._listeners)

    def __len__(self) -> int:
        return len(self._listeners)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms of all listeners."""
        return tuple({name: None for each in self.values() for name in each.mechanisms})

    @property
    def know_clients(self) -> bool:
        """Whether clients of any listener prove who they are."""
        return any(each.knows_clients for each in self.values())

    def endpoints(self, node_id: int) -> dict[str, Endpoint]:
        """What a broker opens, by the listener's name."""
        return {
            spec.listen.listener: Endpoint(self[spec.listen.listener], spec)
            for spec in self._endpoints[node_id]
        }

    async def start(self) -> None:
        for each in self.values():
            await each.start()

    async def stop(self) -> None:
        for each in self.values():
            await each.stop()
