"""Where things are: Metadata, DescribeCluster, FindCoordinator; and UnregisterBroker."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.cluster import (
    Coordinator,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie.protocol.messages.controller import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from coterie.protocol.schema import Response
from coterie.protocol.types import Uuid
from coterie.security.acls import ResourceType, operation_bits
from coterie.server.metadata.topics import (
    CLUSTER_METADATA,
    INTERNAL_TOPICS,
    PartitionMetadata,
    TopicMetadata,
    why_bad_name,
)
from coterie.server.requests.calls import Call
from coterie.server.services import Services

__all__ = [
    "ALL_CLUSTER_OPERATIONS",
    "ALL_TOPIC_OPERATIONS",
    "describe_cluster",
    "find_coordinator",
    "metadata",
    "unregister_broker",
]

#: Without an authorizer everything is allowed, and said as a bit set of Kafka's operation codes.
ALL_TOPIC_OPERATIONS: Final = operation_bits(ResourceType.TOPIC)
ALL_CLUSTER_OPERATIONS: Final = operation_bits(ResourceType.CLUSTER)
_NOT_ASKED: Final = -(2**31)

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_ALL_REPLICAS_FROM: Final = 1  # Metadata 0 leaves out replicas that are down
_BATCHED_FROM: Final = 4  # KIP-699
_SHARE_FROM: Final = 6


def metadata(services: Services, call: Call, request: MetadataRequest) -> Response:
    """Metadata 0-13. A topic that does not exist may be created for the next request."""
    ask_all = request.topics is None or (call.version == 0 and not request.topics)
    if ask_all:
        topics = [_describe(services, topic, request, call.version) for topic in services.metadata]
    else:
        topics = [_find(services, call, request, each) for each in request.topics or ()]
    brokers = services.brokers
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(*node)
            for node in brokers.nodes(brokers.alive(), call.connection.listener_name)
        ),
        cluster_id=services.metadata.cluster_id,
        controller_id=services.brokers.controller_id,
        topics=tuple(topics),
        cluster_authorized_operations=(
            ALL_CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else _NOT_ASKED
        ),
    )


def _find(
    services: Services, call: Call, request: MetadataRequest, asked: MetadataRequestTopic
) -> MetadataResponseTopic:
    version = call.version
    name, topic_id = asked.name, asked.topic_id
    if name is None or topic_id != Uuid.ZERO:
        # The id wins: Java's clients send an empty name along with it.
        found = services.metadata.topic_with_id(topic_id)
        if found is None:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
        return _describe(services, found, request, version)
    topic = services.metadata.topic(name)
    if topic is not None:
        return _describe(services, topic, request, version)
    if why_bad_name(name):
        return MetadataResponseTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
    create = request.allow_auto_topic_creation and services.config.auto_create_topics
    if (
        create
        and name != CLUSTER_METADATA
        and call.may_change(services.config.num_partitions, throttles=False)
    ):
        # As in Kafka, this answer does not contain the new topic yet: clients ask again.
        services.partitions.auto_create_topic(name)
    return MetadataResponseTopic(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, is_internal=name in INTERNAL_TOPICS
    )


def _describe(
    services: Services, topic: TopicMetadata, request: MetadataRequest, version: int
) -> MetadataResponseTopic:
    alive = services.brokers.alive()
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.uuid,
        is_internal=topic.is_internal,
        partitions=tuple(
            _describe_partition(index, each, alive, version)
            for index, each in enumerate(topic.partitions)
        ),
        topic_authorized_operations=(
            ALL_TOPIC_OPERATIONS if request.include_topic_authorized_operations else _NOT_ASKED
        ),
    )


def _describe_partition(
    index: int, partition: PartitionMetadata, alive: Collection[int], version: int
) -> MetadataResponsePartition:
    replicas, isr = partition.replicas, partition.isr
    error = ErrorCode.NONE if partition.leader in alive else ErrorCode.LEADER_NOT_AVAILABLE
    if version < _ALL_REPLICAS_FROM:
        replicas = [node for node in replicas if node in alive]
        isr = [node for node in isr if node in alive]
        if not error and (replicas, isr) != (partition.replicas, partition.isr):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=tuple(replicas),
        isr_nodes=tuple(isr),
        offline_replicas=tuple(node for node in partition.replicas if node not in alive),
    )


def describe_cluster(services: Services, call: Call, request: DescribeClusterRequest) -> Response:
    """DescribeCluster 0-2; from version 2 also brokers that are down, if the request wants them."""
    alive = services.brokers.alive()
    if request.endpoint_type != 1:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of the wrong type.",
            endpoint_type=1,
        )
    shown = services.brokers.registered if request.include_fenced_brokers else alive
    return DescribeClusterResponse(
        error_message=None,
        cluster_id=services.metadata.cluster_id,
        controller_id=services.brokers.controller_id,
        brokers=tuple(
            DescribeClusterBroker(*node, is_fenced=node[0] not in alive)
            for node in services.brokers.nodes(shown, call.connection.listener_name)
        ),
        cluster_authorized_operations=(
            ALL_CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else _NOT_ASKED
        ),
    )


def unregister_broker(services: Services, call: Call, request: UnregisterBrokerRequest) -> Response:
    """UnregisterBroker 0: also for a broker that runs, which then is out of the cluster until it restarts."""
    if request.broker_id not in services.brokers.registered:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message=f"Broker ID {request.broker_id} is not currently registered",
        )
    services.leadership.unregister(request.broker_id)
    # Kafka leaves the message empty, not null.
    return UnregisterBrokerResponse(error_message="")


def find_coordinator(services: Services, call: Call, request: FindCoordinatorRequest) -> Response:
    """FindCoordinator 0-6: one key, or from version 4 many (KIP-699), each with its own error."""
    keys = request.coordinator_keys if call.version >= _BATCHED_FROM else (request.key,)
    found = [_coordinator(services, call, key, request.key_type) for key in keys]
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


def _coordinator(services: Services, call: Call, key: str, key_type: int) -> Coordinator:
    if key_type == _GROUP:
        leader = services.partitions.offsets_partition(key).leader
    elif key_type == _TRANSACTION:
        leader = services.partitions.transaction_partition(key).leader
    else:
        error = ErrorCode.INVALID_REQUEST
        if key_type == _SHARE and call.version >= _SHARE_FROM:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key, -1, "", -1, error, error.message)
    if not services.brokers.is_alive(leader):
        return Coordinator(key, -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    _, host, port = services.brokers.node(leader, call.connection.listener_name)
    return Coordinator(key, leader, host, port, ErrorCode.NONE, "")
