"""Members of consumer groups as a test needs them: they join, heartbeat and do as they are told."""

from __future__ import annotations

from typing import Any

from coterie.coordinator import GroupConfig, Topic
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.error_codes import ErrorCode
from coterie.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedGroup,
    TopicPartitions,
)
from coterie.protocol.types import Uuid
from coterie.protocol.versioned import Undecoded
from tests.unit.coordinator.driver import ORDERS, PAYMENTS, Driver

__all__ = ["AT_ONCE", "ConsumerDriver", "Partition", "Person", "owned"]

Partition = tuple[str, int]

#: Targets are made whenever there is a reason, which saves tests the waiting.
AT_ONCE = GroupConfig(consumer_assignment_interval_ms=0)


def owned(partitions: set[tuple[Uuid, int]]) -> tuple[TopicPartitions, ...]:
    topics: dict[Uuid, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return tuple(TopicPartitions(topic_id, tuple(each)) for topic_id, each in topics.items())


class ConsumerDriver(Driver):
    """A driver that speaks ConsumerGroupHeartbeat."""

    def __init__(
        self, config: GroupConfig = AT_ONCE, topics: tuple[Topic, ...] = (ORDERS, PAYMENTS)
    ) -> None:
        super().__init__(config, topics)

    def beat(
        self, member_id: str, epoch: int, *, version: int = 1, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        if epoch == 0:
            fields = {
                "rebalance_timeout_ms": 60_000,
                "subscribed_topic_names": ("orders",),
                "topic_partitions": (),
            } | fields
        who: dict[str, Any] = {"group_id": "group", "member_id": member_id, "member_epoch": epoch}
        request = ConsumerGroupHeartbeatRequest(**who | fields)
        answer: ConsumerGroupHeartbeatResponse = self.send(request, version)
        return answer

    def refused(self, member_id: str, epoch: int, **fields: Any) -> ErrorCode:
        answer = self.beat(member_id, epoch, **fields)
        assert answer.error_code
        assert answer.error_message
        return ErrorCode.of(answer.error_code)

    def consumer_group(self, group_id: str = "group") -> ConsumerGroup:
        """The object inside."""
        group = self.shard._state.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    def seen(self, group_id: str = "group") -> DescribedGroup:
        return self.shard.describe_consumer_group(group_id, self.topics)

    def record_types(self, since: int = 0) -> list[int]:
        found = []
        for key, value in self.written()[since:]:
            assert not isinstance(key, Undecoded)
            number = type(key).__key__
            found.append(number if value is not None else -number)
        return found


class Person:
    """One member that behaves: it owns what it was told to own, and says so when that has changed."""

    def __init__(self, driver: ConsumerDriver, member_id: str, **fields: Any) -> None:
        self.driver = driver
        self.member_id = member_id
        self.fields = fields
        self.epoch = 0
        self.owns: set[tuple[Uuid, int]] = set()
        self._news = True

    def beat(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """One heartbeat, with what it owns if that is news."""
        if self.epoch == 0:
            fields = self.fields | fields
        elif self._news:
            fields = {"topic_partitions": owned(self.owns)} | fields
        if self.fields.get("instance_id") is not None:
            fields.setdefault("instance_id", self.fields["instance_id"])
        if self.fields.get("group_id") is not None:
            fields.setdefault("group_id", self.fields["group_id"])
        answer = self.driver.beat(self.member_id, self.epoch, **fields)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        self._news = False
        if answer.assignment is not None:
            told = {
                (each.topic_id, partition)
                for each in answer.assignment.topic_partitions
                for partition in each.partitions
            }
            self._news = told != self.owns
            self.owns = told
        return answer

    def names(self) -> list[Partition]:
        found = []
        for topic_id, partition in self.owns:
            topic = self.driver.topics.by_id(topic_id)
            assert topic is not None
            found.append((topic.name, partition))
        return sorted(found)

    @property
    def partitions(self) -> list[int]:
        return sorted(partition for _, partition in self.owns)
