"""Client quotas of a cluster (KIP-546), as records of the cluster's log.

An entity is a set of parts: a user, a client id, both, or an IP address. The name of a part is None for the
default entity. Checks and error messages are Kafka's.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from coterie.protocol.metadata_records import (
    ClientQuotaEntity,
    ClientQuotaRecord,
    MetadataRecord,
)
from coterie.server.metadata.cluster_log import ClusterLog

__all__ = ["CLIENT_ID", "IP", "USER", "ClientQuotas", "Entity", "entity_text", "why_invalid"]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

#: Type and name of each part of an entity.
Entity = frozenset[tuple[str, str | None]]

_LARGEST: Final = {"LONG": 2**63 - 1, "INT": 2**31 - 1}
_CLIENT_KEYS: Final = {
    "producer_byte_rate": "LONG",
    "consumer_byte_rate": "LONG",
    "request_percentage": "DOUBLE",
    "controller_mutation_rate": "DOUBLE",
}
_IP_KEYS: Final = {"connection_creation_rate": "INT"}
#: How far a value may be from a whole number.
_EPSILON: Final = 1e-6


class ClientQuotas:
    """Quotas by entity; one for all brokers of a cluster."""

    def __init__(self, cluster_log: ClusterLog) -> None:
        self._log = cluster_log
        cluster_log.attach(self)
        self._quotas: dict[Entity, dict[str, float]] = {}

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
        if address is not None and not _resolves(address):
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


def _resolves(address: str) -> bool:
    """Whether this is an IP address, or a host name that has one."""
    try:
        socket.getaddrinfo(address, None)
    except (OSError, UnicodeError):
        return False
    return True
