"""A consumer group as the log has it, and what follows from it.

`apply` is the only thing that changes it, one record at a time; coterie.coordinator.durable calls it, at
load and live. Next to what the records say stands what is counted from them, so that a heartbeat need not
look at all members: who owns which partition, who subscribes to what, how many have reached the target.
Handlers read here and write nothing; the two volatile fields at the end are the exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, final

from coterie.coordinator.consumer.assignment import Partitions, from_target_record
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.outcome import Record, TopicView
from coterie.protocol.group_records.consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from coterie.protocol.group_state import GroupState, GroupType
from coterie.protocol.schema import RecordKey, RecordValue
from coterie.protocol.types import Uuid

__all__ = ["ConsumerGroup", "count"]

_Appliers = dict[type[RecordKey], Callable[[Any, Any, Any], bool]]

#: Kafka's groups begin with epoch 1, and members of a group that never had another may do with that.
_FIRST_EPOCH: Final = 1


def count(counts: dict[str, int], name: str, by: int) -> None:
    """Count a name up or down; names that nobody has are not kept."""
    left = counts.get(name, 0) + by
    if left:
        counts[name] = left
    else:
        del counts[name]


@final
class ConsumerGroup:
    """A group of the consumer protocol; members of the classic one may be among its members."""

    __slots__ = (
        "_settled",
        "assignors",
        "bucket",
        "classic_members",
        "classic_protocols",
        "epoch",
        "group_id",
        "has_partition_metadata",
        "members",
        "metadata_hash",
        "owners",
        "regex_counts",
        "regexes",
        "seen_topics",
        "static_members",
        "target",
        "target_epoch",
        "target_timestamp",
        "topic_counts",
    )

    type = GroupType.CONSUMER
    protocol_type = "consumer"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = _FIRST_EPOCH
        self.metadata_hash = 0
        self.members: dict[str, Member] = {}
        self.target: dict[str, Partitions] = {}
        self.target_epoch = _FIRST_EPOCH
        #: When the target was computed, on the wall clock; 0 if it never was.
        self.target_timestamp = 0
        #: Patterns, with the topics that they were last found to match.
        self.regexes: dict[str, ConsumerGroupRegularExpressionValue] = {}
        #: Whether the log has a record that brokers before 4.1 wrote, and that is to be removed.
        self.has_partition_metadata = False

        # Counted.
        #: Partitions to the member that owns them, or has them still to give up.
        self.owners: dict[Uuid, dict[int, str]] = {}
        #: Instance id to member id.
        self.static_members: dict[str, str] = {}
        #: How many members subscribe to a topic by its name, to a pattern, and prefer an assignor.
        self.topic_counts: dict[str, int] = {}
        self.regex_counts: dict[str, int] = {}
        self.assignors: dict[str, int] = {}
        #: How many members speak the classic protocol, and how many of them have each of its protocols.
        self.classic_members = 0
        self.classic_protocols: dict[str, int] = {}
        self._settled = 0

        # Volatile.
        #: The version of the cluster's topics that `metadata_hash` was last compared with.
        self.seen_topics = -1
        #: Kept by the index.
        self.bucket: dict[str, None] | None = None

    @property
    def state(self) -> GroupState:
        """Kafka's ConsumerGroup.maybeUpdateGroupState."""
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        settled = self._settled == len(self.members)
        return GroupState.STABLE if settled else GroupState.RECONCILING

    def is_up_to_date(self, topics: TopicView) -> bool:
        """Whether, as far as the topics go, there is a target for the group as it is, and no pattern
        that might have to be run again."""
        return (
            self.epoch <= self.target_epoch
            and self.seen_topics == topics.version
            and not self.regex_counts
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether any member reads a topic, by its name or by a pattern."""
        return topic in self.topic_counts or any(
            topic in resolved.topics for resolved in self.regexes.values()
        )

    def static_member(self, instance_id: str | None) -> Member | None:
        if instance_id is None or instance_id not in self.static_members:
            return None
        return self.members.get(self.static_members[instance_id])

    def target_of(self, member: Member) -> Partitions:
        """The target of a member, or of the static member whose place it takes."""
        instance_id, member_id = member.metadata.instance_id, member.member_id
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, member_id)
        return self.target.get(member_id) or {}

    # Replay

    def apply(self, key: RecordKey, value: RecordValue | None) -> bool:
        """Apply one record of this group; False if it was a tombstone for what is not there."""
        return self.appliers[type(key)](self, key, value)

    def _apply_epoch(self, _: ConsumerGroupMetadataKey, value: Any) -> bool:
        self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
        return True

    def _apply_partition_metadata(
        self,
        _: ConsumerGroupPartitionMetadataKey,
        value: ConsumerGroupPartitionMetadataValue | None,
    ) -> bool:
        self.has_partition_metadata = value is not None
        return True

    def _apply_member(
        self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
    ) -> bool:
        member = self.members.get(key.member_id)
        if value is None:
            return member is not None and self._put(member, None)
        return self._put(member, (member or Member(key.member_id)).with_metadata(value))

    def _apply_target_metadata(
        self,
        _: ConsumerGroupTargetAssignmentMetadataKey,
        value: ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> bool:
        # A tombstone comes only with the end of the group.
        self.target_epoch = value.assignment_epoch if value is not None else _FIRST_EPOCH
        self.target_timestamp = value.assignment_timestamp if value is not None else 0
        epoch, members = self.target_epoch, self.members.values()
        self._settled = sum(
            [each.epoch == epoch and each.is_reconciled_to(epoch) for each in members]
        )
        return True

    def _apply_target(
        self,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> bool:
        if value is None:
            return self.target.pop(key.member_id, None) is not None
        self.target[key.member_id] = from_target_record(value.topic_partitions)
        return True

    def _apply_current(
        self,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> bool:
        member = self.members.get(key.member_id)
        if member is None and value is None:
            return False
        return self._put(member, (member or Member(key.member_id)).with_current(value))

    def _apply_regex(
        self,
        key: ConsumerGroupRegularExpressionKey,
        value: ConsumerGroupRegularExpressionValue | None,
    ) -> bool:
        if value is None:
            return self.regexes.pop(key.regular_expression, None) is not None
        self.regexes[key.regular_expression] = value
        return True

    #: The method for each kind of record.
    appliers: ClassVar[_Appliers] = {
        ConsumerGroupMetadataKey: _apply_epoch,
        ConsumerGroupPartitionMetadataKey: _apply_partition_metadata,
        ConsumerGroupMemberMetadataKey: _apply_member,
        ConsumerGroupTargetAssignmentMetadataKey: _apply_target_metadata,
        ConsumerGroupTargetAssignmentMemberKey: _apply_target,
        ConsumerGroupCurrentMemberAssignmentKey: _apply_current,
        ConsumerGroupRegularExpressionKey: _apply_regex,
    }

    # Members, and what is counted of them

    def _put(self, old: Member | None, new: Member | None) -> bool:
        """A member comes, changes or goes."""
        moves = old is None or new is None or not new.owns_the_same_as(old)
        if old is not None:
            self._settled -= old.is_reconciled_to(self.target_epoch)
            if moves:
                self._release(old)
        if old is None or new is None or old.metadata is not new.metadata:
            self._count(old, -1)
            self._count(new, 1)
        if new is not None:
            self.members[new.member_id] = new
            self._settled += new.is_reconciled_to(self.target_epoch)
            for topic_id, partition in new.owns() if moves else ():
                self.owners.setdefault(topic_id, {})[partition] = new.member_id
        elif old is not None:
            del self.members[old.member_id]
        return True

    def _release(self, member: Member) -> None:
        for topic_id, partition in member.owns():
            owners = self.owners.get(topic_id, {})
            # A member that took it over meanwhile, as logs of odd histories have it, keeps it.
            if owners.get(partition) == member.member_id:
                del owners[partition]
                if not owners:
                    del self.owners[topic_id]

    def _count(self, member: Member | None, by: int) -> None:
        if member is None:
            return
        metadata = member.metadata
        for name in metadata.subscribed_topic_names:
            count(self.topic_counts, name, by)
        if member.regex:
            count(self.regex_counts, member.regex, by)
        if metadata.server_assignor is not None:
            count(self.assignors, metadata.server_assignor, by)
        if metadata.classic_member_metadata is not None:
            self.classic_members += by
            for name in {
                each.name for each in metadata.classic_member_metadata.supported_protocols
            }:
                count(self.classic_protocols, name, by)
        if metadata.instance_id is None:
            return
        if by > 0:
            self.static_members[metadata.instance_id] = member.member_id
        elif self.static_members.get(metadata.instance_id) == member.member_id:
            del self.static_members[metadata.instance_id]

    # Tombstones

    def tombstones(self, renamed: tuple[str, str] | None = None) -> list[Record]:
        """What deletes the group (createGroupTombstoneRecords): the record that it lives by comes last.

        `renamed` is a member id that earlier records of the same batch have put into another's place.
        """
        group_id = self.group_id
        old, new = renamed or ("", "")
        members = (
            [new if each == old else each for each in self.members] if renamed else self.members
        )
        keys: list[RecordKey] = [
            *_of_members(ConsumerGroupCurrentMemberAssignmentKey, group_id, members),
            *_of_members(ConsumerGroupTargetAssignmentMemberKey, group_id, members),
            ConsumerGroupTargetAssignmentMetadataKey(group_id),
            *_of_members(ConsumerGroupMemberMetadataKey, group_id, members),
            *[ConsumerGroupRegularExpressionKey(group_id, each) for each in self.regexes],
            ConsumerGroupPartitionMetadataKey(group_id),
            ConsumerGroupMetadataKey(group_id),
        ]
        return [Record(key) for key in keys]

    def snapshot(self) -> dict[str, Any]:
        """What the records say, as plain values."""
        return {
            "epoch": self.epoch,
            "metadata_hash": self.metadata_hash,
            "members": dict(self.members),
            "target": dict(self.target),
            "target_epoch": self.target_epoch,
            "target_timestamp": self.target_timestamp,
            "regexes": dict(self.regexes),
            "has_partition_metadata": self.has_partition_metadata,
        }


def _of_members(
    key: Callable[[str, str], RecordKey], group_id: str, members: Iterable[str]
) -> list[RecordKey]:
    return [key(group_id, each) for each in members]
