"""Groups of other protocols: share and streams groups, as far as a log shows them.

They can be listed with their type and state, their offsets can be read, and an empty one can be deleted,
expire, or become a classic group. Nothing here coordinates them: they have no heartbeats and no sessions.
Called by coterie.coordinator.durable, which feeds it records of the types 10 to 15 and 17 to 23.
"""

from __future__ import annotations

from typing import Final

from coterie.coordinator.outcome import Record
from coterie.protocol.group_records.streams import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMetadataValue,
)
from coterie.protocol.group_state import GroupState, GroupType
from coterie.protocol.schema import RecordKey, RecordValue

__all__ = ["FOREIGN_TYPES", "ForeignGroup"]

#: Record types by the type of their group.
FOREIGN_TYPES: Final[dict[int, GroupType]] = {
    **dict.fromkeys((10, 11, 12, 13, 14, 15), GroupType.SHARE),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), GroupType.STREAMS),
}
_MEMBER_TYPES: Final = frozenset((10, 19))
#: The order of tombstones when Kafka deletes a group (createGroupTombstoneRecords): the record that the
#: group lives by comes last.
_DELETE_ORDER: Final = (14, 13, 12, 10, 15, 11, 22, 21, 20, 19, 23, 17)
_RANK: Final = {number: rank for rank, number in enumerate(_DELETE_ORDER)}

#: The state of a settled member of a streams group in its record (MemberState.STABLE).
_SETTLED: Final = 1


class ForeignGroup:
    """The records of one group that are alive, and what they add up to."""

    __slots__ = ("bucket", "group_id", "records", "type")

    def __init__(self, group_id: str, kind: GroupType) -> None:
        self.group_id = group_id
        self.type = kind
        self.records: dict[RecordKey, RecordValue] = {}
        self.bucket: dict[str, None] | None = None

    @property
    def protocol_type(self) -> str:
        return self.type.value

    @property
    def state(self) -> GroupState:
        """As Kafka's maybeUpdateGroupState of either type.

        NotReady cannot be told from a log: it depends on the topics that exist.
        """
        if not any(type(key).__key__ in _MEMBER_TYPES for key in self.records):
            return GroupState.EMPTY
        if self.type is GroupType.SHARE:
            return GroupState.STABLE
        epoch = target = 0
        members: list[tuple[int, bool]] = []
        for value in self.records.values():
            if isinstance(value, StreamsGroupMetadataValue):
                epoch = value.epoch
            elif isinstance(value, StreamsGroupTargetAssignmentMetadataValue):
                target = value.assignment_epoch
            elif isinstance(value, StreamsGroupCurrentMemberAssignmentValue):
                members.append((value.member_epoch, value.state == _SETTLED))
        if epoch > target:
            return GroupState.ASSIGNING
        if all(member == (target, True) for member in members):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def snapshot(self) -> object:
        """What the log says, as plain values."""
        return dict(self.records)

    def tombstones(self) -> list[Record]:
        """What deletes the group."""
        keys = sorted(self.records, key=lambda key: _RANK[type(key).__key__])
        return [Record(key) for key in keys]
