"""What all calls of the admin client have in common: settings, connections, deadlines, sane arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar
from weakref import WeakSet

from coterie.client.connection import RequestLog, RequestNote
from coterie.client.coordinators import Controller, Coordinators, Leaders
from coterie.client.listing_cache import ListingCache
from coterie.client.network import Deadline, Network, Node
from coterie.client.results import Result
from coterie.client.routing import Ask, Routed
from coterie.client.settings import ClientSettings, read_properties
from coterie.errors import InvalidArgument

if TYPE_CHECKING:
    from coterie.client.fetching import Fetching

__all__ = ["ClientBase", "Properties", "settings_of"]

T = TypeVar("T")

#: Settings by name, or the path of a `client.properties` file.
Properties = Mapping[str, object] | str | PathLike[str]

#: A name is written behind its size in two bytes.
_LONGEST_ID: Final = 32767


def settings_of(properties: Properties | None, more: Mapping[str, object]) -> ClientSettings:
    """Settings from a dict or a file; keyword arguments overrule it."""
    if isinstance(properties, (str, PathLike)):
        properties = read_properties(properties)
    return ClientSettings.of({**(properties or {}), **more})


class ClientBase:
    """Opens with `async with`, or with the first call; `close` ends it."""

    def __init__(
        self,
        properties: Properties | None = None,
        *,
        on_request: RequestLog | None = None,
        **settings: object,
    ) -> None:
        self.settings = settings_of(properties, settings)
        #: How many answers there were to requests of each API.
        self.requests: Counter[str] = Counter()
        self._on_request = on_request
        self._network = Network(self.settings, self._note)
        self._coordinators = Coordinators(self._network)
        self._listings = ListingCache()
        self._leaders = Leaders(self._network)
        self._controller = Controller(self._network)
        #: Those that nobody has closed; they end with the client.
        self._readings: WeakSet[Fetching] = WeakSet()

    def _note(self, note: RequestNote) -> None:
        self.requests[note.api] += 1
        if self._on_request is not None:
            self._on_request(note)

    @property
    def single_lookups(self) -> int:
        """Coordinators looked up one by one, because a broker is older than KIP-699."""
        return self._coordinators.single_lookups

    @property
    def nodes(self) -> list[Node]:
        """The brokers as the last answer showed them, without asking; none before the first."""
        return list(self._network.nodes.values())

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id, once a broker has told it."""
        return self._network.cluster_id

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        for reading in list(self._readings):
            await reading.close()
        await self._network.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.settings.bootstrap_servers}>"

    # -- for the calls --------------------------------------------------------------------------------

    def _deadline(self, timeout: float | None) -> Deadline:
        self._network.check_open()
        if timeout is None:
            timeout = self.settings.default_api_timeout_ms / 1000
        if timeout <= 0:
            raise InvalidArgument(f"timeout is in seconds and more than 0, not {timeout!r}")
        return Deadline(timeout, self.settings)

    async def _per_coordinator(
        self, groups: Iterable[str], deadline: Deadline, ask: Ask[str, T]
    ) -> Result[str, T]:
        limit = self.settings.max_request_size
        return await Routed(self._coordinators, deadline, ask, limit).run(groups)

    def _checked(self, ids: Iterable[str], what: str = "group") -> list[str]:
        """The names, if all of them can be meant. What a list has shown is right, however odd."""
        if isinstance(ids, str):
            raise InvalidArgument(f"give a list of {what} names, not the single string {ids!r}")
        found = list(ids)
        for name in found:
            if not isinstance(name, str):
                raise InvalidArgument(f"a {what} has a name, a string, and not {name!r}")
            if name not in self._coordinators:
                _check_name(name, what)
        for name, times in Counter(found).items():
            if times > 1:
                raise InvalidArgument(f"{what} {name!r} is given {times} times; give it once")
        return found


def _check_name(name: str, what: str) -> None:
    if not name:
        raise InvalidArgument(f"a {what} name is empty; leave it out, or give the name")
    if "\0" in name:
        raise InvalidArgument(f"{what} {name!r} has a null byte in its name; leave that out")
    size = len(name.encode(errors="surrogatepass"))
    if size > _LONGEST_ID:
        raise InvalidArgument(
            f"a {what} name has {size} bytes, and {_LONGEST_ID} is the most; it begins {name[:40]!r}"
        )
    if not _encodes(name):
        raise InvalidArgument(f"{what} {name!r} cannot be written in UTF-8; give it as text")


def _encodes(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
