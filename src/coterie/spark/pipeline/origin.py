"""Where the log comes from: a running cluster, or a directory of segment files.

An origin knows who it is, how far its log goes, and what reads a part of it. Logs of two clusters never meet
in one directory, nor do two topics that had the same name one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from coterie.client import AdminClient
from coterie.client.blocking import BlockingAdminClient
from coterie.client.results import TopicPartition
from coterie.datasets.cluster import ClusterSource
from coterie.datasets.log import LogSource, SegmentSource
from coterie.errors import CoterieError, UnknownTopicOrPartition
from coterie.spark.pipeline.catalog import Step
from coterie.spark.pipeline.store import TableStore

__all__ = [
    "Bounds",
    "ClusterOrigin",
    "Origin",
    "SegmentOrigin",
    "check_cluster",
    "identity_of",
    "known_cluster_id",
    "known_source",
]

_TOPIC = "__consumer_offsets"
_CLUSTER = "cluster "
#: Nobody waits longer only to know how much there is.
_AT_ONCE_S = 2.0


@dataclass(frozen=True)
class Bounds:
    """How far a log goes: for each partition its first offset and the one behind its last."""

    partitions: Mapping[int, tuple[int, int]]
    #: Partitions that could not be asked, and why.
    failures: Mapping[int, str] = field(default_factory=dict)
    #: Partitions with a transaction that has not ended, and the offset that waits for it, as far as is known.
    waiting: Mapping[int, int] = field(default_factory=dict)
    #: A topic that is made anew has another one; None if nobody knows.
    topic_id: str | None = None
    #: Whether no more comes by itself, not even the end of a transaction that is open.
    is_final: bool = False

    @property
    def records(self) -> int:
        """How many there are at most: a log that was compacted has fewer."""
        return sum(end - start for start, end in self.partitions.values())


def check_cluster(store: TableStore, cluster: str) -> None:
    """Raise if the tables are of another one: groups of two clusters may have the same names."""
    for known in _sources(store):
        if known != cluster:
            raise CoterieError(
                f"{store.root} has the groups of {known}, this is {cluster}; choose another --out for it"
            )


def known_source(store: TableStore) -> str | None:
    """The cluster, or else the directory, that the tables were filled from."""
    return next(iter(_sources(store)), None)


def known_cluster_id(store: TableStore) -> str | None:
    """The id of the cluster that the tables were filled from; None if that was a directory of segments."""
    source = known_source(store) or ""
    return source.removeprefix(_CLUSTER) if source.startswith(_CLUSTER) else None


def _sources(store: TableStore) -> list[str]:
    steps = ((Step.SNAPSHOTS, "cluster"), (Step.LOG, "source"))
    return [store.state(step)[key] for step, key in steps if store.state(step).get(key)]


class Origin(Protocol):
    """A log of groups."""

    @property
    def identity(self) -> str: ...

    def bounds(self) -> Bounds: ...

    @property
    def source(self) -> LogSource:
        """What reads it."""
        ...


@dataclass(frozen=True)
class SegmentOrigin:
    """Segment files of a broker, or of `coterie simulate`, below a directory."""

    root: Path

    @property
    def identity(self) -> str:
        return _cluster_of(self.root) or "segment files"

    def bounds(self) -> Bounds:
        source = self.source
        return Bounds(source.bounds(), topic_id=_topic_of(source), is_final=True)

    def records(self) -> int:
        """How many its log has at most."""
        return self.bounds().records

    @property
    def source(self) -> SegmentSource:
        return SegmentSource.at(str(self.root))


def _cluster_of(root: Path) -> str | None:
    """The id in a broker's meta.properties, if the copy has one."""
    for path in sorted(root.rglob("meta.properties")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "cluster.id" and value.strip():
                return f"{_CLUSTER}{value.strip()}"
    return None


def _topic_of(source: SegmentSource) -> str | None:
    """The id in the partition.metadata beside the segments, if the copy has one."""
    directories = {
        Path(file.path).parent for each in source.partitions.values() for file in each.files
    }
    for directory in sorted(directories):
        path = directory / "partition.metadata"
        if path.is_file():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            for name, _, value in (line.partition(":") for line in lines):
                if name.strip() == "topic_id" and value.strip():
                    return value.strip()
    return None


@dataclass
class _Known:
    """What a cluster has answered."""

    identity: str | None = None
    bounds: Bounds | None = None


def identity_of(admin: BlockingAdminClient) -> str:
    return f"{_CLUSTER}{admin.cluster_id or 'without an id'}"


@dataclass(frozen=True)
class ClusterOrigin:
    """A running cluster, by the settings of a client."""

    #: Not shown: there may be secrets among them.
    properties: Mapping[str, str] = field(repr=False)
    _known: _Known = field(default_factory=_Known, repr=False, compare=False)

    @property
    def identity(self) -> str:
        if self._known.identity is None:
            with AdminClient.connect(dict(self.properties)) as admin:
                admin.brokers()
                self._known.identity = identity_of(admin)
        return self._known.identity

    def bounds(self) -> Bounds:
        """Ends are those of readers of committed records: before them all transactions are decided.

        What `records` has asked for is used once, if all partitions answered.
        """
        bounds, self._known.bounds = self._known.bounds, None
        return bounds or self._bounds(None)

    def records(self) -> int:
        """How many its log has at most, as far as can be told at once."""
        try:
            bounds = self._bounds(_AT_ONCE_S)
        except CoterieError:
            return 0  # told by the step that needs an answer
        self._known.bounds = None if bounds.failures else bounds
        return bounds.records

    def _bounds(self, timeout: float | None) -> Bounds:
        with AdminClient.connect(dict(self.properties)) as admin:
            described = admin.describe_topics([_TOPIC], timeout=timeout)
            self._known.identity = identity_of(admin)
            if isinstance(described.errors.get(_TOPIC), UnknownTopicOrPartition):
                return Bounds({})
            topic = described.unwrap()[_TOPIC]
            partitions = [TopicPartition(_TOPIC, each.partition) for each in topic.partitions]
            moments = ("earliest", "latest")
            starts, ends = admin.log_offsets_at(
                partitions, moments, isolation="read_committed", timeout=timeout
            )
            all_ends = admin.log_offsets(partitions, timeout=timeout)
        failures = {
            each.partition: str(error) for each, error in (starts.errors | ends.errors).items()
        }
        unanswered = "; ".join(map(str, (*starts.broker_errors, *ends.broker_errors)))
        found = {}
        for each in partitions:
            if each in starts and each in ends:
                found[each.partition] = (starts[each].offset, ends[each].offset)
            else:
                failures.setdefault(each.partition, unanswered or "no answer")
        waiting = {
            each.partition: ends[each].offset
            for each in partitions
            if each in ends and each in all_ends and ends[each].offset < all_ends[each].offset
        }
        return Bounds(found, failures, waiting, topic.topic_id)

    @property
    def source(self) -> LogSource:
        return ClusterSource(self.properties, keep_client=True)
