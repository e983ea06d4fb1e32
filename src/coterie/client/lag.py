"""Lag: commits, ends of logs and members of groups, read in that order and put together.

`LagReader` asks the cluster. The functions are pure: answers in, values out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from coterie.client.arguments import EARLIEST, LATEST
from coterie.client.committed_offsets import CommittedOffsets
from coterie.client.coordinators import Coordinators
from coterie.client.groups import Groups
from coterie.client.logs import Logs
from coterie.client.network import Deadline
from coterie.client.results import (
    GroupDescription,
    GroupLag,
    GroupOffsets,
    LagResult,
    LogOffset,
    PartitionLag,
    PartitionOffset,
    Result,
    TopicPartition,
)
from coterie.protocol.group_state import GroupType

__all__ = ["LagReader", "lag_of", "lag_result", "partitions_of", "partitions_of_topics"]

_Ends = Result[TopicPartition, LogOffset]


class LagReader:
    """Reads what lag is computed from, of many groups at once."""

    def __init__(
        self, coordinators: Coordinators, groups: Groups, offsets: CommittedOffsets, logs: Logs
    ) -> None:
        self._coordinators = coordinators
        self._groups = groups
        self._offsets = offsets
        self._logs = logs

    async def lag(
        self,
        groups: list[str],
        deadline: Deadline,
        *,
        log_start: bool,
        topics: Collection[str] | None,
        operations: bool,
    ) -> LagResult:
        """The lag of groups, in all topics or in some."""
        described, offsets = await self.describe_with_offsets(
            groups, deadline.for_coordinators(), operations=operations
        )
        only = None
        if topics is not None:
            only = partitions_of_topics(topics, described.items, offsets.items)
        wanted = partitions_of(described.items, offsets.items, only)
        timestamps = (LATEST, EARLIEST) if log_start else (LATEST,)
        ends, *starts = await self._logs.offsets_at(wanted, timestamps, deadline)
        return lag_result(described, offsets, ends, starts[0] if starts else None, only)

    async def describe_with_offsets(
        self, groups: list[str], deadline: Deadline, *, operations: bool
    ) -> tuple[Result[str, GroupDescription], Result[str, GroupOffsets]]:
        """Descriptions and committed offsets, requested at the same time."""
        # One look-up for both requests; each of them repeats it for groups that are not found now.
        await self._coordinators.find(groups, deadline)
        types = self._coordinators.types
        not_share = [group for group in groups if types.get(group) is not GroupType.SHARE]
        try:
            async with asyncio.TaskGroup() as both:
                describing = both.create_task(
                    self._groups.describe(groups, deadline, operations=operations)
                )
                reading = both.create_task(self._offsets.read(not_share, deadline))
        except ExceptionGroup as trouble:
            raise trouble.exceptions[0] from None
        described, offsets = describing.result(), reading.result()
        share = [each.group_id for each in described if each.type is GroupType.SHARE]
        if share:
            shared = await self._offsets.read_share(share, deadline)
            errors = {key: each for key, each in offsets.errors.items() if key not in shared}
            offsets = Result(
                offsets.items | shared.items,
                errors | shared.errors,
                offsets.broker_errors + shared.broker_errors,
                GroupOffsets,
            )
        return described, offsets


def partitions_of(
    described: Mapping[str, GroupDescription],
    offsets: Mapping[str, GroupOffsets],
    only: Collection[TopicPartition] | None = None,
) -> dict[TopicPartition, None]:
    """Every partition that a group has committed to or a member has been given, each once."""
    found: dict[TopicPartition, None] = {}
    for committed in offsets.values():
        found.update(dict.fromkeys(committed.offsets))
    for group in described.values():
        for member in group.members:
            found.update(dict.fromkeys(member.assignment or ()))
    return found if only is None else {each: None for each in found if each in only}


def partitions_of_topics(
    topics: Collection[str],
    described: Mapping[str, GroupDescription],
    offsets: Mapping[str, GroupOffsets],
) -> frozenset[TopicPartition]:
    """The partitions of some topics that groups have something to do with, existing or not."""
    found = [*partitions_of(described, offsets)]
    found += [partition for group in offsets.values() for partition in group.errors]
    return frozenset(each for each in found if each.topic in topics)


def lag_result(
    described: Result[str, GroupDescription],
    offsets: Result[str, GroupOffsets],
    ends: _Ends,
    starts: _Ends | None,
    only: Collection[TopicPartition] | None = None,
) -> LagResult:
    """The lag of all groups that are described and whose offsets are known, and what is missing."""
    items = {
        group: lag_of(each, offsets.items[group], ends, starts, only)
        for group, each in described.items.items()
        if group in offsets.items
    }
    parts = (described, offsets, ends, *((starts,) if starts is not None else ()))
    broker_errors = tuple(dict.fromkeys(each for one in parts for each in one.broker_errors))
    errors = {**offsets.errors, **described.errors}
    return LagResult(items, errors, broker_errors, GroupLag, described, offsets)


def lag_between(committed_offset: int, log_end: int) -> int:
    """The lag of a partition, by the one rule that every command, dataset and mart follows: never negative.

    A commit past the end of the log, after the log was truncated or its topic was recreated, has lag 0.
    """
    return max(log_end - committed_offset, 0)


def lag_of(
    group: GroupDescription,
    offsets: GroupOffsets,
    ends: _Ends,
    starts: _Ends | None,
    only: Collection[TopicPartition] | None = None,
) -> GroupLag:
    """One group's lag. A partition without a commit has no lag; one without an end has an error."""
    if starts is None and only is None and not group.members and not offsets.errors:
        rows_of_commits = _from_commits(offsets.offsets, ends.items)
        if rows_of_commits is not None:
            return GroupLag(group.group_id, group.type, group.state, rows_of_commits)
    owners = {
        partition: member for member in group.members for partition in member.assignment or ()
    }
    wanted = dict.fromkeys(offsets.offsets)
    if owners or offsets.errors:
        wanted |= dict.fromkeys(owners) | dict.fromkeys(offsets.errors)
    rows = []
    for partition in wanted:
        if only is not None and partition not in only:
            continue
        committed = offsets.offsets.get(partition)
        owner = owners.get(partition)
        end = ends.items.get(partition)
        start = starts.items.get(partition) if starts is not None else None
        error = offsets.errors.get(partition)
        if error is None and end is None:
            error = str(ends.errors.get(partition, "the end of its log is not known"))
        rows.append(
            PartitionLag(
                partition,
                None if committed is None else committed.offset,
                None if start is None else start.offset,
                None if end is None else end.offset,
                None
                if committed is None or end is None
                else lag_between(committed.offset, end.offset),
                None if owner is None else owner.member_id,
                error,
                None if committed is None else committed.leader_epoch,
                None if committed is None else committed.metadata,
                None if owner is None else owner.client_id,
                None if owner is None else owner.host,
            )
        )
    return GroupLag(group.group_id, group.type, group.state, tuple(rows))


def _from_commits(
    commits: Mapping[TopicPartition, PartitionOffset], ends: Mapping[TopicPartition, LogOffset]
) -> tuple[PartitionLag, ...] | None:
    """The rows of a group that has only commits, as most have, in few steps; None if an end is not known."""
    rows = []
    for partition, each in commits.items():
        end = ends.get(partition)
        if end is None:
            return None
        at, log_end = each.offset, end.offset
        rows.append(
            PartitionLag(
                partition,
                at,
                None,
                log_end,
                lag_between(at, log_end),
                None,
                None,
                each.leader_epoch,
                each.metadata,
            )
        )
    return tuple(rows)
