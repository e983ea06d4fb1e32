"""Listing, describing and deleting groups, for the part of them that one shard has.

Called by the server, which asks every shard for a list and the right one for each group, and combines
the answers. Authorization is the server's business too.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from coterie.coordinator.consumer import description
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.durable import DurableState
from coterie.coordinator.expiration import group_tombstones
from coterie.coordinator.group import ClassicGroup
from coterie.coordinator.offsets import Offsets
from coterie.coordinator.outcome import Outcome, Record, TopicView
from coterie.coordinator.rebalance import Member
from coterie.error_codes import ErrorCode
from coterie.protocol.group_state import GroupState, GroupType
from coterie.protocol.messages import consumer_groups
from coterie.protocol.messages.groups import (
    DeletableGroupResult,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    ListedGroup,
    ListGroupsRequest,
)

__all__ = ["NO_OPERATIONS", "Administration"]

#: AuthorizedOperations of one who did not ask for them.
NO_OPERATIONS: Final = -(1 << 31)
_NOT_FOUND_FROM: Final = 6  # DescribeGroups, KIP-1043


class Administration:
    """Looks at groups of any state, and removes empty ones."""

    __slots__ = ("_offsets", "_state")

    def __init__(self, state: DurableState, offsets: Offsets) -> None:
        self._state = state
        self._offsets = offsets

    def list(self, request: ListGroupsRequest) -> list[ListedGroup]:
        """Groups in any of the states and of any of the types (KIP-518, KIP-848).

        Names match in any case. One that nobody knows matches no group, and is no error.
        """
        groups = self._state.groups
        if not groups:
            return []
        found: list[ListedGroup] = []
        states, types = _filters(request.states_filter, request.types_filter)
        for kind, state, bucket in self._state.index.find(states, types):
            type_name, state_name = str(kind), str(state)
            found += [
                ListedGroup(group_id, groups[group_id].protocol_type, state_name, type_name)
                for group_id in bucket
            ]
        return found

    def describe(
        self, group_id: str, version: int, authorized_operations: int = NO_OPERATIONS
    ) -> DescribedGroup:
        """A classic group; any other is not found, which version 6 says and older ones call Dead."""
        group = self._state.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return _described(group, authorized_operations)
        if version < _NOT_FOUND_FROM:
            return DescribedGroup(
                group_id=group_id,
                group_state=GroupState.DEAD.value,
                authorized_operations=authorized_operations,
            )
        reason = "not found" if group is None else "is not a classic group"
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {reason}.",
            group_id=group_id,
            group_state=GroupState.DEAD.value,
        )

    def describe_consumer(
        self, group_id: str, topics: TopicView, authorized_operations: int = NO_OPERATIONS
    ) -> consumer_groups.DescribedGroup:
        """A group of the consumer protocol (KIP-848); any other is not found."""
        group = self._state.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return description.describe(group, topics, authorized_operations)
        return description.not_found(group_id, exists=group is not None)

    def delete(self, group_ids: Iterable[str]) -> Outcome:
        """Delete empty groups: tombstones of their offsets, then of themselves. Each is for itself."""
        records: list[Record] = []
        results: list[DeletableGroupResult] = []
        for group_id in dict.fromkeys(group_ids):
            group = self._state.groups.get(group_id)
            error = ErrorCode.NONE
            if group is None:
                error = ErrorCode.GROUP_ID_NOT_FOUND
            elif group.state is not GroupState.EMPTY:
                error = ErrorCode.NON_EMPTY_GROUP
            else:
                records += self._offsets.tombstones_of(group_id)
                records += group_tombstones(group)
            results.append(DeletableGroupResult(group_id, error))
        return Outcome(tuple(records), DeleteGroupsResponse(results=tuple(results)))


@lru_cache(maxsize=128)
def _filters(
    states: tuple[str, ...], types: tuple[str, ...]
) -> tuple[frozenset[GroupState], frozenset[GroupType]]:
    """Filters as values; every shard of a broker is asked with the same ones."""
    return (
        frozenset(GroupState.parse(each) for each in states),
        frozenset(GroupType.parse(each) for each in types),
    )


def _described(group: ClassicGroup, authorized_operations: int) -> DescribedGroup:
    """All there is to tell, KIP-181's additions included.

    As in Kafka, protocol and metadata show only in Stable; KIP-181's member_subscription always does.
    Fields in their order: a tool may ask for thousands of groups, and names would cost half of it.
    """
    rebalance = group.membership()
    stable = rebalance.state is GroupState.STABLE
    protocol = rebalance.protocol_name
    return DescribedGroup(
        0,
        None,
        group.group_id,
        str(rebalance.state),
        rebalance.protocol_type or "",
        (protocol or "") if stable else "",
        tuple([_described_member(m, protocol, stable=stable) for m in rebalance.members.values()]),
        authorized_operations,
        rebalance.generation,
        rebalance.leader,
        rebalance.new_member_added,
        group.consumer_commits,
        group.transactional_commits,
    )


def _described_member(
    member: Member, protocol: str | None, *, stable: bool
) -> DescribedGroupMember:
    metadata = member.metadata(protocol)
    return DescribedGroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        metadata if stable else b"",
        member.assignment,
        metadata,
        tuple([each.name for each in member.protocols]),
    )
