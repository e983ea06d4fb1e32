"""Consumer groups of KIP-848, seen from outside: ConsumerGroupDescribe.

Their heartbeats are requests about one group, like many others: coterie.server.handlers.groups.
"""

from __future__ import annotations

from typing import Final

from coterie.coordinator.administration import NO_OPERATIONS
from coterie.error_codes import ErrorCode
from coterie.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from coterie.protocol.schema import Response
from coterie.security.acls import ResourceType, operation_bits
from coterie.server.groups.service import HostedShard
from coterie.server.requests.calls import Call
from coterie.server.services import Services

__all__ = ["consumer_group_describe"]

_ALL_OPERATIONS: Final = operation_bits(ResourceType.GROUP)


def consumer_group_describe(
    services: Services, call: Call, request: ConsumerGroupDescribeRequest
) -> Response | None:
    """ConsumerGroupDescribe 0-1: each group from its own shard, with names for topics."""
    asked: list[HostedShard] = []
    groups: list[DescribedGroup] = []
    topics = services.metadata
    for group_id in request.group_ids:
        hosted = services.groups.find(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(hosted, ErrorCode):
            groups.append(DescribedGroup(error_code=hosted, group_id=group_id))
            continue
        asked.append(hosted)
        operations = NO_OPERATIONS
        if request.include_authorized_operations:
            operations = _ALL_OPERATIONS
            if call.guard is not None:
                operations = call.guard.operations(
                    ResourceType.GROUP, group_id, all_of_them=_ALL_OPERATIONS
                )
        groups.append(hosted.shard.describe_consumer_group(group_id, topics, operations))
    response = ConsumerGroupDescribeResponse(groups=tuple(groups))
    services.groups.answer_reads(call, asked, response)
    return None
