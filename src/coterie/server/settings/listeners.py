"""Settings of the listeners, with Kafka's names, and the addresses that each broker gets from them.

All brokers of a cluster run in one process and share one set of settings, so an address describes every
broker: `{id}` in the host is replaced by the broker's id; without it, ports count up from the first broker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from coterie.addresses import LAST_PORT, address_text, parse_address
from coterie.errors import InvalidSetting
from coterie.server.settings.security import SecurityConfig

__all__ = ["Address", "EndpointSpec", "ListenerConfig", "ListenerSpec", "SecurityProtocol"]

_ID: Final = "{id}"
#: Addresses to listen on that no client can connect to.
_WILDCARDS: Final = ("0.0.0.0", "::")  # noqa: S104 - refused below


class SecurityProtocol(Enum):
    """What a listener speaks."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def uses_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)

    @classmethod
    def of(cls, security: SecurityConfig) -> SecurityProtocol:
        """The protocol of a cluster that names no listener: all the security that is configured."""
        if security.mechanisms:
            return cls.SASL_PLAINTEXT if security.tls is None else cls.SASL_SSL
        return cls.PLAINTEXT if security.tls is None else cls.SSL


class Address(NamedTuple):
    """One entry of `listeners` or `advertised.listeners`."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener}://{address_text(self.host, self.port)}"

    def of_broker(self, node_id: int) -> Address:
        """The address of one broker."""
        if _ID in self.host:
            return self._replace(host=self.host.replace(_ID, str(node_id)))
        return self._replace(port=self.port + node_id - 1) if self.port else self


class ListenerSpec(NamedTuple):
    """What all brokers have in common about a listener."""

    name: str
    protocol: SecurityProtocol
    security: SecurityConfig


class EndpointSpec(NamedTuple):
    """Where one broker opens a listener, and what it advertises; port 0 is chosen by the system."""

    listen: Address
    advertised: Address


def _setting(name: str, default: str, doc: str) -> Any:
    return field(default=default, metadata={"kafka": name, "doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig:
    """Which listeners the brokers have. Without `listeners` there is one, on the host and ports given."""

    listeners: str = _setting(
        "listeners",
        "",
        "Listeners of each broker, `NAME://HOST:PORT,...`; see [listeners.md](listeners.md).",
    )
    advertised_listeners: str = _setting(
        "advertised.listeners",
        "",
        "Addresses that clients get, by listener; a listener that is not named advertises its own.",
    )
    protocol_map: str = _setting(
        "listener.security.protocol.map",
        ",".join(f"{each.name}:{each.name}" for each in SecurityProtocol),
        "Security protocol of each listener name.",
    )
    inter_broker_listener: str = _setting(
        "inter.broker.listener.name",
        "",
        "Accepted, and must be a listener; brokers of one process do not need a connection.",
    )
    #: Fields of SecurityConfig by listener: `listener.name.<name>.`.
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: `coterie.broker.<id>.advertised.listeners`.
    advertised_by_broker: Mapping[int, str] = field(default_factory=dict)

    # -- listeners ------------------------------------------------------------------------------------

    def specs(self, security: SecurityConfig) -> list[ListenerSpec]:
        """The listeners, the first one being that of clients which do not choose."""
        if self.listeners:
            protocols = self._protocols()
            named = {
                each.listener: _protocol(each, protocols)
                for each in _addresses("listeners", self.listeners)
            }
        else:
            protocol = SecurityProtocol.of(security)
            named = {protocol.name: protocol}
        self._check_names(named)
        return [
            ListenerSpec(name, protocol, self._security(name, protocol, security))
            for name, protocol in named.items()
        ]

    def _protocols(self) -> dict[str, SecurityProtocol]:
        found = {}
        for each in filter(None, map(str.strip, self.protocol_map.split(","))):
            name, colon, protocol = each.rpartition(":")
            if not colon or protocol.strip() not in SecurityProtocol.__members__:
                raise InvalidSetting(
                    "listener.security.protocol.map takes NAME:PROTOCOL with the protocols "
                    f"{', '.join(SecurityProtocol.__members__)}, not {each!r}"
                )
            found[name.strip().upper()] = SecurityProtocol[protocol.strip()]
        return found

    def _check_names(self, named: Mapping[str, SecurityProtocol]) -> None:
        used = [("advertised.listeners", self.advertised_listeners)]
        used += [(_of_broker(node_id), text) for node_id, text in self.advertised_by_broker.items()]
        names = [(at, each.listener) for at, text in used for each in _addresses(at, text)]
        names += [(f"listener.name.{name.lower()}", name) for name in self.overrides]
        if self.inter_broker_listener:
            names.append(("inter.broker.listener.name", self.inter_broker_listener.upper()))
        for setting, name in names:
            if name not in named:
                raise InvalidSetting(
                    f"{setting} names the listener {name}, and listeners has {', '.join(named)}"
                )

    def _security(
        self, name: str, protocol: SecurityProtocol, common: SecurityConfig
    ) -> SecurityConfig:
        """Settings of a listener: the common ones, and its own where it has some."""
        security = dataclasses.replace(common, **self.overrides.get(name, {}))
        needs = {
            "sasl.enabled.mechanisms": protocol.uses_sasl and not security.mechanisms,
            "ssl.keystore.location": protocol.uses_tls and security.tls is None,
        }
        for setting, missing in needs.items():
            if missing:
                raise InvalidSetting(
                    f"listener {name} is {protocol.name}: set {setting}, "
                    f"or listener.name.{name.lower()}.{setting} for this listener alone"
                )
        return security

    # -- addresses ------------------------------------------------------------------------------------

    def endpoints(
        self, names: Sequence[str], node_ids: Sequence[int], host: str, ports: Mapping[int, int]
    ) -> dict[int, list[EndpointSpec]]:
        """The addresses of every broker. Host and ports are for a cluster that names no listener."""
        given = _addresses("listeners", self.listeners)
        unknown = [each for each in self.advertised_by_broker if each not in node_ids]
        if unknown:
            raise InvalidSetting(f"{_of_broker(unknown[0])}: there is no broker {unknown[0]}")
        found: dict[int, list[EndpointSpec]] = {}
        for node_id in node_ids:
            listen = [each.of_broker(node_id) for each in given]
            listen = listen or [Address(names[0], host, ports[node_id])]
            advertised = self._advertised(node_id)
            found[node_id] = [
                EndpointSpec(each, advertised.get(each.listener, each)) for each in listen
            ]
        _check_addresses([spec for specs in found.values() for spec in specs])
        return found

    def _advertised(self, node_id: int) -> dict[str, Address]:
        common = _addresses("advertised.listeners", self.advertised_listeners)
        found = {each.listener: each.of_broker(node_id) for each in common}
        own = self.advertised_by_broker.get(node_id, "")
        return found | {each.listener: each for each in _addresses(_of_broker(node_id), own)}


def _of_broker(node_id: int) -> str:
    return f"coterie.broker.{node_id}.advertised.listeners"


def _protocol(address: Address, protocols: Mapping[str, SecurityProtocol]) -> SecurityProtocol:
    name = address.listener
    if name not in protocols:
        raise InvalidSetting(
            f"No security protocol defined for listener {name}; add it to "
            f"listener.security.protocol.map, for instance {name}:PLAINTEXT"
        )
    return protocols[name]


def _addresses(setting: str, text: str) -> list[Address]:
    found: dict[str, Address] = {}
    for each in filter(None, map(str.strip, text.split(","))):
        name, separator, rest = each.partition("://")
        address = parse_address(rest)
        if not name or not separator or address is None:
            raise InvalidSetting(f"{setting}: {each!r} is not NAME://HOST:PORT")
        name = name.upper()
        if name in found:
            raise InvalidSetting(f"{setting} names the listener {name} twice; names must differ")
        found[name] = Address(name, *address)
    return list(found.values())


def _check_addresses(specs: Sequence[EndpointSpec]) -> None:
    """Refuse what cannot be opened, and what clients could not connect to."""
    seen: set[tuple[str, int]] = set()
    for listen, advertised in specs:
        for each in (listen, advertised):
            if each.port > LAST_PORT:
                raise InvalidSetting(
                    f"{each}: ports count up from the first broker's, and {LAST_PORT} is the last"
                )
        if listen.port and listen[1:] in seen:
            raise InvalidSetting(
                f"listeners has {address_text(*listen[1:])} twice; give each listener ports of its "
                "own: broker n listens on the port of broker 1 plus n - 1"
            )
        seen.add(listen[1:])
        if advertised.host in _WILDCARDS:
            raise InvalidSetting(
                f"advertised.listeners cannot use the nonroutable meta-address {advertised.host}. "
                "Use a routable IP address: set advertised.listeners="
                f"{advertised.listener}://HOST:PORT"
            )
