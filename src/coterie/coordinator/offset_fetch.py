"""OffsetFetch: what a group has committed.

Called by the server for each group of a request, on the shard of that group; `OffsetFetch` also answers a
whole request whose groups are all on one shard. Topics that the caller may not see are the server's
business.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coterie.coordinator.consumer.commits import fetch_error
from coterie.coordinator.durable import DurableState
from coterie.coordinator.outcome import Outcome, RequestContext, TopicView
from coterie.error_codes import ErrorCode
from coterie.protocol.group_records.classic import OffsetCommitValue
from coterie.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from coterie.protocol.types import Uuid

__all__ = ["TOPIC_IDS_FROM", "OffsetFetch"]

_GROUPS_FROM: Final = 8  # KIP-709
TOPIC_IDS_FROM: Final = 10

_Answer = OffsetFetchResponsePartitions


_NOTHING: Final[dict[int, set[int]]] = {}


class OffsetFetch:
    """Reads committed offsets; -1 means that nothing was ever committed, and nothing else."""

    __slots__ = ("_state",)

    def __init__(self, state: DurableState) -> None:
        self._state = state

    def handle(self, request: OffsetFetchRequest, context: RequestContext) -> Outcome:
        """A whole request; before version 8 it is about one group and has other fields."""
        version, stable = context.api_version, request.require_stable
        if version >= _GROUPS_FROM:
            groups = tuple(
                self.fetch(each, version, require_stable=stable, topics=context.topics)
                for each in request.groups
            )
            return Outcome(response=OffsetFetchResponse(groups=groups))
        group = OffsetFetchRequestGroup(
            group_id=request.group_id,
            topics=None
            if request.topics is None
            else tuple(
                OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
                for each in request.topics
            ),
        )
        answer = self.fetch(group, version, require_stable=stable, topics=context.topics)
        return Outcome(response=_before_groups(answer))

    def fetch(
        self,
        group: OffsetFetchRequestGroup,
        version: int,
        *,
        require_stable: bool,
        topics: TopicView,
    ) -> OffsetFetchResponseGroup:
        """One group; without topics, all that it has. A group that is not known has nothing."""
        group_id = group.group_id
        known = group_id in self._state.groups
        if known and (group.member_id is not None or group.member_epoch >= 0):
            error = fetch_error(self._state.groups[group_id], group.member_id, group.member_epoch)
            if error:
                return OffsetFetchResponseGroup(group_id=group_id, error_code=error)
        unstable: dict[str, dict[int, set[int]]] = (
            self._state.transactions.topics_of(group_id) if require_stable and known else {}
        )
        committed = self._state.offsets.get(group_id, {}) if known else {}
        asked = group.topics
        if asked is None:
            answers = [
                OffsetFetchResponseTopics(
                    name, Uuid.ZERO, _read(partitions, partitions, unstable.get(name, _NOTHING))
                )
                for name, partitions in committed.items()
            ]
            if version >= TOPIC_IDS_FROM:
                answers = list(_with_topic_ids(answers, topics))
        else:
            answers = []
            unknown = []
            for each in asked:
                name = _name(each, version, topics)
                if name is None:
                    unknown.append(_unknown(each))
                    continue
                partitions = _read(
                    each.partition_indexes,
                    committed.get(name, {}),
                    unstable.get(name, _NOTHING),
                    each.topic_id,
                )
                answers.append(OffsetFetchResponseTopics(name, each.topic_id, partitions))
            answers += unknown
        return OffsetFetchResponseGroup(group_id, tuple(answers))


def _read(
    indexes: Iterable[int],
    committed: dict[int, OffsetCommitValue],
    unstable: dict[int, set[int]],
    topic_id: Uuid = Uuid.ZERO,
) -> tuple[OffsetFetchResponsePartitions, ...]:
    found = []
    for index in indexes:
        value = committed.get(index)
        if index in unstable:
            found.append(_Answer(index, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT))
        elif value is None or not (topic_id is Uuid.ZERO or _same_topic(value.topic_id, topic_id)):
            found.append(_Answer(index, -1, -1, "", 0))
        else:
            found.append(_Answer(index, value.offset, value.leader_epoch, value.metadata, 0))
    return tuple(found)


def _same_topic(stored: Uuid, asked: Uuid) -> bool:
    """An offset of a deleted topic does not count for a new one of the same name."""
    return stored == asked or Uuid.ZERO in (stored, asked)


def _name(asked: OffsetFetchRequestTopics, version: int, topics: TopicView) -> str | None:
    if version < TOPIC_IDS_FROM:
        return asked.name
    topic = topics.by_id(asked.topic_id)
    return None if topic is None else topic.name


def _unknown(asked: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=asked.topic_id,
        partitions=tuple(
            _Answer(index, -1, -1, "", ErrorCode.UNKNOWN_TOPIC_ID)
            for index in asked.partition_indexes
        ),
    )


def _with_topic_ids(
    answers: Iterable[OffsetFetchResponseTopics], topics: TopicView
) -> Iterable[OffsetFetchResponseTopics]:
    """Version 10 has no names; a topic that is gone has no id to say."""
    for each in answers:
        topic = topics.by_name(each.name)
        if topic is not None:
            yield OffsetFetchResponseTopics(each.name, topic.topic_id, each.partitions)


def _before_groups(answer: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """The same, as versions 1 to 7 say it."""
    return OffsetFetchResponse(
        topics=tuple(
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        each.partition_index,
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.metadata,
                        each.error_code,
                    )
                    for each in topic.partitions
                ),
            )
            for topic in answer.topics
        ),
        error_code=answer.error_code,
    )
