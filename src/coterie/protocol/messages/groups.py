"""Group administration: ListGroups (KIP-40, 518), DescribeGroups (KIP-40, 181), DeleteGroups (KIP-229).

KIP-181 asked for more in DescribeGroups. Kafka never served it, and gave its version number to something
else, so its fields travel here as tagged fields of the flexible versions, with tags from 18100 on:
clients that do not know them skip them. See docs/adr/0003-kip-181-as-tagged-fields.md.
"""

from __future__ import annotations

from coterie.protocol.schema import Request, Response, Struct, field
from coterie.protocol.types import Int16, Int32

__all__ = [
    "DeletableGroupResult",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribedGroup",
    "DescribedGroupMember",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListedGroup",
]


class ListGroupsRequest(Request, key=16, versions="0-5", flexible="3+"):
    """Lists the groups that this broker coordinates."""

    states_filter: tuple[str, ...] = field(
        "4+", "States to list; empty lists every group.", default=()
    )
    types_filter: tuple[str, ...] = field(
        "5+", "Group types to list; empty lists every type.", default=()
    )


class ListedGroup(Struct):
    """One group that the broker coordinates."""

    group_id: str = field("0+", "Id of the group.", default="")
    protocol_type: str = field(
        "0+", "Kind of protocol, such as consumer; empty for simple groups.", default=""
    )
    group_state: str = field(
        "4+", "State of the group, such as Stable, Empty or Dead.", default="", ignorable=True
    )
    group_type: str = field(
        "5+", "Kind of group: classic, consumer, share or streams.", default="", ignorable=True
    )


class ListGroupsResponse(Response, key=16, versions="0-5", flexible="3+"):
    """Groups coordinated by the answering broker only; ask all for a full list."""

    throttle_time_ms: Int32 = field(
        "1+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    error_code: Int16 = field(
        "0+", "COORDINATOR_LOAD_IN_PROGRESS asks to retry; 0 if complete.", default=0
    )
    groups: tuple[ListedGroup, ...] = field(
        "0+", "Groups of this broker that match the filters.", default=()
    )


class DescribeGroupsRequest(Request, key=15, versions="0-6", flexible="5+"):
    """Asks a coordinator for the details of classic groups."""

    groups: tuple[str, ...] = field("0+", "Ids of the groups to describe.", default=())
    include_authorized_operations: bool = field(
        "3+", "True asks which operations the caller may do on each group.", default=False
    )


class DescribedGroupMember(Struct):
    """One member of a classic group."""

    member_id: str = field("0+", "Id of the member within the group.", default="")
    group_instance_id: str | None = field(
        "4+",
        "Instance id of a static member; null for a dynamic one.",
        default=None,
        nullable="4+",
        ignorable=True,
    )
    client_id: str = field("0+", "Client id that the member's client gave itself.", default="")
    client_host: str = field(
        "0+", "Host that the member connects from, such as /10.0.0.7.", default=""
    )
    member_metadata: bytes = field(
        "0+", "Subscription bytes; empty unless the group is Stable.", default=b""
    )
    member_assignment: bytes = field(
        "0+", "Assignment bytes of the member; empty if it has none yet.", default=b""
    )
    member_subscription: bytes | None = field(
        "5+",
        "KIP-181: subscription bytes in any state; null if the broker does not tell.",
        default=None,
        nullable="5+",
        tag=18110,
        ignorable=True,
    )
    member_protocols: tuple[str, ...] | None = field(
        "5+",
        "KIP-181: protocols the member supports; null if the broker does not tell.",
        default=None,
        nullable="5+",
        tag=18111,
        ignorable=True,
    )


class DescribedGroup(Struct):
    """One classic group, or the error for it."""

    error_code: Int16 = field(
        "0+", "GROUP_ID_NOT_FOUND from v6 on if missing; 0 when all is well.", default=0
    )
    error_message: str | None = field(
        "6+", "Text that explains the error; null if there is none.", default=None, nullable="6+"
    )
    group_id: str = field("0+", "Id of the group.", default="")
    group_state: str = field(
        "0+", "State of the group; Dead also if it does not exist.", default=""
    )
    protocol_type: str = field(
        "0+", "Kind of protocol, such as consumer; empty for simple groups.", default=""
    )
    protocol_data: str = field("0+", "Assignment protocol in use; empty unless Stable.", default="")
    members: tuple[DescribedGroupMember, ...] = field(
        "0+", "Members of the group; none when it is empty.", default=()
    )
    authorized_operations: Int32 = field(
        "3+", "Bit set of allowed operations; -2147483648 if not asked for.", default=-2147483648
    )
    generation_id: Int32 = field(
        "5+",
        "KIP-181: generation; -1 if the broker does not tell.",
        default=-1,
        tag=18100,
        ignorable=True,
    )
    leader_id: str | None = field(
        "5+",
        "KIP-181: member id of the leader; null if there is none or the broker does not tell.",
        default=None,
        nullable="5+",
        tag=18101,
        ignorable=True,
    )
    new_member_added: bool = field(
        "5+", "KIP-181: someone joined in this rebalance.", default=False, tag=18102, ignorable=True
    )
    received_consumer_offset_commits: bool = field(
        "5+", "KIP-181: members have committed offsets.", default=False, tag=18103, ignorable=True
    )
    received_transactional_offset_commits: bool = field(
        "5+", "KIP-181: offsets came by transactions.", default=False, tag=18104, ignorable=True
    )


class DescribeGroupsResponse(Response, key=15, versions="0-6", flexible="5+"):
    """State, protocol and members of classic groups."""

    throttle_time_ms: Int32 = field(
        "1+", "Milliseconds the client was throttled; 0 if not.", default=0, ignorable=True
    )
    groups: tuple[DescribedGroup, ...] = field("0+", "One entry per group.", default=())


class DeleteGroupsRequest(Request, key=42, versions="0-2", flexible="2+"):
    """Deletes empty groups together with their committed offsets."""

    groups_names: tuple[str, ...] = field(
        "0+", "Ids of the groups to delete; all must be empty of members.", default=()
    )


class DeletableGroupResult(Struct):
    """Result for one group."""

    group_id: str = field("0+", "Id of the group.", default="")
    error_code: Int16 = field(
        "0+", "NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND and so on; 0 if deleted.", default=0
    )


class DeleteGroupsResponse(Response, key=42, versions="0-2", flexible="2+"):
    """Outcome per group of a deletion; one failure leaves the others alone."""

    throttle_time_ms: Int32 = field(
        "0+", "Milliseconds the client was throttled; 0 if not.", default=0
    )
    results: tuple[DeletableGroupResult, ...] = field("0+", "One result per group.", default=())
