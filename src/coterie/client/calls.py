"""The calls of the admin client, for asyncio.

A call checks its arguments, starts its deadline, and leaves the rest to one of the client's parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self
from weakref import WeakSet

import msgspec

from coterie.client.arguments import (
    check_names,
    choice,
    is_read_committed,
    offsets_to_commit,
    span_of,
    timestamp_of,
)
from coterie.client.connection import RequestLog, RequestNote
from coterie.client.network import Deadline, Network, Node
from coterie.client.parts import Parts
from coterie.client.probing import OFFSETS_TOPIC
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
    ScramUser,
    TopicDescription,
    TopicPartition,
)
from coterie.client.settings import Properties, settings_of
from coterie.errors import InvalidArgument
from coterie.protocol.group_state import GroupState, GroupType

if TYPE_CHECKING:
    from coterie.client.fetching import Fetching
    from coterie.security.acls import AclBinding, AclFilter
    from coterie.security.secrets import Secret

__all__ = ["AdminCalls"]


class AdminCalls:
    """The calls of AdminClient."""

    def __init__(
        self,
        properties: Properties | None = None,
        *,
        on_request: RequestLog | None = None,
        **settings: object,
    ) -> None:
        self.settings = settings_of(properties, settings)
        #: Responses received, by API.
        self.requests: Counter[str] = Counter()
        self._on_request = on_request
        self._network = Network(self.settings, self._note)
        self._parts = Parts(self._network)
        #: Readings that are not closed; they end with the client.
        self._readings: WeakSet[Fetching] = WeakSet()

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
        """Close all connections; a second time does nothing."""
        for reading in list(self._readings):
            await reading.close()
        await self._network.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.settings.bootstrap_servers}>"

    @property
    def single_lookups(self) -> int:
        """Coordinators looked up one by one, because a broker is older than KIP-699."""
        return self._parts.coordinators.single_lookups

    @property
    def nodes(self) -> list[Node]:
        """The brokers in the last Metadata response; none before the first."""
        return list(self._network.nodes.values())

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id; None before the first Metadata response."""
        return self._network.cluster_id

    def _note(self, note: RequestNote) -> None:
        self.requests[note.api] += 1
        if self._on_request is not None:
            self._on_request(note)

    def _deadline(self, timeout: float | None) -> Deadline:
        self._network.check_open()
        if timeout is None:
            timeout = self.settings.default_api_timeout_ms / 1000
        if timeout <= 0:
            raise InvalidArgument(f"timeout is in seconds and more than 0, not {timeout!r}")
        return Deadline(timeout, self.settings)

    def _named(self, groups: Iterable[str]) -> list[str]:
        return check_names(groups, known=self._parts.coordinators)

    # -- groups ---------------------------------------------------------------------------------------

    async def list_groups(
        self,
        *,
        states: Collection[GroupState | str] | None = None,
        types: Collection[GroupType | str] | None = None,
        protocol_types: Collection[str] | None = None,
        client_side: bool = False,
        timeout: float | None = None,
    ) -> Result[str, GroupListing]:
        """All groups of the cluster, or those in some states, of some types, of some protocols.

        Brokers filter by state and type. A broker that is too old for that is an error, unless
        `client_side` allows to describe all groups and to filter here.
        """
        wanted = choice(GroupState, "states", states), choice(GroupType, "types", types)
        if isinstance(protocol_types, str):
            protocol_types = [protocol_types]
        if protocol_types is not None and not protocol_types:
            raise InvalidArgument("protocol_types is empty, and would list nothing; leave it out")
        deadline = self._deadline(timeout)
        result = await self._parts.groups.list_groups(*wanted, deadline, client_side=client_side)
        if protocol_types is None:
            return result.of(GroupListing)
        kinds = set(protocol_types)
        items = {key: item for key, item in result.items.items() if item.protocol_type in kinds}
        return Result(items, result.errors, result.broker_errors, GroupListing)

    async def describe_groups(
        self,
        groups: Iterable[str],
        *,
        authorized_operations: bool = False,
        deep: bool = False,
        timeout: float | None = None,
    ) -> Result[str, GroupDescription]:
        """State, members and assignments of groups of any kind, each by the API of its kind.

        `deep` reads what a broker leaves out (generation, leader and protocols, on Apache Kafka) from the
        groups' records in `__consumer_offsets`; that needs numpy, and READ on that topic.
        """
        deadline = self._deadline(timeout)
        # Logs that cannot be read in time must not take the descriptions with them.
        most = deadline.for_coordinators() if deep else deadline
        described = await self._parts.groups.describe(
            self._named(groups), most, operations=authorized_operations
        )
        return await self._parts.with_records(described, deadline) if deep else described

    async def delete_groups(
        self, groups: Iterable[str], *, timeout: float | None = None
    ) -> Result[str, Done]:
        """Delete groups that have no members, with their offsets; each has its own outcome.

        A group that does not exist when a lost request is repeated counts as deleted.
        """
        deadline = self._deadline(timeout)
        return await self._parts.groups.delete(self._named(groups), deadline)

    async def find_coordinators(
        self, groups: Iterable[str], *, timeout: float | None = None
    ) -> Result[str, Node]:
        """The brokers that coordinate groups, looked up again: by one request, where brokers can."""
        names = self._named(groups)
        return await self._parts.groups.find_coordinators(names, self._deadline(timeout))

    def expect_coordinators(
        self, coordinators: Mapping[str, Node], types: Mapping[str, GroupType] | None = None
    ) -> None:
        """Use what another client has found: the coordinators of groups, and their types if it knows them.

        It saves this client's requests for both. A coordinator that has moved since is looked up.
        """
        self._parts.coordinators.expect(coordinators, types or {})

    async def remove_members(
        self,
        group: str,
        *,
        member_ids: Collection[str] = (),
        instance_ids: Collection[str] = (),
        reason: str = "removed by an administrator",
        timeout: float | None = None,
    ) -> Result[str, Done]:
        """Remove members from a group: those named, or all of them."""
        self._named([group])
        deadline = self._deadline(timeout)
        return await self._parts.groups.remove_members(
            group, member_ids, instance_ids, reason, deadline
        )

    # -- offsets --------------------------------------------------------------------------------------

    async def list_offsets(
        self, groups: Iterable[str], *, stable: bool = False, timeout: float | None = None
    ) -> Result[str, GroupOffsets]:
        """What groups have committed: one request per coordinator where brokers can (KIP-709).

        With `stable`, offsets that an open transaction may still change are waited for.
        """
        deadline = self._deadline(timeout)
        return await self._parts.offsets.read(self._named(groups), deadline, stable=stable)

    async def lag(
        self,
        groups: Iterable[str],
        *,
        log_start: bool = False,
        topics: Iterable[str] | None = None,
        authorized_operations: bool = False,
        deep: bool = False,
        timeout: float | None = None,
    ) -> LagResult:
        """Lag of groups by partition, with the member that has the partition.

        Commits are read first and the ends of the logs afterwards, each end once, so no lag is negative
        because a group was faster than the reader. `log_start` costs one more request per leader. With
        `topics`, leaders are asked about these alone, and the answer has no others; commits outlive their
        topic, so those of a deleted topic are in it as they are without `topics`.

        The result has the descriptions and the offsets that lag is computed from, those of all topics;
        `authorized_operations` and `deep` are those of `describe_groups`.
        """
        names = self._named(groups)
        chosen = None if topics is None else frozenset(check_names(topics, "topic"))
        deadline = self._deadline(timeout)
        result = await self._parts.lags.lag(
            names, deadline, log_start=log_start, topics=chosen, operations=authorized_operations
        )
        if not deep:
            return result
        described = await self._parts.with_records(result.descriptions, deadline)
        return msgspec.structs.replace(result, descriptions=described)

    async def describe_with_offsets(
        self,
        groups: Iterable[str],
        *,
        authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> tuple[Result[str, GroupDescription], Result[str, GroupOffsets]]:
        """Descriptions and committed offsets of groups, requested at the same time.

        `coterie.client.lag` computes lag from them, for callers who have the ends of logs already.
        """
        names = self._named(groups)
        return await self._parts.lags.describe_with_offsets(
            names, self._deadline(timeout), operations=authorized_operations
        )

    async def alter_offsets(
        self,
        offsets: Mapping[str, Mapping[TopicPartition, int | PartitionOffset]],
        *,
        timeout: float | None = None,
    ) -> Result[str, GroupChange]:
        """Commit offsets for groups without members; a group that does not exist is created."""
        wanted = {group: offsets_to_commit(group, offsets[group]) for group in self._named(offsets)}
        return await self._parts.offsets.commit(wanted, self._deadline(timeout))

    async def delete_offsets(
        self,
        partitions: Mapping[str, Iterable[TopicPartition]],
        *,
        timeout: float | None = None,
    ) -> Result[str, GroupChange]:
        """Delete committed offsets of topics that no member of the group subscribes to."""
        wanted = {group: tuple(partitions[group]) for group in self._named(partitions)}
        for group, theirs in wanted.items():
            if not theirs:
                raise InvalidArgument(f"group {group!r}: no partition is given")
        return await self._parts.offsets.delete(wanted, self._deadline(timeout))

    async def plan_reset(
        self,
        group: str,
        to: To,
        *,
        topics: Iterable[str | TopicPartition] | None = None,
        timeout: float | None = None,
    ) -> ResetPlan:
        """Where a group's offsets would go; nothing is changed.

        A topic stands for all its partitions; without topics, all partitions that the group has committed.
        """
        return (await self.plan_resets([group], to, topics=topics, timeout=timeout))[group]

    async def plan_resets(
        self,
        groups: Iterable[str],
        to: To,
        *,
        topics: Iterable[str | TopicPartition] | None = None,
        states: Mapping[str, GroupState] | None = None,
        timeout: float | None = None,
    ) -> Result[str, ResetPlan]:
        """What `plan_reset` returns, for many groups: each broker is asked once about all of them.

        A group with members is an error. Groups whose state the caller knows, from a list or a description,
        are not described again.
        """
        names = self._named(groups)
        if to.kind == "group" and to.group_id not in names:
            self._named([to.group_id])
        return await self._parts.resets.plan(
            names, to, topics, states or {}, self._deadline(timeout)
        )

    async def reset_offsets(
        self, plan: ResetPlan, *, timeout: float | None = None
    ) -> Result[str, GroupChange]:
        """Commit the offsets of a plan."""
        if not plan.targets:
            raise InvalidArgument(f"the plan for group {plan.group_id!r} moves no partition")
        return await self.alter_offsets({plan.group_id: plan.targets}, timeout=timeout)

    # -- topics and logs ------------------------------------------------------------------------------

    async def brokers(self, *, timeout: float | None = None) -> list[Node]:
        """The brokers of the cluster, as one of them returns them."""
        # With the leaders that a list of groups starts from, which then need no request of their own.
        await self._network.refresh(self._deadline(timeout), (OFFSETS_TOPIC,))
        return self.nodes

    async def describe_topics(
        self, topics: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> Result[str, TopicDescription]:
        """Topics with their partitions and leaders; all of them, if none is named."""
        names = None if topics is None else check_names(topics, "topic")
        return await self._parts.topics.describe(names, self._deadline(timeout))

    async def create_topics(
        self,
        topics: Mapping[str, int],
        *,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Result[str, Done]:
        """Create topics, each with its number of partitions."""
        wanted = {name: topics[name] for name in check_names(topics, "topic")}
        deadline = self._deadline(timeout)
        return await self._parts.topics.create(wanted, replication_factor, configs or {}, deadline)

    async def delete_topics(
        self, topics: Iterable[str], *, timeout: float | None = None
    ) -> Result[str, Done]:
        """Delete topics."""
        deadline = self._deadline(timeout)
        return await self._parts.topics.delete(check_names(topics, "topic"), deadline)

    async def log_offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: str | datetime | int = "latest",
        *,
        isolation: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> Result[TopicPartition, LogOffset]:
        """Where logs begin (`at="earliest"`), end (`"latest"`), or are at a time.

        A time is a datetime or milliseconds since 1970; the offset is -1 if no record is that late. For
        readers of committed records, a log ends where the first open transaction begins.
        """
        committed = is_read_committed(isolation)
        timestamp, deadline = timestamp_of(at), self._deadline(timeout)
        return await self._parts.logs.offsets(partitions, timestamp, deadline, committed=committed)

    async def log_offsets_at(
        self,
        partitions: Iterable[TopicPartition],
        moments: Sequence[str | datetime | int],
        *,
        isolation: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> list[Result[TopicPartition, LogOffset]]:
        """What `log_offsets` returns for each of several moments, in their order.

        Leaders are looked up once for all moments. Each leader is then asked once for each moment, all at
        the same time: a ListOffsets request has at most one moment for a partition.
        """
        committed = is_read_committed(isolation)
        timestamps = [timestamp_of(each) for each in moments]
        deadline = self._deadline(timeout)
        return await self._parts.logs.offsets_at(
            partitions, timestamps, deadline, committed=committed
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
    ) -> Fetching:
        """Read raw record batches of partitions, each from an offset or between two.

            async with admin.fetch({TopicPartition("orders", 0): (0, 500)}) as reading:
                async for batch in reading:
                    columns = batch.columns()

        The second offset is not included. Without it a partition is read to its end as it is when reading
        begins; without the first, from its beginning. Reading stops early, without an error, after the
        batch with which `max_bytes` or `max_records` are reached; `positions` says where. Records that
        were deleted before they could be read are an error, or skipped. `timeout` is for the whole reading;
        without it, reading takes as long as records keep coming.
        """
        from coterie.client.fetching import FetchPlan

        committed = is_read_committed(isolation)
        for name, budget in {"max_bytes": max_bytes, "max_records": max_records}.items():
            if budget is not None and budget <= 0:
                raise InvalidArgument(f"{name} is more than 0, not {budget!r}")
        spans = {key: span_of(key, span) for key, span in partitions.items()}
        patience = self._deadline(None)
        whole = None if timeout is None else self._deadline(timeout)
        fetching = self._parts.logs.fetch(
            FetchPlan(spans, committed, skip_deleted, max_bytes, max_records),
            patience.restarted if whole is None else partial(whole.within, patience.left),
        )
        self._readings.add(fetching)
        return fetching

    # -- ACLs and users -------------------------------------------------------------------------------

    async def describe_acls(
        self, wanted: AclFilter | None = None, *, timeout: float | None = None
    ) -> list[AclBinding]:
        """The ACLs that a filter matches; all of them without one."""
        return await self._parts.acls.describe(wanted, self._deadline(timeout))

    async def create_acls(
        self, acls: Iterable[AclBinding], *, timeout: float | None = None
    ) -> Result[AclBinding, Done]:
        """Add ACLs; an ACL that exists already is not an error."""
        return await self._parts.acls.create(list(acls), self._deadline(timeout))

    async def delete_acls(
        self, filters: Iterable[AclFilter], *, timeout: float | None = None
    ) -> Result[AclBinding, Done]:
        """Remove all ACLs that match any of the filters; the result has those that were removed."""
        return await self._parts.acls.delete(filters, self._deadline(timeout))

    async def describe_users(
        self, names: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> Result[str, ScramUser]:
        """Users that can log in by SCRAM, with their mechanisms; never a key."""
        return await self._parts.acls.describe_users(names, self._deadline(timeout))

    async def alter_users(
        self,
        passwords: Mapping[str, str | Secret] | None = None,
        *,
        remove: Iterable[str] = (),
        mechanism: str = "SCRAM-SHA-512",
        iterations: int = 4096,
        timeout: float | None = None,
    ) -> Result[str, Done]:
        """Set passwords of a mechanism, and remove those of other users. Passwords are hashed here."""
        deadline = self._deadline(timeout)
        return await self._parts.acls.alter_users(
            passwords or {}, remove, mechanism, iterations, deadline
        )
