"""What clients ask the controller: DescribeQuorum and UpdateFeatures.

The cluster has one controller, the first broker that is alive, and it is the only voter of the quorum.
"""

from __future__ import annotations

from typing import Final

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.controller import (
    DescribeQuorumListener,
    DescribeQuorumNode,
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
    ReplicaState,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from coterie.protocol.schema import Response
from coterie.server.metadata.features import FeatureChange
from coterie.server.metadata.topics import CLUSTER_METADATA
from coterie.server.requests.calls import Call
from coterie.server.services import Services

__all__ = ["describe_quorum", "update_features"]

_NODES_FROM: Final = 2  # KIP-853
_LISTENER: Final = "CONTROLLER"
#: The first leader of a quorum has this epoch; here the first one stays the leader.
_LEADER_EPOCH: Final = 1
_REFUSED: Final = "The update failed for all features since the following feature had an error: "


def describe_quorum(services: Services, call: Call, request: DescribeQuorumRequest) -> Response:
    """DescribeQuorum 0-2: the only partition that can be described is `__cluster_metadata-0`."""
    asked = [
        (topic.topic_name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    ]
    if asked == [(CLUSTER_METADATA, 0)]:
        return _quorum(services, call.version)
    message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message
    return DescribeQuorumResponse(
        topics=tuple(
            DescribeQuorumTopic(
                topic.topic_name,
                tuple(
                    DescribeQuorumPartition(
                        each.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _quorum(services: Services, version: int) -> Response:
    now = services.clock.now_ms()
    controller = services.brokers.controller_id
    end = services.features.epoch
    voter = ReplicaState(
        replica_id=controller,
        log_end_offset=end,
        last_fetch_timestamp=now,
        last_caught_up_timestamp=now,
    )
    partition = DescribeQuorumPartition(
        partition_index=0,
        leader_id=controller,
        leader_epoch=_LEADER_EPOCH,
        high_watermark=end,
        current_voters=(voter,),
    )
    first = next(iter(services.brokers.bound(controller).values()))
    listener = DescribeQuorumListener(_LISTENER, *first)
    return DescribeQuorumResponse(
        topics=(DescribeQuorumTopic(CLUSTER_METADATA, (partition,)),),
        nodes=(DescribeQuorumNode(controller, (listener,)),) if version >= _NODES_FROM else (),
    )


def update_features(services: Services, call: Call, request: UpdateFeaturesRequest) -> Response:
    """UpdateFeatures 0-2: all features or none. Kafka 4.3 ignores version 0's allow_downgrade, too."""
    refused = services.features.change(
        [
            FeatureChange(each.feature, each.max_version_level, each.upgrade_type)
            for each in request.feature_updates
        ],
        controller=services.brokers.controller_id,
        validate_only=request.validate_only,
    )
    if refused is not None:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=_REFUSED + refused
        )
    return UpdateFeaturesResponse(
        error_message=None,
        results=tuple(
            UpdatableFeatureResult(each.feature, error_message="NONE")
            for each in request.feature_updates
        ),
    )
