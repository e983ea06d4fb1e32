"""TLS of the listeners: one context for all brokers of a cluster, rebuilt when its files change."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
from pathlib import Path
from typing import Final

from coterie.errors import CoterieError
from coterie.security.tls import ReloadableContext, TlsSettings, server_context

__all__ = ["ListenerTls"]

log = logging.getLogger("coterie.server")

_LOOK_SECONDS: Final = 1.0

#: OpenSSL's words for what went wrong, where they need some more.
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
