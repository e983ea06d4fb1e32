"""What goes into the coordinator with a request, and what comes out: the types that the server sees.

Nothing here decides anything. `Step` is how handlers inside this package collect an outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Protocol

import msgspec

from coterie.error_codes import ErrorCode
from coterie.protocol.schema import RecordKey, RecordValue, Response
from coterie.protocol.types import Uuid

__all__ = ["Outcome", "Record", "Refused", "RequestContext", "Step", "Topic", "TopicView"]


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record to write; without a value it is a tombstone, and its version means nothing."""

    key: RecordKey
    value: RecordValue | None = None
    version: int = 0


class Outcome(msgspec.Struct, frozen=True):
    """What a step asks the server to do: write the records as one batch, replay them, then answer.

    With a producer id the batch is transactional and is replayed with `replay_transactional`.
    """

    records: tuple[Record, ...] = ()
    #: The answer to the request of this step; None parks the request under its token.
    response: Response | None = None
    #: Requests that were parked by earlier steps and are answered by this one.
    released: tuple[tuple[Hashable, Response], ...] = ()
    producer_id: int = -1
    producer_epoch: int = -1
    #: Whether the response may leave before earlier records of the shard are durable: it reveals nothing
    #: that a crash could take back, and must not wait for a slow disk.
    immediate: bool = False


class Topic(msgspec.Struct, frozen=True, gc=False):
    """A topic that exists: its partitions are numbered 0 to `partitions` - 1."""

    name: str
    topic_id: Uuid
    partitions: int


class TopicView(Protocol):
    """The topics of the cluster, as the server knows them at this moment."""

    @property
    def version(self) -> int:
        """Grows whenever a topic is created, deleted or gets more partitions, across restarts too."""
        ...

    def names(self) -> Iterable[str]: ...

    def by_name(self, name: str, /) -> Topic | None: ...

    def by_id(self, topic_id: Uuid, /) -> Topic | None: ...


class RequestContext(msgspec.Struct, frozen=True):
    """Who asks, when, and how to answer later."""

    #: Wall clock: for timestamps in records and for nothing else.
    now_ms: int
    #: Monotonic clock, in seconds: for timers.
    monotonic: float
    api_version: int
    client_id: str
    #: As Java prints an address: `/127.0.0.1`.
    client_host: str
    #: Names the request if it is parked; no other parked request may have it.
    token: Hashable
    #: Makes a member id out of its prefix: `prefix-<uuid>`.
    new_member_id: Callable[[str], str]
    topics: TopicView
    #: Of topics by name those that the caller may know of; None if that is all of them.
    visible: Callable[[Iterable[str]], Collection[str]] | None = None


class Refused(Exception):
    """A request that is answered with an error; raised while a step decides, and caught by its handler."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class Step:
    """One step under way: its time, and what it has written and answered so far."""

    __slots__ = ("monotonic", "now_ms", "records", "released")

    def __init__(self, monotonic: float, now_ms: int) -> None:
        self.monotonic = monotonic
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.released: dict[Hashable, Response] = {}

    def outcome(self, response: Response | None = None, token: Hashable = None) -> Outcome:
        """The outcome. A request that this very step parked and released again has its answer now."""
        if response is None and token is not None:
            response = self.released.pop(token, None)
        released = tuple(self.released.items()) if self.released else ()
        return Outcome(tuple(self.records), response, released)
