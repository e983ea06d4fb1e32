"""The blobs that classic consumers exchange through JoinGroup and SyncGroup."""

from __future__ import annotations

from coterie.protocol.schema import Data, Struct, field
from coterie.protocol.types import Int32

__all__ = [
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "TopicPartition",
]


class TopicPartition(Struct):
    """Partitions of one topic, owned or assigned."""

    topic: str = field("0+", "Name of the topic.", default="")
    partitions: tuple[Int32, ...] = field("0+", "Partitions of the topic.", default=())


class ConsumerProtocolSubscription(Data, versions="0-3"):
    """Subscription bytes that a classic consumer sends in JoinGroup."""

    topics: tuple[str, ...] = field("0+", "Names of the topics subscribed to.", default=())
    user_data: bytes | None = field(
        "0+", "Bytes for a custom assignor; null if none.", default=None, nullable="0+"
    )
    owned_partitions: tuple[TopicPartition, ...] = field(
        "1+",
        "Partitions the consumer still owns, for sticky assignment.",
        default=(),
        ignorable=True,
    )
    generation_id: Int32 = field(
        "2+",
        "Generation in which the partitions were owned; -1 if none.",
        default=-1,
        ignorable=True,
    )
    rack_id: str | None = field(
        "3+",
        "Rack of the consumer; null if it has none.",
        default=None,
        nullable="3+",
        ignorable=True,
    )


class ConsumerProtocolAssignment(Data, versions="0-3"):
    """Assignment bytes that a classic consumer receives through SyncGroup."""

    assigned_partitions: tuple[TopicPartition, ...] = field(
        "0+", "Partitions assigned to the consumer, by topic.", default=()
    )
    user_data: bytes | None = field(
        "0+", "Bytes from a custom assignor; null if none.", default=None, nullable="0+"
    )
