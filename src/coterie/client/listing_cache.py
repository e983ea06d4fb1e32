"""Listings of groups, made from the responses of brokers and kept for the next list.

A client that watches a cluster lists it again and again, and most parts of a response are the same as before.
The decoder returns such parts as the same objects (see coterie.protocol.repeated_list), and so the listings
that were made from them are reused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coterie.client.network import Node
from coterie.client.results import GroupListing
from coterie.protocol.group_state import GroupState, GroupType
from coterie.protocol.messages.groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from coterie.protocol.repeated_list import blocks_of, recent

__all__ = ["ListingCache"]


class _Block(NamedTuple):
    """What a part of a list was turned into. The part is kept, for it is known by its identity."""

    groups: tuple[ListedGroup, ...]
    listings: dict[str, GroupListing]


class _Known(NamedTuple):
    answer: ListGroupsResponse
    #: In the order of the answer.
    blocks: dict[int, _Block]
    #: Those of all blocks.
    listings: dict[str, GroupListing]


class ListingCache:
    """What the last lists of each broker were turned into, by what was asked for."""

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
                nodes[node] = known = _turned(answer, node.node_id, known)
            items.update(known.listings)
        return items


def _turned(answer: ListGroupsResponse, coordinator: int, before: _Known | None) -> _Known:
    """The listings of an answer, made out of those of the last one, which are no more."""
    old = {} if before is None else before.blocks
    maker = _Maker(coordinator)
    blocks = {
        id(groups): old.get(id(groups)) or _Block(groups, maker.listings(groups))
        for groups in blocks_of(answer.groups)
    }
    listings = {} if before is None else before.listings
    for name in [name for key in old.keys() - blocks.keys() for name in old[key].listings]:
        listings.pop(name, None)
    for key in blocks.keys() - old.keys():
        listings.update(blocks[key].listings)
    if len(listings) != sum([len(block.listings) for block in blocks.values()]):
        # A broker that lists a group twice.
        listings = {}
        for block in blocks.values():
            listings.update(block.listings)
    return _Known(answer, blocks, listings)


class _Maker:
    """Makes the listings of one answer."""

    def __init__(self, coordinator: int) -> None:
        self._coordinator = coordinator
        self._states, self._kinds = _States(), _Kinds()

    def listings(self, groups: tuple[ListedGroup, ...]) -> dict[str, GroupListing]:
        states, kinds, coordinator = self._states, self._kinds, self._coordinator
        return {
            group.group_id: GroupListing(
                group.group_id,
                group.protocol_type,
                states[group.group_state],
                kinds[group.group_type],
                coordinator,
            )
            for group in groups
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
