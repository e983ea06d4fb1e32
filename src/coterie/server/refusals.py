"""An error as an answer: the response of any API with the error code in all the places where it belongs.

For a handler that failed, for a fault on demand, for a broker that is stopping: the client must get a
well-formed answer of the API it asked, about the things it asked for.
"""

from __future__ import annotations

from typing import Any, cast

from coterie.protocol.schema import ArrayOf, Request, Response, Struct, StructOf, fields_of

__all__ = ["refusal"]

#: Names under which requests and responses list the same thing.
_SAME = (
    ("groups_names", "results"),
    ("groups", "groups"),
    ("group_ids", "groups"),
    ("topics", "topics"),
    ("topics", "responses"),
    ("topic_data", "responses"),
    ("coordinator_keys", "coordinators"),
    ("members", "members"),
    ("partitions", "partitions"),
    ("partition_data", "partition_responses"),
    ("partition_indexes", "partitions"),
)


def refusal(request: Request, response: type[Response], version: int, error_code: int) -> Response:
    """A response that says the error for everything the request named."""
    return cast("Response", _refuse(request, response, version, error_code))


def _refuse(request: Struct, cls: type[Struct], version: int, error_code: int) -> Any:
    values: dict[str, Any] = {}
    asked = {field.name for field in fields_of(type(request))}
    for field in fields_of(cls):
        if version not in field.versions:
            continue
        if field.name == "error_code":
            values["error_code"] = error_code
        elif isinstance(field.type, ArrayOf) and isinstance(field.type.element, StructOf):
            source = next((a for a, b in _SAME if b == field.name and a in asked), None)
            if source is not None:
                element = field.type.element.cls
                items = getattr(request, source) or ()
                values[field.name] = tuple(
                    _refuse_item(item, element, version, error_code) for item in items
                )
        elif field.name in asked:
            values[field.name] = getattr(request, field.name)
    return cls(**values)


def _refuse_item(item: Any, cls: type[Struct], version: int, error_code: int) -> Any:
    """One listed thing: a struct is refused in its turn, a bare name or number becomes the key."""
    if isinstance(item, Struct):
        return _refuse(item, cls, version, error_code)
    names = [field.name for field in fields_of(cls) if version in field.versions]
    key = next(
        name for name in ("group_id", "key", "name", "partition_index", "index") if name in names
    )
    values = {key: item, "error_code": error_code}
    return cls(**{name: value for name, value in values.items() if name in names})
