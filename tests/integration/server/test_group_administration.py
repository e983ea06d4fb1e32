"""Group administration as the five proposals want it, on the embedded cluster, over sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.protocol.messages.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
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
    SyncGroupResponse,
)
from coterie.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from coterie.protocol.versioned import Undecoded, decode_assignment, decode_subscription
from coterie.server.cluster import Cluster
from coterie.testing import EmbeddedCluster
from tests.kit.wire_client import WireClient


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as running:
        yield running


def connect(cluster: EmbeddedCluster, broker: int = 1, client_id: str = "tester") -> WireClient:
    host, port = cluster.bootstrap_servers.split(",")[broker - 1].split(":")
    return WireClient(host, int(port), client_id)


def at_coordinator(cluster: EmbeddedCluster, group: str, client_id: str = "tester") -> WireClient:
    return connect(cluster, cluster.coordinator_of(group), client_id)


def inside(cluster: EmbeddedCluster) -> Cluster:
    """The cluster itself, for states that no client can bring about."""
    return cluster._twin.cluster


def describe(cluster: EmbeddedCluster, group: str, version: int = 6) -> DescribedGroup:
    with at_coordinator(cluster, group) as client:
        request = DescribeGroupsRequest(groups=(group,))
        (found,) = client.ask(request, DescribeGroupsResponse, version).groups
    return found


def join(client: WireClient, group: str, protocol_type: str = "consumer") -> JoinGroupResponse:
    member_id = ""
    while True:
        joined = client.ask(
            JoinGroupRequest(
                group_id=group,
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                member_id=member_id,
                protocol_type=protocol_type,
                protocols=(JoinGroupRequestProtocol("range", b"blob"),),
            ),
            JoinGroupResponse,
        )
        if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            return joined
        member_id = joined.member_id


def sync(client: WireClient, group: str, joined: JoinGroupResponse) -> SyncGroupResponse:
    return client.ask(
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
        ),
        SyncGroupResponse,
    )


def test_each_broker_lists_its_own_groups_with_their_protocol_types(
    cluster: EmbeddedCluster,
) -> None:
    cluster.scene("stable_group", "own-live", members=1)
    names = [f"own-{i}" for i in range(12)]
    for name in names:
        cluster.scene("empty_group", name)
    seen: dict[str, int] = {}
    for broker in (1, 2, 3):
        with connect(cluster, broker) as client:
            for group in client.ask(ListGroupsRequest(), ListGroupsResponse).groups:
                if group.group_id.startswith("own-"):
                    assert group.group_id not in seen
                    seen[group.group_id] = broker
                    expected = "consumer" if group.group_id == "own-live" else ""
                    assert group.protocol_type == expected
    assert seen == {name: cluster.coordinator_of(name) for name in [*names, "own-live"]}
    assert len(set(seen.values())) > 1


def test_a_stable_group_shows_its_members_with_all_they_brought(cluster: EmbeddedCluster) -> None:
    cluster.scene("stable_group", "shown", topic="shown-topic", members=2)
    group = describe(cluster, "shown")
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert {member.client_id for member in group.members} == {"shown-client-1", "shown-client-2"}
    assert {member.client_host for member in group.members} == {"/127.0.0.1"}
    owned: list[int] = []
    for member in group.members:
        subscription = decode_subscription(member.member_metadata)
        assignment = decode_assignment(member.member_assignment)
        assert not isinstance(subscription, Undecoded)
        assert not isinstance(assignment, Undecoded)
        assert subscription.topics == ("shown-topic",)
        owned += assignment.assigned_partitions[0].partitions
    assert sorted(owned) == [0, 1, 2, 3]


def test_any_kind_of_client_is_described_by_the_same_request(cluster: EmbeddedCluster) -> None:
    with at_coordinator(cluster, "workers") as client:
        sync(client, "workers", join(client, "workers", "connect"))
        group = describe(cluster, "workers")
    assert (group.protocol_type, group.group_state) == ("connect", "Stable")
    assert group.members[0].member_metadata == b"blob"


@pytest.mark.parametrize("version", range(7))
def test_a_dead_group_has_nothing_else_to_tell(cluster: EmbeddedCluster, version: int) -> None:
    group = describe(cluster, "never-was", version)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Dead", "", "")
    assert group.members == ()
    assert group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version == 6 else ErrorCode.NONE)


def test_a_group_that_is_being_loaded_says_so_and_shows_nothing(cluster: EmbeddedCluster) -> None:
    cluster.scene("empty_group", "loading")
    broker = inside(cluster).broker(cluster.coordinator_of("loading"))
    hosted = broker.services.groups.find("loading")
    assert not isinstance(hosted, ErrorCode)
    hosted.loaded = False
    try:
        group = describe(cluster, "loading")
        assert group.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (group.group_state, group.members) == ("", ())
        with at_coordinator(cluster, "loading") as client:
            listed = client.ask(ListGroupsRequest(), ListGroupsResponse)
            assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert listed.groups == ()
            asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("loading", topics=None),))
            (fetched,) = client.ask(asked, OffsetFetchResponse, 9).groups
            assert fetched.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    finally:
        hosted.loaded = True


def test_a_rebalancing_group_keeps_its_type_and_hides_metadata(cluster: EmbeddedCluster) -> None:
    cluster.scene("rebalancing_group", "between")
    group = describe(cluster, "between")
    assert (group.group_state, group.protocol_type) == ("CompletingRebalance", "consumer")
    assert group.protocol_data == ""
    assert [member.member_metadata for member in group.members] == [b""]
    # KIP-181: what the state hides is told to those who ask for it.
    assert group.generation_id == 1
    assert group.members[0].member_subscription


def test_host_and_client_id_are_those_of_the_join(cluster: EmbeddedCluster) -> None:
    with at_coordinator(cluster, "named", "first-name") as client:
        joined = join(client, "named")
        sync(client, "named", joined)
        with at_coordinator(cluster, "named", "another-name") as other:
            # The same member over another connection: only a rebalance would change what is shown.
            sync(other, "named", joined)
        (member,) = describe(cluster, "named").members
    assert (member.client_id, member.client_host) == ("first-name", "/127.0.0.1")


def test_a_partition_without_a_leader_has_no_coordinator() -> None:
    with EmbeddedCluster(brokers=2) as cluster, connect(cluster) as client:
        partition = inside(cluster).partitions.offsets_partition("lost")
        partition.metadata.leader = -1
        keys = ("lost", *(f"found-{i}" for i in range(8)))
        answer = client.ask(FindCoordinatorRequest(coordinator_keys=keys), FindCoordinatorResponse)
    lost, *found = answer.coordinators
    assert (lost.error_code, lost.node_id, lost.host, lost.port) == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        -1,
        "",
        -1,
    )
    assert any(each.error_code == ErrorCode.NONE for each in found)


def test_many_coordinators_by_one_request(cluster: EmbeddedCluster) -> None:
    keys = tuple(f"many-{i}" for i in range(100))
    with connect(cluster) as client:
        answer = client.ask(FindCoordinatorRequest(coordinator_keys=keys), FindCoordinatorResponse)
    assert tuple(each.key for each in answer.coordinators) == keys
    assert {each.node_id for each in answer.coordinators} == {1, 2, 3}
    assert cluster.requests("FindCoordinator") >= 1


def test_groups_are_deleted_with_their_offsets_each_with_its_own_error(
    cluster: EmbeddedCluster,
) -> None:
    cluster.move_coordinator("gone", 1)
    cluster.scene("empty_group", "gone")
    # Groups of the same partition have the same coordinator: look for some.
    count = inside(cluster).partitions.offsets_partitions
    assert count == 50
    cluster.scene("stable_group", "in-use", members=1)
    cluster.move_coordinator("in-use", 1)
    with connect(cluster, 1) as client:
        request = DeleteGroupsRequest(groups_names=("gone", "in-use", "never", "gone"))
        cluster.move_coordinator("never", 1)
        results = client.ask(request, DeleteGroupsResponse).results
        assert {each.group_id: ErrorCode.of(each.error_code) for each in results} == {
            "gone": ErrorCode.NONE,
            "in-use": ErrorCode.NON_EMPTY_GROUP,
            "never": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        assert len(results) == 3
        asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("gone", topics=None),))
        (fetched,) = client.ask(asked, OffsetFetchResponse, 9).groups
        assert (fetched.error_code, fetched.topics) == (ErrorCode.NONE, ())
        listed = client.ask(ListGroupsRequest(), ListGroupsResponse).groups
        assert "gone" not in {group.group_id for group in listed}


def test_a_group_elsewhere_is_not_deleted_here(cluster: EmbeddedCluster) -> None:
    cluster.scene("empty_group", "elsewhere")
    wrong = next(node for node in (1, 2, 3) if node != cluster.coordinator_of("elsewhere"))
    with connect(cluster, wrong) as client:
        request = DeleteGroupsRequest(groups_names=("elsewhere",))
        (result,) = client.ask(request, DeleteGroupsResponse).results
    assert result.error_code == ErrorCode.NOT_COORDINATOR
    assert describe(cluster, "elsewhere").group_state == "Empty"


def test_listing_by_state(cluster: EmbeddedCluster) -> None:
    cluster.scene("stable_group", "state-stable", members=1)
    cluster.scene("empty_group", "state-empty")
    cluster.scene("rebalancing_group", "state-busy")

    def listed(*states: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for broker in (1, 2, 3):
            with connect(cluster, broker) as client:
                request = ListGroupsRequest(states_filter=states)
                for group in client.ask(request, ListGroupsResponse, 4).groups:
                    if group.group_id.startswith("state-"):
                        found[group.group_id] = group.group_state
        return found

    everything = {
        "state-stable": "Stable",
        "state-empty": "Empty",
        "state-busy": "CompletingRebalance",
    }
    assert listed() == everything
    assert listed("Stable") == {"state-stable": "Stable"}
    assert listed("stable", " EMPTY ") == {"state-stable": "Stable", "state-empty": "Empty"}
    assert listed("sleeping") == {}


def test_a_long_list_is_the_same_list(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above a size the list is made in slices; nobody can tell from the answer."""
    for i in range(20):
        cluster.scene("empty_group", f"long-{i}")
    with connect(cluster) as client:
        short = client.ask(ListGroupsRequest(), ListGroupsResponse)
        monkeypatch.setattr("coterie.server.handlers.groups._AT_ONCE", 3)
        assert client.ask(ListGroupsRequest(), ListGroupsResponse) == short
        assert len(short.groups) > 3


def test_nobody_is_throttled(cluster: EmbeddedCluster) -> None:
    with connect(cluster) as client:
        assert client.ask(ListGroupsRequest(), ListGroupsResponse).throttle_time_ms == 0
        assert client.ask(DeleteGroupsRequest(), DeleteGroupsResponse).throttle_time_ms == 0
        found = client.ask(FindCoordinatorRequest(), FindCoordinatorResponse)
        assert found.throttle_time_ms == 0
