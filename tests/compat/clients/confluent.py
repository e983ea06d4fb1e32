"""confluent-kafka: librdkafka."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, cast

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.compat.clients.base import (
    HEARTBEAT_MS,
    SESSION_MS,
    Client,
    Description,
    GroupConsumer,
    Read,
    Refused,
    Transactions,
)

__all__ = ["ConfluentClient"]

_WAIT_S = 30.0
_quiet = logging.getLogger("tests.compat.librdkafka")
_quiet.setLevel(logging.CRITICAL)
_quiet.propagate = False


class _Member(GroupConsumer):
    def __init__(self, config: dict[str, Any], topics: Sequence[str]) -> None:
        self.inner = Consumer(config, logger=_quiet)
        self.inner.subscribe(list(topics))

    def poll(self, seconds: float = 0.05) -> list[Read]:
        read = []
        for message in self.inner.consume(500, seconds):
            if message.error() is not None:
                raise KafkaException(message.error())
            place = message.topic(), message.partition(), message.offset(), message.value()
            read.append(Read(*cast("tuple[str, int, int, bytes]", place)))
        return read

    def assignment(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self.inner.assignment()}

    def commit(self) -> None:
        try:
            positions = self.inner.commit(asynchronous=False)
        except KafkaException as error:
            # Nothing new to commit is no failure.
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise Refused(str(error)) from error
            return
        for each in positions:
            if each.error is not None:
                raise Refused(str(each.error))

    def close(self) -> None:
        self.inner.close()


class _Transactions(Transactions):
    def __init__(self, config: dict[str, Any]) -> None:
        self.inner = Producer(config, logger=_quiet)
        self.inner.init_transactions(_WAIT_S)

    def begin(self) -> None:
        self.inner.begin_transaction()

    def send(self, topic: str, values: Iterable[bytes]) -> None:
        for value in values:
            self.inner.produce(topic, value, partition=0)
        assert self.inner.flush(_WAIT_S) == 0

    def send_offsets(self, consumer: GroupConsumer, offsets: Mapping[tuple[str, int], int]) -> None:
        assert isinstance(consumer, _Member)
        positions = [TopicPartition(topic, index, at) for (topic, index), at in offsets.items()]
        metadata = consumer.inner.consumer_group_metadata()
        self.inner.send_offsets_to_transaction(positions, metadata, _WAIT_S)

    def commit(self) -> None:
        self.inner.commit_transaction(_WAIT_S)

    def abort(self) -> None:
        self.inner.abort_transaction(_WAIT_S)

    def close(self) -> None:
        self.inner.flush(_WAIT_S)


class ConfluentClient(Client):
    name = "confluent-kafka"
    can: ClassVar[frozenset[str]] = frozenset(
        {"static", "cooperative", "states", "alter_offsets", "delete_groups", "transactions"}
    )
    compressions = ("none", "gzip", "snappy", "lz4", "zstd")

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._config: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin = AdminClient(self._config, logger=_quiet)

    def close(self) -> None:
        """An admin client of librdkafka ends when it is forgotten."""
        del self._admin

    def _create_topic(self, topic: str, partitions: int) -> str:
        new = NewTopic(topic, partitions, replication_factor=1)
        return _outcome(self._admin.create_topics([new])[topic])

    def produce(
        self,
        topic: str,
        values: Sequence[bytes],
        partitions: int,
        *,
        compression: str = "none",
        idempotent: bool = False,
    ) -> dict[int, int]:
        ends: dict[int, int] = {}
        failed: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error)
            else:
                index = message.partition()
                ends[index] = max(message.offset(), ends.get(index, -1))

        options = {
            "compression.type": compression, "enable.idempotence": idempotent, "linger.ms": 5,
        }  # fmt: skip
        producer = Producer(self._config | options, logger=_quiet)
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % partitions, on_delivery=delivered)
        assert producer.flush(_WAIT_S) == 0
        assert not failed
        return ends

    def consumer(
        self,
        group: str,
        *topics: str,
        instance: str | None = None,
        cooperative: bool = False,
        committed_only: bool = False,
    ) -> GroupConsumer:
        config = self._config | {
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "session.timeout.ms": SESSION_MS,
            "fetch.wait.max.ms": 50,
            "isolation.level": "read_committed" if committed_only else "read_uncommitted",
            "partition.assignment.strategy": "cooperative-sticky" if cooperative else "range",
        }
        if instance is not None:
            config["group.instance.id"] = instance
        return _Member(config, topics)

    def list_groups(self, *states: str) -> dict[str, str]:
        wanted = {_STATES[state] for state in states}
        answer = self._admin.list_consumer_groups(states=wanted).result()
        assert not answer.errors
        return {each.group_id: _state_name(each.state) for each in answer.valid}

    def describe(self, group: str) -> Description:
        try:
            found = self._admin.describe_consumer_groups([group])[group].result()
        except KafkaException as error:
            return Description("", "", 0, error=error.args[0].name())
        members = found.members
        return Description(
            state=_state_name(found.state),
            protocol=found.partition_assignor or "",
            members=len(members),
            assigned=tuple(sorted(len(each.assignment.topic_partitions) for each in members)),
            instances=tuple(sorted(filter(None, (each.group_instance_id for each in members)))),
        )

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        asked = [ConsumerGroupTopicPartitions(group)]
        found = self._admin.list_consumer_group_offsets(asked)[group].result()
        return {(each.topic, each.partition): each.offset for each in found.topic_partitions}

    def alter_offset(self, group: str, topic: str, partition: int, offset: int) -> str:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition, offset)])
        try:
            altered = self._admin.alter_consumer_group_offsets([asked])[group].result()
        except KafkaException as error:
            return str(error.args[0].name())
        (only,) = altered.topic_partitions
        return "NONE" if only.error is None else str(only.error.name())

    def delete_group(self, group: str) -> str:
        return _outcome(self._admin.delete_consumer_groups([group])[group])

    def transactions(self, transactional_id: str) -> Transactions:
        return _Transactions(self._config | {"transactional.id": transactional_id})


_STATES = {
    "Stable": ConsumerGroupState.STABLE,
    "Empty": ConsumerGroupState.EMPTY,
}


def _state_name(state: ConsumerGroupState) -> str:
    return "".join(word.capitalize() for word in state.name.split("_"))


def _outcome(future: Any) -> str:
    try:
        future.result()
    except KafkaException as error:
        return str(error.args[0].name())
    return "NONE"
