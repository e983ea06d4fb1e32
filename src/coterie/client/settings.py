"""The settings of a client: Java's names and librdkafka's, from a dict, a file or keyword arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Final

from coterie.addresses import parse_address
from coterie.client.properties import parse_properties
from coterie.client.security_settings import SECURITY_NAMES, SecuritySettings
from coterie.errors import InvalidSetting

__all__ = ["ClientSettings", "Properties", "read_properties", "settings_of"]

#: Settings by name, or the path of a `client.properties` file.
Properties = Mapping[str, object] | str | PathLike[str]

#: Java's name of each setting, librdkafka's where it differs, and the field here.
_NAMES: Final = {
    "bootstrap.servers": "bootstrap_servers",
    "metadata.broker.list": "bootstrap_servers",
    "client.id": "client_id",
    "default.api.timeout.ms": "default_api_timeout_ms",
    "request.timeout.ms": "request_timeout_ms",
    "socket.timeout.ms": "request_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "socket.connection.setup.timeout.ms": "connection_setup_timeout_ms",
    "receive.message.max.bytes": "receive_message_max_bytes",
    "max.request.size": "max_request_size",
    "message.max.bytes": "max_request_size",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The settings of a client. Defaults are those of Kafka's own admin client, where it has them."""

    bootstrap_servers: str = ""
    client_id: str = "coterie"
    default_api_timeout_ms: int = 60_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    connection_setup_timeout_ms: int = 10_000
    #: Kafka's client has no such limit (KIP-498); librdkafka and kafka-python have this one.
    receive_message_max_bytes: int = 100_000_000
    #: Requests that would be larger are split; a broker takes this much (socket.request.max.bytes).
    max_request_size: int = 100_000_000
    security: SecuritySettings = field(default_factory=SecuritySettings)

    @classmethod
    def of(cls, properties: Mapping[str, object]) -> ClientSettings:
        """Settings by name: with dots as Java and librdkafka spell them, or with underscores."""
        found: dict[str, object] = {}
        security: dict[str, object] = {}
        for name, value in properties.items():
            dotted = name.replace("_", ".")
            known = _NAMES.get(dotted)
            if dotted in SECURITY_NAMES:
                security[dotted] = value
                continue
            if known is None:
                import difflib

                near = difflib.get_close_matches(dotted, [*_NAMES, *SECURITY_NAMES], n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise InvalidSetting(f"there is no setting {name!r}{hint}")
            found[known] = _fit(cls, name, known, value)
        found["security"] = SecuritySettings.of(security)
        settings = cls(**found)  # type: ignore[arg-type]
        settings._check()
        return settings

    @staticmethod
    def knows(name: str) -> bool:
        """Whether there is a setting of this name; a file for another client may have others."""
        dotted = name.replace("_", ".")
        return dotted in _NAMES or dotted in SECURITY_NAMES

    def _check(self) -> None:
        settings = self
        if not settings.bootstrap_servers:
            raise InvalidSetting(
                "bootstrap.servers is missing: give host:port of one broker or more"
            )
        settings.addresses  # noqa: B018 - raises for an address that is none

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The bootstrap servers, as host and port."""
        found = []
        for each in self.bootstrap_servers.split(","):
            address = parse_address(each.strip())
            # No host and port 0 are refused here, where the name of the setting is known.
            if address is None or not all(address):
                raise InvalidSetting(f"bootstrap.servers: {each.strip()!r} is not host:port")
            found.append(address)
        return found


def _fit(cls: type[ClientSettings], name: str, field: str, value: object) -> object:
    if field == "bootstrap_servers" and isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    if isinstance(cls.__dataclass_fields__[field].default, str):
        return str(value)
    try:
        number = int(str(value))
    except ValueError:
        number = -1
    if number < 0:
        raise InvalidSetting(f"{name} takes a number of 0 or more, not {value!r}")
    return number


def settings_of(properties: Properties | None, more: Mapping[str, object]) -> ClientSettings:
    """Settings from a dict or a file; those in `more` replace them."""
    if isinstance(properties, (str, PathLike)):
        properties = read_properties(properties)
    return ClientSettings.of({**(properties or {}), **more})


def read_properties(path: PathLike[str] | str) -> dict[str, object]:
    """The settings in a `client.properties` file, which is written as Java has it."""
    from pathlib import Path

    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        brokers = f"; if these are brokers, say bootstrap_servers={str(path)!r}"
        hint = brokers if str(path).rpartition(":")[2].isdecimal() else ""
        raise InvalidSetting(f"{path} cannot be read: {error.strerror}{hint}") from None
    return dict(parse_properties(text))
