"""The calls about topics, as far as group administration needs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from coterie.client.base import ClientBase
from coterie.client.network import Deadline, Node, together
from coterie.client.results import (
    Done,
    LogOffset,
    PartitionInfo,
    Result,
    TopicDescription,
    TopicPartition,
)
from coterie.client.routing import Failure, Routed, is_final_in_lookup
from coterie.errors import CoterieError, InvalidArgument, kafka_error
from coterie.protocol.types import Uuid

if TYPE_CHECKING:
    from coterie.client.fetching import Fetching
    from coterie.protocol.messages.topics import DeleteTopicsResponse

__all__ = ["EARLIEST", "LATEST", "TopicCalls"]

#: ListOffsets' words for the end and the beginning of a log.
LATEST: Final = -1
EARLIEST: Final = -2


class TopicCalls(ClientBase):
    """A part of AdminClient."""

    async def brokers(self, *, timeout: float | None = None) -> list[Node]:  # noqa: ASYNC109
        """The brokers of the cluster, as one of them tells it."""
        await self._network.refresh(self._deadline(timeout))
        return list(self._network.nodes.values())

    async def describe_topics(
        self,
        topics: Iterable[str] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[str, TopicDescription]:
        """Topics with their partitions and leaders; all of them, if none is named."""
        names = None if topics is None else tuple(self._checked(topics, "topic"))
        answer = await self._network.refresh(self._deadline(timeout), names)
        items: dict[str, TopicDescription] = {}
        errors: dict[str, CoterieError] = {}
        for topic in answer.topics:
            name = topic.name or ""
            if topic.error_code:
                errors[name] = kafka_error(topic.error_code, f"topic {name!r}")
                continue
            partitions = tuple(
                PartitionInfo(
                    each.partition_index,
                    each.leader_id if each.leader_id >= 0 else None,
                    each.replica_nodes,
                    each.isr_nodes,
                )
                for each in sorted(topic.partitions, key=lambda each: each.partition_index)
            )
            topic_id = None if topic.topic_id == Uuid.ZERO else str(topic.topic_id)
            items[name] = TopicDescription(name, topic.is_internal, partitions, topic_id)
        return Result(items, errors, kind=TopicDescription)

    async def create_topics(
        self,
        topics: Mapping[str, int],
        *,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[str, Done]:
        """Create topics, each with its number of partitions."""
        from coterie.protocol.messages.topics import (  # noqa: PLC0415 - seldom needed
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
            CreateTopicsResponse,
        )

        names = self._checked(topics, "topic")
        deadline = self._deadline(timeout)
        settings = tuple(
            CreatableTopicConfig(name, value) for name, value in (configs or {}).items()
        )

        async def ask(node: Node, wanted: list[str]) -> dict[str, Done | Failure]:
            made = tuple(
                CreatableTopic(name, topics[name], replication_factor, configs=settings)
                for name in wanted
            )
            request = CreateTopicsRequest(made, int(deadline.left * 1000))
            answer = await self._network.ask(node, request, CreateTopicsResponse, deadline)
            return {
                each.name: Failure(each.error_code, each.error_message or None)
                if each.error_code
                else Done(each.name)
                for each in answer.topics
            }

        return (await Routed(self._controller, deadline, ask).run(names)).of(Done)

    async def delete_topics(
        self,
        topics: Iterable[str],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[str, Done]:
        """Delete topics."""
        deadline = self._deadline(timeout)

        async def ask(node: Node, names: list[str]) -> dict[str, Done | Failure]:
            answer = await self._delete_topics(node, names, deadline)
            return {
                each.name or "": Failure(each.error_code, each.error_message)
                if each.error_code
                else Done(each.name or "")
                for each in answer.responses
            }

        names = self._checked(topics, "topic")
        # An unknown topic is retriable in Kafka's book; whoever deletes wants to be told.
        described = await self._network.refresh(deadline, tuple(names)) if names else None
        unknown: dict[str, CoterieError] = {
            topic.name or "": kafka_error(topic.error_code, f"topic {topic.name!r}")
            for topic in (described.topics if described else ())
            if topic.error_code
        }
        rest = [name for name in names if name not in unknown]
        result = await Routed(self._controller, deadline, ask).run(rest)
        return Result(result.items, unknown | result.errors, result.broker_errors, Done)

    async def _delete_topics(
        self, node: Node, names: list[str], deadline: Deadline
    ) -> DeleteTopicsResponse:
        from coterie.protocol.messages.topics import (  # noqa: PLC0415 - seldom needed
            DeleteTopicsRequest,
            DeleteTopicsResponse,
            DeleteTopicState,
        )

        connection = await self._network.to(node, deadline)
        wait = int(deadline.left * 1000)
        by_state = tuple(DeleteTopicState(name) for name in names)
        # From v6 on topics go by name or by id, in another field.
        if connection.versions.get(DeleteTopicsRequest.__key__, (0, -1))[1] >= 6:
            request = DeleteTopicsRequest(topics=by_state, timeout_ms=wait)
        else:
            request = DeleteTopicsRequest(topic_names=tuple(names), timeout_ms=wait)
        return await self._network.ask(node, request, DeleteTopicsResponse, deadline)

    async def log_offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: str | datetime | int = "latest",
        *,
        isolation: str = "read_uncommitted",
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[TopicPartition, LogOffset]:
        """Where logs begin (`at="earliest"`), end (`"latest"`), or are at a time.

        A time is a datetime or milliseconds since 1970; the offset is -1 if no record is that late. For
        those who read committed records, a log ends where the first open transaction begins.
        """
        _check_isolation(isolation)
        return await self._log_offsets(
            partitions,
            _time(at),
            self._deadline(timeout),
            committed=isolation == _ISOLATION[1],
        )

    async def log_offsets_at(
        self,
        partitions: Iterable[TopicPartition],
        moments: Sequence[str | datetime | int],
        *,
        isolation: str = "read_uncommitted",
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> list[Result[TopicPartition, LogOffset]]:
        """What `log_offsets` answers for each of several moments, in their order.

        Leaders are looked up once for all moments. Each leader is then asked once for each moment, all at
        the same time: a ListOffsets request has at most one moment for a partition.
        """
        _check_isolation(isolation)
        return await self._log_offsets_at(
            partitions,
            [_time(each) for each in moments],
            self._deadline(timeout),
            committed=isolation == _ISOLATION[1],
        )

    async def _log_offsets_at(
        self,
        partitions: Iterable[TopicPartition],
        times: Sequence[int],
        deadline: Deadline,
        *,
        committed: bool = False,
    ) -> list[Result[TopicPartition, LogOffset]]:
        wanted = list(dict.fromkeys(partitions))
        try:
            _, unknown = await self._leaders.find(wanted, deadline)
        except CoterieError as error:
            errors = dict.fromkeys(wanted, error)
            return [Result({}, dict(errors), kind=LogOffset) for _ in times]
        # What has no leader yet is looked up again; what is not there stays away.
        final: dict[TopicPartition, CoterieError] = {
            key: error for key, error in unknown.items() if is_final_in_lookup(error)
        }
        there = [key for key in wanted if key not in final]
        found = await together(
            *(self._log_offsets(there, each, deadline, committed=committed) for each in times)
        )
        return [
            Result(each.items, final | each.errors, each.broker_errors, LogOffset) for each in found
        ]

    async def _log_offsets(
        self,
        partitions: Iterable[TopicPartition],
        time: int,
        deadline: Deadline,
        *,
        committed: bool = False,
    ) -> Result[TopicPartition, LogOffset]:
        from coterie.client.logs import LogReader  # noqa: PLC0415 - a list does not pay for it

        reader = LogReader(self._network, deadline, time, committed=committed)
        return (await Routed(self._leaders, deadline, reader.ask).run(partitions)).of(LogOffset)

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
        begins; without the first, from its beginning. Reading stops early, without an error, behind the
        batch with which `max_bytes` or `max_records` are reached; `positions` says where. Records that
        were deleted before they could be read are an error, or skipped. `timeout` is for the whole; without
        it, reading takes as long as records keep coming.
        """
        from coterie.client.fetching import Fetching, FetchPlan  # noqa: PLC0415 - seldom needed

        _check_isolation(isolation)
        for name, budget in {"max_bytes": max_bytes, "max_records": max_records}.items():
            if budget is not None and budget <= 0:
                raise InvalidArgument(f"{name} is more than 0, not {budget!r}")
        wanted = {key: _span(key, span) for key, span in partitions.items()}
        patience = self._deadline(None)
        whole = None if timeout is None else self._deadline(timeout)
        fetching = Fetching(
            self._network,
            self._leaders,
            self._log_starts,
            FetchPlan(wanted, isolation == _ISOLATION[1], skip_deleted, max_bytes, max_records),
            deadline=patience.anew if whole is None else partial(whole.within, patience.left),
        )
        self._readings.add(fetching)
        return fetching

    async def _log_starts(
        self, partitions: Iterable[TopicPartition], deadline: Deadline
    ) -> Result[TopicPartition, LogOffset]:
        return await self._log_offsets(partitions, EARLIEST, deadline)


#: By the number that a request has for it.
_ISOLATION = ("read_uncommitted", "read_committed")


def _check_isolation(isolation: str) -> None:
    if isolation not in _ISOLATION:
        raise InvalidArgument(f"isolation is one of {', '.join(_ISOLATION)}, not {isolation!r}")


def _span(
    key: TopicPartition, span: int | tuple[int | None, int | None]
) -> tuple[int | None, int | None]:
    start, end = (span, None) if isinstance(span, int) else span
    if (start or 0) < 0 or (end or 0) < 0:
        raise InvalidArgument(f"partition {key}: an offset is 0 or more, not {span!r}")
    return start, end


def _time(at: str | datetime | int) -> int:
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise InvalidArgument(f"{at} has no time zone; give it one, such as tzinfo=UTC")
        return round(at.timestamp() * 1000)
    if isinstance(at, int) and at >= 0:
        return at
    known = {"earliest": EARLIEST, "latest": LATEST}
    if at not in known:
        raise InvalidArgument(
            f"at is 'earliest', 'latest', a datetime or milliseconds since 1970, not {at!r}"
        )
    return known[str(at)]
