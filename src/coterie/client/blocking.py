"""The admin client for code that blocks: the same calls, run by a loop in a thread of its own.

A thread of its own, so that it works where a loop is running already, as in a notebook.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from coterie.client.admin import AdminClient
from coterie.client.network import Node
from coterie.client.record_batches import FetchedRecords
from coterie.client.reset import ResetPlan, To
from coterie.client.results import (
    Done,
    GroupChange,
    GroupDescription,
    GroupListing,
    GroupOffsets,
    LagResult,
    LogOffset,
    PartitionOffset,
    Result,
    TopicDescription,
    TopicPartition,
)
from coterie.errors import BrokerUnreachable, CoterieError
from coterie.protocol.group_state import GroupState, GroupType

if TYPE_CHECKING:
    from coterie.client.fetching import Fetching
    from coterie.client.results import ScramUser
    from coterie.security.acls import AclBinding, AclFilter
    from coterie.security.secrets import Secret

__all__ = ["BlockingAdminClient", "BlockingFetching"]

T = TypeVar("T")


class BlockingAdminClient:
    """See AdminClient: every call here is its call there, waited for."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._loop = asyncio.new_event_loop()
        # A daemon, so that a script that forgets `close` can still end.
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="coterie-admin", daemon=True
        )
        self._thread.start()
        self._closed = False

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
        """Close connections and end the thread; a second time does nothing."""
        if self._closed:
            return
        self._run(self._admin.close())
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __repr__(self) -> str:
        return repr(self._admin).replace("AdminClient", "BlockingAdminClient", 1)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise BrokerUnreachable("the client is closed; use it inside its `with` block")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C ends the waiting; what was waited for has to end as well.
            future.cancel()
            raise

    @property
    def requests(self) -> Counter[str]:
        """How many answers there were to requests of each API."""
        return self._admin.requests

    @property
    def single_lookups(self) -> int:
        return self._admin.single_lookups

    @property
    def nodes(self) -> list[Node]:
        return self._admin.nodes

    @property
    def cluster_id(self) -> str | None:
        return self._admin.cluster_id

    # -- groups ---------------------------------------------------------------------------------------

    def list_groups(
        self,
        *,
        states: Collection[GroupState | str] | None = None,
        types: Collection[GroupType | str] | None = None,
        protocol_types: Collection[str] | None = None,
        client_side: bool = False,
        timeout: float | None = None,
    ) -> Result[str, GroupListing]:
        return self._run(
            self._admin.list_groups(
                states=states,
                types=types,
                protocol_types=protocol_types,
                client_side=client_side,
                timeout=timeout,
            )
        )

    def describe_groups(
        self,
        groups: Iterable[str],
        *,
        authorized_operations: bool = False,
        deep: bool = False,
        timeout: float | None = None,
    ) -> Result[str, GroupDescription]:
        return self._run(
            self._admin.describe_groups(
                groups,
                authorized_operations=authorized_operations,
                deep=deep,
                timeout=timeout,
            )
        )

    def delete_groups(
        self, groups: Iterable[str], *, timeout: float | None = None
    ) -> Result[str, Done]:
        return self._run(self._admin.delete_groups(groups, timeout=timeout))

    def find_coordinators(
        self, groups: Iterable[str], *, timeout: float | None = None
    ) -> Result[str, Node]:
        return self._run(self._admin.find_coordinators(groups, timeout=timeout))

    def remove_members(
        self,
        group: str,
        *,
        member_ids: Collection[str] = (),
        instance_ids: Collection[str] = (),
        reason: str = "removed by an administrator",
        timeout: float | None = None,
    ) -> Result[str, Done]:
        return self._run(
            self._admin.remove_members(
                group,
                member_ids=member_ids,
                instance_ids=instance_ids,
                reason=reason,
                timeout=timeout,
            )
        )

    # -- offsets --------------------------------------------------------------------------------------

    def list_offsets(
        self, groups: Iterable[str], *, stable: bool = False, timeout: float | None = None
    ) -> Result[str, GroupOffsets]:
        return self._run(self._admin.list_offsets(groups, stable=stable, timeout=timeout))

    def lag(
        self,
        groups: Iterable[str],
        *,
        log_start: bool = False,
        topics: Iterable[str] | None = None,
        authorized_operations: bool = False,
        deep: bool = False,
        timeout: float | None = None,
    ) -> LagResult:
        return self._run(
            self._admin.lag(
                groups,
                log_start=log_start,
                topics=topics,
                authorized_operations=authorized_operations,
                deep=deep,
                timeout=timeout,
            )
        )

    def describe_with_offsets(
        self,
        groups: Iterable[str],
        *,
        authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> tuple[Result[str, GroupDescription], Result[str, GroupOffsets]]:
        return self._run(
            self._admin.describe_with_offsets(
                groups, authorized_operations=authorized_operations, timeout=timeout
            )
        )

    def alter_offsets(
        self,
        offsets: Mapping[str, Mapping[TopicPartition, int | PartitionOffset]],
        *,
        timeout: float | None = None,
    ) -> Result[str, GroupChange]:
        return self._run(self._admin.alter_offsets(offsets, timeout=timeout))

    def delete_offsets(
        self, partitions: Mapping[str, Iterable[TopicPartition]], *, timeout: float | None = None
    ) -> Result[str, GroupChange]:
        return self._run(self._admin.delete_offsets(partitions, timeout=timeout))

    def plan_reset(
        self,
        group: str,
        to: To,
        *,
        topics: Iterable[str | TopicPartition] | None = None,
        timeout: float | None = None,
    ) -> ResetPlan:
        return self._run(self._admin.plan_reset(group, to, topics=topics, timeout=timeout))

    def plan_resets(
        self,
        groups: Iterable[str],
        to: To,
        *,
        topics: Iterable[str | TopicPartition] | None = None,
        states: Mapping[str, GroupState] | None = None,
        timeout: float | None = None,
    ) -> Result[str, ResetPlan]:
        return self._run(
            self._admin.plan_resets(groups, to, topics=topics, states=states, timeout=timeout)
        )

    def reset_offsets(
        self, plan: ResetPlan, *, timeout: float | None = None
    ) -> Result[str, GroupChange]:
        return self._run(self._admin.reset_offsets(plan, timeout=timeout))

    # -- topics and brokers ---------------------------------------------------------------------------

    def brokers(self, *, timeout: float | None = None) -> list[Node]:
        return self._run(self._admin.brokers(timeout=timeout))

    def describe_topics(
        self, topics: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> Result[str, TopicDescription]:
        return self._run(self._admin.describe_topics(topics, timeout=timeout))

    def create_topics(
        self,
        topics: Mapping[str, int],
        *,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Result[str, Done]:
        return self._run(
            self._admin.create_topics(
                topics, replication_factor=replication_factor, configs=configs, timeout=timeout
            )
        )

    def describe_acls(
        self, wanted: AclFilter | None = None, *, timeout: float | None = None
    ) -> list[AclBinding]:
        return self._run(self._admin.describe_acls(wanted, timeout=timeout))

    def create_acls(
        self, acls: Iterable[AclBinding], *, timeout: float | None = None
    ) -> Result[AclBinding, Done]:
        return self._run(self._admin.create_acls(acls, timeout=timeout))

    def delete_acls(
        self, filters: Iterable[AclFilter], *, timeout: float | None = None
    ) -> Result[AclBinding, Done]:
        return self._run(self._admin.delete_acls(filters, timeout=timeout))

    def describe_users(
        self, names: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> Result[str, ScramUser]:
        return self._run(self._admin.describe_users(names, timeout=timeout))

    def alter_users(
        self,
        passwords: Mapping[str, str | Secret] | None = None,
        *,
        remove: Iterable[str] = (),
        mechanism: str = "SCRAM-SHA-512",
        iterations: int = 4096,
        timeout: float | None = None,
    ) -> Result[str, Done]:
        return self._run(
            self._admin.alter_users(
                passwords,
                remove=remove,
                mechanism=mechanism,
                iterations=iterations,
                timeout=timeout,
            )
        )

    def delete_topics(
        self, topics: Iterable[str], *, timeout: float | None = None
    ) -> Result[str, Done]:
        return self._run(self._admin.delete_topics(topics, timeout=timeout))

    def log_offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: str | datetime | int = "latest",
        *,
        isolation: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> Result[TopicPartition, LogOffset]:
        return self._run(
            self._admin.log_offsets(partitions, at, isolation=isolation, timeout=timeout)
        )

    def log_offsets_at(
        self,
        partitions: Iterable[TopicPartition],
        moments: Sequence[str | datetime | int],
        *,
        isolation: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> list[Result[TopicPartition, LogOffset]]:
        return self._run(
            self._admin.log_offsets_at(partitions, moments, isolation=isolation, timeout=timeout)
        )

    def fetch(
        self,
        partitions: Mapping[TopicPartition, int | tuple[int | None, int | None]],
        *,
        isolation: str = "read_uncommitted",
        max_bytes: int | None = None,
        max_records: int | None = None,
        skip_deleted: bool = False,
        timeout: float | None = None,
    ) -> BlockingFetching:
        async def begin() -> Fetching:
            return self._admin.fetch(
                partitions,
                isolation=isolation,
                max_bytes=max_bytes,
                max_records=max_records,
                skip_deleted=skip_deleted,
                timeout=timeout,
            )

        return BlockingFetching(self._run(begin()), self._run)


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
