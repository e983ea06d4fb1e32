"""Which broker coordinates which group, and asking each coordinator about its own.

Look-ups are batched (KIP-699); a broker that cannot do that is asked for each group alone, in parallel.
What was learnt is kept until an answer shows that it is no longer true.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Generic, TypeVar

from coterie.client.connection import Connection
from coterie.client.network import Deadline, Network, Node
from coterie.client.results import BrokerFailure, Result
from coterie.error_codes import ErrorCode
from coterie.errors import (
    BrokerUnreachable,
    CoterieError,
    KafkaError,
    NoBatchedFindCoordinators,
    kafka_error,
)
from coterie.protocol.api import ApiKey
from coterie.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse

__all__ = ["Coordinators", "Failure", "PerCoordinator"]

T = TypeVar("T")

#: A group's error is its own, unless the coordinator is the trouble: then the group is looked up again.
_MOVED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
#: How long a broker may be silent before we look whether its groups have moved away from it.
_PATIENCE_SECONDS: Final = 1.0


class Coordinators:
    """Coordinators by group."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._known: dict[str, Node] = {}
        #: Look-ups of one group alone, because a broker could not do many at once.
        self.single_lookups = 0

    def learn(self, group: str, node: Node) -> None:
        self._known[group] = node

    def forget(self, groups: Iterable[str]) -> None:
        for group in groups:
            self._known.pop(group, None)

    async def find(
        self, groups: Iterable[str], deadline: Deadline
    ) -> tuple[dict[str, Node], dict[str, KafkaError]]:
        """The coordinators that are known or can be found, and errors for the rest."""
        groups = list(groups)
        found = {group: self._known[group] for group in groups if group in self._known}
        missing = [group for group in groups if group not in found]
        if not missing:
            return found, {}
        try:
            answers = await self._find_many(missing, deadline)
        except NoBatchedFindCoordinators:
            answers = await self._find_each(missing, deadline)
        errors: dict[str, KafkaError] = {}
        for group, (code, node) in answers.items():
            if code:
                errors[group] = kafka_error(code, f"group {group!r}")
            else:
                found[group] = self._known[group] = node
        return found, errors

    async def _find_many(
        self, groups: list[str], deadline: Deadline
    ) -> dict[str, tuple[int, Node]]:
        request = FindCoordinatorRequest(coordinator_keys=tuple(groups))
        answer = await self._network.any(
            request, FindCoordinatorResponse, deadline, check=_check_batching
        )
        return {
            each.key: (each.error_code, Node(each.node_id, each.host, each.port))
            for each in answer.coordinators
        }

    async def _find_each(
        self, groups: list[str], deadline: Deadline
    ) -> dict[str, tuple[int, Node]]:
        self.single_lookups += len(groups)
        answers = await asyncio.gather(
            *(
                self._network.any(
                    FindCoordinatorRequest(key=group), FindCoordinatorResponse, deadline
                )
                for group in groups
            )
        )
        return {
            group: (each.error_code, Node(each.node_id, each.host, each.port))
            for group, each in zip(groups, answers, strict=True)
        }


def _check_batching(connection: Connection) -> None:
    if connection.highest(ApiKey.FIND_COORDINATOR) < 4:
        raise NoBatchedFindCoordinators(
            f"broker {connection.address} cannot look up many coordinators at once"
        )


class Failure(Exception):
    """A group's error as an answer has it: the code, and the broker's own words if it has any."""

    def __init__(self, code: int, message: str | None = None) -> None:
        self.code = ErrorCode.of(code)
        self.message = message


#: Asks one coordinator about some groups; each group's item, or its failure.
Ask = Callable[[Node, list[str]], Awaitable[dict[str, "T | Failure"]]]


class PerCoordinator(Generic[T]):
    """One call about many groups: every coordinator asked about its own, in parallel, until all have
    answered or the time is up. Only what is missing is asked again."""

    def __init__(
        self, network: Network, coordinators: Coordinators, deadline: Deadline, ask: Ask[T]
    ) -> None:
        self._network = network
        self._coordinators = coordinators
        self._deadline = deadline
        self._ask = ask
        self._items: dict[str, T] = {}
        self._errors: dict[str, CoterieError] = {}
        self._causes: dict[str, CoterieError] = {}
        self._silent: dict[Node, str] = {}
        self._tasks: dict[asyncio.Task[dict[str, T | Failure]], tuple[Node, list[str]]] = {}

    async def run(self, groups: Iterable[str]) -> Result[T]:
        groups = list(dict.fromkeys(groups))
        pending = set(groups)
        try:
            while pending:
                await self._dispatch(pending)
                await self._collect(pending)
                if pending and not await self._deadline.pause():
                    break
        finally:
            for task in self._tasks:
                task.cancel()
        for group in pending:
            cause = self._causes.get(group)
            self._errors[group] = self._deadline.exceeded(f"group {group!r}", cause)
        failures = tuple(
            BrokerFailure(node.node_id, f"{node.host}:{node.port}", cause)
            for node, cause in self._silent.items()
        )
        order = {group: position for position, group in enumerate(groups)}
        items = dict(sorted(self._items.items(), key=lambda item: order[item[0]]))
        return Result(items, self._errors, failures if pending else ())

    async def _dispatch(self, pending: set[str]) -> None:
        """Look up what is missing and ask each coordinator."""
        try:
            found, errors = await self._coordinators.find(pending, self._deadline)
        except CoterieError as error:
            self._causes.update(dict.fromkeys(pending, error))
            return
        for group, error in errors.items():
            if error.code in _MOVED or error.code.retriable:
                self._causes[group] = error
            else:
                self._errors[group] = error
                pending.discard(group)
        by_node: dict[Node, list[str]] = {}
        for group, node in found.items():
            by_node.setdefault(node, []).append(group)
        for node, groups in by_node.items():
            task = asyncio.get_running_loop().create_task(_as_dict(self._ask(node, groups)))
            self._tasks[task] = (node, groups)

    async def _collect(self, pending: set[str]) -> None:
        while self._tasks:
            done, _ = await asyncio.wait(
                self._tasks, timeout=_PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                node, groups = self._tasks.pop(task)
                self._take(task, node, groups, pending)
            if not done:
                await self._leave_the_silent()

    def _take(
        self,
        task: asyncio.Task[dict[str, T | Failure]],
        node: Node,
        groups: list[str],
        pending: set[str],
    ) -> None:
        try:
            answers = task.result()
        except BrokerUnreachable as error:
            self._silent[node] = str(error)
            self._coordinators.forget(groups)
            self._causes.update(dict.fromkeys(groups, error))
            return
        except asyncio.CancelledError:
            return
        except CoterieError as error:
            self._errors.update(dict.fromkeys(groups, error))
            pending.difference_update(groups)
            return
        self._silent.pop(node, None)
        for group, answer in answers.items():
            if not isinstance(answer, Failure):
                self._items[group] = answer
                pending.discard(group)
                continue
            error = kafka_error(answer.code, f"group {group!r}", answer.message)
            if answer.code in _MOVED or answer.code.retriable:
                self._coordinators.forget([group])
                self._causes[group] = error
            else:
                self._errors[group] = error
                pending.discard(group)

    async def _leave_the_silent(self) -> None:
        """Brokers that do not answer may have lost their groups to others: then go there."""
        for task, (node, groups) in list(self._tasks.items()):
            self._coordinators.forget(groups)
            try:
                found, _ = await self._coordinators.find(groups, self._deadline)
            except CoterieError as error:
                self._causes.update(dict.fromkeys(groups, error))
                continue
            if any(found.get(group, node) != node for group in groups):
                task.cancel()
                self._silent[node] = "it does not answer, and its groups have moved"
                del self._tasks[task]


async def _as_dict(answer: Awaitable[dict[str, T | Failure]]) -> dict[str, T | Failure]:
    return await answer
