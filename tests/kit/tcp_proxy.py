"""TCP proxies in front of brokers: tests see which connections clients make, and to where.

The target is looked up for each connection, so that a proxy can have its port before its broker has one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

__all__ = ["Proxies"]

Address = tuple[str, int]


class Proxies:
    """One proxy for each target, in a thread; use it with `with`."""

    def __init__(self, count: int, target: Callable[[int], Address]) -> None:
        """`target` returns the address that proxy i, counted from 0, connects to."""
        self._count = count
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._servers: list[asyncio.Server] = []
        self._links: set[asyncio.Task[None]] = set()
        self.addresses: list[Address] = []
        #: The proxies' own ports on the way to a broker, which is what the broker sees.
        self.outgoing: set[int] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def _start(self) -> None:
        for index in range(self._count):
            server = await asyncio.start_server(self._accept(index), "127.0.0.1", 0)
            self._servers.append(server)
            self.addresses.append(server.sockets[0].getsockname()[:2])

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        for link in self._links:
            link.cancel()
        if self._links:
            await asyncio.wait(self._links)

    def _accept(self, index: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            link = self._loop.create_task(self._link(index, reader, writer))
            self._links.add(link)
            link.add_done_callback(self._links.discard)

        return accept

    async def _link(
        self, index: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            back, forth = await asyncio.open_connection(*self._target(index))
        except OSError:
            writer.transport.abort()
            return
        self.outgoing.add(forth.get_extra_info("sockname")[1])
        try:
            await asyncio.gather(_copy(reader, forth), _copy(back, writer))
        finally:
            writer.transport.abort()
            forth.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until one side ends; then the other side sees the end."""
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    writer.close()
