"""Asking brokers about many keys: what is left behind when nobody waits for the answer any more."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest

from coterie.client.network import Deadline, Node
from coterie.client.routing import Failure, Routed
from coterie.client.settings import ClientSettings
from coterie.errors import BrokerUnreachable, KafkaError
from tests.integration.client.talk import run

NODE = Node(1, "localhost", 9092)


class Somewhere:
    """Everything is on one broker."""

    async def find(
        self, keys: Iterable[str], _: Deadline
    ) -> tuple[dict[str, Node], dict[str, KafkaError]]:
        return dict.fromkeys(keys, NODE), {}

    def forget(self, keys: Iterable[str]) -> None:
        pass

    def name(self, key: str) -> str:
        return key


@pytest.mark.parametrize("turns", range(6))
def test_an_error_that_comes_as_the_call_is_cancelled_is_nobodys(turns: int) -> None:
    troubles: list[dict[str, Any]] = []

    async def scene() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, about: troubles.append(about))
        asked, fails = asyncio.Event(), asyncio.Event()

        async def ask(_: Node, __: list[str]) -> dict[str, str | Failure]:
            asked.set()
            await fails.wait()
            raise BrokerUnreachable("gone")

        call = asyncio.ensure_future(
            Routed(Somewhere(), Deadline(30, ClientSettings()), ask).run(["g"])
        )
        await asked.wait()
        fails.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        del call
        gc.collect()

    run(scene())
    assert troubles == []
