"""The settings of logs and of the data directory: Kafka's names, Kafka's defaults, frozen.

What this is: values. What this is not: where they come from; the server reads its own configuration and
each topic's, and passes these in.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["DEFAULT_JOURNAL_BYTES", "Durability", "LogConfig"]

_DAY_MS = 24 * 60 * 60 * 1000

# At 250 bytes a commit and 30,000 commits a second this is a checkpoint every few seconds; a journal
# of twice the size would halve them and double what a start after a crash has to re-apply.
DEFAULT_JOURNAL_BYTES = 32 * 1024 * 1024


class Durability(Enum):
    """What an acknowledged batch survives."""

    FSYNC = "fsync"  # power loss: every round is synced before it is acknowledged
    OS = "os"  # kill -9, but not power loss: Kafka's own default of no application fsync


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings of one topic's logs; the comments are Kafka's names."""

    segment_bytes: int = 1024 * 1024 * 1024  # segment.bytes
    segment_ms: int = 7 * _DAY_MS  # segment.ms
    retention_ms: int = 7 * _DAY_MS  # retention.ms; -1: no limit
    retention_bytes: int = -1  # retention.bytes; -1: no limit
    cleanup_policy: frozenset[str] = frozenset(
        {"delete"}
    )  # cleanup.policy: delete, compact or both
    delete_retention_ms: int = _DAY_MS  # delete.retention.ms
    min_cleanable_dirty_ratio: float = 0.5  # min.cleanable.dirty.ratio
    min_compaction_lag_ms: int = 0  # min.compaction.lag.ms
    max_compaction_lag_ms: int = 2**63 - 1  # max.compaction.lag.ms
    producer_id_expiration_ms: int = _DAY_MS  # producer.id.expiration.ms
    index_interval_bytes: int = 4096  # index.interval.bytes
    private: bool = False  # for the owner's eyes alone; no setting of Kafka's

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes_old_segments(self) -> bool:
        return "delete" in self.cleanup_policy
