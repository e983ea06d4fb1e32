"""What all brokers of a cluster know: topics, their partitions, who leads them, and their settings.

One object for the whole cluster, changed only here and saved whenever it changes. Whether a broker is
alive is not kept: that is the cluster's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

import msgspec

from coterie.coordinator.outcome import Topic as TopicForCoordinator
from coterie.protocol.types import Uuid
from coterie.storage.partition_log import CLUSTER_LOG

__all__ = [
    "CLUSTER_METADATA",
    "CONSUMER_OFFSETS",
    "INTERNAL_TOPICS",
    "NO_LEADER",
    "TRANSACTION_STATE",
    "ClusterMetadata",
    "PartitionMetadata",
    "TopicMetadata",
    "why_bad_name",
]

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
#: The cluster's own log (coterie.server.metadata.cluster_log), which clients do not see as a topic.
CLUSTER_METADATA: Final = CLUSTER_LOG.topic
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})

#: The leader of a partition that has none.
NO_LEADER: Final = -1

_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


class PartitionMetadata(msgspec.Struct):
    """One partition: its replicas, its leader, and how often the leader has changed."""

    leader: int
    leader_epoch: int = 0
    #: The broker in whose directory the log is; it stays there when the leader changes.
    home: int = -1
    #: In the order of the assignment; the first is the preferred leader.
    replicas: list[int] = []
    isr: list[int] = []
    #: Eligible leader replicas and the last leader of a partition without an ISR (KIP-966).
    elr: list[int] = []
    last_known_elr: list[int] = []
    #: A reassignment that is under way.
    adding: list[int] = []
    removing: list[int] = []
    partition_epoch: int = 0

    def __post_init__(self) -> None:
        if not self.replicas:
            # A file from before partitions had replicas.
            self.replicas, self.isr = [self.home], [self.home]

    @classmethod
    def new(cls, replicas: Sequence[int], alive: Collection[int]) -> PartitionMetadata:
        """A partition on these replicas; the live ones are in sync and the first of them leads."""
        isr = [each for each in replicas if each in alive]
        return cls(leader=isr[0], home=isr[0], replicas=list(replicas), isr=isr)

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0]

    @property
    def settled_replicas(self) -> list[int]:
        """The replicas without those that a reassignment is adding."""
        return [each for each in self.replicas if each not in self.adding]


class TopicMetadata(msgspec.Struct):
    """One topic."""

    name: str
    topic_id: bytes
    partitions: list[PartitionMetadata]
    configs: dict[str, str] = {}

    @property
    def uuid(self) -> Uuid:
        return Uuid(self.topic_id)

    @property
    def replication_factor(self) -> int:
        """How many replicas the first partition has."""
        return len(self.partitions[0].replicas)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class _Saved(msgspec.Struct):
    cluster_id: str
    topics: list[TopicMetadata] = []
    next_producer_id: int = 0
    version: int = 0
    #: Brokers that an administrator unregistered and that have not been started since.
    unregistered: list[int] = []


class ClusterMetadata:
    """Topics by name and by id. Also what the coordinator sees of them (its TopicView)."""

    def __init__(
        self,
        saved: bytes | None,
        *,
        new_uuid: Callable[[], Uuid],
        save: Callable[[bytes], None],
    ) -> None:
        state = (
            _Saved(str(new_uuid())) if saved is None else msgspec.json.decode(saved, type=_Saved)
        )
        self.cluster_id = state.cluster_id
        self.next_producer_id = state.next_producer_id
        #: Grows with every topic that is created, deleted or extended (what Kafka's image offset is for).
        self.version = state.version
        self.unregistered = set(state.unregistered)
        self._new_uuid = new_uuid
        self._save = save
        self._topics = {topic.name: topic for topic in state.topics}
        self._by_id = {topic.uuid: topic for topic in state.topics}
        self._views: dict[str, TopicForCoordinator] = {}

    def __iter__(self) -> Iterator[TopicMetadata]:
        return iter(self._topics.values())

    def __contains__(self, name: str) -> bool:
        return name in self._topics

    def topic(self, name: str) -> TopicMetadata | None:
        return self._topics.get(name)

    def topic_with_id(self, topic_id: Uuid) -> TopicMetadata | None:
        return self._by_id.get(topic_id)

    def partition(self, name: str, index: int) -> PartitionMetadata | None:
        topic = self._topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    # The coordinator's view.

    def names(self) -> list[str]:
        return list(self._topics)

    def by_name(self, name: str, /) -> TopicForCoordinator | None:
        view = self._views.get(name)
        if view is None and (topic := self._topics.get(name)) is not None:
            view = TopicForCoordinator(name, topic.uuid, len(topic.partitions))
            self._views[name] = view
        return view

    def by_id(self, topic_id: Uuid, /) -> TopicForCoordinator | None:
        topic = self._by_id.get(topic_id)
        return None if topic is None else self.by_name(topic.name)

    # Changes. Each is saved before it returns.

    def add_topic(
        self, name: str, partitions: list[PartitionMetadata], configs: dict[str, str]
    ) -> TopicMetadata:
        topic = TopicMetadata(
            name=name,
            topic_id=bytes(self._new_uuid()),
            partitions=partitions,
            configs=configs,
        )
        self._topics[name] = topic
        self._by_id[topic.uuid] = topic
        self.version += 1
        self.save()
        return topic

    def add_partitions(self, topic: TopicMetadata, partitions: list[PartitionMetadata]) -> None:
        topic.partitions += partitions
        self._views.pop(topic.name, None)
        self.version += 1
        self.save()

    def remove_topic(self, name: str) -> TopicMetadata:
        topic = self._topics.pop(name)
        del self._by_id[topic.uuid]
        self._views.pop(name, None)
        self.version += 1
        self.save()
        return topic

    def take_producer_id(self) -> int:
        """A new producer id; ids are handed out in saved blocks, as in Kafka."""
        if self.next_producer_id % _PRODUCER_ID_BLOCK == 0:
            self._save_state(self.next_producer_id + _PRODUCER_ID_BLOCK)
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def save(self) -> None:
        block_end = -(-self.next_producer_id // _PRODUCER_ID_BLOCK) * _PRODUCER_ID_BLOCK
        self._save_state(block_end)

    def _save_state(self, next_producer_id: int) -> None:
        topics = list(self._topics.values())
        state = _Saved(
            self.cluster_id, topics, next_producer_id, self.version, sorted(self.unregistered)
        )
        self._save(msgspec.json.format(msgspec.json.encode(state), indent=1))


#: After a restart the rest of a block is skipped (Kafka's ProducerIdsBlock is of this size).
_PRODUCER_ID_BLOCK: Final = 1_000


def why_bad_name(name: str) -> str | None:
    """Why a topic cannot have this name, in Kafka's words, or None."""
    if name == "":
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > 249:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length 249"
    if not _LEGAL_NAME.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None
