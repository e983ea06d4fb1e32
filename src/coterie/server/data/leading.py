"""Which partition a request means, and whether this broker leads it.

The checks that Produce, Fetch, ListOffsets and the others have in common, in Kafka's order and words
(ReplicaManager.getPartitionOrError, Partition.checkCurrentLeaderEpoch), and KIP-951's hint to the leader.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coterie.error_codes import ErrorCode
from coterie.protocol.types import Uuid
from coterie.server.metadata.topics import TopicMetadata
from coterie.server.partitions.partition import Partition
from coterie.server.requests.calls import Call
from coterie.server.services import Services

__all__ = ["find_topic", "led_partition", "present_leaders"]

_NO_EPOCH: Final = -1


def find_topic(
    services: Services, name: str, topic_id: Uuid, *, by_id: bool
) -> TopicMetadata | ErrorCode:
    """A topic by what this version of the request names it with."""
    metadata = services.metadata
    if by_id:
        return metadata.topic_with_id(topic_id) or ErrorCode.UNKNOWN_TOPIC_ID
    return metadata.topic(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def led_partition(
    services: Services, topic: str, index: int, leader_epoch: int = _NO_EPOCH
) -> Partition | ErrorCode:
    """The partition, if this broker leads it and the client's leader epoch is the present one."""
    partition = services.partitions.get(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if partition.leader != services.node_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if leader_epoch not in (_NO_EPOCH, partition.leader_epoch):
        stale = leader_epoch < partition.leader_epoch
        return ErrorCode.FENCED_LEADER_EPOCH if stale else ErrorCode.UNKNOWN_LEADER_EPOCH
    return partition


def present_leaders(
    services: Services, call: Call, leaders: Iterable[int]
) -> list[tuple[int, str, int]]:
    """Node id, host and port of the leaders that an answer names, for the client's listener."""
    present = [each for each in sorted(set(leaders)) if services.brokers.is_alive(each)]
    return services.brokers.nodes(present, call.connection.listener_name)
