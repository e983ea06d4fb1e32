"""Settings of groups (KIP-848 and after): validation as Kafka's, and what the coordinator acts on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from coterie.coordinator.config import GroupConfig
from coterie.server.settings.catalog import InvalidValue, catalog
from coterie.server.settings.cluster import ClusterSettings, ResourceKind

__all__ = ["ACTING", "group_config", "group_configs", "group_values", "why_bad_group_config"]

#: Settings of groups that the coordinator acts on, with its fields; the others are stored and shown.
ACTING: Final = {
    "consumer.session.timeout.ms": "consumer_session_timeout_ms",
    "consumer.heartbeat.interval.ms": "consumer_heartbeat_interval_ms",
    "consumer.assignment.interval.ms": "consumer_assignment_interval_ms",
}

#: Settings with a lowest and a highest value among the settings of brokers; None where there is no bound.
_BOUNDS: Final[tuple[tuple[str, str | None, str | None], ...]] = (
    *(
        (f"{kind}.{name}", f"group.{kind}.min.{name}", f"group.{kind}.max.{name}")
        for kind in ("consumer", "share", "streams")
        for name in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
    ),
    *(
        (f"share.{name}", f"group.share.min.{name}", f"group.share.max.{name}")
        for name in (
            "record.lock.duration.ms",
            "delivery.count.limit",
            "partition.max.record.locks",
        )
    ),
    ("streams.num.standby.replicas", None, "group.streams.max.standby.replicas"),
)


def group_values(settings: ClusterSettings, group_id: str, node_id: int) -> dict[str, str]:
    """Every effective setting of a group, as Kafka prints it."""
    own = settings.of(ResourceKind.GROUP, group_id)
    return _values(own, settings, node_id)


def _values(own: Mapping[str, str], settings: ClusterSettings, node_id: int) -> dict[str, str]:
    return {
        name: known.parse(name, own.get(name) or settings.first_value(known, node_id) or "")
        for name, known in catalog().group.items()
    }


def why_bad_group_config(
    own: Mapping[str, str], settings: ClusterSettings, node_id: int
) -> str | None:
    """Why Kafka refuses these settings of a group, with its message, or None."""
    for name in own:
        if name not in catalog().group:
            return f"Unknown group config name: {name}"
    try:
        values = _values(own, settings, node_id)
    except InvalidValue as error:
        return str(error)
    for name, lowest, highest in _BOUNDS:
        value = int(values[name])
        if lowest is not None and value < _bound(settings, lowest, node_id, value):
            return f"{name} must be greater than or equal to {lowest}"
        if highest is not None and value > _bound(settings, highest, node_id, value):
            return f"{name} must be less than or equal to {highest}"
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if int(values[session]) <= int(values[heartbeat]):
            return f"{session} must be greater than {heartbeat}"
    return None


def _bound(settings: ClusterSettings, name: str, node_id: int, fallback: int) -> int:
    value = settings.broker_value(name, node_id)
    return fallback if value is None else int(value)


def group_config(
    settings: ClusterSettings, group_id: str, default: GroupConfig
) -> GroupConfig | None:
    """The coordinator's settings for a group, or None if it has none of its own."""
    own = settings.of(ResourceKind.GROUP, group_id)
    changes = {field: int(own[name]) for name, field in ACTING.items() if name in own}
    return dataclasses.replace(default, **changes) if changes else None  # type: ignore[arg-type]


def group_configs(settings: ClusterSettings, default: GroupConfig) -> dict[str, GroupConfig]:
    """The same for all groups that have settings."""
    found = {
        name: group_config(settings, name, default) for name in settings.names(ResourceKind.GROUP)
    }
    return {name: config for name, config in found.items() if config is not None}
