"""Requests about many keys: each broker gets one request about its own keys.

A key is a group, whose broker is its coordinator, or a partition, whose broker is its leader. All brokers
are asked in parallel, each once, about everything that is theirs. Keys that have moved, or whose
broker does not answer, are looked up again and sent to another broker until the deadline.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final, Generic, Protocol, TypeVar

from coterie.client.network import PATIENCE_SECONDS, Deadline, Node, end_task
from coterie.client.results import BrokerFailure, Result
from coterie.error_codes import ErrorCode
from coterie.errors import BrokerUnreachable, CoterieError, KafkaError, kafka_error

__all__ = ["Ask", "Failure", "Routed", "Router", "batches", "is_final_in_lookup", "moved_away"]

K = TypeVar("K")
T = TypeVar("T")

#: Codes that Kafka calls retriable, and that a look-up settles once and for all.
_FINAL_IN_LOOKUP: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
)

_log = logging.getLogger("coterie.client")


class Failure:
    """A key's error as an answer has it: the code, and the broker's own words if it has any."""

    __slots__ = ("code", "message")

    def __init__(self, code: int, message: str | None = None) -> None:
        self.code = ErrorCode.of(code)
        self.message = message


class Router(Protocol[K]):
    """Knows which broker to ask about a key."""

    async def find(
        self, keys: Iterable[K], deadline: Deadline
    ) -> tuple[dict[K, Node], dict[K, KafkaError]]:
        """The brokers that are known or can be found, and errors for the rest."""

    def forget(self, keys: Iterable[K]) -> None:
        """Look these up again next time."""

    def name(self, key: K) -> str:
        """The key as a sentence has it: group 'orders'."""


#: Asks one broker about some keys; each key's item, or its failure.
Ask = Callable[[Node, list[K]], Awaitable[dict[K, T | Failure]]]


class Routed(Generic[K, T]):
    """One call about many keys."""

    def __init__(
        self, router: Router[K], deadline: Deadline, ask: Ask[K, T], max_bytes: int = 100_000_000
    ) -> None:
        self._router = router
        self._deadline = deadline
        self._ask = ask
        self._max_bytes = max_bytes
        self._items: dict[K, T] = {}
        self._errors: dict[K, CoterieError] = {}
        self._causes: dict[K, CoterieError] = {}
        self._failed: dict[Node, str] = {}
        #: Keys that a broker was asked about without an answer: what was asked may have been done.
        self.unanswered: set[K] = set()

    async def run(self, keys: Iterable[K]) -> Result[K, T]:
        keys = list(dict.fromkeys(keys))
        if keys:
            await self._serve(keys, 0)
        items = {key: self._items[key] for key in keys if key in self._items}
        errors = {key: self._errors[key] for key in keys if key in self._errors}
        missing = [node for node in self._failed if errors]
        failures = tuple(
            BrokerFailure(node.node_id, node.address, self._failed[node]) for node in missing
        )
        return Result(items, errors, failures)

    async def _serve(self, keys: list[K], tries: int) -> None:
        """Find the brokers, and ask each of them by itself: a slow one delays no other."""
        by_node, nowhere = await self._find(keys)
        async with asyncio.TaskGroup() as group:
            for node, theirs in by_node.items():
                for batch in batches(theirs, self._max_bytes):
                    group.create_task(self._ask_and_follow(node, batch, tries))
            if nowhere:
                group.create_task(self._again(nowhere, tries))

    async def _ask_and_follow(self, node: Node, keys: list[K], tries: int) -> None:
        left = await self._ask_one(node, keys)
        if left:
            await self._again(left, tries)

    async def _again(self, keys: list[K], tries: int) -> None:
        if await self._deadline.pause(tries):
            await self._serve(keys, tries + 1)
            return
        for key in keys:
            self._errors[key] = self._deadline.exceeded(
                self._router.name(key), self._causes.get(key), tries + 1
            )

    async def _find(self, keys: list[K]) -> tuple[dict[Node, list[K]], list[K]]:
        """Keys by broker, and those that have none yet."""
        try:
            found, errors = await self._router.find(keys, self._deadline)
        except CoterieError as error:
            self._errors.update(dict.fromkeys(keys, error))
            return {}, []
        nowhere: list[K] = []
        for key, trouble in errors.items():
            if is_final_in_lookup(trouble):
                self._errors[key] = trouble
            else:
                self._causes[key] = trouble
                nowhere.append(key)
        by_node: dict[Node, list[K]] = {}
        for key, node in found.items():
            by_node.setdefault(node, []).append(key)
        return by_node, nowhere

    async def _ask_one(self, node: Node, keys: list[K]) -> list[K]:
        """Ask a broker; returns the keys that have to be asked again."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(_coroutine(self._ask(node, keys)))
        try:
            while not (await asyncio.wait([task], timeout=PATIENCE_SECONDS))[0]:
                if await moved_away(self._router, node, keys, self._deadline):
                    self._fail(node, keys, BrokerUnreachable(f"{node} does not answer"))
                    return keys
            answers = task.result()
        except BrokerUnreachable as error:
            self._fail(node, keys, error)
            return keys
        except CoterieError as error:
            self._errors.update(dict.fromkeys(keys, error))
            return []
        finally:
            # Also if it has ended: asyncio logs an exception that no task has read.
            await end_task(task)
        self._failed.pop(node, None)
        return [key for key in keys if not self._take(key, answers.get(key))]

    def _fail(self, node: Node, keys: list[K], error: BrokerUnreachable) -> None:
        _log.info("%s failed; its part of the call is looked up again: %s", node, error)
        self._failed[node] = str(error)
        self._router.forget(keys)
        self._causes.update(dict.fromkeys(keys, error))
        self.unanswered.update(keys)

    def _take(self, key: K, answer: T | Failure | None) -> bool:
        """Keep an answer; False if the key has to be asked again."""
        if answer is None:
            answer = Failure(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker's answer leaves it out")
        if not isinstance(answer, Failure):
            self._items[key] = answer
            return True
        error = kafka_error(answer.code, self._router.name(key), answer.message)
        if not answer.code.retriable and answer.code is not ErrorCode.REBALANCE_IN_PROGRESS:
            self._errors[key] = error
            return True
        self._router.forget([key])
        self._causes[key] = error
        return False


def is_final_in_lookup(error: KafkaError) -> bool:
    """Whether a look-up that fails like this would fail again."""
    return not error.code.retriable or error.code in _FINAL_IN_LOOKUP


async def moved_away(router: Router[K], node: Node, keys: list[K], deadline: Deadline) -> bool:
    """Whether a silent broker has lost keys to another: then there is nothing to wait for."""
    router.forget(keys)
    try:
        found, _ = await router.find(keys, deadline.within(2 * PATIENCE_SECONDS))
    except CoterieError:
        return False
    return any(found.get(key, node) != node for key in keys)


async def _coroutine(answer: Awaitable[dict[K, T | Failure]]) -> dict[K, T | Failure]:
    return await answer


def batches(keys: list[K], max_bytes: int) -> Iterator[list[K]]:
    """The keys, cut where a request for them would be larger than a broker accepts."""
    # Few and short enough, whatever is in them: as almost always.
    if keys and len(keys) * (4 * max(map(_length, keys)) + 16) <= max_bytes:
        yield keys
        return
    batch: list[K] = []
    size = 0
    for key in keys:
        weight = _weight(key)
        if batch and size + weight > max_bytes:
            yield batch
            batch, size = [], 0
        batch.append(key)
        size += weight
    if batch:
        yield batch


def _length(key: object) -> int:
    return len(key) if isinstance(key, str) else 16


def _weight(key: object) -> int:
    """Four bytes a character at most, and some for the other fields of a request."""
    if not isinstance(key, str):
        return 80
    return len(key) * (1 if key.isascii() else 4) + 16
