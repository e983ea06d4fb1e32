"""I12: a partial answer is never presented as complete. Watches every AdminClient of a test.

What this is: wrappers around the calls of AdminClient, put there once per process by `install`. Whatever was
asked about is in the answer, as an item or as an error, and `complete` is said of whole answers only. For a
list, which is asked of all brokers, also what each of them has said is looked at.
What this is not: a client. It sends nothing; it hears what the client hears.
Who calls it: tests.kit.invariant_watch, for every test; nothing is left to do after it.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from coterie.client.admin import AdminClient
from coterie.client.connection import Connection
from coterie.client.results import GroupChange, GroupListing, GroupOffsets, Result
from coterie.protocol.messages.cluster import MetadataResponse
from coterie.protocol.messages.groups import ListedGroup, ListGroupsResponse
from coterie.protocol.schema import Response
from tests.kit.broken_promises import BROKEN, BrokenPromises

__all__ = ["ClientWatch", "Heard", "check_answer", "check_list", "install"]

#: The calls that are about things by name, and the argument that has the names.
_CALLS: Final = {
    "describe_groups": "groups",
    "delete_groups": "groups",
    "find_coordinators": "groups",
    "list_offsets": "groups",
    "lag": "groups",
    "alter_offsets": "offsets",
    "delete_offsets": "partitions",
    "describe_topics": "topics",
    "create_topics": "topics",
    "delete_topics": "topics",
    "log_offsets": "partitions",
}


class Heard(NamedTuple):
    """One answer of one broker."""

    address: str
    response: Response


def check_answer(asked: Iterable[Any] | None, result: Result[Any, Any]) -> None:
    """I12, of a call about things by name; None if it was about all there are."""
    both = result.items.keys() & result.errors.keys()
    assert not both, f"I12: {both} have an answer and an error"
    if asked is not None:
        told = result.items.keys() | result.errors.keys()
        missing, more = set(asked) - told, told - set(asked)
        assert not missing, f"I12: {missing} are in no answer and no error"
        assert not more, f"I12: nobody asked about {more}"
    for item in result.items.values():
        if isinstance(item, GroupOffsets):
            _check_partitions(result, item.group_id, item.offsets, item.errors)
        elif isinstance(item, GroupChange):
            wanted = set(asked[item.group_id]) if isinstance(asked, Mapping) else None
            _check_partitions(result, item.group_id, item.done, item.errors, wanted)
    if result.complete:
        assert not result.errors, "I12: an answer with errors is called complete"
        assert not result.broker_errors, "I12: an answer without some brokers is called complete"


def _check_partitions(
    result: Result[Any, Any],
    group_id: str,
    done: Collection[Any],
    errors: Mapping[Any, str],
    wanted: set[Any] | None = None,
) -> None:
    both = set(done) & errors.keys()
    assert not both, f"I12: {both} of {group_id} have an answer and an error"
    if wanted is not None:
        missing = wanted - set(done) - errors.keys()
        assert not missing, f"I12: {missing} of {group_id} are in no answer and no error"
    assert not (errors and result.complete), f"I12: {group_id} has errors and is called complete"


def check_list(
    result: Result[str, GroupListing], heard: Iterable[Heard], kinds: Collection[str] | None
) -> None:
    """I12, of a list of all groups, or of those of some protocol types: each broker has its say."""
    lists: dict[str, ListGroupsResponse] = {}
    brokers: set[str] = set()
    for address, response in heard:
        if isinstance(response, ListGroupsResponse) and not response.error_code:
            lists[address] = response
        elif isinstance(response, MetadataResponse) and response.brokers:
            brokers = {f"{each.host}:{each.port}" for each in response.brokers}
    everybody = {each.group_id for each in _groups(lists.values())}
    more = result.items.keys() - everybody
    assert not more, f"I12: no broker has listed {more}"
    if not result.complete:
        return
    silent = brokers - lists.keys()
    assert not silent, f"I12: a list without {silent} is called complete"
    last = _groups(lists[each] for each in brokers)
    listed = {each.group_id for each in last if kinds is None or each.protocol_type in kinds}
    missing = listed - result.items.keys()
    assert not missing, f"I12: a list without {missing} is called complete"


def _groups(lists: Iterable[ListGroupsResponse]) -> Iterator[ListedGroup]:
    for each in lists:
        yield from each.groups


class ClientWatch:
    """Looks at the answers of calls, and at what a list has heard."""

    def __init__(self, broken: BrokenPromises) -> None:
        self._broken = broken
        #: What the call hears that is under way in this task, if it is one that is listened to.
        self.hears: ContextVar[list[Heard] | None] = ContextVar("hears", default=None)

    def check(self, judge: Callable[..., None], *arguments: Any) -> None:
        try:
            judge(*arguments)
        except AssertionError as error:
            self._broken.add(error)


_CLIENTS = ClientWatch(BROKEN)


@functools.cache
def install() -> None:
    """Watch all clients of this process, from now on."""
    for name, argument in _CALLS.items():
        setattr(AdminClient, name, _wrap_call(getattr(AdminClient, name), argument))
    AdminClient.list_groups = _wrap_list(AdminClient.list_groups)  # type: ignore[method-assign]
    Connection.ask = _wrap_ask(Connection.ask)  # type: ignore[method-assign]


def _wrap_call(original: Any, argument: str) -> Any:
    @functools.wraps(original)
    async def call(self: AdminClient, *given: Any, **options: Any) -> Any:
        asked = given[0] if given else options.pop(argument, None)
        if isinstance(asked, Iterator):
            asked = list(asked)  # it can be looked at once only
        result = await original(self, asked, *given[1:], **options)
        _CLIENTS.check(check_answer, asked, result)
        return result

    return call


def _wrap_list(original: Any) -> Any:
    @functools.wraps(original)
    async def list_groups(self: AdminClient, **options: Any) -> Any:
        heard: list[Heard] = []
        before = _CLIENTS.hears.set(heard)
        try:
            result = await original(self, **options)
        finally:
            _CLIENTS.hears.reset(before)
        kinds = options.get("protocol_types")
        kinds = {kinds} if isinstance(kinds, str) else kinds
        _CLIENTS.check(check_answer, None, result)
        if not options.get(
            "client_side"
        ):  # there the client filters, by what it is told of each group
            _CLIENTS.check(check_list, result, heard, kinds)
        return result

    return list_groups


def _wrap_ask(original: Callable[..., Awaitable[Response]]) -> Any:
    @functools.wraps(original)
    async def ask(self: Connection, *given: Any, **options: Any) -> Response:
        response = await original(self, *given, **options)
        hears = _CLIENTS.hears.get()
        if hears is not None:
            hears.append(Heard(self.address, response))
        return response

    return ask
