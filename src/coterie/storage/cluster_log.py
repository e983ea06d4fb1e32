"""The cluster's own log, `__cluster_metadata-0` as in Kafka: what sets it apart from the logs of topics.

There are secrets in it, so it is private, and nothing of it goes through the journal. It is one segment,
which `DataDirectory.append` writes and `DataDirectory.write_anew` replaces; retention and compaction do not
touch it.
Called by coterie.storage.opening, and by the server, which knows what is in it.
"""

from __future__ import annotations

from typing import Final

from coterie.storage.config import LogConfig
from coterie.storage.partition_log import TopicPartition

__all__ = ["CLUSTER_LOG", "CLUSTER_LOG_CONFIG"]

CLUSTER_LOG: Final = TopicPartition("__cluster_metadata", 0)
CLUSTER_LOG_CONFIG: Final = LogConfig(
    private=True, cleanup_policy=frozenset(), segment_ms=2**63 - 1
)
