"""The settings of a topic: Kafka's names, which of them Coterie acts on, and their values.

Names that Kafka knows and Coterie has no use for are kept and told, because tools set and read them.
"""

from __future__ import annotations

from typing import Final

from coterie.server.metadata import CONSUMER_OFFSETS, TopicMetadata
from coterie.storage.config import LogConfig

__all__ = ["TOPIC_DEFAULTS", "effective_configs", "log_config", "why_bad_config"]

#: Every topic setting of Kafka 4.3 that tools ask for, with its default.
TOPIC_DEFAULTS: Final = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "index.interval.bytes": "4096",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}

#: What `__consumer_offsets` has of its own (offsets.topic.segment.bytes and the rest).
_OFFSETS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": "104857600",
}


def effective_configs(topic: TopicMetadata) -> dict[str, str]:
    own = _OFFSETS if topic.name == CONSUMER_OFFSETS else {}
    return TOPIC_DEFAULTS | own | topic.configs


def why_bad_config(configs: dict[str, str]) -> str | None:
    """Why these settings are refused, or None."""
    for name, value in configs.items():
        if name not in TOPIC_DEFAULTS:
            return f"Unknown topic config name: {name}"
        default = TOPIC_DEFAULTS[name]
        kind = float if "." in default else int
        if default.lstrip("-").replace(".", "").isdigit():
            try:
                kind(value)
            except ValueError:
                return f"Invalid value {value} for configuration {name}: Not a number"
    policy = configs.get("cleanup.policy", "delete")
    if not set(policy.split(",")) <= {"delete", "compact"}:
        return (
            f"Invalid value {policy} for configuration cleanup.policy: "
            "String must be one of: compact, delete"
        )
    return None


def log_config(topic: TopicMetadata) -> LogConfig:
    """What the log of a topic has to know."""
    configs = effective_configs(topic)
    return LogConfig(
        segment_bytes=int(configs["segment.bytes"]),
        segment_ms=int(configs["segment.ms"]),
        retention_ms=int(configs["retention.ms"]),
        retention_bytes=int(configs["retention.bytes"]),
        cleanup_policy=frozenset(configs["cleanup.policy"].split(",")),
        delete_retention_ms=int(configs["delete.retention.ms"]),
        min_cleanable_dirty_ratio=float(configs["min.cleanable.dirty.ratio"]),
        index_interval_bytes=int(configs["index.interval.bytes"]),
    )
