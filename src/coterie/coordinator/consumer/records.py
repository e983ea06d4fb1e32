"""The records of a consumer group, as Kafka's GroupCoordinatorRecordHelpers makes them."""

from __future__ import annotations

from coterie.coordinator.consumer.assignment import Partitions, to_target_record
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.outcome import Record
from coterie.protocol.group_records.consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

__all__ = [
    "current_record",
    "epoch_record",
    "member_record",
    "member_tombstones",
    "target_metadata_record",
    "target_record",
]


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    value = ConsumerGroupMetadataValue(epoch, metadata_hash)
    return Record(ConsumerGroupMetadataKey(group_id), value)


def member_record(group_id: str, member: Member) -> Record:
    return Record(ConsumerGroupMemberMetadataKey(group_id, member.member_id), member.metadata)


def target_record(group_id: str, member_id: str, target: Partitions) -> Record:
    value = ConsumerGroupTargetAssignmentMemberValue(to_target_record(target))
    return Record(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), value)


def target_metadata_record(group_id: str, epoch: int, timestamp: int) -> Record:
    value = ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp)
    return Record(ConsumerGroupTargetAssignmentMetadataKey(group_id), value)


def current_record(group_id: str, member: Member) -> Record:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id)
    return Record(key, member.current())


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """What takes a member out; the order matters to Kafka's replay."""
    return [
        Record(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id)),
        Record(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)),
        Record(ConsumerGroupMemberMetadataKey(group_id, member_id)),
    ]
