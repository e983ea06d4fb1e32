"""Finds a message by the words people and files use for it: a kind and a name."""

from __future__ import annotations

from functools import cache

from coterie.errors import CoterieError
from coterie.protocol.api import ApiKey
from coterie.protocol.group_records import record_types
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from coterie.protocol.messages.headers import RequestHeader, ResponseHeader
from coterie.protocol.schema import Message

__all__ = ["all_messages", "find_api", "find_message"]


@cache
def all_messages() -> dict[str, type[Message]]:
    """Every message by its name: `ListGroupsRequest`, `RequestHeader`, `OffsetCommitValue`, ..."""
    found: list[type[Message]] = [
        RequestHeader,
        ResponseHeader,
        ConsumerProtocolAssignment,
        ConsumerProtocolSubscription,
    ]
    for api in ApiKey:
        found += [api.request, api.response]
    for record in record_types().values():
        found += [record.key, record.value]
    return {cls.__name__: cls for cls in found}


def find_message(name: str) -> type[Message]:
    """A message by its name, in any case."""
    for known, cls in all_messages().items():
        if known.lower() == name.lower():
            return cls
    raise CoterieError(
        f"there is no message {name!r}; names are like ListGroupsRequest, ListGroupsResponse, "
        "RequestHeader, ConsumerProtocolSubscription or OffsetCommitValue"
    )


def find_api(name: str) -> ApiKey:
    """An API by its name in any case, or by its number."""
    for api in ApiKey:
        if name.lower() in (api.api_name.lower(), str(api.value)):
            return api
    raise CoterieError(f"there is no API {name!r}; names are like ListGroups, or numbers like 16")
