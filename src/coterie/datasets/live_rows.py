"""Rows of live datasets, from what the admin client answers. Pure: values in, rows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from coterie.client.results import GroupDescription, GroupLag, LogOffset, Member, TopicPartition
from coterie.datasets.selection import Selection
from coterie.protocol.group_state import GroupType

__all__ = [
    "Row",
    "assignment_rows",
    "end_offset_rows",
    "group_row",
    "member_row",
    "offset_rows",
    "record_batches",
]

Row = dict[str, Any]

_ROWS_PER_BATCH: Final = 1 << 16


def record_batches(schema: pa.Schema, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Rows as Arrow batches, made while the rows are."""
    left = iter(rows)
    while part := list(islice(left, _ROWS_PER_BATCH)):
        arrays = [pa.array([row.get(f.name) for row in part], f.type) for f in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def group_row(group: GroupDescription, coordinator: str | None) -> Row:
    """A group; `coordinator` is an address."""
    operations = group.authorized_operations
    return {
        "group_id": group.group_id,
        "type": group.type.value,
        "state": group.state.value,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "assignor": group.assignor,
        "coordinator_id": group.coordinator_id,
        "coordinator": coordinator,
        "generation": group.generation if group.epoch is None else group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "leader_id": group.leader_id,
        "member_count": len(group.members),
        "is_simple": group.type is GroupType.CLASSIC and not group.protocol_type,
        "authorized_operations": None if operations is None else list(operations),
        "new_member_added": group.new_member_added,
        "received_consumer_offset_commits": group.received_consumer_offset_commits,
        "received_transactional_offset_commits": group.received_transactional_offset_commits,
        "source": "; ".join(dict.fromkeys(group.sources.values())) or "DescribeGroups",
    }


def member_row(group: GroupDescription, member: Member) -> Row:
    """A member of a group."""
    leads = None if group.leader_id is None else member.member_id == group.leader_id
    return {
        "group_id": group.group_id,
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "subscription": None if member.subscription is None else list(member.subscription),
        "subscription_regex": member.subscription_regex,
        "supported_protocols": None
        if member.supported_protocols is None
        else list(member.supported_protocols),
        "assignment_count": len(member.assignment or ()),
        "is_leader": leads,
    }


def assignment_rows(group: GroupDescription, member: Member, selection: Selection) -> Iterator[Row]:
    """The partitions that a member has, and those that it shall have."""
    for target, partitions in ((False, member.assignment), (True, member.target_assignment)):
        for each in partitions or ():
            if selection.wants_topic(each.topic):
                yield {
                    "group_id": group.group_id,
                    "member_id": member.member_id,
                    "topic": each.topic,
                    "partition": each.partition,
                    "target": target,
                }


def offset_rows(group: GroupLag) -> Iterator[Row]:
    """The committed offsets of a group, with lag and owner."""
    for each in group.partitions:
        yield {
            "group_id": group.group_id,
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "committed_offset": each.committed_offset,
            "leader_epoch": each.leader_epoch,
            "metadata": each.metadata,
            "log_start": each.log_start,
            "log_end": each.log_end,
            "lag": each.lag,
            "member_id": each.member_id,
            "client_id": each.client_id,
            "host": each.host,
            "error": each.error,
        }


def end_offset_rows(
    starts: Mapping[TopicPartition, LogOffset],
    ends: Mapping[TopicPartition, LogOffset],
    taken_at: datetime,
) -> Iterator[Row]:
    """Where logs begin and end; a partition for which one of both is not known has no row."""
    for each, end in ends.items():
        if each in starts:
            yield {
                "taken_at": taken_at,
                "topic": each.topic,
                "partition": each.partition,
                "log_start": starts[each].offset,
                "log_end": end.offset,
            }
