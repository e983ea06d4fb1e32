"""The settings of the group coordinator, with Kafka's names and defaults.

Settings of the server around it (timeouts of an append, number of partitions) are not here. Where a
default is not Kafka's, the comment says why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["GroupConfig", "MigrationPolicy"]


class MigrationPolicy(StrEnum):
    """Which groups with members may change their type while they run (KIP-848)."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"


def _setting(name: str, default: int | StrEnum, doc: str) -> Any:
    return field(default=default, metadata={"kafka": name, "doc": doc})


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Settings of one coordinator; `metadata` of a field has Kafka's name for it and a line of prose."""

    initial_rebalance_delay_ms: int = _setting(
        "group.initial.rebalance.delay.ms",
        3_000,
        "How long the first join of an empty group waits for others (KIP-134).",
    )
    min_session_timeout_ms: int = _setting(
        "group.min.session.timeout.ms", 6_000, "Shortest session timeout a member may ask for."
    )
    max_session_timeout_ms: int = _setting(
        "group.max.session.timeout.ms", 1_800_000, "Longest session timeout a member may ask for."
    )
    # Kafka's default is 2147483647, which lets one client fill the memory of all.
    max_size: int = _setting(
        "group.max.size",
        1_000,
        "Members of a group, those that only hold a member id counted in (KIP-389, KIP-394).",
    )
    consumer_session_timeout_ms: int = _setting(
        "group.consumer.session.timeout.ms",
        45_000,
        "How long a member of a consumer group (KIP-848) may be silent.",
    )
    consumer_heartbeat_interval_ms: int = _setting(
        "group.consumer.heartbeat.interval.ms",
        5_000,
        "How often members of consumer groups are told to heartbeat.",
    )
    # Kafka's default is 2147483647, as for group.max.size.
    consumer_max_size: int = _setting(
        "group.consumer.max.size", 1_000, "Members of a consumer group."
    )
    consumer_assignment_interval_ms: int = _setting(
        "group.consumer.assignment.interval.ms",
        1_000,
        "Shortest time between two target assignments of a consumer group.",
    )
    consumer_regex_refresh_interval_ms: int = _setting(
        "group.consumer.regex.refresh.interval.ms",
        600_000,
        "How often subscribed patterns are run again, new topics or not.",
    )
    consumer_migration_policy: MigrationPolicy = _setting(
        "group.consumer.migration.policy",
        MigrationPolicy.BIDIRECTIONAL,
        "Which groups may change type with members in them: to consumer (upgrade), to classic"
        " (downgrade), both (bidirectional) or none (disabled).",
    )
    # A constant in Kafka (GroupCoordinatorConfig.CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS).
    new_member_join_timeout_ms: int = _setting(
        "coterie.group.new.member.join.timeout.ms",
        300_000,
        "How long a JoinGroup of a new member is parked: it cannot heartbeat yet.",
    )
    # Kafka bounds only the frame; the coordinator keeps these bytes and writes them with every generation.
    max_member_metadata_bytes: int = _setting(
        "coterie.group.member.metadata.max.bytes",
        256 * 1024,
        "Bytes of metadata, all protocols together, that one member may join with.",
    )
    max_group_metadata_bytes: int = _setting(
        "coterie.group.metadata.max.bytes",
        8 * 1024 * 1024,
        "The same for all members of a group together.",
    )
    offset_metadata_max_bytes: int = _setting(
        "offset.metadata.max.bytes", 4_096, "Longest text beside a committed offset."
    )
    offsets_retention_minutes: int = _setting(
        "offsets.retention.minutes", 10_080, "How long offsets outlive their use."
    )
    offsets_retention_check_interval_ms: int = _setting(
        "offsets.retention.check.interval.ms", 600_000, "How often expired offsets are looked for."
    )

    @property
    def upgrade_enabled(self) -> bool:
        policy = self.consumer_migration_policy
        return policy in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrade_enabled(self) -> bool:
        policy = self.consumer_migration_policy
        return policy in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000
