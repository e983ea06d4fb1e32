"""Topics: create, delete, grow, describe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from coterie.protocol.schema import Response
from coterie.protocol.types import Uuid
from coterie.server.handlers.cluster import ALL_TOPIC_OPERATIONS
from coterie.server.handlers.configs import topic_entries
from coterie.server.metadata.replicas import (
    BadPlacement,
    Replicas,
    check_placement,
    placed_partitions,
)
from coterie.server.metadata.topics import CLUSTER_METADATA, TopicMetadata, why_bad_name
from coterie.server.requests.calls import Call
from coterie.server.services import Services
from coterie.server.settings.topics import why_bad_config

__all__ = [
    "create_partitions",
    "create_topics",
    "delete_topics",
    "describe_topic_partitions",
]

#: Versions whose clients retry a request that a quota refuses (KIP-599).
_CREATE_STRICT_FROM: Final = 6
_DELETE_STRICT_FROM: Final = 5
_GROW_STRICT_FROM: Final = 3
_OVER_QUOTA: Final = (ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)
_TWICE: Final = (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def create_topics(services: Services, call: Call, request: CreateTopicsRequest) -> Response:
    """CreateTopics 2-7."""
    twice = _named_twice(each.name for each in request.topics)
    results = [_failed(name, *_TWICE) for name in twice]
    for wanted in request.topics:
        if wanted.name in twice:
            continue
        placement = None
        error, message = _why_not_create(services, wanted)
        if error is ErrorCode.NONE and wanted.assignments:
            try:
                placement = _wanted_placement(services, wanted)
            except BadPlacement as bad:
                error, message = bad.code, str(bad)
        if error is not ErrorCode.NONE:
            results.append(_failed(wanted.name, error, message))
            continue
        partitions = _partition_count(services, wanted)
        factor = len(placement[0]) if placement else _replication_factor(services, wanted)
        if not call.may_change(partitions, strict_from=_CREATE_STRICT_FROM):
            results.append(_failed(wanted.name, *_OVER_QUOTA))
            continue
        configs = {each.name: each.value or "" for each in wanted.configs}
        if request.validate_only:
            topic = TopicMetadata(wanted.name, bytes(16), [], configs)
        else:
            topic = services.partitions.create_topic(
                wanted.name, partitions, configs, replication_factor=factor, placement=placement
            )
        results.append(_created(services, topic, partitions, factor))
    return CreateTopicsResponse(topics=tuple(results))


def _named_twice(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _failed(name: str, error: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error, error_message=message)


def _wanted_placement(services: Services, wanted: CreatableTopic) -> Sequence[Replicas]:
    wishes = ((each.partition_index, each.broker_ids) for each in wanted.assignments)
    placed = placed_partitions(wishes)
    return check_placement(placed, 0, services.brokers.registered, services.brokers.alive())


def _partition_count(services: Services, wanted: CreatableTopic) -> int:
    if wanted.assignments:
        return len(wanted.assignments)
    return services.config.num_partitions if wanted.num_partitions == -1 else wanted.num_partitions


def _replication_factor(services: Services, wanted: CreatableTopic) -> int:
    if wanted.replication_factor != -1:
        return wanted.replication_factor
    return services.partitions.replication_factor(wanted.name)


def _why_not_named(services: Services, name: str) -> tuple[ErrorCode, str] | None:
    if name == CLUSTER_METADATA:
        return ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
    bad_name = why_bad_name(name)
    if bad_name:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, bad_name
    if name in services.metadata:
        return ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists."
    return None


def _why_not_create(services: Services, wanted: CreatableTopic) -> tuple[ErrorCode, str]:
    if why := _why_not_named(services, wanted.name):
        return why
    counted = {
        "replication factor": wanted.replication_factor,
        "numPartitions": wanted.num_partitions,
    }
    known = [name for name, number in counted.items() if number != -1]
    if wanted.assignments and known:
        return ErrorCode.INVALID_REQUEST, (
            f"A manual partition assignment was specified, but {known[0]} was not set to -1."
        )
    if _partition_count(services, wanted) < 1:
        return (
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    factor = 1 if wanted.assignments else _replication_factor(services, wanted)
    bad_factor = _why_bad_replication(factor, len(services.brokers.registered))
    if bad_factor:
        return ErrorCode.INVALID_REPLICATION_FACTOR, bad_factor
    bad_config = why_bad_config({each.name: each.value for each in wanted.configs})
    return (ErrorCode.INVALID_CONFIG, bad_config) if bad_config else (ErrorCode.NONE, "")


def _why_bad_replication(replicas: int, registered: int) -> str | None:
    """Why a topic cannot have so many replicas, or None. Brokers that are down count."""
    if replicas > registered:
        return (
            f"Unable to replicate the partition {replicas} time(s): The target replication factor of "
            f"{replicas} cannot be reached because only {registered} broker(s) are registered "
            "or some brokers have all their log directories cordoned."
        )
    if replicas < 1:
        return "Replication factor must be larger than 0, or -1 to use the default value."
    return None


def _created(
    services: Services, topic: TopicMetadata, partitions: int, factor: int
) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.uuid,
        error_message=None,
        num_partitions=partitions,
        replication_factor=factor,
        configs=tuple(
            CreatableTopicConfigs(
                name=entry.name,
                # As it was given: CreateTopics does not parse what it returns.
                value=topic.configs.get(entry.name, entry.value),
                read_only=entry.read_only,
                config_source=entry.config_source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in topic_entries(services, topic)
        ),
    )


def delete_topics(services: Services, call: Call, request: DeleteTopicsRequest) -> Response:
    """DeleteTopics 1-6: by name, or from version 6 by id."""
    named: list[tuple[str | None, Uuid]] = [(name, Uuid.ZERO) for name in request.topic_names]
    named += [(each.name, each.topic_id) for each in request.topics]
    results = []
    for name, topic_id in named:
        metadata = services.metadata
        topic = metadata.topic(name) if name is not None else metadata.topic_with_id(topic_id)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name else ErrorCode.UNKNOWN_TOPIC_ID
            results.append(DeletableTopicResult(name, topic_id, error, error.message))
        elif topic.is_internal:
            error = ErrorCode.INVALID_REQUEST
            results.append(DeletableTopicResult(topic.name, topic.uuid, error, error.message))
        elif not call.may_change(len(topic.partitions), strict_from=_DELETE_STRICT_FROM):
            results.append(DeletableTopicResult(topic.name, topic.uuid, *_OVER_QUOTA))
        else:
            services.partitions.delete_topic(topic)
            results.append(DeletableTopicResult(topic.name, topic.uuid, ErrorCode.NONE, None))
    return DeleteTopicsResponse(responses=tuple(results))


def create_partitions(services: Services, call: Call, request: CreatePartitionsRequest) -> Response:
    """CreatePartitions 0-3."""
    twice = _named_twice(each.name for each in request.topics)
    results = [CreatePartitionsTopicResult(name, *_TWICE) for name in twice]
    for wanted in request.topics:
        if wanted.name in twice:
            continue
        error, message = _grow(services, call, wanted, only_check=request.validate_only)
        results.append(CreatePartitionsTopicResult(wanted.name, error, message))
    return CreatePartitionsResponse(results=tuple(results))


def _grow(
    services: Services, call: Call, wanted: CreatePartitionsTopic, *, only_check: bool
) -> tuple[ErrorCode, str | None]:
    topic = services.metadata.topic(wanted.name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    has = len(topic.partitions)
    if wanted.count == has:
        return ErrorCode.INVALID_PARTITIONS, f"Topic already has {has} partition(s)."
    if wanted.count < has:
        return ErrorCode.INVALID_PARTITIONS, (
            f"The topic {wanted.name} currently has {has} partition(s); {wanted.count} would not be "
            "an increase."
        )
    try:
        placement = _added_placement(services, wanted, topic)
    except BadPlacement as bad:
        return bad.code, str(bad)
    if not call.may_change(wanted.count - has, strict_from=_GROW_STRICT_FROM):
        return _OVER_QUOTA
    if not only_check:
        services.partitions.create_partitions(topic, wanted.count, placement)
    return ErrorCode.NONE, None


def _added_placement(
    services: Services, wanted: CreatePartitionsTopic, topic: TopicMetadata
) -> Sequence[Replicas] | None:
    """Where the request places the new partitions; None if it leaves that to the cluster."""
    if wanted.assignments is None:
        return None
    has = len(topic.partitions)
    if len(wanted.assignments) != wanted.count - has:
        raise BadPlacement(
            f"Attempted to add {wanted.count - has} additional partition(s), but only "
            f"{len(wanted.assignments)} assignment(s) were specified."
        )
    brokers = services.brokers
    placed = [each.broker_ids for each in wanted.assignments]
    return check_placement(
        placed, has, brokers.registered, brokers.alive(), topic.replication_factor
    )


def describe_topic_partitions(
    services: Services, call: Call, request: DescribeTopicPartitionsRequest
) -> Response:
    """DescribeTopicPartitions 0: what Java's describeTopics asks."""
    metadata = services.metadata
    names = sorted({each.name for each in request.topics}) or sorted(each.name for each in metadata)
    topics = [_described(services, name, metadata.topic(name)) for name in names]
    return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=None)


def _described(
    services: Services, name: str, topic: TopicMetadata | None
) -> DescribeTopicPartitionsResponseTopic:
    if topic is None:
        bad = ErrorCode.INVALID_TOPIC_EXCEPTION if why_bad_name(name) else None
        return DescribeTopicPartitionsResponseTopic(
            error_code=bad or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name
        )
    alive = services.brokers.alive()
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.uuid,
        is_internal=topic.is_internal,
        partitions=tuple(
            # Kafka returns no error for a partition without a leader here, unlike in Metadata.
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=each.leader,
                leader_epoch=each.leader_epoch,
                replica_nodes=tuple(each.replicas),
                isr_nodes=tuple(each.isr),
                eligible_leader_replicas=tuple(each.elr),
                last_known_elr=tuple(each.last_known_elr),
                offline_replicas=tuple(node for node in each.replicas if node not in alive),
            )
            for index, each in enumerate(topic.partitions)
        ),
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )
