"""Settings of brokers and groups that can change while the cluster runs, and where each value comes from.

A value is, in this order, that of one broker, of all brokers, of the server's file, or Kafka's default.
Changes are ConfigRecord records of the cluster's log: they are durable before `change` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from coterie.protocol.metadata_records import ConfigRecord, MetadataRecord
from coterie.server.metadata.cluster_log import ClusterLog
from coterie.server.settings.catalog import Setting, catalog
from coterie.server.settings.config import ServerConfig

__all__ = ["ALL_BROKERS", "ClusterSettings", "ResourceKind", "Source", "Synonym"]

#: The resource name of settings for all brokers.
ALL_BROKERS: Final = ""
#: Kafka writes it as a setting of all brokers where eligible leader replicas (KIP-966) are on.
_MIN_ISR: Final = "min.insync.replicas"


class ResourceKind(IntEnum):
    """Kinds of resources that have settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
    """Where the value of a setting comes from, in the codes of DescribeConfigs."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6
    GROUP = 8


class Synonym(NamedTuple):
    """One place that defines a value."""

    name: str
    value: str
    source: Source


class ClusterSettings:
    """Dynamic settings of one cluster, over the static ones of its file."""

    def __init__(self, config: ServerConfig, cluster_log: ClusterLog) -> None:
        self._config = config
        self._log = cluster_log
        self._values: dict[tuple[int, str], dict[str, str]] = {}
        #: Called after settings of brokers have changed.
        self.on_broker_change: Callable[[], None] = lambda: None
        #: Called with the id of a group whose settings have changed.
        self.on_group_change: Callable[[str], None] = lambda _: None
        self._initial_min_isr = config.static_values.get(_MIN_ISR) or "1"
        self._brokers(ALL_BROKERS)[_MIN_ISR] = self._initial_min_isr
        cluster_log.attach(self)

    @property
    def record_types(self) -> Sequence[type[MetadataRecord]]:
        return (ConfigRecord,)

    def replay(self, record: ConfigRecord) -> None:
        """Apply one record of the log."""
        values = self._values.setdefault((record.resource_type, record.resource_name), {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value

    def records(self) -> Iterator[MetadataRecord]:
        """Everything that was changed, as records."""
        initial = ConfigRecord(ResourceKind.BROKER, ALL_BROKERS, _MIN_ISR, self._initial_min_isr)
        for (kind, name), values in self._values.items():
            for key, value in values.items():
                record = ConfigRecord(kind, name, key, value)
                if record != initial:
                    yield record

    def change(self, kind: int, name: str, changes: Mapping[str, str | None]) -> None:
        """Set values, or remove those that are None; durable when this returns."""
        records = [ConfigRecord(kind, name, key, value) for key, value in changes.items()]
        if not records:
            return
        self._log.change(records)
        if kind == ResourceKind.GROUP:
            self.on_group_change(name)
        elif kind == ResourceKind.BROKER:
            self.on_broker_change()

    # -- reading --------------------------------------------------------------------------------------

    def of(self, kind: int, name: str) -> Mapping[str, str]:
        """What is set dynamically for a resource."""
        return self._values.get((kind, name), {})

    def names(self, kind: int) -> list[str]:
        """Resources of a kind that have settings."""
        return [name for (each, name), values in self._values.items() if each == kind and values]

    def _brokers(self, name: str) -> dict[str, str]:
        return self._values.setdefault((ResourceKind.BROKER, name), {})

    def synonyms(self, name: str, node_id: int) -> list[Synonym]:
        """All places that define a broker setting, strongest first, as Kafka lists them."""
        known = catalog().broker.get(name)
        names = [each for each, _ in known.synonyms] if known else [name]
        layers: tuple[tuple[Mapping[str, str | None], Source], ...] = (
            (self._brokers(str(node_id)), Source.BROKER),
            (self._brokers(ALL_BROKERS), Source.ALL_BROKERS),
            (self._config.static_values, Source.STATIC),
            ({each: _default(each) for each in names}, Source.DEFAULT),
        )
        found = [
            Synonym(each, value, source)
            for values, source in layers
            for each in names
            if (value := values.get(each)) is not None
        ]
        # Kafka leaves out what comes before the setting itself.
        while found and found[0].name != name:
            found.pop(0)
        return found

    def broker_value(self, name: str, node_id: int) -> str | None:
        """The value that a broker runs with."""
        found = self.synonyms(name, node_id)
        return found[0].value if found else None

    def first_value(self, setting: Setting, node_id: int) -> str | None:
        """A topic's or group's value by its broker settings, in the setting's own unit."""
        for name, factor in setting.synonyms:
            value = self.broker_value(name, node_id)
            if value is not None:
                return value if factor == 1 else str(int(value) * factor)
        return setting.default

    def server_config(self, node_id: int) -> ServerConfig:
        """The settings of a broker with what was changed while it runs."""
        values = self._brokers(ALL_BROKERS) | self._brokers(str(node_id))
        return self._config.changed(values) if values else self._config

    @property
    def static(self) -> ServerConfig:
        return self._config


def _default(name: str) -> str | None:
    known = catalog().broker.get(name)
    return None if known is None else known.default
