"""The features of the cluster: supported levels, and the levels that are finalized (KIP-584).

`FEATURES` is the only list of features; ApiVersions reports it and UpdateFeatures is checked against it.
Finalized levels that differ from those of a new cluster are records of the cluster's log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from coterie.protocol.metadata_records import FeatureLevelRecord, MetadataRecord
from coterie.server.metadata.cluster_log import ClusterLog

__all__ = ["FEATURES", "ClusterFeatures", "FeatureChange", "SupportedFeature"]

_METADATA_VERSION: Final = "metadata.version"
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


class SupportedFeature(NamedTuple):
    """The levels of one feature, and the level of a new cluster."""

    lowest: int
    highest: int
    initial: int


#: Features of Apache Kafka 4.3.0 by name, with the levels that this server implements. Like Kafka, it does
#: not report a feature that it supports at level 0 only.
FEATURES: Final[dict[str, SupportedFeature]] = {
    "group.version": SupportedFeature(0, 1, 1),
    "kraft.version": SupportedFeature(0, 1, 0),
    _METADATA_VERSION: SupportedFeature(7, 30, 30),
    "share.version": SupportedFeature(0, 0, 0),
    "streams.version": SupportedFeature(0, 0, 0),
    "transaction.version": SupportedFeature(0, 2, 2),
    "eligible.leader.replicas.version": SupportedFeature(0, 1, 1),
}


class FeatureChange(NamedTuple):
    """One entry of UpdateFeatures."""

    feature: str
    level: int
    upgrade_type: int


class ClusterFeatures:
    """The finalized levels of one cluster: a part of the cluster's log."""

    record_types: Sequence[type[MetadataRecord]] = (FeatureLevelRecord,)

    def __init__(self, cluster_log: ClusterLog) -> None:
        self._levels = {name: each.initial for name, each in FEATURES.items()}
        self._log = cluster_log
        cluster_log.attach(self)

    @property
    def epoch(self) -> int:
        """Grows with every change, since the records are in the log; clients drop older levels."""
        return self._log.end_offset

    @property
    def finalized(self) -> Mapping[str, int]:
        """Features with a level above 0."""
        return {name: level for name, level in self._levels.items() if level > 0}

    def level(self, feature: str) -> int:
        return self._levels[feature]

    def replay(self, record: FeatureLevelRecord, /) -> None:
        self._levels[record.name] = record.feature_level

    def records(self) -> Iterable[MetadataRecord]:
        for name, level in self._levels.items():
            if level != FEATURES[name].initial:
                yield FeatureLevelRecord(name, level)

    def change(
        self, changes: Sequence[FeatureChange], *, controller: int, validate_only: bool
    ) -> str | None:
        """Finalize all levels or none; durable when this returns. The reason if one is not possible."""
        records: dict[str, FeatureLevelRecord] = {}
        for each in changes:
            why = self._why_refused(each, controller)
            if why is not None:
                return why
            records[each.feature] = FeatureLevelRecord(each.feature, each.level)
        if not validate_only:
            self._log.change(
                [new for new in records.values() if new.feature_level != self._levels[new.name]]
            )
        return None

    def _why_refused(self, change: FeatureChange, controller: int) -> str | None:
        """Why Kafka's FeatureControlManager refuses a change, in its wording; None if it does not."""
        name, level, upgrade_type = change
        why = _why_unsupported(change, controller)
        present = self._levels.get(name, 0)
        if why is None and level < present:
            if upgrade_type == _UPGRADE:
                why = (
                    "Can't downgrade the version of this feature without setting the upgrade type to "
                    "either safe or unsafe downgrade."
                )
            elif name == _METADATA_VERSION:
                return _why_no_older_metadata(present, level, safe=upgrade_type == _SAFE_DOWNGRADE)
        return why and f"Invalid update version {level} for feature {name}. {why}"


def _why_unsupported(change: FeatureChange, controller: int) -> str | None:
    name, level, upgrade_type = change
    if upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    supported = FEATURES.get(name)
    if supported is None:
        return f"Local controller {controller} does not support this feature."
    if not supported.lowest <= level <= supported.highest:
        levels = f"{supported.lowest}-{supported.highest}"
        return f"Local controller {controller} only supports versions {levels}"
    return None


def _why_no_older_metadata(present: int, level: int, *, safe: bool) -> str:
    """Level 30 changed the metadata, so every level below it may lose some."""
    why = (
        "Refusing to perform the requested downgrade because it might delete metadata information."
        if safe
        else "Unsafe metadata downgrade is not supported in this version."
    )
    return f"Unsupported metadata.version downgrade from {present} to {level}. {why}"
