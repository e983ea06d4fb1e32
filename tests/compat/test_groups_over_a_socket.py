"""Bytes made by coterie.protocol, over a plain socket, administer groups on a real Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.api import ApiKey
from coterie.protocol.group_state import GroupState
from coterie.protocol.messages.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from coterie.protocol.versioned import decode_assignment, decode_subscription
from tests.compat.setting import (
    ASSIGNMENT,
    SUBSCRIPTION,
    commit,
    create_topic,
    find_coordinators,
    join,
)
from tests.kit.kafka import KafkaCluster
from tests.kit.wire_client import WireClient

pytestmark = pytest.mark.kafka


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
