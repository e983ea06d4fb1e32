"""The settings of a topic: validation, effective values, and the part that its logs act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coterie.server.metadata.topics import CONSUMER_OFFSETS, TopicMetadata
from coterie.server.settings.catalog import InvalidValue, catalog
from coterie.server.settings.cluster import ClusterSettings
from coterie.storage.config import LogConfig

__all__ = [
    "ACTING",
    "acting_settings",
    "log_config",
    "own_configs",
    "topic_defaults",
    "topic_values",
    "why_bad_config",
]

_INTERNAL_SEGMENT_BYTES: Final = "internal.segment.bytes"

#: Topic settings that Coterie acts on; the others are stored and shown.
ACTING: Final = frozenset({
    "cleanup.policy", "delete.retention.ms", "index.interval.bytes", "max.compaction.lag.ms",
    "max.message.bytes", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms",
    "message.timestamp.type", "min.cleanable.dirty.ratio", "min.compaction.lag.ms",
    "retention.bytes", "retention.ms", "segment.bytes", "segment.ms",
})  # fmt: skip

#: What Kafka creates its own topics with.
_INTERNAL: Final[Mapping[str, Mapping[str, str]]] = {
    CONSUMER_OFFSETS: {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    },
}


def acting_settings() -> frozenset[str]:
    """Broker settings that act on topics which set nothing themselves."""
    known = catalog().topic
    return frozenset(synonym for name in ACTING for synonym, _ in known[name].synonyms)


def own_configs(topic: TopicMetadata) -> dict[str, str]:
    """What is set for the topic itself, by clients or because it is internal."""
    return {**_INTERNAL.get(topic.name, {}), **topic.configs}


def topic_defaults(settings: ClusterSettings, node_id: int) -> dict[str, str]:
    """What topics have that set nothing, by the settings of a broker."""
    known = catalog().topic
    return {
        name: _default(name, settings.first_value(setting, node_id) or "")
        for name, setting in known.items()
        if not setting.internal
    }


def _default(name: str, text: str) -> str:
    """A value by the settings of a broker, where any negative retention means no limit."""
    if name == "retention.ms" and text.startswith("-"):
        return "-1"
    return catalog().topic[name].parse(name, text)


def topic_values(topic: TopicMetadata, defaults: Mapping[str, str]) -> dict[str, str]:
    """Every effective value of a topic, as Kafka prints it."""
    return {**defaults, **{name: _stored(name, text) for name, text in own_configs(topic).items()}}


def _stored(name: str, text: str) -> str:
    """A stored value as Kafka prints it; earlier builds stored some that are refused now."""
    try:
        return catalog().topic[name].parse(name, text)
    except InvalidValue:
        return text


def why_bad_config(configs: Mapping[str, str | None]) -> str | None:
    """Why Kafka refuses these settings of a topic, with its message, or None."""
    nulls = [name for name, value in configs.items() if value is None]
    if nulls:
        return f"Null value not supported for topic configs: {','.join(nulls)}"
    known = catalog().topic
    for name in configs:
        if name not in known:
            return f"Unknown topic config name: {name}"
    try:
        values = {name: known[name].parse(name, value or "") for name, value in configs.items()}
    except InvalidValue as error:
        return str(error)
    if values.get("remote.storage.enable") == "true":
        return (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    return None


def log_config(topic: TopicMetadata, defaults: Mapping[str, str]) -> LogConfig:
    """What the logs of a topic act on."""
    values = topic_values(topic, defaults)
    policy = frozenset(filter(None, values["cleanup.policy"].split(",")))
    max_lag = int(values["max.compaction.lag.ms"])
    segment_ms = int(values["segment.ms"])
    return LogConfig(
        segment_bytes=int(values.get(_INTERNAL_SEGMENT_BYTES) or values["segment.bytes"]),
        # A record is compacted only after its segment has rolled.
        segment_ms=min(segment_ms, max_lag) if "compact" in policy else segment_ms,
        retention_ms=int(values["retention.ms"]),
        retention_bytes=int(values["retention.bytes"]),
        cleanup_policy=policy,
        delete_retention_ms=int(values["delete.retention.ms"]),
        min_cleanable_dirty_ratio=float(values["min.cleanable.dirty.ratio"]),
        min_compaction_lag_ms=int(values["min.compaction.lag.ms"]),
        max_compaction_lag_ms=max_lag,
        index_interval_bytes=int(values["index.interval.bytes"]),
    )
