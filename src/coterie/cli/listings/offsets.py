"""Listings of committed offsets and of lag: by partition, topic and group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from coterie.cli.listings.common import GROUP, STATE, lag_style
from coterie.cli.selection import GroupRow
from coterie.console.output import Column, Listing, Need, timestamp

if TYPE_CHECKING:
    from coterie.client.results import PartitionLag, PartitionOffset, TopicPartition

__all__ = [
    "GROUP_LAG",
    "LAG",
    "OFFSETS",
    "TOPIC_LAG",
    "LagRow",
    "LagSum",
    "OffsetRow",
    "lag_rows",
    "lag_sums",
]


@dataclass(frozen=True)
class OffsetRow:
    """A committed offset."""

    group: str
    partition: TopicPartition
    offset: PartitionOffset
    committed_at: int | None


_TOPIC: Final[Column[Any]] = Column(
    "topic", "string", "The topic.", lambda each: each.partition.topic
)
_PARTITION: Final[Column[Any]] = Column(
    "partition", "integer", "The partition's number.", lambda each: each.partition.partition
)

OFFSETS: Final[Listing[OffsetRow]] = Listing(
    "offsets",
    "Committed offsets, one per row.",
    (
        GROUP,
        _TOPIC,
        _PARTITION,
        Column("offset", "integer", "What the group reads next.", lambda each: each.offset.offset),
        Column(
            "leader_epoch",
            "integer",
            "The leader epoch of the last record that was read.",
            lambda each: each.offset.leader_epoch,
            show="wide",
            nullable=True,
        ),
        Column(
            "metadata",
            "string",
            "The text that was committed with it.",
            lambda each: each.offset.metadata,
            show="wide",
        ),
        Column(
            "committed_at",
            "time",
            "When it was committed.",
            lambda each: timestamp(each.committed_at),
            show="asked",
            nullable=True,
            needs=Need.COMMITS,
        ),
    ),
    sort=("group", "topic", "partition"),
)


@dataclass(frozen=True)
class LagRow:
    """How far a group is behind in a partition."""

    group: str
    state: str | None
    each: PartitionLag

    @property
    def partition(self) -> TopicPartition:
        return self.each.partition


def lag_rows(row: GroupRow) -> Iterator[LagRow]:
    for each in row.lag.partitions if row.lag is not None else ():
        yield LagRow(row.group, row.state, each)


LAG: Final[Listing[LagRow]] = Listing(
    "lag",
    "How far groups are behind, one partition per row.",
    (
        GROUP,
        _TOPIC,
        _PARTITION,
        Column(
            "committed",
            "integer",
            "What the group reads next; null if it has committed nothing.",
            lambda row: row.each.committed,
            nullable=True,
        ),
        Column(
            "log_start",
            "integer",
            "The first offset that the log still has.",
            lambda row: row.each.log_start,
            show="wide",
            nullable=True,
            needs=Need.LOG_START,
        ),
        Column(
            "log_end",
            "integer",
            "The end of the log.",
            lambda row: row.each.log_end,
            nullable=True,
        ),
        Column(
            "lag",
            "integer",
            "The records between; null if one of the two is not known.",
            lambda row: row.each.lag,
            nullable=True,
            style=lag_style,
        ),
        Column(
            "client_id",
            "string",
            "The client that has the partition now.",
            lambda row: row.each.client_id,
            nullable=True,
        ),
        Column(
            "host",
            "string",
            "Where that client connects from.",
            lambda row: row.each.host,
            nullable=True,
        ),
        Column(
            "member",
            "string",
            "That client's member id.",
            lambda row: row.each.member_id,
            show="wide",
            nullable=True,
        ),
        Column(
            "error",
            "string",
            "Why something is not known.",
            lambda row: row.each.error,
            show="wide",
            nullable=True,
        ),
    ),
    sort=("group", "topic", "partition"),
)


@dataclass(frozen=True)
class LagSum:
    """How far a group is behind in some partitions together."""

    group: str
    state: str | None
    topic: str
    rows: tuple[LagRow, ...]

    @property
    def known(self) -> list[int]:
        return [row.each.lag for row in self.rows if row.each.lag is not None]


def lag_sums(rows: Iterable[LagRow], *, by_topic: bool) -> list[LagSum]:
    found: dict[tuple[str, str], list[LagRow]] = defaultdict(list)
    for row in rows:
        found[row.group, row.partition.topic if by_topic else ""].append(row)
    return [
        LagSum(group, each[0].state, topic, tuple(each)) for (group, topic), each in found.items()
    ]


_SUMS: Final[tuple[Column[LagSum], ...]] = (
    Column(
        "lag",
        "integer",
        "The sum of what is known; null if nothing is.",
        lambda each: sum(each.known) if each.known else None,
        nullable=True,
        style=lag_style,
    ),
    Column(
        "max_lag",
        "integer",
        "That of the partition which is furthest behind.",
        lambda each: max(each.known, default=None),
        nullable=True,
    ),
    Column("partitions", "integer", "How many partitions.", lambda each: len(each.rows)),
    Column(
        "unknown",
        "integer",
        "Partitions whose lag is not known.",
        lambda each: len(each.rows) - len(each.known),
    ),
)
GROUP_LAG: Final[Listing[LagSum]] = Listing(
    "group-lag",
    "How far groups are behind, one group per row.",
    (GROUP, STATE, *_SUMS),
    ("group",),
)
TOPIC_LAG: Final[Listing[LagSum]] = Listing(
    "topic-lag",
    "How far groups are behind, one topic of a group per row.",
    (GROUP, Column("topic", "string", "The topic.", lambda each: each.topic), *_SUMS),
    ("group", "topic"),
)
