"""Where the log comes from: a running cluster, or a directory of segment files.

An origin knows who it is (so that logs of two clusters never meet in one table), how far its log goes, and
what reads a part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from coterie.client import AdminClient
from coterie.client.results import TopicPartition
from coterie.datasets.cluster import ClusterSource
from coterie.datasets.log import LogSource, SegmentSource
from coterie.errors import CoterieError, UnknownTopicOrPartition

__all__ = ["Bounds", "ClusterOrigin", "Origin", "SegmentOrigin"]

_TOPIC = "__consumer_offsets"
#: Nobody waits longer only to know how much there is.
_AT_ONCE_S = 2.0


@dataclass(frozen=True)
class Bounds:
    """How far a log goes: for each partition its first offset and the one behind its last."""

    partitions: Mapping[int, tuple[int, int]]
    #: Partitions that could not be asked, and why.
    failures: Mapping[int, str] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """How many there are at most: a log that was compacted has fewer."""
        return sum(end - start for start, end in self.partitions.values())


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
        return Bounds(self.source.bounds())

    def records(self) -> int:
        """How many its log has at most."""
        return self.bounds().records

    @property
    def source(self) -> LogSource:
        return SegmentSource.at(str(self.root))


def _cluster_of(root: Path) -> str | None:
    """The id in a broker's meta.properties, if the copy has one."""
    for path in sorted(root.rglob("meta.properties")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "cluster.id" and value.strip():
                return f"cluster {value.strip()}"
    return None


@dataclass(frozen=True)
class ClusterOrigin:
    """A running cluster, by the settings of a client."""

    properties: Mapping[str, str]
    _known: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def identity(self) -> str:
        if "identity" not in self._known:
            with AdminClient.connect(dict(self.properties)) as admin:
                admin.brokers()
                self._known["identity"] = f"cluster {admin.cluster_id or 'without an id'}"
        return self._known["identity"]

    def bounds(self) -> Bounds:
        """Ends are those of readers of committed records: before them all transactions are decided."""
        return self._bounds(None)

    def records(self) -> int:
        """How many its log has at most, as far as can be told at once."""
        try:
            return self._bounds(_AT_ONCE_S).records
        except CoterieError:
            return 0  # told by the step that needs an answer

    def _bounds(self, timeout: float | None) -> Bounds:
        with AdminClient.connect(dict(self.properties)) as admin:
            described = admin.describe_topics([_TOPIC], timeout=timeout)
            if isinstance(described.errors.get(_TOPIC), UnknownTopicOrPartition):
                return Bounds({})
            known = described.unwrap()[_TOPIC].partitions
            partitions = [TopicPartition(_TOPIC, each.partition) for each in known]
            ask = partial(admin.log_offsets, partitions, timeout=timeout)
            starts = ask("earliest")
            ends = ask("latest", isolation="read_committed")
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
        return Bounds(found, failures)

    @property
    def source(self) -> LogSource:
        return ClusterSource(self.properties)
