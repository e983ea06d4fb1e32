"""The settings of a server, with Kafka's names; a test holds the documentation to this list.

Defaults are Kafka's unless the comment says why not. Settings of the coordinator and of logs are in
their own rooms; `ServerConfig.from_properties` fills all three from one set of names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from coterie.coordinator.config import GroupConfig
from coterie.errors import CoterieError
from coterie.security.secrets import Secret
from coterie.server.security_config import SecurityConfig
from coterie.storage.config import Durability

__all__ = ["ConfigError", "ServerConfig"]


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
    auto_create_topics: bool = _setting(
        "auto.create.topics.enable", True, "Create a topic when a client first asks for it."
    )
    offsets_topic_partitions: int = _setting(
        "offsets.topic.num.partitions", 50, "Partitions of __consumer_offsets."
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
    group: GroupConfig = field(default_factory=GroupConfig)
    security: SecurityConfig = field(default_factory=SecurityConfig)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> ServerConfig:
        """Settings by Kafka's names, as in server.properties."""
        rest = dict(properties)
        group = _fill(GroupConfig, rest)
        security = _fill(SecurityConfig, rest)
        server = _fill(cls, rest)
        if rest:
            known = ", ".join(sorted({*_names(cls), *_names(GroupConfig), *_names(SecurityConfig)}))
            raise ConfigError(f"there is no setting {min(rest)!r}; known are {known}")
        return dataclasses.replace(
            cls(**server), group=GroupConfig(**group), security=SecurityConfig(**security)
        )


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
        return int(text)
    except (KeyError, ValueError):
        takes = "true or false" if isinstance(default, bool) else "a whole number"
        raise ConfigError(f"{name} takes {takes}, not {text!r}") from None


def _parse_choice(name: str, text: str, choices: type[Enum]) -> Enum:
    try:
        return choices(text.lower())
    except ValueError:
        *most, last = [each.value for each in choices]
        takes = f"{', '.join(most)} or {last}"
        raise ConfigError(f"{name} takes {takes}, not {text!r}") from None
