"""Bytes made by coterie.protocol, over a plain socket, administer groups on a real Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.group_state import GroupState
from coterie.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from coterie.protocol.messages.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
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
from coterie.protocol.versioned import decode_assignment, decode_subscription, encode_versioned
from tests.kit.kafka import KafkaCluster
from tests.kit.wire_client import WireClient

pytestmark = pytest.mark.kafka

SUBSCRIPTION = ConsumerProtocolSubscription(topics=("orders",), user_data=b"\x00\xff")
ASSIGNMENT = ConsumerProtocolAssignment(
    assigned_partitions=(TopicPartition(topic="orders", partitions=(0, 1)),)
)


@pytest.mark.parametrize("kafka_version", ["4.3.0", "3.9.1", "2.5.1"])
def test_list_describe_and_delete_real_groups(
    kafka_version: str, kafka_cluster: Callable[[str, int], KafkaCluster]
) -> None:
    host, port = kafka_cluster(kafka_version, 1).addresses[0]
    with WireClient(host, port) as client:
        create_topic(client)
        find_coordinators(client, "live", "empty")
        member_id = join(client, "live")
        commit(client, "empty")
        check_lists(client)
        check_descriptions(client, member_id)
        check_deletions(client)


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


def check_lists(client: WireClient) -> None:
    for version in client.versions(ApiKey.LIST_GROUPS):
        answer = client.ask(ListGroupsRequest(), ListGroupsResponse, version)
        assert answer.error_code == 0
        found = {group.group_id: group for group in answer.groups}
        assert {"live", "empty"} <= set(found)
        assert (found["live"].protocol_type, found["empty"].protocol_type) == ("consumer", "")
        assert found["live"].group_state == ("Stable" if version >= 4 else "")
        assert found["live"].group_type == ("classic" if version >= 5 else "")
        if version >= 4:
            request = ListGroupsRequest(states_filter=("empty",))
            names = {
                group.group_id for group in client.ask(request, ListGroupsResponse, version).groups
            }
            assert "empty" in names
            assert "live" not in names


def check_descriptions(client: WireClient, member_id: str) -> None:
    for version in client.versions(ApiKey.DESCRIBE_GROUPS):
        request = DescribeGroupsRequest(
            groups=("live", "empty", "missing"), include_authorized_operations=version >= 3
        )
        answer = client.ask(request, DescribeGroupsResponse, version)
        found = {group.group_id: group for group in answer.groups}
        assert GroupState.parse(found["live"].group_state) is GroupState.STABLE
        assert found["empty"].group_state == "Empty"
        assert found["missing"].group_state == "Dead"
        assert found["missing"].error_code == (69 if version >= 6 else 0)
        assert found["live"].protocol_data == "range"
        (member,) = found["live"].members
        assert (member.member_id, member.client_id) == (member_id, "wire-client")
        assert member.client_host == "/127.0.0.1"
        assert decode_subscription(member.member_metadata) == SUBSCRIPTION
        assert decode_assignment(member.member_assignment) == ASSIGNMENT
        # KIP-181's fields are ours: Apache Kafka does not tell, and we see that it does not.
        assert (found["live"].generation_id, found["live"].leader_id) == (-1, None)
        assert (found["live"].authorized_operations != -(2**31)) == (version >= 3)


def check_deletions(client: WireClient) -> None:
    for version in client.versions(ApiKey.DELETE_GROUPS):
        commit(client, "empty")
        request = DeleteGroupsRequest(groups_names=("live", "empty", "missing"))
        answer = client.ask(request, DeleteGroupsResponse, version)
        assert {result.group_id: ErrorCode.of(result.error_code) for result in answer.results} == {
            "live": ErrorCode.NON_EMPTY_GROUP,
            "empty": ErrorCode.NONE,
            "missing": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        names = {
            group.group_id for group in client.ask(ListGroupsRequest(), ListGroupsResponse).groups
        }
        assert "empty" not in names
