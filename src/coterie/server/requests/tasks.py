"""Work of a broker that continues after the event loop's turn in which a request arrived."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from coterie.error_codes import ErrorCode
from coterie.server.requests.calls import Call

__all__ = ["BackgroundTasks"]

log = logging.getLogger("coterie.server")


class BackgroundTasks:
    """The tasks of one broker. asyncio keeps no reference to its tasks, so they are kept here."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._tasks: set[asyncio.Task[None]] = set()

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something concurrently."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def run(self, work: Coroutine[Any, Any, None], call: Call) -> None:
        """Run a handler concurrently; if it fails, its call is answered with an error."""

        async def guarded() -> None:
            try:
                await work
            except Exception:  # one request that fails must not leave its client without an answer
                log.exception("broker %d failed on %s", self._node_id, call.api.name)
                call.answer(call.refusal(ErrorCode.UNKNOWN_SERVER_ERROR))

        self.keep(guarded())
