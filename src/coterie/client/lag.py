"""Lag: commits, ends of logs and members, put together. Pure: answers in, values out."""

from __future__ import annotations

from collections.abc import Collection, Mapping

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

__all__ = ["lag_of", "lag_result", "partitions_of", "partitions_of_topics"]

_Ends = Result[TopicPartition, LogOffset]


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
                None if committed is None or end is None else end.offset - committed.offset,
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
                log_end - at,
                None,
                None,
                each.leader_epoch,
                each.metadata,
            )
        )
    return tuple(rows)
