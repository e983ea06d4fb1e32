"""An error as an answer: the response of any API with the error code in all the places where it belongs.

For a handler that failed, for a fault on demand, for a broker that is stopping: the client must get a
well-formed answer of the API it asked, about the things it asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from coterie.protocol.schema import ArrayOf, Request, Response, Struct, StructOf, fields_of

__all__ = ["refusal"]

#: Names under which requests and responses list the same thing; "a.b" is b of every a.
_SAME = (
    ("groups_names", "results"),
    ("groups", "groups"),
    ("group_ids", "groups"),
    ("topics", "topics"),
    ("topic_names", "responses"),
    ("topics", "results"),
    ("topics", "responses"),
    ("topic_data", "responses"),
    ("coordinator_keys", "coordinators"),
    ("members", "members"),
    ("markers", "markers"),
    ("partitions", "partitions"),
    ("partition_data", "partition_responses"),
    ("partition_indexes", "partitions"),
    ("transactions", "results_by_transaction"),
    ("topics", "topic_results"),
    ("v3_and_below_topics", "results_by_topic_v3_and_below"),
    ("partitions", "results_by_partition"),
    ("transactional_ids", "transaction_states"),
    ("resources", "results"),
    ("resources", "responses"),
    ("creations", "results"),
    ("filters", "filter_results"),
    ("users", "results"),
    ("deletions", "results"),
    ("upsertions", "results"),
    ("entries", "entries"),
    ("entity", "entity"),
    ("topic_partitions", "replica_election_results"),
    ("partitions", "partition_result"),
    ("dirs.topics", "results"),
)

#: What says which thing is meant, in the response, and where the request has it.
_IDENTITIES = {
    "entity_name": ("entity_name",),
    "entity_type": ("entity_type",),
    "group_id": ("group_id",),
    "index": ("index",),
    "key": ("key",),
    "member_id": ("member_id",),
    "name": ("name",),
    "group_instance_id": ("group_instance_id",),
    "partition_index": ("partition_index", "partition"),
    "resource_name": ("resource_name",),
    "resource_type": ("resource_type",),
    "topic": ("topic",),
    "topic_name": ("name",),
    "topic_id": ("topic_id",),
    "transactional_id": ("transactional_id",),
    "user": ("name",),
    "partition": ("partition",),
    "partition_id": ("partition_id",),
    "producer_id": ("producer_id",),
}

#: Values that mean "none" where Kafka's schema says 0.
_NONE = {
    "base_offset": -1,
    "high_watermark": -1,
    "node_id": -1,
    "port": -1,
    "offset": -1,
    "committed_offset": -1,
}


def refusal(request: Request, response: type[Response], version: int, error_code: int) -> Response:
    """A response that says the error for everything the request named."""
    return cast("Response", _refuse(request, response, version, error_code))


def _refuse(request: Struct, cls: type[Struct], version: int, error_code: int) -> Any:
    values: dict[str, Any] = {}
    asked = {field.name for field in fields_of(type(request))}
    for field in fields_of(cls):
        if version not in field.versions:
            continue
        if field.name in ("error_code", "partition_error_code"):
            values[field.name] = error_code
        elif field.name == "producer_id" and issubclass(cls, Response):
            continue  # an id that is handed out: there is none with an error
        elif field.name in _NONE:
            values[field.name] = _NONE[field.name]
        elif isinstance(field.type, ArrayOf) and isinstance(field.type.element, StructOf):
            element = field.type.element.cls
            sources = [a for a, b in _SAME if b == field.name and a.split(".")[0] in asked]
            values[field.name] = tuple(
                _refuse_item(item, element, version, error_code)
                for source in sources
                for item in _listed(request, source)
            )
        else:
            for name in _IDENTITIES.get(field.name, ()):
                value = getattr(request, name, None)
                if name in asked and (value is not None or version in field.nullable):
                    values[field.name] = value
    return cls(**values)


def _listed(request: Struct, source: str) -> Iterator[Any]:
    first, _, rest = source.partition(".")
    for item in getattr(request, first) or ():
        if rest:
            yield from _listed(item, rest)
        else:
            yield item


def _refuse_item(item: Any, cls: type[Struct], version: int, error_code: int) -> Any:
    """One listed thing: a struct is refused in its turn, a bare name or number becomes the key."""
    if isinstance(item, Struct):
        return _refuse(item, cls, version, error_code)
    names = [field.name for field in fields_of(cls) if version in field.versions]
    key = next(name for name in _IDENTITIES if name in names)
    values = {key: item, "error_code": error_code, "partition_error_code": error_code} | _NONE
    return cls(**{name: value for name, value in values.items() if name in names})
