"""Membership of classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from typing import Final, Self

import msgspec

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Int16, Int32

__all__ = [
    "HeartbeatRequest",
    "HeartbeatResponse",
    "JoinGroupRequest",
    "JoinGroupRequestProtocol",
    "JoinGroupResponse",
    "JoinGroupResponseMember",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "MemberIdentity",
    "MemberResponse",
    "SyncGroupRequest",
    "SyncGroupRequestAssignment",
    "SyncGroupResponse",
]

_NULL_PROTOCOL_FROM: Final = 7


class JoinGroupRequestProtocol(Struct):
    """Assignment protocol on offer, with the member's metadata."""

    name: str = field("0+", "Name of the assignment protocol, such as range.", default="")
    metadata: bytes = field(
        "0+", "Member metadata for the protocol, such as a subscription.", default=b""
    )


class JoinGroupRequest(Request, key=11, versions="0-9", flexible="6+"):
    """Joins or rejoins a classic group and offers assignment protocols."""

    group_id: str = field("0+", "Id of the group.", default="")
    session_timeout_ms: Int32 = field(
        "0+", "Milliseconds without a heartbeat before the member is dropped.", default=0
    )
    rebalance_timeout_ms: Int32 = field(
        "1+",
        "Milliseconds to wait for members to rejoin; -1 in version 0.",
        default=-1,
        ignorable=True,
    )
    member_id: str = field("0+", "Id from the broker; empty on the first attempt.", default="")
    group_instance_id: str | None = field(
        "5+", "Instance id of a static member; null for a dynamic one.", default=None, nullable="5+"
    )
    protocol_type: str = field(
        "0+", "Kind of protocol, such as consumer; all members must agree.", default=""
    )
    protocols: tuple[JoinGroupRequestProtocol, ...] = field(
        "0+", "Assignment protocols on offer, most preferred first.", default=()
    )
    reason: str | None = field(
        "8+",
        "Why the member joins, for the logs; null if not told.",
        default=None,
        nullable="8+",
        ignorable=True,
    )


class JoinGroupResponseMember(Struct):
    """Member that the leader has to assign for."""

    member_id: str = field("0+", "Id of the member within the group.", default="")
    group_instance_id: str | None = field(
        "5+",
        "Instance id of a static member; null for a dynamic one.",
        default=None,
        nullable="5+",
        ignorable=True,
    )
    metadata: bytes = field("0+", "Metadata of the member for the chosen protocol.", default=b"")


class JoinGroupResponse(Response, key=11, versions="0-9", flexible="6+"):
    """New generation; the leader also receives every member's metadata."""

    throttle_time_ms: Int32 = field(
        "2+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    error_code: Int16 = field(
        "0+", "MEMBER_ID_REQUIRED asks to retry with MemberId; 0 if joined.", default=0
    )
    generation_id: Int32 = field("0+", "Generation that was joined; -1 on error.", default=-1)
    protocol_type: str | None = field(
        "7+",
        "Kind of protocol, such as consumer; null on error.",
        default=None,
        nullable="7+",
        ignorable=True,
    )
    protocol_name: str | None = field(
        "0+", "Assignment protocol chosen by vote; null on error.", default="", nullable="7+"
    )
    leader: str = field("0+", "Member id of the leader, who makes the assignment.", default="")
    skip_assignment: bool = field(
        "9+", "True if the leader must not compute a new assignment.", default=False
    )
    member_id: str = field("0+", "Id that the broker gave to this member.", default="")
    members: tuple[JoinGroupResponseMember, ...] = field(
        "0+", "Every member, for the leader; empty for followers.", default=()
    )

    def for_version(self, version: int, /) -> Self:
        """A failed join has no protocol; from version 7 on the response says so (KIP-559)."""
        if self.error_code and version >= _NULL_PROTOCOL_FROM:
            return msgspec.structs.replace(self, protocol_name=None)
        return self


class SyncGroupRequestAssignment(Struct):
    """Assignment that the leader made for one member."""

    member_id: str = field("0+", "Member that the assignment is for.", default="")
    assignment: bytes = field("0+", "Assignment bytes for that member.", default=b"")


class SyncGroupRequest(Request, key=14, versions="0-5", flexible="4+"):
    """Collects a member's assignment; the leader brings everybody's along."""

    group_id: str = field("0+", "Id of the group.", default="")
    generation_id: Int32 = field(
        "0+", "Generation the member joined; a stale one is refused.", default=0
    )
    member_id: str = field("0+", "Id of the member within the group.", default="")
    group_instance_id: str | None = field(
        "3+", "Instance id of a static member; null for a dynamic one.", default=None, nullable="3+"
    )
    protocol_type: str | None = field(
        "5+",
        "Kind of protocol, to be checked; null before version 5.",
        default=None,
        nullable="5+",
        ignorable=True,
    )
    protocol_name: str | None = field(
        "5+",
        "Assignment protocol, to be checked; null before version 5.",
        default=None,
        nullable="5+",
        ignorable=True,
    )
    assignments: tuple[SyncGroupRequestAssignment, ...] = field(
        "0+", "Everybody's assignment, from the leader; else empty.", default=()
    )


class SyncGroupResponse(Response, key=14, versions="0-5", flexible="4+"):
    """Assignment that the leader made for this member."""

    throttle_time_ms: Int32 = field(
        "1+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    error_code: Int16 = field(
        "0+", "REBALANCE_IN_PROGRESS asks to rejoin; 0 when all is well.", default=0
    )
    protocol_type: str | None = field(
        "5+",
        "Kind of protocol, such as consumer; null on error.",
        default=None,
        nullable="5+",
        ignorable=True,
    )
    protocol_name: str | None = field(
        "5+",
        "Assignment protocol in use; null on error.",
        default=None,
        nullable="5+",
        ignorable=True,
    )
    assignment: bytes = field(
        "0+", "Assignment bytes of this member; empty if it got nothing.", default=b""
    )


class HeartbeatRequest(Request, key=12, versions="0-4", flexible="4+"):
    """Keeps a classic group member alive and learns of rebalances."""

    group_id: str = field("0+", "Id of the group.", default="")
    generation_id: Int32 = field(
        "0+", "Generation the member is in; a stale one is refused.", default=0
    )
    member_id: str = field("0+", "Id of the member within the group.", default="")
    group_instance_id: str | None = field(
        "3+", "Instance id of a static member; null for a dynamic one.", default=None, nullable="3+"
    )


class HeartbeatResponse(Response, key=12, versions="0-4", flexible="4+"):
    """Answers a heartbeat; REBALANCE_IN_PROGRESS asks the member to rejoin."""

    throttle_time_ms: Int32 = field(
        "1+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    error_code: Int16 = field(
        "0+", "REBALANCE_IN_PROGRESS asks to rejoin; 0 when all is well.", default=0
    )


class MemberIdentity(Struct):
    """Member to remove, by member id or instance id."""

    member_id: str = field(
        "3+", "Member that leaves; empty if only the instance id is known.", default=""
    )
    group_instance_id: str | None = field(
        "3+", "Instance id of a static member; null for a dynamic one.", default=None, nullable="3+"
    )
    reason: str | None = field(
        "5+",
        "Why the member leaves, for the logs; null if not told.",
        default=None,
        nullable="5+",
        ignorable=True,
    )


class LeaveGroupRequest(Request, key=13, versions="0-5", flexible="4+"):
    """Removes members from a classic group, by themselves or by an administrator."""

    group_id: str = field("0+", "Id of the group.", default="")
    member_id: str = field("0-2", "Member that leaves, up to version 2.", default="")
    members: tuple[MemberIdentity, ...] = field(
        "3+", "Members that leave, from version 3 on.", default=()
    )


class MemberResponse(Struct):
    """Result for one leaving member."""

    member_id: str = field("3+", "Id of the member within the group.", default="")
    group_instance_id: str | None = field(
        "3+", "Instance id of a static member; null for a dynamic one.", default="", nullable="3+"
    )
    error_code: Int16 = field(
        "3+", "UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID; 0 if removed.", default=0
    )


class LeaveGroupResponse(Response, key=13, versions="0-5", flexible="4+"):
    """Outcome of leaving, per member from version 3 on."""

    throttle_time_ms: Int32 = field(
        "1+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    error_code: Int16 = field("0+", "Error for the whole request; 0 when all is well.", default=0)
    members: tuple[MemberResponse, ...] = field("3+", "One result per leaving member.", default=())
