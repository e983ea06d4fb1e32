"""Committed offsets of groups: read them for many groups at once, change and delete them.

OffsetFetch takes many groups from version 8 on (KIP-709); an older coordinator gets a request for each group,
in parallel. Changes take a request for each group, in parallel: Kafka has no request for several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from coterie.client.coordinators import Coordinators
from coterie.client.network import Deadline, Network, Node, together
from coterie.client.partitions import TopicPartition, by_topic
from coterie.client.results import (
    GroupChange,
    GroupOffsets,
    PartitionOffset,
    Result,
)
from coterie.client.routing import Ask, Failure
from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

__all__ = ["CommittedOffsets"]

_MANY_GROUPS_FROM: Final = 8  # KIP-709
#: From version 10 on topics go by id; names are what people and committed offsets have.
_NAMES_UP_TO: Final = 9

#: Errors of the coordinator, not of a partition: the group has to be asked again.
_COORDINATOR: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)

_Topics = Iterable[OffsetFetchResponseTopic] | Iterable[OffsetFetchResponseTopics]


class CommittedOffsets:
    """Requests about committed offsets, each to the coordinators of the groups."""

    def __init__(self, network: Network, coordinators: Coordinators) -> None:
        self._network = network
        self._coordinators = coordinators

    async def read(
        self, groups: Iterable[str], deadline: Deadline, *, stable: bool = False
    ) -> Result[str, GroupOffsets]:
        """What groups have committed; with `stable`, after open transactions have ended."""
        reading = _Reading(self._network, deadline, stable=stable)
        return (await self._coordinators.ask_each(groups, deadline, reading.ask)).of(GroupOffsets)

    async def read_share(
        self, groups: Iterable[str], deadline: Deadline
    ) -> Result[str, GroupOffsets]:
        """Where share groups start to read: not a committed offset, and an API of its own."""
        ask: Ask[str, GroupOffsets] = partial(_ask_share, self._network, deadline)
        return (await self._coordinators.ask_each(groups, deadline, ask)).of(GroupOffsets)

    async def commit(
        self, offsets: Mapping[str, Mapping[TopicPartition, PartitionOffset]], deadline: Deadline
    ) -> Result[str, GroupChange]:
        """Store offsets for groups that have no members."""

        async def ask(node: Node, groups: list[str]) -> dict[str, GroupChange | Failure]:
            work = [_commit(self._network, node, each, offsets[each], deadline) for each in groups]
            return dict(zip(groups, await together(*work), strict=True))

        return (await self._coordinators.ask_each(offsets, deadline, ask)).of(GroupChange)

    async def delete(
        self, partitions: Mapping[str, Iterable[TopicPartition]], deadline: Deadline
    ) -> Result[str, GroupChange]:
        """Delete committed offsets of topics that no member subscribes to."""

        async def ask(node: Node, groups: list[str]) -> dict[str, GroupChange | Failure]:
            work = [
                _delete(self._network, node, each, partitions[each], deadline) for each in groups
            ]
            return dict(zip(groups, await together(*work), strict=True))

        return (await self._coordinators.ask_each(partitions, deadline, ask)).of(GroupChange)


class _Reading:
    """One call of `read`."""

    def __init__(
        self,
        network: Network,
        deadline: Deadline,
        *,
        stable: bool = False,
    ) -> None:
        self._network = network
        self._deadline = deadline
        self._stable = stable
        # One object per partition, however many groups have committed to it.
        self._partitions: dict[str, dict[int, TopicPartition]] = {}

    async def ask(self, node: Node, groups: list[str]) -> dict[str, GroupOffsets | Failure]:
        connection = await self._network.to(node, self._deadline)
        if connection.highest(ApiKey.OFFSET_FETCH) < _MANY_GROUPS_FROM:
            answers = await together(*(self._ask_single(node, group) for group in groups))
            return dict(zip(groups, answers, strict=True))
        # No topics: all that a group has committed.
        wanted = tuple(OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups)
        answer = await self._network.ask(
            node,
            OffsetFetchRequest(groups=wanted, require_stable=self._stable),
            OffsetFetchResponse,
            self._deadline,
            at_most=_NAMES_UP_TO,
        )
        return {
            group.group_id: Failure(group.error_code)
            if group.error_code
            else self._offsets(group.group_id, group.topics)
            for group in answer.groups
        }

    async def _ask_single(self, node: Node, group: str) -> GroupOffsets | Failure:
        connection = await self._network.to(node, self._deadline)
        # Waiting for open transactions came with v7.
        stable = self._stable and connection.highest(ApiKey.OFFSET_FETCH) >= 7
        answer = await self._network.ask(
            node,
            OffsetFetchRequest(group_id=group, topics=None, require_stable=stable),
            OffsetFetchResponse,
            self._deadline,
            at_most=_MANY_GROUPS_FROM - 1,
        )
        if answer.error_code:
            return Failure(answer.error_code)
        return self._offsets(group, answer.topics)

    def _offsets(self, group: str, topics: _Topics) -> GroupOffsets | Failure:
        offsets: dict[TopicPartition, PartitionOffset] = {}
        errors: dict[TopicPartition, str] = {}
        for topic in topics:
            known = self._partitions.setdefault(topic.name, {})
            for each in topic.partitions:
                index = each.partition_index
                partition = known.get(index)
                if partition is None:
                    partition = known[index] = TopicPartition(topic.name, index)
                if each.error_code:
                    if (code := ErrorCode.of(each.error_code)) in _COORDINATOR:
                        return Failure(code)
                    errors[partition] = code.message
                elif each.committed_offset >= 0:
                    epoch = each.committed_leader_epoch
                    offsets[partition] = PartitionOffset(
                        each.committed_offset, epoch if epoch >= 0 else None, each.metadata or ""
                    )
        return GroupOffsets(group, offsets, errors)


async def _ask_share(
    network: Network, deadline: Deadline, node: Node, groups: list[str]
) -> dict[str, GroupOffsets | Failure]:
    from coterie.protocol.messages.share_groups import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
        DescribeShareGroupOffsetsResponse,
    )

    wanted = tuple(
        DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None) for group in groups
    )
    answer = await network.ask(
        node,
        DescribeShareGroupOffsetsRequest(groups=wanted),
        DescribeShareGroupOffsetsResponse,
        deadline,
    )
    answers: dict[str, GroupOffsets | Failure] = {}
    for group in answer.groups:
        if group.error_code:
            answers[group.group_id] = Failure(group.error_code, group.error_message)
            continue
        rows = [(t.topic_name, each) for t in group.topics for each in t.partitions]
        answers[group.group_id] = GroupOffsets(
            group.group_id,
            {
                TopicPartition(topic, each.partition_index): PartitionOffset(each.start_offset)
                for topic, each in rows
                if not each.error_code and each.start_offset >= 0
            },
            {
                TopicPartition(topic, each.partition_index): ErrorCode.of(each.error_code).message
                for topic, each in rows
                if each.error_code
            },
        )
    return answers


async def _commit(
    network: Network,
    node: Node,
    group: str,
    offsets: Mapping[TopicPartition, PartitionOffset],
    deadline: Deadline,
) -> GroupChange | Failure:
    topics = tuple(
        OffsetCommitRequestTopic(
            name=topic,
            partitions=tuple(
                _stored(index, offsets[TopicPartition(topic, index)]) for index in indexes
            ),
        )
        for topic, indexes in by_topic(offsets).items()
    )
    answer = await network.ask(
        node,
        OffsetCommitRequest(group_id=group, topics=topics),
        OffsetCommitResponse,
        deadline,
        at_most=_NAMES_UP_TO,
    )
    return _change(
        group,
        {
            TopicPartition(topic.name, each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        },
    )


async def _delete(
    network: Network,
    node: Node,
    group: str,
    partitions: Iterable[TopicPartition],
    deadline: Deadline,
) -> GroupChange | Failure:
    topics = tuple(
        OffsetDeleteRequestTopic(
            topic, tuple(OffsetDeleteRequestPartition(index) for index in indexes)
        )
        for topic, indexes in by_topic(partitions).items()
    )
    answer = await network.ask(
        node, OffsetDeleteRequest(group, topics), OffsetDeleteResponse, deadline
    )
    if answer.error_code:
        return Failure(answer.error_code)
    return _change(
        group,
        {
            TopicPartition(topic.name, each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        },
    )


def _stored(index: int, offset: PartitionOffset) -> OffsetCommitRequestPartition:
    epoch = -1 if offset.leader_epoch is None else offset.leader_epoch
    return OffsetCommitRequestPartition(index, offset.offset, epoch, offset.metadata)


def _change(group: str, codes: Mapping[TopicPartition, int]) -> GroupChange | Failure:
    """What became of each partition. An error of the coordinator or of the group is in all of them."""
    found = {partition: ErrorCode.of(code) for partition, code in codes.items()}
    for code in found.values():
        if code in _COORDINATOR:
            return Failure(code)
    kinds = set(found.values())
    if len(kinds) == 1 and kinds <= _OF_THE_GROUP:
        return Failure(kinds.pop())
    return GroupChange(
        group,
        tuple(partition for partition, code in found.items() if code is ErrorCode.NONE),
        {
            partition: f"{code.message} ({code.name})"
            for partition, code in found.items()
            if code is not ErrorCode.NONE
        },
    )


_OF_THE_GROUP: Final = frozenset(
    {
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)
