"""From the lists of brokers to listings of groups, each list turned into them once.

Who watches a cluster lists it again and again, and most of the time a broker says the very same as before:
then its answer is the same object (see coterie.protocol.frames), and so are the listings made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coterie.client.network import Node
from coterie.client.results import GroupListing
from coterie.protocol.group_state import GroupState, GroupType
from coterie.protocol.messages.groups import ListGroupsResponse

__all__ = ["Listings"]


class _Known(NamedTuple):
    answer: ListGroupsResponse
    items: dict[str, GroupListing]


class Listings:
    """What the last list of each broker was turned into."""

    def __init__(self) -> None:
        self._known: dict[Node, _Known] = {}

    def of(self, answers: Mapping[Node, ListGroupsResponse]) -> dict[str, GroupListing]:
        """The groups of all answers, of which there may be thousands."""
        before, self._known = self._known, {}
        items: dict[str, GroupListing] = {}
        for node, answer in answers.items():
            known = before.get(node)
            if known is None or known.answer is not answer:
                known = _Known(answer, _listings(answer, node.node_id))
            self._known[node] = known
            items.update(known.items)
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
    """States by their names, each looked for once; a broker that is too old tells none."""

    def __missing__(self, text: str) -> GroupState | None:
        self[text] = state = GroupState.parse(text) if text else None
        return state


class _Kinds(dict[str, GroupType | None]):
    """The same for types."""

    def __missing__(self, text: str) -> GroupType | None:
        self[text] = kind = GroupType.parse(text) if text else None
        return kind
