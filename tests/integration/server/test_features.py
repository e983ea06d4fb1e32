"""Features of the cluster: what ApiVersions reports, and how UpdateFeatures changes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.controller import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from coterie.protocol.messages.session import ApiVersionsRequest, ApiVersionsResponse
from tests.integration.server.background import BackgroundCluster
from tests.kit.wire_client import WireClient


def versions(client: WireClient, version: int) -> ApiVersionsResponse:
    return client.ask(ApiVersionsRequest("test", "1"), ApiVersionsResponse, version)


def test_old_clients_do_not_see_features_whose_minimum_is_zero(client: WireClient) -> None:
    """Java clients 3.4 to 3.7 refuse a supported feature with a minimum of 0 (KAFKA-17011)."""
    old, new = versions(client, 3), versions(client, 4)
    assert [each.name for each in old.supported_features] == ["metadata.version"]
    assert {each.name for each in new.supported_features} >= {"group.version", "metadata.version"}
    assert old.finalized_features == new.finalized_features
    assert {each.name for each in old.finalized_features} >= {"group.version", "metadata.version"}


def update(
    client: WireClient, feature: str, level: int, upgrade_type: int = 1, *, only: bool = False
) -> tuple[int, str | None]:
    changes = (FeatureUpdateKey(feature, level, upgrade_type=upgrade_type),)
    request = UpdateFeaturesRequest(60_000, changes, only)
    answer = client.ask(request, UpdateFeaturesResponse, 1)
    return answer.error_code, answer.error_message


def test_a_change_is_durable_and_raises_the_epoch(tmp_path: Path) -> None:
    with BackgroundCluster(root=tmp_path) as cluster, WireClient(*cluster.address()) as client:
        before = versions(client, 4)
        assert update(client, "transaction.version", 1, 2, only=True) == (0, None)
        assert versions(client, 4).finalized_features == before.finalized_features
        assert update(client, "transaction.version", 1, 2) == (0, None)
        assert update(client, "group.version", 0, 3) == (0, None)
        after = versions(client, 4)
        assert after.finalized_features_epoch > before.finalized_features_epoch
    with BackgroundCluster(root=tmp_path) as cluster, WireClient(*cluster.address()) as client:
        again = versions(client, 4)
        assert again.finalized_features == after.finalized_features
        levels = {each.name: each.max_version_level for each in again.finalized_features}
        assert levels["transaction.version"] == 1
        assert "group.version" not in levels


@pytest.mark.parametrize(
    ("feature", "level", "upgrade_type", "why"),
    [
        ("nonsense", 1, 1, "Local controller 1 does not support this feature."),
        ("group.version", 2, 1, "Local controller 1 only supports versions 0-1"),
        ("group.version", -1, 1, "A feature version cannot be less than 0."),
        ("group.version", 0, 9, "The controller does not support the given upgrade type."),
        (
            "group.version",
            0,
            1,
            (
                "Can't downgrade the version of this feature without setting the upgrade type to "
                "either safe or unsafe downgrade."
            ),
        ),
    ],
)
def test_a_change_that_is_not_possible(
    client: WireClient, feature: str, level: int, upgrade_type: int, why: str
) -> None:
    error, message = update(client, feature, level, upgrade_type)
    assert error == ErrorCode.INVALID_UPDATE_VERSION
    assert message == (
        "The update failed for all features since the following feature had an error: "
        f"Invalid update version {level} for feature {feature}. {why}"
    )


def test_the_quorum_has_one_voter(client: WireClient) -> None:
    def ask(topic: str, version: int) -> DescribeQuorumResponse:
        partitions = (DescribeQuorumRequestPartition(0),)
        request = DescribeQuorumRequest((DescribeQuorumRequestTopic(topic, partitions),))
        return client.ask(request, DescribeQuorumResponse, version)

    for version in range(3):
        (partition,) = ask("__cluster_metadata", version).topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (0, 1)
        assert [each.replica_id for each in partition.current_voters] == [1]
        unknown = ask("other", version).topics[0].partitions[0]
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.node_id for each in ask("__cluster_metadata", 2).nodes] == [1]
