"""Client quotas of a cluster (KIP-546), as records of the cluster's log, and the one that limits a client.

An entity is a set of parts: a user, a client id, both, or an IP address. The name of a part is None for the
default entity. Checks and error messages are Kafka's. Quotas are enforced by coterie.server.quotas.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from coterie.addresses import java_address
from coterie.protocol.metadata_records import (
    ClientQuotaEntity,
    ClientQuotaRecord,
    MetadataRecord,
)
from coterie.server.metadata.cluster_log import ClusterLog

__all__ = [
    "CLIENT_ID",
    "CONNECTION_CREATION_RATE",
    "CONSUMER_BYTE_RATE",
    "CONTROLLER_MUTATION_RATE",
    "IP",
    "PRODUCER_BYTE_RATE",
    "REQUEST_PERCENTAGE",
    "USER",
    "ClientQuotas",
    "Entity",
    "Limit",
    "entity_text",
    "why_invalid",
]

_K = TypeVar("_K")

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

#: Type and name of each part of an entity.
Entity = frozenset[tuple[str, str | None]]

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_LARGEST: Final = {"LONG": 2**63 - 1, "INT": 2**31 - 1}
_CLIENT_KEYS: Final = {
    PRODUCER_BYTE_RATE: "LONG",
    CONSUMER_BYTE_RATE: "LONG",
    REQUEST_PERCENTAGE: "DOUBLE",
    CONTROLLER_MUTATION_RATE: "DOUBLE",
}
_IP_KEYS: Final = {CONNECTION_CREATION_RATE: "INT"}
#: How far a value may be from a whole number.
_EPSILON: Final = 1e-6
#: The name of a default entity in the index of limits. Users and client ids with quotas are not empty.
_DEFAULT: Final = ""


class Limit(NamedTuple):
    """The quota that applies to a client, and the user and client id of all clients that share it.

    None for the user or the client id means any.
    """

    rate: float
    shared_by: tuple[str | None, str | None]


class ClientQuotas:
    """Quotas by entity; one for all brokers of a cluster."""

    def __init__(self, cluster_log: ClusterLog) -> None:
        self._log = cluster_log
        cluster_log.attach(self)
        self._quotas: dict[Entity, dict[str, float]] = {}
        #: By key, then by user and client id; None for a part that the entity does not have.
        self._limits: dict[str, dict[tuple[str | None, str | None], float]] = {}
        self._connection_rates: dict[str, float] = {}
        #: Whether there is a quota of users or client ids, and one of IP addresses.
        self.limit_clients = False
        self.limit_connections = False

    # -- the log --------------------------------------------------------------------------------------

    @property
    def record_types(self) -> Sequence[type[MetadataRecord]]:
        return (ClientQuotaRecord,)

    def records(self) -> Iterator[MetadataRecord]:
        """The present quotas."""
        for entity, values in self._quotas.items():
            for key, value in values.items():
                yield _record(entity, key, value)

    def replay(self, record: ClientQuotaRecord) -> None:
        """Apply a record. A removal of an unknown quota changes nothing."""
        entity = frozenset((each.entity_type, each.entity_name) for each in record.entity)
        values = self._quotas.setdefault(entity, {})
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if not values:
            del self._quotas[entity]
        self._index(dict(entity), record)

    def _index(self, parts: Mapping[str, str | None], record: ClientQuotaRecord) -> None:
        names = {kind: _DEFAULT if name is None else name for kind, name in parts.items()}
        if IP in names:
            name = names[IP]
            _set(self._connection_rates, _address(name) or name, record)
        else:
            limits = self._limits.setdefault(record.key, {})
            _set(limits, (names.get(USER), names.get(CLIENT_ID)), record)
            if not limits:
                del self._limits[record.key]
        self.limit_clients = bool(self._limits)
        self.limit_connections = bool(self._connection_rates)

    # -- limits ---------------------------------------------------------------------------------------

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """The most specific quota of a client, in Kafka's order of precedence."""
        limits = self._limits.get(key)
        if limits is None:
            return None
        for wanted in (
            (user, client_id),
            (user, _DEFAULT),
            (user, None),
            (_DEFAULT, client_id),
            (_DEFAULT, _DEFAULT),
            (_DEFAULT, None),
            (None, client_id),
            (None, _DEFAULT),
        ):
            rate = limits.get(wanted)
            if rate is not None:
                has_user, has_client_id = (part is not None for part in wanted)
                return Limit(
                    rate, (user if has_user else None, client_id if has_client_id else None)
                )
        return None

    def connection_rate(self, address: str) -> float | None:
        """New connections that an IP address may make in a second, or None for any number."""
        return self._connection_rates.get(address, self._connection_rates.get(_DEFAULT))

    # -- requests -------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[tuple[Entity, Mapping[str, float]]]:
        return iter(self._quotas.items())

    def alter(self, changes: Iterable[tuple[Entity, Mapping[str, float | None]]]) -> None:
        """Set quotas, or remove those whose value is None; all are durable when this returns."""
        self._log.change(
            [
                _record(entity, key, value)
                for entity, values in changes
                for key, value in values.items()
                if self._quotas.get(entity, {}).get(key) != value
            ]
        )


def _record(entity: Entity, key: str, value: float | None) -> ClientQuotaRecord:
    parts = tuple(ClientQuotaEntity(*part) for part in sorted(entity, key=lambda part: part[0]))
    return ClientQuotaRecord(parts, key, value or 0.0, remove=value is None)


def _set(rates: dict[_K, float], key: _K, record: ClientQuotaRecord) -> None:
    if record.remove:
        rates.pop(key, None)
    else:
        rates[key] = record.value


def entity_text(parts: Iterable[tuple[str, str | None]]) -> str:
    """An entity as Kafka's error messages show it."""
    shown = (f"{kind}={'null' if name is None else name}" for kind, name in parts)
    return f"ClientQuotaEntity(entries={{{', '.join(shown)}}})"


def why_invalid(entity: Entity, values: Mapping[str, float | None]) -> str | None:
    """Kafka's message about an alteration that is not allowed, or None."""
    if not entity:
        return "Invalid empty client quota entity"
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    types = {kind for kind, _ in entity}
    if IP in types and len(types) > 1:
        return (
            "Invalid quota entity combination, IP entity should"
            "not be combined with User or ClientId"
        )
    keys = _CLIENT_KEYS
    if IP in types:
        keys = _IP_KEYS
        address = next(iter(entity))[1]
        if address is not None and _address(address) is None:
            return f"{address} is not a valid IP or resolvable host."
    wrong = (_why_wrong(keys, *each) for each in values.items() if each[1] is not None)
    return next((why for why in wrong if why), None)


def _why_wrong(keys: Mapping[str, str], key: str, value: float | None) -> str | None:
    kind = keys.get(key)
    if kind is None or value is None:
        return f"Invalid configuration key {key}"
    if value <= 0:
        return f"Quota {key} must be greater than 0"
    if kind in _LARGEST:
        if value > _LARGEST[kind]:
            article = "an" if kind == "INT" else "a"
            return f"Proposed value for {key} is too large for {article} {kind}."
        if value % 1 > _EPSILON:
            return f"{key} cannot be a fractional value."
    return None


def _address(host: str) -> str | None:
    """The address of a host, which may be one already, as Java prints it; None if there is none."""
    try:
        found = socket.getaddrinfo(host, None) if host else []
    except (OSError, UnicodeError):
        return None
    return java_address(str(found[0][4][0])) if found else None
