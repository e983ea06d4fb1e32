"""Logs of partitions: where they begin and end, where a time is in them, and what is stored in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from coterie.client.arguments import EARLIEST
from coterie.client.coordinators import Leaders
from coterie.client.fetching import Fetching, FetchPlan
from coterie.client.network import Deadline, Network, Node, together
from coterie.client.partitions import TopicPartition, by_topic
from coterie.client.results import LogOffset, Result
from coterie.client.routing import Failure, is_final_in_lookup
from coterie.errors import CoterieError
from coterie.protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

__all__ = ["Logs"]


class Logs:
    """Requests about logs, each to the leaders of the partitions."""

    def __init__(self, network: Network, leaders: Leaders) -> None:
        self._network = network
        self._leaders = leaders

    async def offsets(
        self,
        partitions: Iterable[TopicPartition],
        timestamp: int,
        deadline: Deadline,
        *,
        committed: bool = False,
    ) -> Result[TopicPartition, LogOffset]:
        """The first offset of a timestamp or later; LATEST and EARLIEST stand for end and beginning."""

        async def ask(
            node: Node, theirs: list[TopicPartition]
        ) -> dict[TopicPartition, LogOffset | Failure]:
            request = _request(theirs, timestamp, deadline, committed=committed)
            answer = await self._network.ask(node, request, ListOffsetsResponse, deadline)
            return _found(answer)

        return (await self._leaders.ask_each(partitions, deadline, ask)).of(LogOffset)

    async def offsets_at(
        self,
        partitions: Iterable[TopicPartition],
        timestamps: Sequence[int],
        deadline: Deadline,
        *,
        committed: bool = False,
    ) -> list[Result[TopicPartition, LogOffset]]:
        """The offsets of several timestamps. Leaders are looked up once for all of them."""
        wanted = list(dict.fromkeys(partitions))
        try:
            _, unknown = await self._leaders.find(wanted, deadline)
        except CoterieError as error:
            errors = dict.fromkeys(wanted, error)
            return [Result({}, dict(errors), kind=LogOffset) for _ in timestamps]
        # A partition that has no leader yet is looked up again; one that does not exist is not.
        final: dict[TopicPartition, CoterieError] = {
            key: error for key, error in unknown.items() if is_final_in_lookup(error)
        }
        there = [key for key in wanted if key not in final]
        found = await together(
            *(self.offsets(there, each, deadline, committed=committed) for each in timestamps)
        )
        return [
            Result(each.items, final | each.errors, each.broker_errors, LogOffset) for each in found
        ]

    def fetch(self, plan: FetchPlan, new_deadline: Callable[[], Deadline]) -> Fetching:
        """Read record batches; `new_deadline` is called each time an answer has come."""
        return Fetching(self._network, self._leaders, self._beginnings, plan, deadline=new_deadline)

    async def _beginnings(
        self, partitions: Iterable[TopicPartition], deadline: Deadline
    ) -> Result[TopicPartition, LogOffset]:
        return await self.offsets(partitions, EARLIEST, deadline)


def _request(
    partitions: list[TopicPartition], timestamp: int, deadline: Deadline, *, committed: bool
) -> ListOffsetsRequest:
    topics = tuple(
        ListOffsetsTopic(
            topic, tuple(ListOffsetsPartition(index, timestamp=timestamp) for index in indexes)
        )
        for topic, indexes in by_topic(partitions).items()
    )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed),
        topics=topics,
        timeout_ms=int(deadline.left * 1000),
    )


def _found(answer: ListOffsetsResponse) -> dict[TopicPartition, LogOffset | Failure]:
    return {
        TopicPartition(topic.name, each.partition_index): Failure(each.error_code)
        if each.error_code
        else LogOffset(
            each.offset,
            each.timestamp if each.timestamp >= 0 else None,
            each.leader_epoch if each.leader_epoch >= 0 else None,
        )
        for topic in answer.topics
        for each in topic.partitions
    }
