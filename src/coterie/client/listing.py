"""Listing: every broker asked for its own groups, until all of them have answered or the time is up."""

from __future__ import annotations

import asyncio
from typing import Final

from coterie.client.coordinators import Coordinators
from coterie.client.network import Deadline, Network, Node
from coterie.client.results import BrokerFailure, GroupListing, Result
from coterie.error_codes import ErrorCode
from coterie.errors import BrokerUnreachable, CoterieError, UnsupportedVersion, kafka_error
from coterie.protocol.api import ApiKey
from coterie.protocol.group_state import GroupState, GroupType
from coterie.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse

__all__ = ["Listing"]

_STATES_FROM: Final = 4  # KIP-518
_TYPES_FROM: Final = 5  # KIP-848
#: How long a broker may be silent before we look whether it is still one of the cluster's.
_PATIENCE_SECONDS: Final = 1.0


class Listing:
    """One call of list_groups."""

    def __init__(
        self,
        network: Network,
        coordinators: Coordinators,
        deadline: Deadline,
        request: ListGroupsRequest,
    ) -> None:
        self._network = network
        self._coordinators = coordinators
        self._deadline = deadline
        self._request = request
        self._answers: dict[Node, ListGroupsResponse] = {}
        self._causes: dict[Node, CoterieError] = {}

    async def run(self) -> Result[GroupListing]:
        nodes = await self._network.brokers(self._deadline)
        while True:
            await self._ask([node for node in nodes if node not in self._answers])
            if all(node in self._answers for node in nodes) or not await self._deadline.pause():
                return self._result(nodes)
            nodes = await self._look_again(nodes)

    async def _look_again(self, before: list[Node]) -> list[Node]:
        """The brokers as they are now. If one is gone its groups are with others now: ask all again."""
        try:
            await self._network.refresh(self._deadline)
        except CoterieError:
            return before
        now = list(self._network.nodes.values())
        if set(now) != set(before):
            self._answers.clear()
        return now

    async def _ask(self, nodes: list[Node]) -> None:
        loop = asyncio.get_running_loop()
        tasks = {loop.create_task(self._ask_one(node)): node for node in nodes}
        try:
            while tasks:
                done, _ = await asyncio.wait(
                    tasks, timeout=_PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    tasks.pop(task)
                    task.result()
                if not done and await self._left(tasks.values()):
                    return
        finally:
            for task in tasks:
                task.cancel()

    async def _left(self, silent: object) -> bool:
        """Whether a silent broker is no longer in the cluster; then there is nothing to wait for."""
        before = set(self._network.nodes.values())
        try:
            await self._network.refresh(self._deadline)
        except CoterieError:
            return False
        return set(self._network.nodes.values()) != before

    async def _ask_one(self, node: Node) -> None:
        try:
            connection = await self._network.to(node)
            version = connection.highest(ApiKey.LIST_GROUPS)
            self._check_filters(node, version)
            answer = await self._network.ask(
                node, self._request, ListGroupsResponse, self._deadline, version
            )
        except BrokerUnreachable as error:
            self._causes[node] = error
            return
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            self._answers[node] = answer
        elif code.retriable:
            self._causes[node] = kafka_error(code)
        else:
            raise kafka_error(code, str(node))

    def _check_filters(self, node: Node, version: int) -> None:
        """A filter that a broker cannot apply is an error, never an unfiltered answer (KIP-518)."""
        needed = {
            _STATES_FROM: self._request.states_filter,
            _TYPES_FROM: self._request.types_filter,
        }
        for minimum, wanted in needed.items():
            if wanted and version < minimum:
                raise UnsupportedVersion(
                    f"{node} serves ListGroups only up to v{version}, and v{minimum} is needed to list "
                    f"groups by {'state' if minimum == _STATES_FROM else 'type'}; "
                    "with client_side=True all groups are described and filtered here"
                )

    def _result(self, nodes: list[Node]) -> Result[GroupListing]:
        items: dict[str, GroupListing] = {}
        for node, answer in self._answers.items():
            for group in answer.groups:
                self._coordinators.learn(group.group_id, node)
                items[group.group_id] = GroupListing(
                    group.group_id,
                    group.protocol_type,
                    GroupState.parse(group.group_state) if group.group_state else None,
                    GroupType.parse(group.group_type) if group.group_type else None,
                    node.node_id,
                )
        failures = tuple(
            BrokerFailure(
                node.node_id, f"{node.host}:{node.port}", str(self._causes.get(node, "no answer"))
            )
            for node in nodes
            if node not in self._answers
        )
        return Result(items, {}, failures)
