"""From the lists of brokers to listings of groups, each part of a list turned into them once.

Who watches a cluster lists it again and again, and most of what a broker says is the same as before: then
these parts of its answer are the very objects (see coterie.protocol.repeated_list), and so are the listings
made from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from coterie.client.network import Node
from coterie.client.results import GroupListing
from coterie.protocol.group_state import GroupState, GroupType
from coterie.protocol.messages.groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from coterie.protocol.repeated_list import blocks_of

__all__ = ["Listings"]

#: Different lists that are remembered, as many as on a connection.
_REQUESTS: Final = 4


class _Block(NamedTuple):
    """What a part of a list was turned into. The part is kept, for it is known by its identity."""

    groups: tuple[ListedGroup, ...]
    listings: dict[str, GroupListing]


class _Known(NamedTuple):
    answer: ListGroupsResponse
    blocks: dict[int, _Block]


class Listings:
    """What the last lists of each broker were turned into, by what was asked for."""

    def __init__(self) -> None:
        #: The last one last.
        self._known: dict[ListGroupsRequest, dict[Node, _Known]] = {}

    def of(
        self, request: ListGroupsRequest, answers: Mapping[Node, ListGroupsResponse]
    ) -> dict[str, GroupListing]:
        """The groups of all answers, of which there may be thousands."""
        before = self._known.pop(request, {})
        self._known[request] = now = {}
        if len(self._known) > _REQUESTS:
            del self._known[next(iter(self._known))]
        items: dict[str, GroupListing] = {}
        for node, answer in answers.items():
            known = before.get(node)
            if known is None or known.answer is not answer:
                known = _turned(answer, node.node_id, {} if known is None else known.blocks)
            now[node] = known
            for block in known.blocks.values():
                items.update(block.listings)
        return items


def _turned(answer: ListGroupsResponse, coordinator: int, before: Mapping[int, _Block]) -> _Known:
    """The listings of an answer; those of a block that was in the last one, too, are taken from there."""
    states, kinds = _States(), _Kinds()
    blocks: dict[int, _Block] = {}
    for groups in blocks_of(answer.groups):
        blocks[id(groups)] = before.get(id(groups)) or _Block(
            groups,
            {
                group.group_id: GroupListing(
                    group.group_id,
                    group.protocol_type,
                    states[group.group_state],
                    kinds[group.group_type],
                    coordinator,
                )
                for group in groups
            },
        )
    return _Known(answer, blocks)


class _States(dict[str, GroupState | None]):
    """States by their names, each looked for once; a broker that is too old tells none."""

    def __missing__(self, text: str) -> GroupState | None:
        self[text] = state = GroupState.parse(text) if text else None
        return state


class _Kinds(dict[str, GroupType | None]):
    """The same for types."""

    def __missing__(self, text: str) -> GroupType | None:
        self[text] = kind = GroupType.parse(text) if text else None
        return kind
