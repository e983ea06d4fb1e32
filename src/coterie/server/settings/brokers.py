"""The present settings of a broker and its log levels, and which of them can change while it runs.

Changes are checked as Kafka's DynamicBrokerConfig does.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Final

from coterie.error_codes import ErrorCode
from coterie.server.settings.catalog import InvalidValue, catalog
from coterie.server.settings.cluster import ClusterSettings
from coterie.server.settings.config import ServerConfig
from coterie.server.settings.topics import topic_defaults

__all__ = [
    "LOGGER_LEVELS",
    "BrokerSettings",
    "Refused",
    "check_broker_id",
    "check_broker_settings",
    "logger_levels",
    "set_logger_level",
]

_LISTENER_PREFIX: Final = "listener.name."
#: Bytes that each thread of the cleaner needs of log.cleaner.dedupe.buffer.size.
_DEDUPE_PER_THREAD: Final = 1024 * 1024
#: Prefixes of the settings that belong to one listener.
_SECURITY: Final = ("ssl.", "sasl.", "principal.builder.class")


class BrokerSettings:
    """The settings that one broker acts on, with those that were changed while it runs."""

    config: ServerConfig
    #: The settings of topics that set nothing themselves.
    topic_defaults: dict[str, str]

    def __init__(self, settings: ClusterSettings, node_id: int) -> None:
        self._settings = settings
        self._node_id = node_id
        self.refresh()

    def refresh(self) -> None:
        """Act on changed settings."""
        self.config = self._settings.server_config(self._node_id)
        self.topic_defaults = topic_defaults(self._settings, self._node_id)


class Refused(Exception):
    """The error of one resource."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def check_broker_id(name: str, node_id: int, expected: str, thing: str = "Broker") -> None:
    """Refuse a broker id that is not this broker's, with Kafka's message."""
    try:
        number = int(name)
    except ValueError:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"{thing} id must be an integer, but it is: {name}"
        ) from None
    if number != node_id:
        text = "Unexpected broker id, expected " + expected.format(node_id, name)
        raise Refused(ErrorCode.INVALID_REQUEST, text)


def check_broker_settings(
    values: Mapping[str, str],
    changed: Collection[str],
    static_values: Mapping[str, str | None],
    *,
    per_broker: bool,
) -> None:
    """Refuse settings of a broker, or of all brokers, that Kafka refuses."""
    known = catalog()
    static = [name for name in values if known.update_mode(name) == "read-only"]
    if static:
        _refuse(f"Cannot update these configs dynamically: [{', '.join(sorted(static))}]")
    bare = [name for name in values if name.startswith(_SECURITY) and known.update_mode(name)]
    if bare:
        _refuse(
            "These security configs can be dynamically updated only per-listener using the "
            f"listener prefix: [{', '.join(sorted(bare))}]"
        )
    try:
        for name, value in values.items():
            if (setting := known.setting(name)) is not None:
                setting.parse(name, value)
    except InvalidValue as error:
        _refuse(str(error))
    own = [name for name in values if known.update_mode(_base(name)) == "per-broker"]
    if own and not per_broker:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{', '.join(sorted(own))}]"
        )
    _check_cleaner({**static_values, **values}, values)
    _check_min_isr(values, changed, per_broker=per_broker)


def _refuse(message: str) -> None:
    raise Refused(ErrorCode.INVALID_REQUEST, message)


def _base(name: str) -> str:
    """The name of a listener's setting without its listener."""
    if not name.startswith(_LISTENER_PREFIX):
        return name
    return name.removeprefix(_LISTENER_PREFIX).partition(".")[2]


def _check_cleaner(values: Mapping[str, str | None], changed: Collection[str]) -> None:
    known = catalog().broker
    threads, buffer = "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"
    if threads in changed or buffer in changed:
        count = int(values.get(threads) or known[threads].default or 1)
        size = int(values.get(buffer) or known[buffer].default or 0)
        if size // count < _DEDUPE_PER_THREAD:
            _refuse(f"requirement failed: {buffer} must be at least 1MB per cleaner thread.")


def _check_min_isr(
    values: Mapping[str, str], changed: Collection[str], *, per_broker: bool
) -> None:
    """Where eligible leader replicas are on, min.insync.replicas belongs to the cluster (KIP-966)."""
    name = "min.insync.replicas"
    if per_broker and name in changed:
        text = f"Broker-level {name} cannot be altered while ELR is enabled."
        raise Refused(ErrorCode.INVALID_CONFIG, text)
    if not per_broker and name not in values:
        text = f"Cluster-level {name} cannot be removed while ELR is enabled."
        raise Refused(ErrorCode.INVALID_CONFIG, text)


_ROOT_LOGGER: Final = "root"
#: Kafka's names of log levels (KIP-412); TRACE and FATAL have the nearest of Python's.
LOGGER_LEVELS: Final = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
}
_LEVEL_NAMES: Final = {level: name for name, level in LOGGER_LEVELS.items()}


def logger_levels() -> dict[str, str]:
    """The level of each of our loggers, and of the root logger."""
    manager = logging.root.manager
    ours = sorted(name for name in manager.loggerDict if name.startswith("coterie"))
    loggers = {_ROOT_LOGGER: logging.root} | {name: logging.getLogger(name) for name in ours}
    return {
        name: _LEVEL_NAMES.get(each.getEffectiveLevel(), "INFO") for name, each in loggers.items()
    }


def set_logger_level(name: str, level: str | None) -> None:
    """Change a logger's level; None lets it follow its parent."""
    logger = logging.root if name == _ROOT_LOGGER else logging.getLogger(name)
    logger.setLevel(logging.NOTSET if level is None else LOGGER_LEVELS[level])
