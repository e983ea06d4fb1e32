"""The calls about groups: list, describe, delete, find their coordinators, remove members."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

from coterie.client.base import ClientBase
from coterie.client.lister import Lister
from coterie.client.network import Deadline, Node
from coterie.client.results import Done, GroupDescription, GroupListing, Result
from coterie.client.routing import Failure, Routed
from coterie.error_codes import ErrorCode
from coterie.errors import CoterieError, InvalidArgument, UnsupportedVersion, kafka_error
from coterie.protocol.group_state import GroupState, GroupType
from coterie.protocol.messages.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListGroupsRequest,
)

if TYPE_CHECKING:
    from coterie.protocol.messages.membership import MemberIdentity

__all__ = ["SHARE_OF_THE_GROUPS", "GroupCalls"]

#: Kafka's own clients send no longer ones (KIP-800).
_LONGEST_REASON: Final = 255

#: How much of a call's time may go by before logs are asked.
SHARE_OF_THE_GROUPS: Final = 0.8

E = TypeVar("E", bound=StrEnum)


class GroupCalls(ClientBase):
    """A part of AdminClient."""

    async def list_groups(
        self,
        *,
        states: Collection[GroupState | str] | None = None,
        types: Collection[GroupType | str] | None = None,
        protocol_types: Collection[str] | None = None,
        client_side: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[str, GroupListing]:
        """All groups of the cluster, or those in some states, of some types, of some protocols.

        Brokers filter by state and type. One that is too old for that is an error, unless
        `client_side` allows to describe all groups and to filter here.
        """
        wanted_states = _choice(GroupState, "states", states)
        wanted_types = _choice(GroupType, "types", types)
        if (
            protocol_types is not None
            and not isinstance(protocol_types, str)
            and not protocol_types
        ):
            raise InvalidArgument("protocol_types is empty, and would list nothing; leave it out")
        deadline = self._deadline(timeout)
        try:
            result = await self._list(deadline, wanted_states, wanted_types)
        except UnsupportedVersion:
            if not client_side:
                raise
            result = await self._list_and_filter(deadline, wanted_states, wanted_types)
        if protocol_types is None:
            return result.of(GroupListing)
        kinds = {protocol_types} if isinstance(protocol_types, str) else set(protocol_types)
        items = {key: item for key, item in result.items.items() if item.protocol_type in kinds}
        return Result(items, result.errors, result.broker_errors, GroupListing)

    async def _list(
        self, deadline: Deadline, states: tuple[str, ...], types: tuple[str, ...]
    ) -> Result[str, GroupListing]:
        request = ListGroupsRequest(states, types)
        listing = Lister(self._network, self._coordinators, self._listings, deadline, request)
        return await listing.run()

    async def _list_and_filter(
        self, deadline: Deadline, states: tuple[str, ...], types: tuple[str, ...]
    ) -> Result[str, GroupListing]:
        listed = await self._list(deadline, (), ())
        described = await self._describe(list(listed.items), deadline, operations=False)
        items = {
            group.group_id: GroupListing(
                group.group_id, group.protocol_type, group.state, group.type, group.coordinator
            )
            for group in described
            if (not states or group.state in states) and (not types or group.type in types)
        }
        errors = {
            group: error
            for group, error in described.errors.items()
            # A group that went away between the two has no state to ask for.
            if getattr(error, "code", None) is not ErrorCode.GROUP_ID_NOT_FOUND
        }
        return Result(
            items, {**listed.errors, **errors}, listed.broker_errors + described.broker_errors
        )

    async def describe_groups(
        self,
        groups: Iterable[str],
        *,
        authorized_operations: bool = False,
        deep: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[str, GroupDescription]:
        """State, members and assignments of groups of any kind, each by the API of its kind.

        What a broker does not tell (generation, leader and protocols, on Apache Kafka) `deep` looks for
        in the groups' records in `__consumer_offsets`; that needs numpy, and READ on that topic.
        """
        deadline = self._deadline(timeout)
        names = self._checked(groups)
        if not deep:
            described = await self._describe(names, deadline, operations=authorized_operations)
            return described.of(GroupDescription)
        # Records that cannot be had must leave the descriptions as they are, and in time.
        most = deadline.within(deadline.left * SHARE_OF_THE_GROUPS)
        described = await self._describe(names, most, operations=authorized_operations)
        return await self._deepened(described, deadline)

    async def _deepened(
        self, described: Result[str, GroupDescription], deadline: Deadline
    ) -> Result[str, GroupDescription]:
        from coterie.client.group_log import GroupLog  # noqa: PLC0415 - it needs numpy

        log = GroupLog(self._network, self._leaders, deadline)
        items = await log.deepen(described.items.values())
        return Result(items, described.errors, described.broker_errors, GroupDescription)

    async def _describe(
        self, groups: list[str], deadline: Deadline, *, operations: bool
    ) -> Result[str, GroupDescription]:
        from coterie.client.describer import Describer  # noqa: PLC0415 - a list does not pay for it

        describer = Describer(self._network, self._coordinators, deadline, operations=operations)
        return await self._per_coordinator(groups, deadline, describer.ask)

    async def delete_groups(
        self,
        groups: Iterable[str],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[str, Done]:
        """Delete groups that have no members, with their offsets; each has its own outcome.

        A group that is gone when a lost request is repeated counts as deleted.
        """
        deadline = self._deadline(timeout)

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

        limit = self.settings.max_request_size
        call: Routed[str, Done] = Routed(self._coordinators, deadline, ask, limit)
        result = await call.run(self._checked(groups))
        for group in result.items:
            self._coordinators.types.pop(group, None)
        return result.of(Done)

    async def find_coordinators(
        self,
        groups: Iterable[str],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[str, Node]:
        """The brokers that coordinate groups, looked up anew: by one request, where brokers can."""
        names = self._checked(groups)
        self._coordinators.forget(names)

        async def ask(node: Node, found: list[str]) -> dict[str, Node | Failure]:
            return dict.fromkeys(found, node)

        return (await self._per_coordinator(names, self._deadline(timeout), ask)).of(Node)

    async def remove_members(
        self,
        group: str,
        *,
        member_ids: Collection[str] = (),
        instance_ids: Collection[str] = (),
        reason: str = "removed by an administrator",
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[str, Done]:
        """Remove members from a group: those named, or all of them."""
        from coterie.protocol.messages.membership import MemberIdentity  # noqa: PLC0415 - seldom needed

        self._checked([group])
        deadline = self._deadline(timeout)
        reason = reason[:_LONGEST_REASON]
        members = tuple(MemberIdentity(each, None, reason) for each in member_ids)
        members += tuple(MemberIdentity("", each, reason) for each in instance_ids)
        if not members:
            described = await self._describe([group], deadline, operations=False)
            members = tuple(
                MemberIdentity(each.member_id, each.group_instance_id, reason)
                for each in described[group].members
            )
        if not members:
            return Result({}, kind=Done)
        return await self._remove(group, members, deadline)

    async def _remove(
        self, group: str, members: tuple[MemberIdentity, ...], deadline: Deadline
    ) -> Result[str, Done]:
        from coterie.protocol.messages.membership import (  # noqa: PLC0415 - seldom needed
            LeaveGroupRequest,
            LeaveGroupResponse,
        )

        async def ask(node: Node, _: list[str]) -> dict[str, LeaveGroupResponse | Failure]:
            answer = await self._network.ask(
                node, LeaveGroupRequest(group, members=members), LeaveGroupResponse, deadline
            )
            return {group: Failure(answer.error_code) if answer.error_code else answer}

        answer = (await self._per_coordinator([group], deadline, ask)).unwrap()[group]
        done: dict[str, Done] = {}
        errors: dict[str, CoterieError] = {}
        for each in answer.members:
            name = each.group_instance_id or each.member_id
            if each.error_code:
                errors[name] = kafka_error(each.error_code, f"member {name!r} of group {group!r}")
            else:
                done[name] = Done(name)
        return Result(done, errors, kind=Done)


def _choice(kind: type[E], name: str, wanted: Collection[E | str] | None) -> tuple[str, ...]:
    """Values of a filter in Kafka's spelling; none at all is refused, for it cannot be meant."""
    if wanted is None:
        return ()
    if isinstance(wanted, str):
        wanted = [wanted]
    if not wanted:
        raise InvalidArgument(
            f"{name} is empty, and would list nothing; leave it out for all groups"
        )
    known = {each.value.lower(): each for each in kind if each.value != "Unknown"}
    found: dict[str, None] = {}
    for each in wanted:
        member = known.get(str(each).strip().lower())
        if member is None:
            import difflib  # noqa: PLC0415 - only mistakes pay for it

            near = difflib.get_close_matches(str(each).lower(), known, n=1)
            hint = f"did you mean {known[near[0]].value!r}?" if near else f"one of {_all(known)}"
            raise InvalidArgument(f"{name}: there is no {str(each)!r}; {hint}")
        found[member.value] = None
    return tuple(found)


def _all(known: dict[str, E]) -> str:
    return ", ".join(each.value for each in known.values())
