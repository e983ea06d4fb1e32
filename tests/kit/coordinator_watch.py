"""Watches every coordinator of a test: what it is asked, answers and writes goes to a ShardHistory.

What this is: wrappers around the methods of CoordinatorShard, put there once per process by `install`, and
the histories of the shards in use. `check` holds what is left at the end of a test against the promises.
What this is not: a judge; see tests.kit.shard_history.
Who calls it: tests.kit.invariant_watch, for every test; tests.kit.server_watch, for shards in a server.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from coterie.coordinator import CoordinatorShard, GroupConfig, Outcome, RequestContext, TopicView
from coterie.protocol.schema import Request, Response
from coterie.protocol.types import Uuid
from tests.kit.broken_promises import BROKEN, BrokenPromises
from tests.kit.invariants import Marker, Written
from tests.kit.shard_history import ShardHistory

__all__ = ["COORDINATORS", "CoordinatorWatch", "install"]

#: Histories that are kept; a state machine makes thousands of shards, and the oldest are checked and let go.
_MOST: Final = 300


class CoordinatorWatch:
    """The histories of shards: those of the test itself, and those that a server hosts."""

    def __init__(self, broken: BrokenPromises) -> None:
        self._broken = broken
        # By identity: shards have no room for a mark. Whoever is in here stays alive, and so does its id.
        self._own: dict[int, ShardHistory] = {}
        self._hosted: dict[int, ShardHistory] = {}
        #: How many requests and other events there were since somebody set this to 0.
        self.steps = 0

    def born(self, shard: CoordinatorShard) -> None:
        while len(self._own) >= _MOST:
            self._let_go(self._own.pop(next(iter(self._own))))
        self._own[id(shard)] = ShardHistory(shard, [])

    def history(self, shard: CoordinatorShard) -> ShardHistory:
        key = id(shard)
        found = self._own.get(key) or self._hosted.get(key)
        if found is None:
            # Longer in use than it was remembered: from here on, without its log.
            found = self._own[key] = ShardHistory(shard, None)
        return found

    def host(self, shard: CoordinatorShard) -> ShardHistory:
        """A server has it, and a partition keeps its log."""
        self._own.pop(id(shard), None)
        history = self._hosted[id(shard)] = ShardHistory(shard, None)
        return history

    def forget(self, shard: CoordinatorShard) -> None:
        self._own.pop(id(shard), None)
        self._hosted.pop(id(shard), None)

    def tell(self, shard: CoordinatorShard, what: Callable[..., None], /, *arguments: Any) -> None:
        """Tell a shard's history of an event; what it finds wrong is raised, but not inside of a server."""
        self.steps += 1
        self._tell(what, self.history(shard), *arguments, at_once=id(shard) not in self._hosted)

    def _tell(self, what: Callable[..., None], /, *arguments: Any, at_once: bool) -> None:
        try:
            what(*arguments)
        except AssertionError as error:
            self._broken.add(error, at_once=at_once)

    def check(self) -> None:
        """The test is over, and with it its shards."""
        own, self._own = self._own, {}
        for history in own.values():
            self._let_go(history)
        # Those that were made to look at a log, just now.
        self._own.clear()

    def _let_go(self, history: ShardHistory) -> None:
        if history.served:
            self._tell(history.check, at_once=False)


COORDINATORS = CoordinatorWatch(BROKEN)


@functools.cache
def install() -> None:
    """Watch all shards of this process, from now on."""
    shard = CoordinatorShard
    for name, wrap in _WRAPPERS.items():
        setattr(shard, name, wrap(getattr(shard, name)))


def _wrap_init(original: Any) -> Any:
    @functools.wraps(original)
    def init(
        self: CoordinatorShard,
        partition: int,
        config: GroupConfig,
        overrides: Mapping[str, GroupConfig] = MappingProxyType({}),
    ) -> None:
        original(self, partition, config, overrides)
        COORDINATORS.born(self)

    return init


def _wrap_replay(original: Any) -> Any:
    @functools.wraps(original)
    def replay(self: CoordinatorShard, key: Any, value: Any) -> None:
        original(self, key, value)
        COORDINATORS.tell(self, ShardHistory.wrote, Written(key, value))

    return replay


def _wrap_replay_transactional(original: Any) -> Any:
    @functools.wraps(original)
    def replay(self: CoordinatorShard, producer_id: int, key: Any, value: Any) -> None:
        original(self, producer_id, key, value)
        COORDINATORS.tell(self, ShardHistory.wrote, Written(key, value, producer_id))

    return replay


def _wrap_end_transaction(original: Any) -> Any:
    @functools.wraps(original)
    def end_transaction(self: CoordinatorShard, producer_id: int, *, commit: bool) -> None:
        original(self, producer_id, commit=commit)
        COORDINATORS.tell(self, ShardHistory.wrote, Marker(producer_id, commit))

    return end_transaction


def _wrap_handle(original: Any) -> Any:
    @functools.wraps(original)
    def handle(self: CoordinatorShard, request: Request, context: RequestContext) -> Outcome:
        COORDINATORS.tell(self, ShardHistory.begin)
        outcome: Outcome = original(self, request, context)
        COORDINATORS.tell(self, ShardHistory.asked, request, context, outcome)
        return outcome

    return handle


def _wrap_delete_groups(original: Any) -> Any:
    @functools.wraps(original)
    def delete_groups(self: CoordinatorShard, group_ids: Iterable[str]) -> Outcome:
        COORDINATORS.tell(self, ShardHistory.begin)
        outcome: Outcome = original(self, group_ids)
        COORDINATORS.tell(self, ShardHistory.deleted, outcome)
        return outcome

    return delete_groups


def _wrap_forget_topic(original: Any) -> Any:
    @functools.wraps(original)
    def forget_topic(self: CoordinatorShard, name: str, topic_id: Uuid) -> Outcome:
        COORDINATORS.tell(self, ShardHistory.begin)
        outcome: Outcome = original(self, name, topic_id)
        COORDINATORS.tell(self, ShardHistory.expired, outcome)
        return outcome

    return forget_topic


def _wrap_tick(original: Any) -> Any:
    @functools.wraps(original)
    def tick(
        self: CoordinatorShard, monotonic: float, now_ms: int, topics: TopicView
    ) -> Iterator[Outcome]:
        COORDINATORS.tell(self, ShardHistory.begin)
        for outcome in original(self, monotonic, now_ms, topics):
            COORDINATORS.tell(self, ShardHistory.expired, outcome)
            yield outcome
        COORDINATORS.tell(self, ShardHistory.passed, monotonic)

    return tick


def _wrap_unload(original: Any) -> Any:
    @functools.wraps(original)
    def unload(self: CoordinatorShard) -> tuple[tuple[Hashable, Response], ...]:
        released: tuple[tuple[Hashable, Response], ...] = original(self)
        COORDINATORS.tell(self, ShardHistory.unloaded, released)
        return released

    return unload


_WRAPPERS: Final[dict[str, Callable[[Any], Any]]] = {
    "__init__": _wrap_init,
    "replay": _wrap_replay,
    "replay_transactional": _wrap_replay_transactional,
    "end_transaction": _wrap_end_transaction,
    "handle": _wrap_handle,
    "delete_groups": _wrap_delete_groups,
    "forget_topic": _wrap_forget_topic,
    "tick": _wrap_tick,
    "unload": _wrap_unload,
}
