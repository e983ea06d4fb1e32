"""The settings of a server that Coterie acts on, with Kafka's names; docs/settings.md is generated from it.

Defaults are Kafka's unless the comment says why not. Settings of the coordinator and of security are in their
own modules; `ServerConfig.from_properties` fills all three from one set of names. Other settings of Kafka
are accepted and shown (`others`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final, NamedTuple

from coterie.coordinator.config import GroupConfig
from coterie.errors import CoterieError
from coterie.security.secrets import Secret
from coterie.server.settings.catalog import InvalidValue, catalog
from coterie.server.settings.listeners import ListenerConfig
from coterie.server.settings.security import SecurityConfig, is_per_listener
from coterie.storage.config import Durability

__all__ = ["ConfigError", "QuotaWindow", "ServerConfig"]


_LISTENER: Final = "listener.name."
_BROKER: Final = re.compile(r"coterie\.broker\.([0-9]+)\.advertised\.listeners")


class QuotaWindow(NamedTuple):
    """How far back usage counts: a number of samples, and the length of each."""

    samples: int = 11
    sample_ms: int = 1_000

    @property
    def length_ms(self) -> int:
        return self.samples * self.sample_ms


class ConfigError(CoterieError):
    """A setting that does not exist or does not fit; names the setting and what it takes."""


def _setting(name: str, default: Any, doc: str) -> Any:
    return field(default=default, metadata={"kafka": name, "doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Settings of every broker of a cluster."""

    max_request_bytes: int = _setting(
        "socket.request.max.bytes",
        104_857_600,
        "Largest request; a larger one closes the connection.",
    )
    max_write_buffer_bytes: int = _setting(
        "coterie.socket.write.buffer.max.bytes",
        8 * 1024 * 1024,
        "Answers that a client does not read; beyond this its connection is closed.",
    )
    max_in_flight: int = _setting(
        "coterie.max.in.flight.requests.per.connection",
        1_000,
        "Requests of one connection that wait for an answer; beyond this reading pauses.",
    )
    max_connections: int = _setting(
        "max.connections", 10_000, "Connections to one broker (Kafka: unlimited)."
    )
    max_connections_per_ip: int = _setting(
        "max.connections.per.ip", 1_000, "Connections from one address (Kafka: unlimited)."
    )
    max_connection_creation_rate: int = _setting(
        "max.connection.creation.rate",
        2_147_483_647,
        "New connections to one broker in a second; those beyond it are closed (Kafka lets them wait).",
    )
    connections_max_idle_ms: int = _setting(
        "connections.max.idle.ms", 600_000, "A connection that is silent for so long is closed."
    )
    frame_deadline_ms: int = _setting(
        "coterie.frame.deadline.ms",
        30_000,
        "A frame that was begun must be whole by then; Kafka has no such limit.",
    )
    num_partitions: int = _setting("num.partitions", 1, "Partitions of a topic that does not say.")
    default_replication_factor: int = _setting(
        "default.replication.factor", 1, "Replicas of a topic whose request does not say how many."
    )
    min_insync_replicas: int = _setting(
        "min.insync.replicas",
        1,
        "In-sync replicas that Produce with acks=all needs, for topics without this setting.",
    )
    unclean_leader_election: bool = _setting(
        "unclean.leader.election.enable",
        False,
        "Let a replica that is not in sync lead, for topics without this setting.",
    )
    auto_leader_rebalance: bool = _setting(
        "auto.leader.rebalance.enable",
        True,
        "Move leadership back to a preferred leader that returns, at once (Kafka: every 300 s).",
    )
    auto_create_topics: bool = _setting(
        "auto.create.topics.enable", True, "Create a topic when a client first asks for it."
    )
    offsets_topic_partitions: int = _setting(
        "offsets.topic.num.partitions", 50, "Partitions of __consumer_offsets."
    )
    offsets_topic_replication_factor: int = _setting(
        "offsets.topic.replication.factor",
        3,
        "Replicas of __consumer_offsets; a smaller cluster has as many as it has brokers.",
    )
    transaction_topic_replication_factor: int = _setting(
        "transaction.state.log.replication.factor",
        3,
        "Replicas of __transaction_state; a smaller cluster has as many as it has brokers.",
    )
    offsets_commit_timeout_ms: int = _setting(
        "offsets.commit.timeout.ms", 5_000, "A commit that is not durable by then is refused."
    )
    log_retention_check_interval_ms: int = _setting(
        "log.retention.check.interval.ms", 300_000, "How often old segments are looked for."
    )
    max_message_bytes: int = _setting("message.max.bytes", 1_048_588, "Largest record batch.")
    transaction_max_timeout_ms: int = _setting(
        "transaction.max.timeout.ms", 900_000, "Longest time-out a transaction may ask for."
    )
    fetch_max_bytes: int = _setting(
        "fetch.max.bytes", 57_671_680, "Most bytes that one Fetch answers with."
    )
    durability: Durability = _setting(
        "coterie.durability",
        Durability.FSYNC,
        "What an acknowledgement survives: fsync (power loss) or os (kill -9).",
    )
    log_cleaner_enable: bool = _setting(
        "log.cleaner.enable", True, "Compact topics with cleanup.policy=compact."
    )
    log_cleaner_backoff_ms: int = _setting(
        "log.cleaner.backoff.ms", 15_000, "How often compacted topics are looked at."
    )
    quota_window_num: int = _setting(
        "quota.window.num", 11, "Samples of the window in which a client's usage is measured."
    )
    quota_window_size_seconds: int = _setting(
        "quota.window.size.seconds", 1, "Length of each of those samples."
    )
    controller_quota_window_num: int = _setting(
        "controller.quota.window.num", 11, "The same for `controller_mutation_rate`."
    )
    controller_quota_window_size_seconds: int = _setting(
        "controller.quota.window.size.seconds", 1, "The same for `controller_mutation_rate`."
    )
    group: GroupConfig = field(default_factory=GroupConfig)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    listeners: ListenerConfig = field(default_factory=ListenerConfig)
    #: Settings of Kafka that were given and have no field here, by name.
    others: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: Names of all settings that were given: also those with Kafka's default are static then.
    given: frozenset[str] = frozenset()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> ServerConfig:
        """Settings by Kafka's names, as in server.properties."""
        rest = dict(properties)
        group = _fill(GroupConfig, rest)
        security = _fill(SecurityConfig, rest)
        listeners = _fill(ListenerConfig, rest)
        overrides = _take_listener_settings(rest)
        advertised = _take_broker_addresses(rest)
        server = _fill(cls, rest)
        others = {name: _kafka_value(name, rest[name]) for name in sorted(rest)}
        return cls(
            **server,
            group=GroupConfig(**group),
            security=SecurityConfig(**security),
            listeners=ListenerConfig(
                overrides=overrides, advertised_by_broker=advertised, **listeners
            ),
            others=others,
            given=frozenset(properties),
        )

    def changed(self, values: Mapping[str, str]) -> ServerConfig:
        """The settings with others in place of some; names without a field are left out."""
        rest = dict(values)
        group = dataclasses.replace(self.group, **_fill(GroupConfig, rest))
        return dataclasses.replace(self, group=group, **_fill(type(self), rest))

    @property
    def quota_window(self) -> QuotaWindow:
        return QuotaWindow(self.quota_window_num, self.quota_window_size_seconds * 1_000)

    @property
    def controller_quota_window(self) -> QuotaWindow:
        samples, seconds = (
            self.controller_quota_window_num,
            self.controller_quota_window_size_seconds,
        )
        return QuotaWindow(samples, seconds * 1_000)

    @property
    def static_values(self) -> dict[str, str | None]:
        """What was given or differs from Kafka's defaults, by Kafka's names; a secret is None."""
        known = catalog().broker
        values: dict[str, str | None] = dict(self.others)
        for settings in (self, self.group, self.security, self.listeners):
            for name, spec in _names(type(settings)).items():
                value = getattr(settings, spec.name)
                text = _text(value)
                usual = known[name].default if name in known else _text(spec.default)
                if name in self.given or name.startswith("coterie.") or text not in {"", usual}:
                    values[name] = None if isinstance(value, Secret) else text
        return values


def _text(value: object) -> str:
    """A value as Kafka prints it."""
    text = str(getattr(value, "value", value))
    return text.lower() if isinstance(value, bool) else text


def _kafka_value(name: str, text: str) -> str:
    """The value of a setting that Kafka knows and Coterie has no field for."""
    known = catalog().broker.get(name)
    if known is None:
        close = get_close_matches(name, [*catalog().broker, *_names(ServerConfig)], n=1)
        hint = f"; did you mean {close[0]}" if close else ""
        raise ConfigError(f"there is no setting {name!r}{hint}. docs/settings.md lists all of them")
    try:
        return known.parse(name, text)
    except InvalidValue as error:
        raise ConfigError(str(error)) from None


def _names(cls: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    """The fields of a settings class by Kafka's name."""
    return {f.metadata["kafka"]: f for f in dataclasses.fields(cls) if f.metadata.get("kafka")}


def _fill(cls: type[Any], properties: dict[str, str]) -> dict[str, Any]:
    """Take out of the properties what this class has settings for."""
    found: dict[str, Any] = {}
    for name, spec in _names(cls).items():
        if name in properties:
            found[spec.name] = _parse(name, properties.pop(name), spec.default)
    return found


def _take_listener_settings(properties: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Take out `listener.name.<name>.<setting>`: values of SecurityConfig's fields by listener."""
    found: dict[str, dict[str, Any]] = {}
    settings = _names(SecurityConfig)
    for name in [each for each in properties if each.startswith(_LISTENER)]:
        listener, _, setting = name.removeprefix(_LISTENER).partition(".")
        if setting in settings and is_per_listener(setting):
            spec = settings[setting]
            value = _parse(name, properties.pop(name), spec.default)
            found.setdefault(listener.upper(), {})[spec.name] = value
    return found


def _take_broker_addresses(properties: dict[str, str]) -> dict[int, str]:
    """Take out `coterie.broker.<id>.advertised.listeners`."""
    found = {name: _BROKER.fullmatch(name) for name in properties}
    return {int(match[1]): properties.pop(name) for name, match in found.items() if match}


def _parse(name: str, text: str, default: object) -> object:
    text = text.strip()
    if isinstance(default, Secret):
        return Secret(text)
    if isinstance(default, Enum):
        return _parse_choice(name, text, type(default))
    if isinstance(default, str):
        return text
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False}[text.lower()]
        number = int(text)
    except (KeyError, ValueError):
        takes = "true or false" if isinstance(default, bool) else "a whole number"
        raise ConfigError(f"{name} takes {takes}, not {text!r}") from None
    if name in catalog().broker:
        _kafka_value(name, text)
    return number


def _parse_choice(name: str, text: str, choices: type[Enum]) -> Enum:
    try:
        return choices(text.lower())
    except ValueError:
        *most, last = [each.value for each in choices]
        takes = f"{', '.join(most)} or {last}"
        raise ConfigError(f"{name} takes {takes}, not {text!r}") from None
