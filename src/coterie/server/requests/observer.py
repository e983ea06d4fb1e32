"""Hooks for tests that watch servers: requests, answers, sent bytes, and the shards of group coordinators.

Subclass `Observer` and pass an instance to `observe`. It then sees all servers of the process. An observer
must not change anything; without one, each hook costs one comparison.
"""

from __future__ import annotations

from enum import Enum, auto

from coterie.coordinator.shard import CoordinatorShard
from coterie.server.partitions.partition import Partition

__all__ = ["Observer", "ShardChange", "current", "observe"]


class ShardChange(Enum):
    """The life of a shard in a broker."""

    #: The broker leads the partition, and is about to read its log.
    LED = auto()
    #: The log is replayed; requests are served from now on.
    LOADED = auto()
    #: Something could not be written; another shard will be loaded from the log.
    FAILED = auto()
    #: The broker is about to give the shard up, and to answer its parked requests.
    RESIGNING = auto()
    #: The shard is not used any more.
    RESIGNED = auto()


class Observer:
    """The hooks. All of them do nothing here."""

    def request(self, connection: object, slot: object, correlation_id: int | None) -> None:
        """A request arrived and has the next slot for its answer. SASL tokens without Kafka's header have
        no correlation id."""

    def answer(self, slot: object, data: bytes) -> None:
        """A slot is being filled; with b"" if the request wants no answer. Happens once per slot."""

    def sent(self, connection: object, data: bytes) -> None:
        """A connection sends the answers that are ready: those of its oldest slots, in their order."""

    def shard(self, change: ShardChange, shard: CoordinatorShard, partition: Partition) -> None:
        """The shard of a partition of `__consumer_offsets` changes."""


#: The observer of this process; None if there is none.
current: Observer | None = None


def observe(observer: Observer | None) -> None:
    """Let an observer see all servers of this process, or with None no observer."""
    global current  # noqa: PLW0603 - one per process, read for every request
    current = observer
