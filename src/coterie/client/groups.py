"""Groups: list, describe and delete them, find their coordinators, remove their members."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from coterie.client.coordinators import Coordinators
from coterie.client.lister import Lister, ListingCache
from coterie.client.network import Deadline, Network, Node
from coterie.client.results import Done, GroupDescription, GroupListing, Result
from coterie.client.routing import Failure, Routed
from coterie.error_codes import ErrorCode
from coterie.errors import CoterieError, UnsupportedVersion, kafka_error
from coterie.protocol.messages.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListGroupsRequest,
)

__all__ = ["Groups"]

#: Kafka's own clients cut longer reasons (KIP-800).
_LONGEST_REASON: Final = 255


class Groups:
    """Requests about groups, each to the coordinators of the groups."""

    def __init__(self, network: Network, coordinators: Coordinators) -> None:
        self._network = network
        self._coordinators = coordinators
        self._listings = ListingCache()

    async def list_groups(
        self,
        states: tuple[str, ...],
        types: tuple[str, ...],
        deadline: Deadline,
        *,
        client_side: bool = False,
    ) -> Result[str, GroupListing]:
        """All groups in some states and of some types; no state and no type means all of them.

        With `client_side`, groups are described and filtered here where a broker cannot filter.
        """
        try:
            return await self._list(states, types, deadline)
        except UnsupportedVersion:
            if not client_side:
                raise
        return await self._list_and_filter(states, types, deadline)

    async def _list(
        self, states: tuple[str, ...], types: tuple[str, ...], deadline: Deadline
    ) -> Result[str, GroupListing]:
        request = ListGroupsRequest(states, types)
        lister = Lister(self._network, self._coordinators, self._listings, deadline, request)
        return await lister.run()

    async def _list_and_filter(
        self, states: tuple[str, ...], types: tuple[str, ...], deadline: Deadline
    ) -> Result[str, GroupListing]:
        listed = await self._list((), (), deadline)
        described = await self.describe([*listed.items], deadline)
        items = {
            group.group_id: GroupListing(
                group.group_id, group.protocol_type, group.state, group.type, group.coordinator_id
            )
            for group in described
            if (not states or group.state in states) and (not types or group.type in types)
        }
        errors = {
            group: error
            for group, error in described.errors.items()
            # A group that was deleted after the list has no state.
            if getattr(error, "code", None) is not ErrorCode.GROUP_ID_NOT_FOUND
        }
        return Result(
            items, {**listed.errors, **errors}, listed.broker_errors + described.broker_errors
        )

    async def describe(
        self, groups: Collection[str], deadline: Deadline, *, operations: bool = False
    ) -> Result[str, GroupDescription]:
        """Describe groups of any kind; with `operations`, also what the client may do with them."""
        from coterie.client.describer import Describer

        describer = Describer(self._network, self._coordinators, deadline, operations=operations)
        described = await self._coordinators.ask_each(groups, deadline, describer.ask)
        return described.of(GroupDescription)

    async def delete(self, groups: Collection[str], deadline: Deadline) -> Result[str, Done]:
        """Delete groups that have no members.

        A group that does not exist when a request is repeated after a lost answer counts as deleted.
        """

        async def ask(node: Node, names: list[str]) -> dict[str, Done | Failure]:
            answer = await self._network.ask(
                node, DeleteGroupsRequest(tuple(names)), DeleteGroupsResponse, deadline
            )
            outcomes: dict[str, Done | Failure] = {}
            for each in answer.results:
                gone = each.error_code == ErrorCode.GROUP_ID_NOT_FOUND
                if not each.error_code or (gone and each.group_id in call.unanswered):
                    outcomes[each.group_id] = Done(each.group_id)
                else:
                    outcomes[each.group_id] = Failure(each.error_code)
            return outcomes

        limit = self._network.settings.max_request_size
        call: Routed[str, Done] = Routed(self._coordinators, deadline, ask, limit)
        result = await call.run(groups)
        for group in result.items:
            self._coordinators.types.pop(group, None)
        return result.of(Done)

    async def find_coordinators(
        self, groups: Collection[str], deadline: Deadline
    ) -> Result[str, Node]:
        """The coordinators of groups, looked up even if they are known."""
        self._coordinators.forget(groups)

        async def ask(node: Node, found: list[str]) -> dict[str, Node | Failure]:
            return dict.fromkeys(found, node)

        return (await self._coordinators.ask_each(groups, deadline, ask)).of(Node)

    async def remove_members(
        self,
        group: str,
        member_ids: Collection[str],
        instance_ids: Collection[str],
        reason: str,
        deadline: Deadline,
    ) -> Result[str, Done]:
        """Remove members from a group: those that are named, or all of them."""
        from coterie.protocol.messages.membership import (
            LeaveGroupRequest,
            LeaveGroupResponse,
            MemberIdentity,
        )

        reason = reason[:_LONGEST_REASON]
        members = tuple(MemberIdentity(each, None, reason) for each in member_ids)
        members += tuple(MemberIdentity("", each, reason) for each in instance_ids)
        if not members:
            described = await self.describe([group], deadline)
            members = tuple(
                MemberIdentity(each.member_id, each.instance_id, reason)
                for each in described[group].members
            )
        if not members:
            return Result({}, kind=Done)

        async def ask(node: Node, _: list[str]) -> dict[str, LeaveGroupResponse | Failure]:
            answer = await self._network.ask(
                node, LeaveGroupRequest(group, members=members), LeaveGroupResponse, deadline
            )
            return {group: Failure(answer.error_code) if answer.error_code else answer}

        answers = await self._coordinators.ask_each([group], deadline, ask)
        done: dict[str, Done] = {}
        errors: dict[str, CoterieError] = {}
        for each in answers.unwrap()[group].members:
            name = each.group_instance_id or each.member_id
            if each.error_code:
                errors[name] = kafka_error(each.error_code, f"member {name!r} of group {group!r}")
            else:
                done[name] = Done(name)
        return Result(done, errors, kind=Done)
