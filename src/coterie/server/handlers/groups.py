"""Groups: requests about one go to its shard; requests about many are taken apart and put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from coterie.coordinator.outcome import Outcome
from coterie.error_codes import ErrorCode
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
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from coterie.protocol.messages.transactions import TxnOffsetCommitRequest
from coterie.protocol.schema import Response
from coterie.server.group_service import HostedShard

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.calls import Call

__all__ = ["about_one_group", "delete_groups", "describe_groups", "list_groups", "offset_fetch"]

#: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: all that can be done to a group.
_ALL_GROUP_OPERATIONS: Final = sum(1 << code for code in (3, 6, 8, 10, 11))
_NOT_ASKED: Final = -(2**31)
_MANY_GROUPS_FROM: Final = 8  # OffsetFetch, KIP-709

OneGroupRequest = (
    OffsetCommitRequest
    | HeartbeatRequest
    | JoinGroupRequest
    | SyncGroupRequest
    | LeaveGroupRequest
    | OffsetDeleteRequest
    | TxnOffsetCommitRequest
)


def about_one_group(broker: Broker, call: Call, request: OneGroupRequest) -> Response | None:
    """JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetDelete, TxnOffsetCommit."""
    return broker.groups.handle(call, request.group_id)


def list_groups(broker: Broker, call: Call, request: ListGroupsRequest) -> Response | None:
    """ListGroups 0-5: the groups of all shards here. One that loads makes the whole answer an error,
    as in Kafka: half a list would be taken for a whole one."""
    shards = broker.groups.hosted()
    if not all(hosted.loaded for hosted in shards):
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    groups: list[ListedGroup] = []
    for hosted in shards:
        groups += hosted.shard.list_groups(request)
    broker.groups.answer_reads(call, shards, ListGroupsResponse(groups=tuple(groups)))
    return None


def describe_groups(broker: Broker, call: Call, request: DescribeGroupsRequest) -> Response | None:
    """DescribeGroups 0-6, with KIP-181's fields."""
    operations = _ALL_GROUP_OPERATIONS if request.include_authorized_operations else _NOT_ASKED
    asked: list[HostedShard] = []
    groups: list[DescribedGroup] = []
    for group_id in request.groups:
        hosted = broker.groups.find(group_id)
        if isinstance(hosted, ErrorCode):
            groups.append(DescribedGroup(error_code=hosted, group_id=group_id))
        else:
            asked.append(hosted)
            groups.append(hosted.shard.describe_group(group_id, call.version, operations))
    broker.groups.answer_reads(call, asked, DescribeGroupsResponse(groups=tuple(groups)))
    return None


def delete_groups(broker: Broker, call: Call, request: DeleteGroupsRequest) -> Response | None:
    """DeleteGroups 0-2: one atomic batch per shard; one group's failure is no other's."""
    by_shard: dict[int, tuple[HostedShard, list[str]]] = {}
    results: list[DeletableGroupResult] = []
    for group_id in dict.fromkeys(request.groups_names):
        hosted = broker.groups.find(group_id)
        if isinstance(hosted, ErrorCode):
            results.append(DeletableGroupResult(group_id, hosted))
        else:
            by_shard.setdefault(hosted.partition.index, (hosted, []))[1].append(group_id)
    for hosted, group_ids in by_shard.values():
        outcome = hosted.shard.delete_groups(group_ids)
        results += cast("DeleteGroupsResponse", outcome.response).results
        broker.groups.settle(hosted, Outcome(outcome.records, None, outcome.released))
    response = DeleteGroupsResponse(results=tuple(results))
    broker.groups.answer_writes(call, [hosted for hosted, _ in by_shard.values()], response)
    return None


def offset_fetch(broker: Broker, call: Call, request: OffsetFetchRequest) -> Response | None:
    """OffsetFetch 1-10: one group, or from version 8 many (KIP-709)."""
    if call.version >= _MANY_GROUPS_FROM:
        found, asked = _fetch(broker, call, request, request.groups)
        broker.groups.answer_reads(call, asked, OffsetFetchResponse(groups=tuple(found)))
        return None
    topics = request.topics
    one = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else tuple(
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
            for each in topics
        ),
    )
    (group,), asked = _fetch(broker, call, request, (one,))
    broker.groups.answer_reads(call, asked, _as_single(group, one, call.version))
    return None


def _fetch(
    broker: Broker,
    call: Call,
    request: OffsetFetchRequest,
    groups: tuple[OffsetFetchRequestGroup, ...],
) -> tuple[list[OffsetFetchResponseGroup], list[HostedShard]]:
    found: list[OffsetFetchResponseGroup] = []
    asked: list[HostedShard] = []
    for group in groups:
        hosted = broker.groups.find(group.group_id)
        if isinstance(hosted, ErrorCode):
            found.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=hosted))
            continue
        asked.append(hosted)
        found.append(
            hosted.shard.fetch_offsets(
                group,
                call.version,
                require_stable=request.require_stable,
                topics=broker.cluster.metadata,
            )
        )
    return found, asked


def _as_single(
    group: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup, version: int
) -> OffsetFetchResponse:
    """One group's offsets in the shape of versions 1 to 7. Version 1 has no place for a group's error,
    so it is said for every partition that was asked for."""
    if group.error_code and version < 2:
        topics = tuple(
            OffsetFetchResponseTopic(
                name=each.name,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=-1,
                        metadata="",
                        error_code=group.error_code,
                    )
                    for index in each.partition_indexes
                ),
            )
            for each in asked.topics or ()
        )
        return OffsetFetchResponse(topics=topics)
    return OffsetFetchResponse(
        topics=tuple(
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ),
            )
            for topic in group.topics
        ),
        error_code=group.error_code,
    )
