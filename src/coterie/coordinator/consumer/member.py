"""A member of a consumer group, as two records of the log have it: what it wants, and what it owns.

A value: a handler makes a changed one, writes it down, and replay puts it into the group.
"""

from __future__ import annotations

from typing import Final

import msgspec

from coterie.coordinator.consumer.assignment import (
    MemberState,
    Owned,
    owned_from_record,
    owned_to_record,
)
from coterie.protocol.group_records.consumer import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)
from coterie.protocol.types import Uuid

__all__ = ["JOINING", "LEAVING", "LEAVING_FOR_NOW", "Member", "moved"]

#: Member epochs with a meaning of their own, in requests and, the last one, in records too.
JOINING: Final = 0
LEAVING: Final = -1
LEAVING_FOR_NOW: Final = -2

_STABLE: Final = MemberState.STABLE
_NOTHING_YET: Final = ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    server_assignor=None,
    classic_member_metadata=None,
)


#: Of a member that has never been written down; no other dictionary is this one.
_NEVER_WRITTEN: Final[tuple[Owned, tuple[TopicPartitions, ...]]] = ({}, ())


class Member(msgspec.Struct, frozen=True):
    """One member. `metadata` is its record; the rest is how far it has come."""

    member_id: str
    metadata: ConsumerGroupMemberMetadataValue = _NOTHING_YET
    epoch: int = 0
    previous_epoch: int = -1
    state: int = MemberState.STABLE
    assigned: Owned = {}
    pending_revocation: Owned = {}
    #: What it owned when it was last written down, next to how the record has it: for as long as that is
    #: still what it owns, neither has to be made of the other again.
    written: tuple[Owned, tuple[TopicPartitions, ...]] = _NEVER_WRITTEN

    @property
    def instance_id(self) -> str | None:
        return self.metadata.instance_id

    @property
    def topic_names(self) -> tuple[str, ...]:
        """Topics that it subscribes to by name: sorted, each once."""
        return self.metadata.subscribed_topic_names

    @property
    def regex(self) -> str:
        """The pattern that it subscribes to; empty if it has none."""
        return self.metadata.subscribed_topic_regex or ""

    @property
    def classic(self) -> ClassicMemberMetadata | None:
        """What a member of the classic protocol joined with; None for one of the consumer protocol."""
        return self.metadata.classic_member_metadata

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it owns exactly what the target of this epoch has for it."""
        return self.epoch == epoch and self.state == _STABLE

    def owns_the_same_as(self, other: Member) -> bool:
        return (
            self.assigned is other.assigned and self.pending_revocation is other.pending_revocation
        )

    def owns(self) -> tuple[tuple[Uuid, int], ...]:
        """All partitions that nobody else may have, those to be given up included."""
        return tuple(
            (topic_id, partition)
            for owned in (self.assigned, self.pending_revocation)
            for topic_id, epochs in owned.items()
            for partition in epochs
        )

    def assignment_epoch(self, topic_id: Uuid, partition: int) -> int | None:
        """Since when it owns a partition; None if it does not."""
        for owned in (self.assigned, self.pending_revocation):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def with_metadata(self, metadata: ConsumerGroupMemberMetadataValue) -> Member:
        return msgspec.structs.replace(self, metadata=metadata)

    def with_current(self, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> Member:
        """As a record of its current assignment has it; without one it owns nothing and is leaving."""
        if value is None:
            return Member(self.member_id, self.metadata, LEAVING, LEAVING)
        record = value.assigned_partitions
        owned, written = self.written
        # The same object for the same partitions, so that the group sees that they are.
        assigned = owned if record is written else owned_from_record(record)
        if assigned == self.assigned:
            assigned = self.assigned
        pending = self.pending_revocation
        if pending or value.partitions_pending_revocation:
            pending = owned_from_record(value.partitions_pending_revocation)
        return Member(
            self.member_id,
            self.metadata,
            value.member_epoch,
            value.previous_member_epoch,
            value.state,
            assigned,
            pending,
            (assigned, record),
        )

    def current(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """The record of its current assignment."""
        owned, written = self.written
        return ConsumerGroupCurrentMemberAssignmentValue(
            self.epoch,
            self.previous_epoch,
            self.state,
            written if self.assigned is owned else owned_to_record(self.assigned),
            owned_to_record(self.pending_revocation) if self.pending_revocation else (),
        )

    def left_for_now(self) -> Member:
        """A static member that will be back: its seat stays warm. Whoever comes may commit at once."""
        return msgspec.structs.replace(
            self,
            epoch=LEAVING_FOR_NOW,
            assigned={topic_id: dict.fromkeys(each, 0) for topic_id, each in self.assigned.items()},
            pending_revocation={},
        )

    def replaced_by(self, member_id: str) -> Member:
        """The same static member under a new member id, at the beginning of its way."""
        return msgspec.structs.replace(self, member_id=member_id, epoch=0, previous_epoch=0)


def moved(
    member: Member,
    state: MemberState,
    epoch: int,
    assigned: Owned,
    pending_revocation: Owned,
) -> Member:
    """A member one step further; the epoch that it leaves is remembered, in case the answer gets lost."""
    return Member(
        member.member_id,
        member.metadata,
        epoch,
        member.epoch,
        state,
        assigned,
        pending_revocation,
        member.written,
    )
