"""The rule of OffsetFetch: Describe on the group, and only offsets of topics that may be described.

A topic that was asked for is refused in its place; of all topics, those that may not be seen are left out.
"""

from __future__ import annotations

from typing import Any, Final, cast

from msgspec.structs import replace

from coterie.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from coterie.protocol.schema import Response
from coterie.protocol.types import Uuid
from coterie.security.acls import Operation, ResourceType
from coterie.server.security.access_rules import Each, Whole
from coterie.server.security.guard import ERRORS, Guard, Need, Needs, Rule

__all__ = ["OffsetFetchRule"]

_DESCRIBE, _TOPIC, _GROUP = Operation.DESCRIBE, ResourceType.TOPIC, ResourceType.GROUP
_MANY_GROUPS_FROM: Final = 8  # KIP-709


class OffsetFetchRule(Rule):
    """One group to version 7, many from version 8 on."""

    _one = (
        Whole(_DESCRIBE, _GROUP, "group_id", bare=True),
        Each(_DESCRIBE, _TOPIC, "topics", "name"),
    )
    _many = Each(_DESCRIBE, _GROUP, "groups", "group_id")

    @property
    def needs(self) -> Needs:
        return (
            Need(_DESCRIBE, _GROUP),
            Need(_DESCRIBE, _TOPIC, "others are left out if all are asked for"),
        )

    def apply(self, guard: Guard, /) -> None:
        if guard.call.version < _MANY_GROUPS_FROM:
            for rule in self._one:
                if not guard.answered:
                    rule.apply(guard)
            return
        asked = cast("OffsetFetchRequest", guard.call.request)
        # A group that is refused is refused without its topics.
        bare = tuple(replace(each, topics=None) for each in asked.groups)
        guard.call.request = replace(asked, groups=bare)
        self._many.apply(guard)
        if not guard.answered:
            left = {each.group_id for each in guard.call.request.groups}
            groups = [each for each in asked.groups if each.group_id in left]
            narrowed = tuple(self._narrow(guard, each) for each in groups)
            guard.call.request = replace(asked, groups=narrowed)

    @staticmethod
    def _narrow(guard: Guard, group: OffsetFetchRequestGroup) -> OffsetFetchRequestGroup:
        """Take topics out of what is asked of one group, and remember their refusals."""
        if group.topics is None:
            return group
        named = [(_name(guard, each), each) for each in group.topics]
        asked = {name for name, _ in named if name is not None}
        refused = asked - guard.allowed(_DESCRIBE, _TOPIC, asked)
        if not refused:
            return group
        guard.refused(_DESCRIBE, _TOPIC, sorted(refused))
        guard.notes[group.group_id] = tuple(
            OffsetFetchResponseTopics(
                each.name,
                each.topic_id,
                tuple(
                    OffsetFetchResponsePartitions(
                        partition_index=index,
                        committed_offset=-1,
                        error_code=ERRORS[_TOPIC],
                    )
                    for index in each.partition_indexes
                ),
            )
            for name, each in named
            if name in refused
        )
        return replace(group, topics=tuple(each for name, each in named if name not in refused))

    def finish(self, guard: Guard, response: Response, /) -> Response:
        answer = cast("OffsetFetchResponse", response)
        request = cast("OffsetFetchRequest", guard.call.request)
        if guard.call.version < _MANY_GROUPS_FROM:
            if request.topics is not None:
                return answer
            seen = guard.allowed(_DESCRIBE, _TOPIC, [each.name for each in answer.topics])
            return replace(answer, topics=tuple(t for t in answer.topics if t.name in seen))
        groups = tuple(self._seen(guard, each) for each in answer.groups)
        return replace(answer, groups=groups)

    @staticmethod
    def _seen(guard: Guard, group: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        if group.error_code:
            return group
        named = [(_name(guard, each), each) for each in group.topics]
        asked = {name for name, _ in named if name is not None}
        seen = guard.allowed(_DESCRIBE, _TOPIC, asked)
        topics = tuple(each for name, each in named if name is None or name in seen)
        return replace(group, topics=topics + guard.notes.get(group.group_id, ()))


def _name(guard: Guard, topic: Any) -> str | None:
    if topic.topic_id != Uuid.ZERO and not topic.name:
        return guard.topic_name(topic.topic_id)
    return str(topic.name)
