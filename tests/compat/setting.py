"""Topics and groups on any broker, over a plain socket: what conversations are about."""

from __future__ import annotations

import time
from collections.abc import Callable

from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from coterie.protocol.messages.membership import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from coterie.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from coterie.protocol.versioned import decode_assignment, encode_versioned
from tests.kit.wire_client import WireClient

SUBSCRIPTION = ConsumerProtocolSubscription(topics=("orders",), user_data=b"\x00\xff")


ASSIGNMENT = ConsumerProtocolAssignment(
    assigned_partitions=(TopicPartition(topic="orders", partitions=(0, 1)),)
)


def until_ok(attempt: Callable[[], int]) -> None:
    """Repeat what a fresh broker refuses for a while: topics and coordinators take their time."""
    deadline = time.monotonic() + 60
    while (code := ErrorCode.of(attempt())) is not ErrorCode.NONE:
        assert code.retriable, code
        assert time.monotonic() < deadline, f"still {code.name} after a minute"
        time.sleep(0.05)


def create_topic(client: WireClient) -> None:
    topic = CreatableTopic(name="orders", num_partitions=2, replication_factor=1)
    answer = client.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    assert answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def find_coordinators(client: WireClient, *groups: str) -> None:
    """Batched where the broker can (KIP-699), one by one where it cannot."""

    def batched() -> int:
        answer = client.ask(
            FindCoordinatorRequest(coordinator_keys=groups), FindCoordinatorResponse
        )
        assert [found.key for found in answer.coordinators] == list(groups)
        return max(found.error_code for found in answer.coordinators)

    def single(group: str) -> int:
        return client.ask(FindCoordinatorRequest(key=group), FindCoordinatorResponse).error_code

    if client.versions(ApiKey.FIND_COORDINATOR)[-1] >= 4:
        until_ok(batched)
    else:
        for group in groups:
            until_ok(lambda group=group: single(group))  # type: ignore[misc]


def join(client: WireClient, group: str) -> str:
    """A member that joins, leads and syncs; its id."""
    joined = JoinGroupResponse()

    def attempt() -> int:
        nonlocal joined
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocols=(
                JoinGroupRequestProtocol(name="range", metadata=encode_versioned(SUBSCRIPTION, 1)),
            ),
        )
        joined = client.ask(request, JoinGroupResponse)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return attempt()
        return joined.error_code

    until_ok(attempt)
    assert joined.leader == joined.member_id
    newest = client.versions(ApiKey.SYNC_GROUP)[-1] >= 5
    synced = client.ask(
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer" if newest else None,
            protocol_name="range" if newest else None,
            assignments=(
                SyncGroupRequestAssignment(
                    member_id=joined.member_id, assignment=encode_versioned(ASSIGNMENT, 1)
                ),
            ),
        ),
        SyncGroupResponse,
    )
    assert synced.error_code == 0
    assert decode_assignment(synced.assignment) == ASSIGNMENT
    return joined.member_id


def commit(client: WireClient, group: str) -> None:
    """Offsets without members: a group that is Empty. By name, so at most in version 9."""
    version = min(9, client.versions(ApiKey.OFFSET_COMMIT)[-1])
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=42)
    topic = OffsetCommitRequestTopic(name="orders", partitions=(partition,))

    def attempt() -> int:
        request = OffsetCommitRequest(group_id=group, topics=(topic,))
        answer = client.ask(request, OffsetCommitResponse, version)
        return answer.topics[0].partitions[0].error_code

    until_ok(attempt)
