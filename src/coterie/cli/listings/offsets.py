"""Listings of committed offsets and of lag: by partition, topic and group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from coterie.cli.listings.common import GROUP, STATE, lag_style
from coterie.cli.selection import GroupRow
from coterie.console.output import Column, Listing, Need, declared, timestamp
from coterie.vocabulary import columns
from coterie.vocabulary.columns import (
    CLIENT_ID,
    COMMIT_TIMESTAMP,
    COMMITTED_OFFSET,
    ERROR,
    HOST,
    LEADER_EPOCH,
    LOG_END,
    LOG_START,
    MAX_LAG,
    MEMBER_ID,
    METADATA,
    PARTITION,
    TOPIC,
    TOTAL_LAG,
)

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


_TOPIC: Final[Column[Any]] = declared(TOPIC, lambda each: each.partition.topic)
_PARTITION: Final[Column[Any]] = declared(PARTITION, lambda each: each.partition.partition)

OFFSETS: Final[Listing[OffsetRow]] = Listing(
    "offsets",
    "Committed offsets, one per row.",
    (
        GROUP,
        _TOPIC,
        _PARTITION,
        declared(COMMITTED_OFFSET, lambda each: each.offset.offset, heading="OFFSET"),
        declared(LEADER_EPOCH, lambda each: each.offset.leader_epoch, show="wide", nullable=True),
        declared(METADATA, lambda each: each.offset.metadata, show="wide"),
        declared(
            COMMIT_TIMESTAMP,
            lambda each: timestamp(each.committed_at),
            show="asked",
            nullable=True,
            needs=Need.COMMITS,
            heading="COMMITTED-AT",
        ),
    ),
    sort=("group_id", "topic", "partition"),
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
        declared(
            COMMITTED_OFFSET.here(
                "Next offset that the group reads; null if it has committed none."
            ),
            lambda row: row.each.committed_offset,
            nullable=True,
            heading="COMMITTED",
        ),
        declared(
            LOG_START,
            lambda row: row.each.log_start,
            show="wide",
            nullable=True,
            needs=Need.LOG_START,
        ),
        declared(LOG_END, lambda row: row.each.log_end, nullable=True),
        declared(columns.LAG, lambda row: row.each.lag, nullable=True, style=lag_style),
        declared(CLIENT_ID, lambda row: row.each.client_id, nullable=True),
        declared(HOST, lambda row: row.each.host, nullable=True),
        declared(
            MEMBER_ID.here("The member that has the partition."),
            lambda row: row.each.member_id,
            show="wide",
            nullable=True,
            heading="MEMBER",
        ),
        declared(ERROR, lambda row: row.each.error, show="wide", nullable=True),
    ),
    sort=("group_id", "topic", "partition"),
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


def _sum_of_lag(row: LagSum) -> int | None:
    return sum(row.known) if row.known else None


_TOPIC_LAG: Final = columns.LAG.here("Lag of the group in the topic; null if not known.")
_SUMS: Final[tuple[Column[LagSum], ...]] = (
    declared(MAX_LAG, lambda each: max(each.known, default=None), nullable=True),
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
    (
        GROUP,
        STATE,
        declared(TOTAL_LAG, _sum_of_lag, nullable=True, style=lag_style, heading="LAG"),
        *_SUMS,
    ),
    ("group_id",),
)
TOPIC_LAG: Final[Listing[LagSum]] = Listing(
    "topic-lag",
    "How far groups are behind, one topic of a group per row.",
    (
        GROUP,
        declared(TOPIC, lambda each: each.topic),
        declared(_TOPIC_LAG, _sum_of_lag, nullable=True, style=lag_style),
        *_SUMS,
    ),
    ("group_id", "topic"),
)
