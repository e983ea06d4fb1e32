"""Records of classic groups, and committed offsets of all groups."""

from __future__ import annotations

from coterie.protocol.schema import RecordKey, RecordValue, Struct, field
from coterie.protocol.types import Int32, Int64, Uuid

__all__ = [
    "GroupMetadataKey",
    "GroupMetadataValue",
    "LegacyOffsetCommitKey",
    "LegacyOffsetCommitValue",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
]


class LegacyOffsetCommitKey(RecordKey, key=0, versions="0"):
    """Key of an offset record of the oldest type, number 0."""

    group: str = field("0", "Id of the group.", default="")
    topic: str = field("0", "Name of the topic.", default="")
    partition: Int32 = field("0", "Number of the partition within the topic.", default=0)


class LegacyOffsetCommitValue(RecordValue, key=0, versions="0"):
    """Offset committed in the oldest record type, number 0."""

    offset: Int64 = field("0", "Next offset that the group wants to read.", default=0)
    metadata: str = field("0", "Free text kept with the offset.", default="")
    commit_timestamp: Int64 = field("0", "When the offset was committed, in epoch ms.", default=0)


class OffsetCommitKey(RecordKey, key=1, versions="0"):
    """Key of a committed-offset record: group, topic and partition."""

    group: str = field("0", "Id of the group.", default="")
    topic: str = field("0", "Name of the topic.", default="")
    partition: Int32 = field("0", "Number of the partition within the topic.", default=0)


class OffsetCommitValue(RecordValue, key=1, versions="0-4", flexible="4+"):
    """Committed offset of one group and partition; a tombstone removes it."""

    offset: Int64 = field("0+", "Next offset that the group wants to read.", default=0)
    leader_epoch: Int32 = field(
        "3+", "Leader epoch of the last record consumed; -1 if unknown.", default=-1, ignorable=True
    )
    metadata: str = field("0+", "Free text kept with the offset.", default="")
    commit_timestamp: Int64 = field("0+", "When the offset was committed, in epoch ms.", default=0)
    expire_timestamp: Int64 = field(
        "1",
        "When the offset expires, in epoch ms; -1 uses the retention.",
        default=-1,
        ignorable=True,
    )
    topic_id: Uuid = field(
        "4+",
        "Id of the topic; all zero if it was not stored.",
        default=Uuid.ZERO,
        tag=0,
        ignorable=True,
    )


class GroupMetadataKey(RecordKey, key=2, versions="0"):
    """Key of the record holding a classic group."""

    group: str = field("0", "Id of the group.", default="")


class MemberMetadata(Struct):
    """One member as stored with its classic group."""

    member_id: str = field("0+", "Id of the member within the group.", default="")
    group_instance_id: str | None = field(
        "3+",
        "Instance id of a static member; null for a dynamic one.",
        default=None,
        nullable="3+",
        ignorable=True,
    )
    client_id: str = field("0+", "Client id that the member's client gave itself.", default="")
    client_host: str = field(
        "0+", "Host that the member connects from, such as /10.0.0.7.", default=""
    )
    rebalance_timeout: Int32 = field(
        "1+", "Milliseconds to rejoin in; -1 uses the session timeout.", default=-1, ignorable=True
    )
    session_timeout: Int32 = field(
        "0+", "Milliseconds without a heartbeat before the member is dropped.", default=0
    )
    subscription: bytes = field(
        "0+", "Subscription bytes that the member sent for the protocol.", default=b""
    )
    assignment: bytes = field(
        "0+", "Assignment bytes that the member got in this generation.", default=b""
    )


class GroupMetadataValue(RecordValue, key=2, versions="0-4", flexible="4+"):
    """Classic group as stored: generation, protocol, leader and members."""

    protocol_type: str = field(
        "0+", "Kind of protocol, such as consumer; empty for simple groups.", default=""
    )
    generation: Int32 = field(
        "0+", "Generation of the group; grows with every rebalance.", default=0
    )
    protocol: str | None = field(
        "0+", "Assignment protocol in use, such as range; null if none.", default="", nullable="0+"
    )
    leader: str | None = field(
        "0+", "Member id of the leader; null if the group is empty.", default="", nullable="0+"
    )
    current_state_timestamp: Int64 = field(
        "2+",
        "When the group entered its state, in epoch ms; -1 unknown.",
        default=-1,
        ignorable=True,
    )
    members: tuple[MemberMetadata, ...] = field(
        "0+", "Members of the group; none when it is empty.", default=()
    )
