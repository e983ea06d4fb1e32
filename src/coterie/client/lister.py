"""List groups: ask every broker for its own groups until all of them have answered or the time is up.

A list is complete if every broker has answered, every partition of the offsets topic has a leader, and the
leaders and their epochs are the same as before: groups of a partition that moves may be in no response. So
the brokers of the last list are asked first, and leaders afterwards, by one Metadata request for both
purposes; only a client's first list takes two. A new leader lists nothing of a partition, without an error,
until it has begun to load it; see coterie.client.probing. Two cases are left: a move that was under way when
a client's first list began, and a broker whose metadata is old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from coterie.client.coordinators import Coordinators, LeaderAndEpoch
from coterie.client.network import PATIENCE_SECONDS, Deadline, Network, Node, end_task
from coterie.client.probing import OFFSETS_TOPIC, hosted
from coterie.client.results import BrokerFailure, GroupListing, Result
from coterie.error_codes import ErrorCode
from coterie.errors import (
    BrokerUnreachable,
    CoterieError,
    ProtocolError,
    UnsupportedVersion,
    kafka_error,
)
from coterie.protocol.api import ApiKey
from coterie.protocol.group_state import GroupState, GroupType
from coterie.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from coterie.protocol.repeated_list import recent

__all__ = ["Lister", "ListingCache"]

_STATES_FROM: Final = 4  # KIP-518
_TYPES_FROM: Final = 5  # KIP-848

#: So many turns of the loop it takes until a question has left.
_TURNS_TO_SEND: Final = 3


class Lister:
    """One call of list_groups."""

    def __init__(
        self,
        network: Network,
        coordinators: Coordinators,
        listings: ListingCache,
        deadline: Deadline,
        request: ListGroupsRequest,
    ) -> None:
        self._network = network
        self._coordinators = coordinators
        self._listings = listings
        self._deadline = deadline
        self._request = request
        self._answers: dict[Node, ListGroupsResponse] = {}
        self._causes: dict[Node, CoterieError] = {}
        #: Brokers whose answer is an error that will not go away by asking again.
        self._refused: set[Node] = set()
        #: Leader and epoch of the offsets topic's partitions: the coordinators of the groups in them.
        self._leaders: dict[int, LeaderAndEpoch] = {}
        #: Brokers whose answer is from before a move; it is better than none.
        self._outdated: set[Node] = set()
        #: Whether coordinators have moved and may not be ready to list what they were given.
        self._settling = False
        #: What was last put together from the answers.
        self._items: dict[str, GroupListing] = {}
        #: Whether it is known that none has moved.
        self._checked = False

    async def run(self) -> Result[str, GroupListing]:
        nodes = await self._known_brokers()
        tries = 0
        while True:
            if not self._settling or await self._settled():
                self._settling = False
                await self._ask([node for node in nodes if self._wanted(node)])
                if await self._changed_meanwhile(nodes):
                    nodes = list(self._network.nodes.values())
                    self._outdated = set(nodes)
                    self._settling = True
                elif self._checked and self._all_there(nodes):
                    return self._result(nodes, self._items)
            if not await self._deadline.pause(tries):
                await self._ask([node for node in nodes if self._wanted(node)])
                return self._result(nodes, self._put_together(nodes))
            tries += 1

    async def _changed_meanwhile(self, nodes: list[Node]) -> bool:
        """Ask whether something has changed, and put the answers together until that is answered."""
        asking = asyncio.get_running_loop().create_task(self._changed(nodes))
        try:
            for _ in range(_TURNS_TO_SEND):
                await asyncio.sleep(0)
            self._items = self._put_together(nodes)
            return await asking
        finally:
            await end_task(asking)

    async def _settled(self) -> bool:
        """Whether all coordinators are ready, those included that became one since."""
        try:
            await self._brokers()
        except CoterieError:
            return False
        leaders = {index: leader for index, (leader, _) in self._leaders.items()}
        return await hosted(self._network, leaders, self._deadline)

    def _wanted(self, node: Node) -> bool:
        if node in self._refused:
            return False
        return node not in self._answers or node in self._outdated

    def _all_there(self, nodes: list[Node]) -> bool:
        return not self._leaderless and not any(self._wanted(node) for node in nodes)

    @property
    def _leaderless(self) -> list[int]:
        nodes = self._network.nodes
        return sorted(index for index, (leader, _) in self._leaders.items() if leader not in nodes)

    async def _known_brokers(self) -> list[Node]:
        """Brokers and leaders as the last list left them; what is not so any more shows at the end."""
        if self._coordinators.leaders is None or not self._network.nodes:
            return await self._brokers()
        self._leaders = self._coordinators.leaders
        return list(self._network.nodes.values())

    async def _brokers(self) -> list[Node]:
        """Look up the brokers: groups of an unknown broker would be missing without an error."""
        answer = await self._network.refresh(self._deadline, (OFFSETS_TOPIC,))
        self._leaders = self._coordinators.leaders = {
            partition.partition_index: (partition.leader_id, partition.leader_epoch)
            for topic in answer.topics
            for partition in topic.partitions
        }
        return list(self._network.nodes.values())

    async def _changed(self, before: list[Node]) -> bool:
        """Whether brokers or coordinators are others than before: then all have to be asked again."""
        leaders = self._leaders
        self._checked = False
        try:
            now = await self._brokers()
        except CoterieError:
            return False
        self._checked = True
        return set(now) != set(before) or leaders != self._leaders

    async def _ask(self, nodes: list[Node]) -> None:
        loop = asyncio.get_running_loop()
        tasks = {loop.create_task(self._ask_one(node)): node for node in nodes}
        try:
            while tasks:
                done, _ = await asyncio.wait(
                    tasks, timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    tasks.pop(task)
                    task.result()
                if not done and await self._gone(tasks.values()):
                    return
        finally:
            for task in tasks:
                await end_task(task)

    async def _gone(self, silent: Collection[Node]) -> bool:
        """Whether a silent broker is no longer in the cluster; then there is nothing to wait for."""
        try:
            await self._network.refresh(self._deadline.within(2 * PATIENCE_SECONDS))
        except CoterieError:
            return False
        return not set(silent) <= set(self._network.nodes.values())

    async def _ask_one(self, node: Node) -> None:
        try:
            connection = await self._network.to(node, self._deadline)
            self._check_filters(node, connection.highest(ApiKey.LIST_GROUPS))
            answer = await self._network.ask(
                node, self._request, ListGroupsResponse, self._deadline
            )
        except BrokerUnreachable as error:
            # That the time is up is no cause, if there is one.
            if node not in self._causes or not self._deadline.over:
                self._causes[node] = error
            return
        except ProtocolError as error:
            self._causes[node] = error
            self._refused.add(node)
            return
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            self._answers[node] = answer
            self._outdated.discard(node)
            return
        self._causes[node] = kafka_error(code)
        if not code.retriable:
            self._refused.add(node)

    def _check_filters(self, node: Node, version: int) -> None:
        """A filter that a broker cannot apply is an error, never an unfiltered answer (KIP-518)."""
        needed = {
            _STATES_FROM: self._request.states_filter,
            _TYPES_FROM: self._request.types_filter,
        }
        for minimum, wanted in needed.items():
            if wanted and version < minimum:
                error = UnsupportedVersion(
                    f"{node} serves ListGroups only up to v{version}, and v{minimum} is needed to list "
                    f"groups by {'state' if minimum == _STATES_FROM else 'type'}; "
                    "with client_side=True all groups are described and filtered here"
                )
                error.served, error.needed = version, minimum
                raise error

    def _put_together(self, nodes: list[Node]) -> dict[str, GroupListing]:
        """The groups of all answers; who lists one coordinates it."""
        answers = {node: answer for node, answer in self._answers.items() if node in nodes}
        items = self._listings.of(self._request, answers)
        for node, answer in answers.items():
            self._coordinators.listed(answer.groups, node)
        if len(items) < sum(len(answer.groups) for answer in answers.values()):
            self._forget_claimed_twice(nodes)
        return items

    def _result(
        self, nodes: list[Node], items: dict[str, GroupListing]
    ) -> Result[str, GroupListing]:
        failures = tuple(
            BrokerFailure(node.node_id, node.address, str(self._causes.get(node, "no answer")))
            for node in nodes
            if node not in self._answers
        )
        return Result(items, self._holes(whole=not failures), failures)

    def _forget_claimed_twice(self, nodes: list[Node]) -> None:
        """A broker that lists a group coordinates it; if two list it, the coordinator is not known."""
        seen: set[str] = set()
        for node, answer in self._answers.items():
            if node in nodes:
                names = {group.group_id for group in answer.groups}
                self._coordinators.forget(seen & names)
                seen |= names

    def _holes(self, *, whole: bool) -> dict[str, CoterieError]:
        """Partitions of the offsets topic whose groups no broker could list."""
        names = [f"{OFFSETS_TOPIC}-{index}" for index in self._leaderless]
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        text = "it has no leader, and its groups are in no list"
        holes: dict[str, CoterieError] = {
            name: kafka_error(code, f"partition {name}", text) for name in names
        }
        if self._settling:
            text = "coordinators have moved and are not all ready; groups may be missing"
        elif not self._checked and whole:
            text = "whether coordinators have moved meanwhile could not be asked; groups may be missing"
        else:
            return holes
        return holes | {OFFSETS_TOPIC: kafka_error(code, f"topic {OFFSETS_TOPIC}", text)}


class _Known(NamedTuple):
    """An answer, and the listings built from it."""

    answer: ListGroupsResponse
    listings: dict[str, GroupListing]


class ListingCache:
    """The listings made from the last response of each broker, by request.

    A client that watches a cluster lists it again and again, and most responses equal the one before. Such a
    response is the same object (see coterie.protocol.repeated_list), and so its listings are reused.
    """

    def __init__(self) -> None:
        self._known: dict[ListGroupsRequest, dict[Node, _Known]] = {}

    def of(
        self, request: ListGroupsRequest, answers: Mapping[Node, ListGroupsResponse]
    ) -> dict[str, GroupListing]:
        """The groups of all answers, of which there may be thousands."""
        nodes = recent(self._known, request, dict)
        for gone in nodes.keys() - answers.keys():
            del nodes[gone]
        items: dict[str, GroupListing] = {}
        for node, answer in answers.items():
            known = nodes.get(node)
            if known is None or known.answer is not answer:
                nodes[node] = known = _Known(answer, _listings(answer, node.node_id))
            items.update(known.listings)
        return items


def _listings(answer: ListGroupsResponse, coordinator: int) -> dict[str, GroupListing]:
    states, kinds = _States(), _Kinds()
    return {
        group.group_id: GroupListing(
            group.group_id,
            group.protocol_type,
            states[group.group_state],
            kinds[group.group_type],
            coordinator,
        )
        for group in answer.groups
    }


class _States(dict[str, GroupState | None]):
    """States by their names, each looked for once; a broker that is too old returns none."""

    def __missing__(self, text: str) -> GroupState | None:
        self[text] = state = GroupState.parse(text) if text else None
        return state


class _Kinds(dict[str, GroupType | None]):
    """The same for types."""

    def __missing__(self, text: str) -> GroupType | None:
        self[text] = kind = GroupType.parse(text) if text else None
        return kind
