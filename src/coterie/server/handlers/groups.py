"""Groups: requests about one go to its shard; requests about many are taken apart and put together."""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from coterie.coordinator.administration import NO_OPERATIONS
from coterie.coordinator.outcome import Outcome
from coterie.error_codes import ErrorCode
from coterie.protocol.codec import encode_element, encode_with_elements
from coterie.protocol.messages import consumer_groups
from coterie.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.protocol.messages.groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from coterie.protocol.messages.membership import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from coterie.protocol.messages.transactions import TxnOffsetCommitRequest
from coterie.protocol.schema import Response
from coterie.security.acls import ResourceType, operation_bits
from coterie.server.group_service import HostedShard
from coterie.server.requests.calls import Call
from coterie.server.services import Services

__all__ = [
    "about_one_group",
    "consumer_group_describe",
    "delete_groups",
    "describe_groups",
    "list_groups",
    "offset_fetch",
]

_ALL_GROUP_OPERATIONS: Final = operation_bits(ResourceType.GROUP)
_NOT_ASKED: Final = -(2**31)
_NO_GROUPS: Final = DescribeGroupsResponse()
_NO_OFFSETS: Final = OffsetFetchResponse()
#: Groups that are listed in one turn of the event loop: some milliseconds.
_AT_ONCE: Final = 5_000
_MANY_GROUPS_FROM: Final = 8  # OffsetFetch, KIP-709

OneGroupRequest = (
    OffsetCommitRequest
    | HeartbeatRequest
    | JoinGroupRequest
    | SyncGroupRequest
    | LeaveGroupRequest
    | OffsetDeleteRequest
    | TxnOffsetCommitRequest
    | ConsumerGroupHeartbeatRequest
)


def about_one_group(services: Services, call: Call, request: OneGroupRequest) -> Response | None:
    """JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetDelete, TxnOffsetCommit,
    ConsumerGroupHeartbeat."""
    if (
        isinstance(request, ConsumerGroupHeartbeatRequest)
        and services.features.level("group.version") == 0
    ):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return services.groups.handle(call, request.group_id)


def list_groups(services: Services, call: Call, request: ListGroupsRequest) -> Response | None:
    """ListGroups 0-5: the groups of all shards here. One that loads makes the whole answer an error,
    as in Kafka: half a list would be taken for a whole one."""
    shards = services.groups.hosted()
    if not all(hosted.loaded for hosted in shards):
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    if sum(len(hosted.shard) for hosted in shards) > _AT_ONCE:
        services.tasks.run(_list_many(services, call, request, shards), call)
        return None
    groups: list[ListedGroup] = []
    for hosted in shards:
        groups += hosted.shard.list_groups(request)
    services.groups.answer_reads(call, shards, ListGroupsResponse(groups=tuple(groups)))
    return None


async def _list_many(
    services: Services, call: Call, request: ListGroupsRequest, shards: list[HostedShard]
) -> None:
    """A list of a hundred thousand groups takes a tenth of a second; others must not wait for it.

    Shard by shard, and the bytes are made in a thread, which leaves the loop its share of the time.
    """
    groups: list[ListedGroup] = []
    for hosted in shards:
        part = ListGroupsResponse(groups=tuple(hosted.shard.list_groups(request)))
        groups += cast("ListGroupsResponse", call.finish(part)).groups
        await asyncio.sleep(0)
    response = call.charge(ListGroupsResponse(groups=tuple(groups)))
    data = await asyncio.to_thread(call.encode_finished, response)
    services.groups.answer_encoded(call, shards, data)


def describe_groups(
    services: Services, call: Call, request: DescribeGroupsRequest
) -> Response | None:
    """DescribeGroups 0-6, with KIP-181's fields."""
    operations = _ALL_GROUP_OPERATIONS if request.include_authorized_operations else _NOT_ASKED
    asked: list[HostedShard] = []
    refusals = cast("DescribeGroupsResponse", call.finish(_NO_GROUPS)).groups
    groups = [encode_element(each, DescribeGroupsResponse, call.version) for each in refusals]
    for group_id in request.groups:
        hosted = services.groups.find(group_id)
        if isinstance(hosted, ErrorCode):
            refused = DescribedGroup(error_code=hosted, group_id=group_id)
            groups.append(encode_element(refused, DescribeGroupsResponse, call.version))
        else:
            asked.append(hosted)
            if call.guard is not None and request.include_authorized_operations:
                operations = call.guard.operations(
                    ResourceType.GROUP, group_id, all_of_them=_ALL_GROUP_OPERATIONS
                )
            groups.append(hosted.shard.describe_encoded(group_id, call.version, operations))
    body = encode_with_elements(call.charge(_NO_GROUPS), call.version, "groups", groups)
    services.groups.answer_encoded(call, asked, call.frame(body))
    return None


def delete_groups(services: Services, call: Call, request: DeleteGroupsRequest) -> Response | None:
    """DeleteGroups 0-2: one atomic batch per shard; a failure of one group does not affect others."""
    by_shard: dict[int, tuple[HostedShard, list[str]]] = {}
    results: list[DeletableGroupResult] = []
    for group_id in dict.fromkeys(request.groups_names):
        hosted = services.groups.find(group_id)
        if isinstance(hosted, ErrorCode):
            results.append(DeletableGroupResult(group_id, hosted))
        else:
            by_shard.setdefault(hosted.partition.index, (hosted, []))[1].append(group_id)
    for hosted, group_ids in by_shard.values():
        outcome = hosted.shard.delete_groups(group_ids)
        results += cast("DeleteGroupsResponse", outcome.response).results
        services.groups.settle(hosted, Outcome(outcome.records, None, outcome.released))
    response = DeleteGroupsResponse(results=tuple(results))
    services.groups.answer_writes(call, [hosted for hosted, _ in by_shard.values()], response)
    return None


def offset_fetch(services: Services, call: Call, request: OffsetFetchRequest) -> Response | None:
    """OffsetFetch 1-10: one group, or from version 8 many (KIP-709)."""
    if call.version < _MANY_GROUPS_FROM:
        return services.groups.handle(call, request.group_id)
    # Where not everybody may see every topic, no bytes are sent that were made for another.
    guarded = call.guard is not None
    version, stable, topics = call.version, request.require_stable, services.metadata
    found: list[Any] = []
    asked: list[HostedShard] = []
    for group in request.groups:
        hosted = services.groups.find(group.group_id)
        if isinstance(hosted, ErrorCode):
            refused = OffsetFetchResponseGroup(group_id=group.group_id, error_code=hosted)
            found.append(
                refused if guarded else encode_element(refused, OffsetFetchResponse, version)
            )
            continue
        asked.append(hosted)
        fetch = hosted.shard.fetch_offsets if guarded else hosted.shard.fetch_encoded
        found.append(fetch(group, version, require_stable=stable, topics=topics))
    if guarded:
        services.groups.answer_reads(call, asked, OffsetFetchResponse(groups=tuple(found)))
    else:
        body = encode_with_elements(call.charge(_NO_OFFSETS), version, "groups", found)
        services.groups.answer_encoded(call, asked, call.frame(body))
    return None


def consumer_group_describe(
    services: Services, call: Call, request: ConsumerGroupDescribeRequest
) -> Response | None:
    """ConsumerGroupDescribe 0-1: each group from its own shard, with names for topics."""
    asked: list[HostedShard] = []
    groups: list[consumer_groups.DescribedGroup] = []
    topics = services.metadata
    for group_id in request.group_ids:
        hosted = services.groups.find(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(hosted, ErrorCode):
            groups.append(consumer_groups.DescribedGroup(error_code=hosted, group_id=group_id))
            continue
        asked.append(hosted)
        operations = NO_OPERATIONS
        if request.include_authorized_operations:
            operations = _ALL_GROUP_OPERATIONS
            if call.guard is not None:
                operations = call.guard.operations(
                    ResourceType.GROUP, group_id, all_of_them=_ALL_GROUP_OPERATIONS
                )
        groups.append(hosted.shard.describe_consumer_group(group_id, topics, operations))
    response = ConsumerGroupDescribeResponse(groups=tuple(groups))
    services.groups.answer_reads(call, asked, response)
    return None
