"""Topics, as far as group administration needs them: describe, create and delete them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from coterie.client.coordinators import Controller
from coterie.client.network import Deadline, Network, Node
from coterie.client.results import Done, PartitionInfo, Result, TopicDescription
from coterie.client.routing import Failure, Routed
from coterie.errors import CoterieError, kafka_error
from coterie.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from coterie.protocol.types import Uuid

__all__ = ["Topics"]


class Topics:
    """Requests about topics: descriptions from any broker, changes by the controller."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._controller = Controller(network)

    async def describe(
        self, topics: Collection[str] | None, deadline: Deadline
    ) -> Result[str, TopicDescription]:
        """Topics with their partitions and leaders; None means all topics."""
        names = None if topics is None else tuple(topics)
        answer = await self._network.refresh(deadline, names)
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

    async def create(
        self,
        topics: Mapping[str, int],
        replication_factor: int,
        configs: Mapping[str, str],
        deadline: Deadline,
    ) -> Result[str, Done]:
        """Create topics, each with its number of partitions."""
        settings = tuple(CreatableTopicConfig(name, value) for name, value in configs.items())

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

        return (await Routed(self._controller, deadline, ask).run(topics)).of(Done)

    async def delete(self, topics: Collection[str], deadline: Deadline) -> Result[str, Done]:
        """Delete topics."""

        async def ask(node: Node, names: list[str]) -> dict[str, Done | Failure]:
            answer = await self._delete(node, names, deadline)
            return {
                each.name or "": Failure(each.error_code, each.error_message)
                if each.error_code
                else Done(each.name or "")
                for each in answer.responses
            }

        # Kafka calls an unknown topic retriable; here it is an error at once.
        described = await self._network.refresh(deadline, tuple(topics)) if topics else None
        unknown: dict[str, CoterieError] = {
            topic.name or "": kafka_error(topic.error_code, f"topic {topic.name!r}")
            for topic in (described.topics if described else ())
            if topic.error_code
        }
        rest = [name for name in topics if name not in unknown]
        result = await Routed(self._controller, deadline, ask).run(rest)
        return Result(result.items, unknown | result.errors, result.broker_errors, Done)

    async def _delete(
        self, node: Node, names: list[str], deadline: Deadline
    ) -> DeleteTopicsResponse:
        connection = await self._network.to(node, deadline)
        wait = int(deadline.left * 1000)
        # From v6 on topics are given by name or by id, in another field.
        if connection.versions.get(DeleteTopicsRequest.__key__, (0, -1))[1] >= 6:
            by_state = tuple(DeleteTopicState(name) for name in names)
            request = DeleteTopicsRequest(topics=by_state, timeout_ms=wait)
        else:
            request = DeleteTopicsRequest(topic_names=tuple(names), timeout_ms=wait)
        return await self._network.ask(node, request, DeleteTopicsResponse, deadline)
