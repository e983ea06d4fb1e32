"""Describing groups of every kind in one call: each by the API of its kind, in one batch per coordinator.

What kind a group is may be known from a list. If not, DescribeGroups is asked first; what it does not
know as a classic group is asked of the other APIs that the broker serves.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, NamedTuple

from coterie.client import descriptions
from coterie.client.coordinators import Coordinators
from coterie.client.network import Deadline, Network, Node, together
from coterie.client.results import GroupDescription
from coterie.client.routing import Failure
from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.group_state import GroupState, GroupType
from coterie.protocol.messages.groups import DescribeGroupsRequest, DescribeGroupsResponse

__all__ = ["Describer"]

Answers = dict[str, GroupDescription | Failure]


class _Kind(NamedTuple):
    """The API that describes a kind of groups, and what reads its answers."""

    api: ApiKey
    read: Callable[[Any, int], GroupDescription]


_KINDS: Final = {
    GroupType.CLASSIC: _Kind(ApiKey.DESCRIBE_GROUPS, descriptions.classic),
    GroupType.CONSUMER: _Kind(ApiKey.CONSUMER_GROUP_DESCRIBE, descriptions.consumer),
    GroupType.SHARE: _Kind(ApiKey.SHARE_GROUP_DESCRIBE, descriptions.share),
    GroupType.STREAMS: _Kind(ApiKey.STREAMS_GROUP_DESCRIBE, descriptions.streams),
}

#: How a broker says that a group is of another kind, or that its kind is not served at all.
_NOT_THIS_KIND: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


class Describer:
    """One call of describe_groups."""

    def __init__(
        self,
        network: Network,
        coordinators: Coordinators,
        deadline: Deadline,
        *,
        operations: bool,
    ) -> None:
        self._network = network
        self._coordinators = coordinators
        self._deadline = deadline
        self._operations = operations

    async def ask(self, node: Node, groups: list[str]) -> Answers:
        """Ask a coordinator about its groups: by the likely API first, then by the others."""
        types = self._coordinators.types
        by_kind: dict[GroupType, list[str]] = {}
        for group in groups:
            kind = types.get(group, GroupType.CLASSIC)
            by_kind.setdefault(kind if kind in _KINDS else GroupType.CLASSIC, []).append(group)
        asked = await together(*(self._by(kind, node, ids) for kind, ids in by_kind.items()))
        answers = {group: answer for each in asked for group, answer in each.items()}
        strangers: dict[GroupType, list[str]] = {}
        for kind, ids in by_kind.items():
            strange = [group for group in ids if _may_be_another_kind(group, answers.get(group))]
            if strange:
                strangers[kind] = strange
        if strangers:
            answers.update(await self._by_others(node, strangers, answers))
        self._coordinators.learn_types(
            {
                group: answer.type
                for group, answer in answers.items()
                if isinstance(answer, GroupDescription)
            }
        )
        return answers

    async def _by_others(
        self, node: Node, strangers: dict[GroupType, list[str]], first: Answers
    ) -> Answers:
        """Ask the APIs that were not asked yet, those that the broker serves, all at once."""
        connection = await self._network.to(node, self._deadline)
        work: list[Coroutine[Any, Any, Answers]] = []
        for kind in _KINDS:
            # No API but the classic one takes the empty id.
            ids = [
                group
                for tried, groups in strangers.items()
                for group in groups
                if tried is not kind and (group or kind is GroupType.CLASSIC)
            ]
            if ids and _KINDS[kind].api in connection.versions:
                work.append(self._by(kind, node, ids))
        asked = await together(*work) if work else []
        everyone = [group for groups in strangers.values() for group in groups]
        return {
            group: _best(group, first[group], (each.get(group) for each in asked))
            for group in everyone
        }

    async def _by(self, kind: GroupType, node: Node, groups: list[str]) -> Answers:
        api, read = _KINDS[kind]
        if kind is GroupType.CLASSIC:
            return await self._classic(node, groups)
        request: Any = api.request
        answer: Any = await self._network.ask(
            node,
            request(group_ids=tuple(groups), include_authorized_operations=self._operations),
            api.response,
            self._deadline,
        )
        answers: Answers = {}
        for group in answer.groups:
            # Kafka 3.9 answers a group once for each partition it asked: once right, else not found.
            if group.group_id not in answers or not group.error_code:
                answers[group.group_id] = (
                    Failure(group.error_code, group.error_message)
                    if group.error_code
                    else read(group, node.node_id)
                )
        return answers

    async def _classic(self, node: Node, groups: list[str]) -> Answers:
        connection = await self._network.to(node, self._deadline)
        # The field came with v3; an older broker is not asked for it.
        operations = self._operations and connection.highest(ApiKey.DESCRIBE_GROUPS) >= 3
        answer = await self._network.ask(
            node,
            DescribeGroupsRequest(tuple(groups), operations),
            DescribeGroupsResponse,
            self._deadline,
        )
        answers: Answers = {}
        for group in answer.groups:
            if group.error_code:
                answers[group.group_id] = Failure(group.error_code, group.error_message)
            elif group.group_state == GroupState.DEAD and not group.members:
                # Up to v5 this is how a group that is not there, or not classic, is answered.
                answers[group.group_id] = Failure(ErrorCode.GROUP_ID_NOT_FOUND)
            else:
                answers[group.group_id] = descriptions.classic(group, node.node_id)
        return answers


def _may_be_another_kind(group: str, answer: GroupDescription | Failure | None) -> bool:
    """Whether another API may describe the group: newer brokers return a message if it does not exist."""
    return (
        isinstance(answer, Failure)
        and answer.code in _NOT_THIS_KIND
        and answer.message != f"Group {group} not found."
    )


def _best(
    group: str,
    first: GroupDescription | Failure,
    answers: Iterable[GroupDescription | Failure | None],
) -> GroupDescription | Failure:
    """The description, else an error that is more than `not of this kind`, else `not found`.

    A broker before DescribeGroups v6 returns no message for a group that does not exist.
    """
    failure: Failure | None = None
    for answer in answers:
        if isinstance(answer, GroupDescription):
            return answer
        if answer is not None and answer.code not in _NOT_THIS_KIND:
            failure = answer
    code = ErrorCode.GROUP_ID_NOT_FOUND
    if isinstance(first, Failure) and first.code is code and first.message is None:
        return failure or first
    return failure or Failure(code, f"Group {group} not found.")
