"""Log directories: DescribeLogDirs and AlterReplicaLogDirs. Each broker has one directory."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from typing import Final, NamedTuple

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
from coterie.server.metadata.topics import TopicMetadata
from coterie.server.requests.calls import Call
from coterie.server.services import Services
from coterie.storage.data_directory import DataDirectory
from coterie.storage.files import OsFileSystem

__all__ = ["LogDir", "alter_replica_log_dirs", "describe_log_dirs", "log_dir"]

_NOTHING: Final[frozenset[int]] = frozenset()


class LogDir(NamedTuple):
    """A broker's log directory with the size and the free bytes of its disk; -1 if there is no disk."""

    path: str
    total_bytes: int
    usable_bytes: int


def log_dir(directory: DataDirectory) -> LogDir:
    """Where a broker keeps its logs."""
    path = directory.root
    if not isinstance(directory.fs, OsFileSystem):
        return LogDir(f"/{path}", -1, -1)
    disk = shutil.disk_usage(path)
    return LogDir(str(path.absolute()), disk.total, disk.free)


def describe_log_dirs(services: Services, call: Call, request: DescribeLogDirsRequest) -> Response:
    """DescribeLogDirs 1-5: the replicas of this broker with the size of their logs, and the disk."""
    wanted = (
        None if request.topics is None else {each.topic: each.partitions for each in request.topics}
    )
    topics = [
        _replicas_here(
            services, topic, None if wanted is None else wanted.get(topic.name, _NOTHING)
        )
        for topic in services.metadata
    ]
    directory, total, usable = log_dir(services.directory)
    result = DescribeLogDirsResult(
        log_dir=directory,
        topics=tuple(topic for topic in topics if topic.partitions),
        total_bytes=total,
        usable_bytes=usable,
    )
    return DescribeLogDirsResponse(results=(result,))


def _replicas_here(
    services: Services, topic: TopicMetadata, wanted: Collection[int] | None
) -> DescribeLogDirsTopic:
    rows = []
    for index, metadata in enumerate(topic.partitions):
        partition = services.partitions.get(topic.name, index)
        here = partition is not None and services.node_id in metadata.replicas
        if partition is not None and here and (wanted is None or index in wanted):
            rows.append(DescribeLogDirsPartition(index, partition.log.size_in_bytes))
    return DescribeLogDirsTopic(topic.name, tuple(rows))


def alter_replica_log_dirs(
    services: Services, call: Call, request: AlterReplicaLogDirsRequest
) -> Response:
    """AlterReplicaLogDirs 1-2: there is nowhere to move to, so only the present directory is accepted."""
    rows: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                error = _why_not_move(services, directory.path, topic.name, index)
                row = AlterReplicaLogDirPartitionResult(index, error)
                rows.setdefault(topic.name, []).append(row)
    return AlterReplicaLogDirsResponse(
        results=tuple(
            AlterReplicaLogDirTopicResult(name, tuple(each)) for name, each in rows.items()
        )
    )


def _why_not_move(services: Services, path: str, topic: str, index: int) -> ErrorCode:
    if path != log_dir(services.directory).path:
        return ErrorCode.LOG_DIR_NOT_FOUND
    partition = services.metadata.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if services.node_id not in partition.replicas:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE
