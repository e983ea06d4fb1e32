"""Log directories: DescribeLogDirs and AlterReplicaLogDirs. Each broker has one directory."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.replicas import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from coterie.protocol.schema import Response

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.metadata.topics import TopicMetadata
    from coterie.server.requests.calls import Call

__all__ = ["alter_replica_log_dirs", "describe_log_dirs"]

_NOTHING: Final[frozenset[int]] = frozenset()


def describe_log_dirs(broker: Broker, call: Call, request: DescribeLogDirsRequest) -> Response:
    """DescribeLogDirs 1-5: the replicas of this broker with the size of their logs, and the disk."""
    wanted = (
        None if request.topics is None else {each.topic: each.partitions for each in request.topics}
    )
    topics = [
        _replicas_here(broker, topic, None if wanted is None else wanted.get(topic.name, _NOTHING))
        for topic in broker.cluster.metadata
    ]
    directory, total, usable = broker.cluster.log_dir(broker.node_id)
    result = DescribeLogDirsResult(
        log_dir=directory,
        topics=tuple(topic for topic in topics if topic.partitions),
        total_bytes=total,
        usable_bytes=usable,
    )
    return DescribeLogDirsResponse(results=(result,))


def _replicas_here(
    broker: Broker, topic: TopicMetadata, wanted: Collection[int] | None
) -> DescribeLogDirsTopic:
    rows = []
    for index, metadata in enumerate(topic.partitions):
        partition = broker.cluster.partition(topic.name, index)
        here = partition is not None and broker.node_id in metadata.replicas
        if partition is not None and here and (wanted is None or index in wanted):
            rows.append(DescribeLogDirsPartition(index, partition.log.size_in_bytes))
    return DescribeLogDirsTopic(topic.name, tuple(rows))


def alter_replica_log_dirs(
    broker: Broker, call: Call, request: AlterReplicaLogDirsRequest
) -> Response:
    """AlterReplicaLogDirs 1-2: there is nowhere to move to, so only the present directory is accepted."""
    rows: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                error = _why_not_move(broker, directory.path, topic.name, index)
                row = AlterReplicaLogDirPartitionResult(index, error)
                rows.setdefault(topic.name, []).append(row)
    return AlterReplicaLogDirsResponse(
        results=tuple(
            AlterReplicaLogDirTopicResult(name, tuple(each)) for name, each in rows.items()
        )
    )


def _why_not_move(broker: Broker, path: str, topic: str, index: int) -> ErrorCode:
    if path != broker.cluster.log_dir(broker.node_id).path:
        return ErrorCode.LOG_DIR_NOT_FOUND
    partition = broker.cluster.metadata.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.node_id not in partition.replicas:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE
