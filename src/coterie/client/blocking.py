"""BlockingAdminClient: the calls of the admin client for code that blocks.

A loop in a thread of its own runs them, so that they work where another loop is running, as in a notebook.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from coterie.client.calls import AdminCalls
from coterie.client.network import Node
from coterie.errors import BrokerUnreachable, CoterieError

if TYPE_CHECKING:
    from coterie.client.fetching import Fetching
    from coterie.client.record_batches import FetchedRecords
    from coterie.client.results import TopicPartition

__all__ = ["BlockingAdminClient", "BlockingFetching"]

P = ParamSpec("P")
T = TypeVar("T")


class _LoopThread:
    """Runs coroutines of one client, and waits for them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon, so that a script that does not call `close` can still end.
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="coterie-admin", daemon=True
        )
        self._thread.start()
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise BrokerUnreachable("the client is closed; use it inside its `with` block")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C ends the waiting; the coroutine has to end as well.
            future.cancel()
            raise

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the `last` call and end the thread; a second time does nothing."""
        if self._closed:
            return
        self.run(last())
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _waiting(
    call: Callable[Concatenate[AdminCalls, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingAdminClient, P], T]:
    """The call with the same arguments, types and documentation, which waits for its result."""

    @functools.wraps(call)
    def wait(self: BlockingAdminClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        work: Coroutine[Any, Any, T] = getattr(self._admin, call.__name__)(*args, **kwargs)
        return self._thread.run(work)

    return wait


def _at_once(
    call: Callable[Concatenate[AdminCalls, P], T],
) -> Callable[Concatenate[BlockingAdminClient, P], T]:
    """The same for a call that has nothing to wait for."""

    @functools.wraps(call)
    def at_once(self: BlockingAdminClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return call(self._admin, *args, **kwargs)

    return at_once


def _fetching(
    call: Callable[Concatenate[AdminCalls, P], Fetching],
) -> Callable[Concatenate[BlockingAdminClient, P], BlockingFetching]:
    """The same for `fetch`, which has to be called inside of the loop and gives an iterator."""

    @functools.wraps(call)
    def fetch(self: BlockingAdminClient, /, *args: P.args, **kwargs: P.kwargs) -> BlockingFetching:
        async def begin() -> Fetching:
            return call(self._admin, *args, **kwargs)

        return BlockingFetching(self._thread.run(begin()), self._thread.run)

    return fetch


class BlockingAdminClient:
    """AdminClient for code that blocks: each call waits for its result."""

    def __init__(self, admin: AdminCalls) -> None:
        self._admin = admin
        self._thread = _LoopThread()

    list_groups = _waiting(AdminCalls.list_groups)
    describe_groups = _waiting(AdminCalls.describe_groups)
    delete_groups = _waiting(AdminCalls.delete_groups)
    find_coordinators = _waiting(AdminCalls.find_coordinators)
    expect_coordinators = _at_once(AdminCalls.expect_coordinators)
    remove_members = _waiting(AdminCalls.remove_members)

    list_offsets = _waiting(AdminCalls.list_offsets)
    lag = _waiting(AdminCalls.lag)
    describe_with_offsets = _waiting(AdminCalls.describe_with_offsets)
    alter_offsets = _waiting(AdminCalls.alter_offsets)
    delete_offsets = _waiting(AdminCalls.delete_offsets)
    plan_reset = _waiting(AdminCalls.plan_reset)
    plan_resets = _waiting(AdminCalls.plan_resets)
    reset_offsets = _waiting(AdminCalls.reset_offsets)

    brokers = _waiting(AdminCalls.brokers)
    describe_topics = _waiting(AdminCalls.describe_topics)
    create_topics = _waiting(AdminCalls.create_topics)
    delete_topics = _waiting(AdminCalls.delete_topics)
    log_offsets = _waiting(AdminCalls.log_offsets)
    log_offsets_at = _waiting(AdminCalls.log_offsets_at)
    fetch = _fetching(AdminCalls.fetch)

    describe_acls = _waiting(AdminCalls.describe_acls)
    create_acls = _waiting(AdminCalls.create_acls)
    delete_acls = _waiting(AdminCalls.delete_acls)
    describe_users = _waiting(AdminCalls.describe_users)
    alter_users = _waiting(AdminCalls.alter_users)

    @property
    def requests(self) -> Counter[str]:
        """Responses received, by API."""
        return self._admin.requests

    @property
    def single_lookups(self) -> int:
        """Coordinators looked up one by one, because a broker is older than KIP-699."""
        return self._admin.single_lookups

    @property
    def nodes(self) -> list[Node]:
        """The brokers in the last Metadata response; none before the first."""
        return self._admin.nodes

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id; None before the first Metadata response."""
        return self._admin.cluster_id

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections and end the thread; a second time does nothing."""
        self._thread.close(self._admin.close)

    def __repr__(self) -> str:
        return repr(self._admin).replace("AdminClient", "BlockingAdminClient", 1)


class BlockingFetching:
    """See Fetching: iterate over it; brokers read on while you work."""

    def __init__(self, fetching: Fetching, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._fetching = fetching
        self._run = run

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return self._fetching.positions

    @property
    def errors(self) -> dict[TopicPartition, CoterieError]:
        return self._fetching.errors

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> FetchedRecords:
        found: FetchedRecords | None = self._run(self._fetching.next())
        if found is None:
            raise StopIteration
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading; a second time does nothing."""
        self._run(self._fetching.close())
