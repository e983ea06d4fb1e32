"""Where things are: Metadata, DescribeCluster, FindCoordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.cluster import (
    Coordinator,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie.protocol.schema import Response
from coterie.protocol.types import Uuid
from coterie.security.acls import ResourceType, operation_bits
from coterie.server.metadata import CLUSTER_METADATA, TopicMetadata, why_bad_name

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.calls import Call

__all__ = [
    "ALL_CLUSTER_OPERATIONS",
    "ALL_TOPIC_OPERATIONS",
    "describe_cluster",
    "find_coordinator",
    "metadata",
]

#: Without an authorizer everything is allowed, and said as a bit set of Kafka's operation codes.
ALL_TOPIC_OPERATIONS: Final = operation_bits(ResourceType.TOPIC)
ALL_CLUSTER_OPERATIONS: Final = operation_bits(ResourceType.CLUSTER)
_NOT_ASKED: Final = -(2**31)

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_BATCHED_FROM: Final = 4  # KIP-699
_SHARE_FROM: Final = 6


def metadata(broker: Broker, call: Call, request: MetadataRequest) -> Response:
    """Metadata 0-13. Topics that do not exist may be made on the way, as Kafka does."""
    cluster = broker.cluster
    ask_all = request.topics is None or (call.version == 0 and not request.topics)
    if ask_all:
        topics = [_describe(broker, topic, request) for topic in cluster.metadata]
    else:
        create = request.allow_auto_topic_creation and cluster.config.auto_create_topics
        topics = [
            _find(broker, request, each.name, each.topic_id, create=create)
            for each in request.topics or ()
        ]
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(
                node_id, cluster.brokers[node_id].host, cluster.brokers[node_id].port
            )
            for node_id in cluster.alive()
        ),
        cluster_id=cluster.metadata.cluster_id,
        controller_id=cluster.controller_id,
        topics=tuple(topics),
        cluster_authorized_operations=(
            ALL_CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else _NOT_ASKED
        ),
    )


def _find(
    broker: Broker, request: MetadataRequest, name: str | None, topic_id: Uuid, *, create: bool
) -> MetadataResponseTopic:
    cluster = broker.cluster
    if name is None:
        found = cluster.metadata.topic_with_id(topic_id)
        if found is None:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
        return _describe(broker, found, request)
    topic = cluster.metadata.topic(name)
    if topic is None:
        if why_bad_name(name):
            return MetadataResponseTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
        if not create or name == CLUSTER_METADATA:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        topic = cluster.create_topic(name, cluster.config.num_partitions, {})
    return _describe(broker, topic, request)


def _describe(
    broker: Broker, topic: TopicMetadata, request: MetadataRequest
) -> MetadataResponseTopic:
    alive = broker.cluster.alive()
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.uuid,
        is_internal=topic.is_internal,
        partitions=tuple(
            MetadataResponsePartition(
                error_code=(
                    ErrorCode.NONE if each.leader in alive else ErrorCode.LEADER_NOT_AVAILABLE
                ),
                partition_index=index,
                leader_id=each.leader,
                leader_epoch=each.leader_epoch,
                replica_nodes=(each.preferred_leader,) if each.leader < 0 else (each.leader,),
                isr_nodes=(each.leader,) if each.leader >= 0 else (),
                offline_replicas=() if each.leader in alive else (each.preferred_leader,),
            )
            for index, each in enumerate(topic.partitions)
        ),
        topic_authorized_operations=(
            ALL_TOPIC_OPERATIONS if request.include_topic_authorized_operations else _NOT_ASKED
        ),
    )


def describe_cluster(broker: Broker, call: Call, request: DescribeClusterRequest) -> Response:
    """DescribeCluster 0-2."""
    cluster = broker.cluster
    if request.endpoint_type != 1:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of the wrong type.",
            endpoint_type=1,
        )
    return DescribeClusterResponse(
        error_message=None,
        cluster_id=cluster.metadata.cluster_id,
        controller_id=cluster.controller_id,
        brokers=tuple(
            DescribeClusterBroker(
                node_id, cluster.brokers[node_id].host, cluster.brokers[node_id].port
            )
            for node_id in cluster.alive()
        ),
        cluster_authorized_operations=(
            ALL_CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else _NOT_ASKED
        ),
    )


def find_coordinator(broker: Broker, call: Call, request: FindCoordinatorRequest) -> Response:
    """FindCoordinator 0-6: one key, or from version 4 many (KIP-699), each with its own error."""
    keys = request.coordinator_keys if call.version >= _BATCHED_FROM else (request.key,)
    found = [_coordinator(broker, key, request.key_type, call.version) for key in keys]
    if call.version >= _BATCHED_FROM:
        return FindCoordinatorResponse(coordinators=tuple(found))
    (only,) = found
    error = ErrorCode.of(only.error_code)
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=error.message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _coordinator(broker: Broker, key: str, key_type: int, version: int) -> Coordinator:
    cluster = broker.cluster
    if key_type == _GROUP:
        leader = cluster.offsets_partition(key).leader
    elif key_type == _TRANSACTION:
        leader = cluster.transaction_coordinator(key)
    else:
        error = ErrorCode.INVALID_REQUEST
        if key_type == _SHARE and version >= _SHARE_FROM:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key, -1, "", -1, error, error.message)
    if leader not in cluster.alive():
        return Coordinator(key, -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    node = cluster.brokers[leader]
    return Coordinator(key, leader, node.host, node.port, ErrorCode.NONE, "")
