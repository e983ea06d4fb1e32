"""Listings of groups, made from the responses of brokers and kept for the next list.

A client that watches a cluster lists it again and again, and most responses of a broker equal the one before.
Such a response is the same object (see coterie.protocol.repeated_list), and so are the listings made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coterie.client.network import Node
from coterie.client.results import GroupListing
from coterie.protocol.group_state import GroupState, GroupType
from coterie.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from coterie.protocol.repeated_list import recent

__all__ = ["ListingCache"]


class _Known(NamedTuple):
    """An answer, and the listings built from it."""

    answer: ListGroupsResponse
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
