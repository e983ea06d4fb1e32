"""I9: the errors that a group coordinator may answer, by API; everything else is a bug of ours.

Taken from the documentation of each response in Kafka's sources (`Possible error codes`). An error that the
server makes before it asks a coordinator (authorization, storage) is in `ALWAYS`. UNKNOWN_SERVER_ERROR is in
no row: it says that something failed which nobody has thought of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
)
from coterie.protocol.messages.groups import (
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    ListGroupsResponse,
)
from coterie.protocol.messages.membership import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from coterie.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
)
from coterie.protocol.messages.transactions import TxnOffsetCommitResponse
from coterie.protocol.schema import Response, Struct

__all__ = ["ALWAYS", "EXPECTED", "check_errors", "codes"]

E = ErrorCode

ALWAYS: Final = frozenset(
    {
        E.NONE,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_COORDINATOR,
        E.GROUP_AUTHORIZATION_FAILED,
        E.INVALID_GROUP_ID,
    }
)

_MEMBER: Final = {E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID, E.ILLEGAL_GENERATION}
_TOPIC: Final = {E.TOPIC_AUTHORIZATION_FAILED, E.UNKNOWN_TOPIC_OR_PARTITION}
_JOIN: Final = {E.INCONSISTENT_GROUP_PROTOCOL, E.INVALID_SESSION_TIMEOUT, E.MEMBER_ID_REQUIRED}

EXPECTED: Final[dict[type[Response], frozenset[ErrorCode]]] = {
    JoinGroupResponse: ALWAYS
    | _JOIN
    | {
        E.UNKNOWN_MEMBER_ID,
        E.FENCED_INSTANCE_ID,
        E.GROUP_MAX_SIZE_REACHED,
        E.REBALANCE_IN_PROGRESS,
        E.INVALID_REQUEST,
    },
    SyncGroupResponse: ALWAYS | _MEMBER | {E.REBALANCE_IN_PROGRESS, E.INCONSISTENT_GROUP_PROTOCOL},
    HeartbeatResponse: ALWAYS | _MEMBER | {E.REBALANCE_IN_PROGRESS},
    LeaveGroupResponse: ALWAYS | {E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID},
    OffsetCommitResponse: ALWAYS
    | _MEMBER
    | _TOPIC
    | {
        E.OFFSET_METADATA_TOO_LARGE,
        E.INVALID_COMMIT_OFFSET_SIZE,
        E.REBALANCE_IN_PROGRESS,
        E.GROUP_ID_NOT_FOUND,
        E.STALE_MEMBER_EPOCH,
        E.UNKNOWN_TOPIC_ID,
        E.UNSUPPORTED_VERSION,
    },
    TxnOffsetCommitResponse: ALWAYS
    | _MEMBER
    | _TOPIC
    | {E.OFFSET_METADATA_TOO_LARGE, E.INVALID_PRODUCER_EPOCH},
    OffsetFetchResponse: ALWAYS
    | _TOPIC
    | {
        E.UNKNOWN_MEMBER_ID,
        E.STALE_MEMBER_EPOCH,
        E.UNSTABLE_OFFSET_COMMIT,
        E.UNKNOWN_TOPIC_ID,
    },
    OffsetDeleteResponse: ALWAYS
    | _TOPIC
    | {E.GROUP_ID_NOT_FOUND, E.NON_EMPTY_GROUP, E.GROUP_SUBSCRIBED_TO_TOPIC},
    DeleteGroupsResponse: ALWAYS | {E.NON_EMPTY_GROUP, E.GROUP_ID_NOT_FOUND},
    DescribeGroupsResponse: ALWAYS | {E.GROUP_ID_NOT_FOUND},
    ListGroupsResponse: ALWAYS,
    ConsumerGroupHeartbeatResponse: ALWAYS
    | {
        E.INVALID_REQUEST,
        E.UNKNOWN_MEMBER_ID,
        E.FENCED_MEMBER_EPOCH,
        E.UNSUPPORTED_ASSIGNOR,
        E.UNRELEASED_INSTANCE_ID,
        E.FENCED_INSTANCE_ID,
        E.GROUP_MAX_SIZE_REACHED,
        E.INVALID_REGULAR_EXPRESSION,
        E.TOPIC_AUTHORIZATION_FAILED,
        E.GROUP_ID_NOT_FOUND,
    },
    ConsumerGroupDescribeResponse: ALWAYS | {E.GROUP_ID_NOT_FOUND, E.TOPIC_AUTHORIZATION_FAILED},
}

_CODES: Final = frozenset({"error_code", "partition_error_code"})


def codes(value: object) -> Iterator[int]:
    """Every error code in an answer, however deep."""
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            item = getattr(value, name)
            if name in _CODES:
                yield item
            elif type(item) is tuple:
                for each in item:
                    yield from codes(each)


def check_errors(response: Response) -> None:
    """I9, for one answer of a coordinator."""
    expected = EXPECTED[type(response)]
    for code in codes(response):
        if code and code not in expected:
            name = ErrorCode.of(code).name
            raise AssertionError(f"I9: {type(response).__name__} says {code}, {name}")
