"""The settings of the group coordinator, with Kafka's names and defaults.

Settings of the server around it (timeouts of an append, number of partitions) are not here. Where a
default is not Kafka's, the comment says why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["GroupConfig"]


def _setting(name: str, default: int) -> Any:
    return field(default=default, metadata={"kafka": name})


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Settings of one coordinator; `metadata["kafka"]` of a field is the name that Kafka gives it."""

    #: How long the first join of an empty group waits for others (KIP-134).
    initial_rebalance_delay_ms: int = _setting("group.initial.rebalance.delay.ms", 3_000)
    min_session_timeout_ms: int = _setting("group.min.session.timeout.ms", 6_000)
    max_session_timeout_ms: int = _setting("group.max.session.timeout.ms", 1_800_000)
    #: Members of a group, those that only hold a member id counted in (KIP-389, KIP-394). Kafka's default
    #: is 2147483647, which lets one client fill the memory of all.
    max_size: int = _setting("group.max.size", 1_000)
    #: How long a JoinGroup of a new member is parked: it cannot heartbeat yet. A constant in Kafka
    #: (GroupCoordinatorConfig.CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS).
    new_member_join_timeout_ms: int = _setting("", 300_000)
    #: Bytes of metadata, all protocols together, that one member may join with. Kafka bounds only the
    #: frame; the coordinator keeps these bytes and writes them with every generation.
    max_member_metadata_bytes: int = _setting("", 256 * 1024)
    #: The same for all members of a group together.
    max_group_metadata_bytes: int = _setting("", 8 * 1024 * 1024)

    offset_metadata_max_bytes: int = _setting("offset.metadata.max.bytes", 4_096)
    offsets_retention_minutes: int = _setting("offsets.retention.minutes", 10_080)
    offsets_retention_check_interval_ms: int = _setting(
        "offsets.retention.check.interval.ms", 600_000
    )

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000
