"""Requests about client quotas whose answers Kafka determines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coterie.protocol.messages.quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)
from coterie.protocol.schema import Request

__all__ = ["alterations", "descriptions", "removals", "wrong_alterations"]

_RATE = "producer_byte_rate"


def _entity(**names: str | None) -> tuple[EntityData, ...]:
    return tuple(EntityData(kind.replace("_", "-"), name) for kind, name in names.items())


def _alter(
    entity: tuple[EntityData, ...], *ops: OpData, validate_only: bool = False
) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest((AlterClientQuotasEntry(entity, ops),), validate_only)


def wrong_alterations() -> Iterator[tuple[str, Request, int]]:
    """Alterations with errors; one is none: the last of two users in one entity is used."""
    alice = _entity(user="alice")
    entities: Mapping[str, tuple[EntityData, ...]] = {
        "no entity": (),
        "an unknown type": _entity(group="g"),
        "an empty type": (EntityData("", "x"),),
        "an empty user": _entity(user=""),
        "an empty client id": _entity(client_id=""),
        "an empty ip": _entity(ip=""),
        "ip and user": _entity(ip="127.0.0.1", user="alice"),
        "ip and client id": _entity(ip=None, client_id="app"),
        "a bad ip": _entity(ip="no such host.invalid"),
        "a user twice": (EntityData("user", "alice"), EntityData("user", "bob")),
    }
    for title, entity in entities.items():
        yield f"alter quotas, {title}", _alter(entity, OpData(_RATE, 1.0)), 1
    ops: Mapping[str, OpData] = {
        "unknown key": OpData("nonsense", 1.0),
        "empty key": OpData("", 1.0),
        "negative": OpData(_RATE, -1.0),
        "zero": OpData("request_percentage", 0.0),
        "fraction": OpData(_RATE, 1.5),
        "tiny fraction": OpData("consumer_byte_rate", 0.00000001),
        "too large": OpData(_RATE, 1e300),
        "key of an ip": OpData("connection_creation_rate", 1.0),
        "removal of an unknown key": OpData("nonsense", 0.0, remove=True),
        "not a number": OpData("request_percentage", float("nan")),
        "infinite": OpData("request_percentage", float("inf")),
    }
    for title, op in ops.items():
        yield f"alter quotas, {title}", _alter(alice, op, validate_only=True), 1
    local = _entity(ip="127.0.0.1")
    for value in (-1.0, 2.5, 3e9):
        op = OpData("connection_creation_rate", value)
        yield f"alter quotas, ip {value}", _alter(local, op), 1
    yield "alter quotas, key of a client", _alter(local, OpData(_RATE, 9.0)), 1
    twice = (OpData(_RATE, 1.0), OpData(_RATE, 2.0))
    yield "alter quotas, a key twice", _alter(alice, *twice), 1
    entry = AlterClientQuotasEntry(alice, (OpData(_RATE, 3.0),))
    yield (
        "alter quotas, an entity twice",
        AlterClientQuotasRequest((entry, entry), validate_only=True),
        1,
    )
    yield "alter quotas, nothing", AlterClientQuotasRequest(), 1
    yield "alter quotas, no change", _alter(alice), 0


def alterations() -> Iterator[tuple[str, Request, int]]:
    """Quotas for seven entities."""
    rate = (OpData(_RATE, 1_000_000_000.0), OpData("request_percentage", 5000.5))
    yield "alter quotas of a user", _alter(_entity(user="alice"), *rate), 1
    yield "alter quotas of the default user", _alter(_entity(user=None), *rate), 0
    yield "alter quotas of a client", _alter(_entity(client_id="app"), *rate), 1
    yield "alter quotas of both", _alter(_entity(user="alice", client_id="app"), *rate), 1
    yield "alter quotas of both, default", _alter(_entity(client_id=None, user="alice"), *rate), 1
    connections = OpData("connection_creation_rate", 1_000.0)
    yield "alter quotas of an ip", _alter(_entity(ip="10.1.2.3"), connections), 1
    yield "alter quotas of the default ip", _alter(_entity(ip=None), connections), 1
    op = OpData("controller_mutation_rate", 12.0)
    yield "check quotas", _alter(_entity(user="alice"), op, validate_only=True), 1


def descriptions() -> Iterator[tuple[str, Request, int]]:
    """Filters of every kind, right and wrong."""
    user, client, ip = "user", "client-id", "ip"
    filters: Mapping[str, tuple[ComponentData, ...]] = {
        "all": (),
        "a user": (ComponentData(user, 0, "alice"),),
        "an unknown user": (ComponentData(user, 0, "nobody"),),
        "the default user": (ComponentData(user, 1, None),),
        "any user": (ComponentData(user, 2, None),),
        "any client": (ComponentData(client, 2, None),),
        "any ip": (ComponentData(ip, 2, None),),
        "both": (ComponentData(user, 0, "alice"), ComponentData(client, 2, None)),
        "exact null": (ComponentData(user, 0, None),),
        "default with a name": (ComponentData(user, 1, "alice"),),
        "any with a name": (ComponentData(user, 2, "alice"),),
        "match type 3": (ComponentData(user, 3, None),),
        "negative match type": (ComponentData(user, -1, "x"),),
        "empty type": (ComponentData("", 0, "x"),),
        "unknown type": (ComponentData("group", 0, "x"),),
        "type twice": (ComponentData(user, 0, "alice"), ComponentData(user, 1, None)),
        "ip and user": (ComponentData(ip, 2, None), ComponentData(user, 2, None)),
    }
    for title, components in filters.items():
        for strict in (False, True):
            request = DescribeClientQuotasRequest(components, strict)
            yield f"quotas of {title}, strict {strict}", request, 1
    yield "quotas v0", DescribeClientQuotasRequest(filters["both"]), 0


def removals() -> Iterator[tuple[str, Request, int]]:
    """Removal of what `alterations` added."""
    for entity in (
        _entity(user="alice"), _entity(user=None), _entity(client_id="app"),
        _entity(user="alice", client_id="app"), _entity(user="alice", client_id=None),
    ):  # fmt: skip
        keys = (_RATE, "request_percentage", "consumer_byte_rate")
        ops = (OpData(key, 0.0, remove=True) for key in keys)
        yield f"remove quotas of {entity}", _alter(entity, *ops), 1
    for name in ("10.1.2.3", None):
        op = OpData("connection_creation_rate", 0.0, remove=True)
        yield f"remove quotas of ip {name}", _alter(_entity(ip=name), op), 1
