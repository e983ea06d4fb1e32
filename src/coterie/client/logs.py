"""Where logs begin and end, and where a time is in them: ListOffsets, once per leader."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.client.committed_offsets import by_topic
from coterie.client.network import Deadline, Network, Node
from coterie.client.results import LogOffset, TopicPartition
from coterie.client.routing import Failure
from coterie.protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

__all__ = ["LogReader"]


class LogReader:
    """One call that looks up offsets by time; `times` are milliseconds since 1970, -1 for the end, -2 for the
    beginning."""

    def __init__(
        self,
        network: Network,
        deadline: Deadline,
        times: int | Mapping[TopicPartition, int],
        *,
        committed: bool = False,
    ) -> None:
        self._network = network
        self._deadline = deadline
        self._times = times
        self._committed = committed

    def _time(self, topic: str, index: int) -> int:
        if isinstance(self._times, int):
            return self._times
        return self._times[TopicPartition(topic, index)]

    async def ask(
        self, node: Node, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, LogOffset | Failure]:
        topics = tuple(
            ListOffsetsTopic(
                topic,
                tuple(
                    ListOffsetsPartition(index, timestamp=self._time(topic, index))
                    for index in indexes
                ),
            )
            for topic, indexes in by_topic(partitions).items()
        )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(self._committed),
            topics=topics,
            timeout_ms=int(self._deadline.left * 1000),
        )
        answer = await self._network.ask(node, request, ListOffsetsResponse, self._deadline)
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
