"""A client that stays open from one reading to the next, for processes that read again and again.

Spark's workers do: a task of theirs reads for a quarter of a second, of which connecting would be a
thirtieth. It need not be closed: Spark ends a worker that is idle for a minute, and its connections
with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from coterie.client import AdminClient
from coterie.client.blocking import BlockingAdminClient

__all__ = ["KeptClient", "kept"]


class KeptClient:
    """At most one client, with the settings that it was made with."""

    def __init__(self) -> None:
        self._settings: dict[str, str] = {}
        self._client: BlockingAdminClient | None = None

    @contextmanager
    def lend(self, properties: Mapping[str, str]) -> Iterator[BlockingAdminClient]:
        """The client that was kept, if it has these settings and is not lent; else a new one."""
        settings = dict(properties)
        client = self._take(settings) or AdminClient.connect(settings)
        try:
            yield client
        except BaseException:
            # Broken off, too: an answer may be under way, which the next reading would have to wait for.
            client.close()
            raise
        # Where two were lent at once, the one that comes back last stays.
        self.close()
        self._settings, self._client = settings, client

    def _take(self, settings: dict[str, str]) -> BlockingAdminClient | None:
        if settings != self._settings:
            self.close()
        client, self._client = self._client, None
        return client

    def close(self) -> None:
        """Close what is kept; there may be nothing."""
        if self._client is not None:
            self._client.close()
            self._client = None


#: That of this process.
kept = KeptClient()
