"""Which broker coordinates which group, and which leads which partition.

Look-ups are batched (KIP-699); a broker that cannot do that is asked for each group alone, in parallel.
Answers are cached until another answer contradicts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from coterie.client.connection import Connection
from coterie.client.network import Deadline, Network, Node, together
from coterie.client.probing import OFFSETS_TOPIC
from coterie.client.results import Result, TopicPartition
from coterie.client.routing import Ask, Routed, batches
from coterie.error_codes import ErrorCode
from coterie.errors import KafkaError, NoBatchedFindCoordinators, kafka_error
from coterie.protocol.api import ApiKey
from coterie.protocol.group_state import GroupType
from coterie.protocol.messages.cluster import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataResponse,
    MetadataResponseTopic,
)
from coterie.protocol.messages.groups import ListedGroup
from coterie.protocol.types import Uuid

__all__ = ["Controller", "Coordinators", "LeaderAndEpoch", "Leaders"]

LeaderAndEpoch = tuple[int, int]
T = TypeVar("T")

#: A broker that is too old for types has no others.
_CLASSIC: Final = (GroupType.CLASSIC, GroupType.UNKNOWN, None)


class Coordinators:
    """Coordinators of groups, and types of groups, as lists and descriptions have returned them."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._known: dict[str, Node] = {}
        self._types: dict[str, GroupType] = {}
        #: The last list of each broker, not read until a coordinator is needed: a list alone costs nothing.
        self._lists: dict[Node, Sequence[ListedGroup]] = {}
        #: Who led the partitions of the offsets topic when a list last looked; None before the first.
        self.leaders: dict[int, LeaderAndEpoch] | None = None
        network.on_metadata.append(self._note)
        #: Look-ups of one group alone, because a broker could not do many at once.
        self.single_lookups = 0

    def __contains__(self, group: object) -> bool:
        self._learn()
        return group in self._known

    @property
    def types(self) -> dict[str, GroupType]:
        """Types of groups that are known not to be classic; all others are taken for it."""
        self._learn()
        return self._types

    def _note(self, answer: MetadataResponse) -> None:
        """The first list of groups uses the leaders of an earlier response that has the offsets topic.

        Later lists compare with the list before them: a move in between must show.
        """
        for topic in answer.topics if self.leaders is None else ():
            if topic.name == OFFSETS_TOPIC and not topic.error_code:
                self.leaders = {
                    each.partition_index: (each.leader_id, each.leader_epoch)
                    for each in topic.partitions
                }

    def listed(self, groups: Sequence[ListedGroup], node: Node) -> None:
        """A broker lists the groups that it coordinates."""
        self._lists[node] = groups

    def expect(self, coordinators: Mapping[str, Node], types: Mapping[str, GroupType]) -> None:
        """Take over what another client has found."""
        self._learn()
        self._known.update(coordinators)
        self.learn_types(types)

    def _learn(self) -> None:
        lists, self._lists = self._lists, {}
        for node, groups in lists.items():
            self._known.update(dict.fromkeys([group.group_id for group in groups], node))
            kinds = {text: GroupType.parse(text) for text in {each.group_type for each in groups}}
            self.learn_types({group.group_id: kinds[group.group_type] for group in groups})

    def learn_types(self, found: Mapping[str, GroupType | None]) -> None:
        types = self.types
        for group in types.keys() & found.keys():
            del types[group]
        types.update({group: kind for group, kind in found.items() if kind not in _CLASSIC})

    def forget(self, keys: Iterable[str]) -> None:
        self._learn()
        for group in keys:
            self._known.pop(group, None)

    def name(self, key: str) -> str:
        return f"group {key!r}"

    async def find(
        self, keys: Iterable[str], deadline: Deadline
    ) -> tuple[dict[str, Node], dict[str, KafkaError]]:
        """The coordinators that are known or can be found, and errors for the rest."""
        self._learn()
        found: dict[str, Node] = {}
        missing: list[str] = []
        for group in keys:
            node = self._known.get(group)
            if node is None:
                missing.append(group)
            else:
                found[group] = node
        if not missing:
            return found, {}
        try:
            answers = await self._find_many(missing, deadline)
        except NoBatchedFindCoordinators:
            answers = await self._find_each(missing, deadline)
        errors: dict[str, KafkaError] = {}
        for group in missing:
            code, node = answers.get(group, (ErrorCode.COORDINATOR_NOT_AVAILABLE, Node(-1, "", -1)))
            if code:
                errors[group] = kafka_error(code, self.name(group))
            else:
                found[group] = self._known[group] = node
        return found, errors

    async def ask_each(
        self, groups: Iterable[str], deadline: Deadline, ask: Ask[str, T]
    ) -> Result[str, T]:
        """Ask each coordinator about all of its groups."""
        limit = self._network.settings.max_request_size
        return await Routed(self, deadline, ask, limit).run(groups)

    async def _find_many(
        self, groups: list[str], deadline: Deadline
    ) -> dict[str, tuple[int, Node]]:
        answers: dict[str, tuple[int, Node]] = {}
        nodes: dict[int, Node] = {}
        for batch in batches(groups, self._network.settings.max_request_size):
            answer = await self._network.any(
                FindCoordinatorRequest(coordinator_keys=tuple(batch)),
                FindCoordinatorResponse,
                deadline,
                check=_check_batching,
            )
            for each in answer.coordinators:
                node = nodes.get(each.node_id)
                if node is None:
                    node = nodes[each.node_id] = Node(each.node_id, each.host, each.port)
                answers[each.key] = (each.error_code, node)
        return answers

    async def _find_each(
        self, groups: list[str], deadline: Deadline
    ) -> dict[str, tuple[int, Node]]:
        self.single_lookups += len(groups)
        answers = await together(
            *(
                self._network.any(
                    FindCoordinatorRequest(key=group),
                    FindCoordinatorResponse,
                    deadline,
                    check=_check_single,
                    at_most=3,
                )
                for group in groups
            )
        )
        return {
            group: (each.error_code, Node(each.node_id, each.host, each.port))
            for group, each in zip(groups, answers, strict=True)
        }


def _check_batching(connection: Connection) -> None:
    highest = connection.highest(ApiKey.FIND_COORDINATOR)
    if highest < 4:
        raise NoBatchedFindCoordinators(
            f"broker {connection.address} serves FindCoordinator only up to v{highest}, and v4 is "
            "needed to look up many coordinators at once"
        )


def _check_single(connection: Connection) -> None:
    connection.highest(ApiKey.FIND_COORDINATOR, at_most=3)


class Leaders:
    """Leaders by partition, read from every Metadata response that the client gets."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._known: dict[TopicPartition, Node] = {}
        #: Topics of the last answers, read when a leader is asked for: a list of groups asks for none.
        self._unread: dict[str | None, MetadataResponseTopic] = {}
        network.on_metadata.append(self._note)
        #: Topics' ids (KIP-516), where brokers return them.
        self.topic_ids: dict[str, Uuid] = {}

    def _note(self, answer: MetadataResponse) -> None:
        self._unread.update((topic.name, topic) for topic in answer.topics)

    def _learn(self) -> None:
        topics, self._unread = self._unread, {}
        for name, topic in topics.items():
            if topic.error_code or name is None:
                continue
            self.topic_ids[name] = topic.topic_id
            for index, leader in _leaders(topic).items():
                if (node := self._network.nodes.get(leader)) is not None:
                    self._known[TopicPartition(name, index)] = node

    def forget(self, keys: Iterable[TopicPartition]) -> None:
        self._learn()
        for partition in keys:
            self._known.pop(partition, None)

    def name(self, key: TopicPartition) -> str:
        return f"partition {key}"

    async def find(
        self, keys: Iterable[TopicPartition], deadline: Deadline
    ) -> tuple[dict[TopicPartition, Node], dict[TopicPartition, KafkaError]]:
        keys = list(keys)
        self._learn()
        missing = [partition for partition in keys if partition not in self._known]
        errors: dict[TopicPartition, KafkaError] = {}
        if missing:
            topics = tuple(dict.fromkeys(partition.topic for partition in missing))
            answer = await self._network.refresh(deadline, topics)
            self._learn()
            by_name = {topic.name: topic for topic in answer.topics}
            for partition in missing:
                if partition not in self._known:
                    code = _why_unknown(partition, by_name.get(partition.topic))
                    errors[partition] = kafka_error(code, self.name(partition))
        found = {key: self._known[key] for key in keys if key in self._known}
        return found, errors

    async def ask_each(
        self, partitions: Iterable[TopicPartition], deadline: Deadline, ask: Ask[TopicPartition, T]
    ) -> Result[TopicPartition, T]:
        """Ask each leader about all of its partitions."""
        return await Routed(self, deadline, ask).run(partitions)


def _why_unknown(partition: TopicPartition, topic: MetadataResponseTopic | None) -> int:
    """The error of a partition for which an answer has no leader that is in the cluster."""
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.error_code or partition.partition not in _leaders(topic):
        return topic.error_code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.LEADER_NOT_AVAILABLE


def _leaders(topic: MetadataResponseTopic) -> dict[int, int]:
    return {each.partition_index: each.leader_id for each in topic.partitions}


class Controller:
    """The broker that creates and deletes topics. Newer brokers pass such requests on; older ones do not."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._known: Node | None = None

    def forget(self, keys: Iterable[str]) -> None:  # noqa: ARG002 - one broker for all topics
        self._known = None

    def name(self, key: str) -> str:
        return f"topic {key!r}"

    async def find(
        self, keys: Iterable[str], deadline: Deadline
    ) -> tuple[dict[str, Node], dict[str, KafkaError]]:
        if self._known is None:
            await self._network.refresh(deadline)
            self._known = self._network.nodes.get(self._network.controller_id)
        if self._known is None:
            code = ErrorCode.NOT_CONTROLLER
            return {}, {key: kafka_error(code, self.name(key), "no controller") for key in keys}
        return dict.fromkeys(keys, self._known), {}
