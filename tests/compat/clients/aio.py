"""aiokafka, its event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import KafkaError

from tests.compat.clients.base import (
    HEARTBEAT_MS,
    SESSION_MS,
    Client,
    Description,
    GroupConsumer,
    Read,
    Refused,
    Transactions,
    error_name,
)

__all__ = ["AioKafkaClient"]

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, Any]], Any]

_WAIT_S = 60.0
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


class _Member(GroupConsumer):
    def __init__(self, run: Run, options: dict[str, Any], topics: Sequence[str]) -> None:
        self._run = run
        self.group = options["group_id"]
        self.inner: Any = run(self._start(options, topics))

    async def _start(self, options: dict[str, Any], topics: Sequence[str]) -> Any:
        consumer = AIOKafkaConsumer(**options)
        consumer.subscribe(list(topics))
        # start() waits for the first assignment, and a scenario starts several members in turn.
        await consumer.start()
        return consumer

    def poll(self, seconds: float = 0.05) -> list[Read]:
        batches = self._run(self.inner.getmany(timeout_ms=int(seconds * 1000)))
        return [
            Read(tp.topic, tp.partition, record.offset, record.value)
            for tp, records in batches.items()
            for record in records
        ]

    def assignment(self) -> set[tuple[str, int]]:
        return {(tp.topic, tp.partition) for tp in self.inner.assignment()}

    def commit(self) -> None:
        try:
            self._run(self.inner.commit())
        except KafkaError as error:
            raise Refused(repr(error)) from error

    def close(self) -> None:
        self._run(self.inner.stop())


class _Transactions(Transactions):
    def __init__(self, run: Run, options: dict[str, Any]) -> None:
        self._run = run
        self._inner: Any = run(_start_producer(options))

    def begin(self) -> None:
        self._run(self._inner.begin_transaction())

    def send(self, topic: str, values: Iterable[bytes]) -> None:
        self._run(_send_all(self._inner, topic, list(values), 1))

    def send_offsets(self, consumer: GroupConsumer, offsets: Mapping[tuple[str, int], int]) -> None:
        assert isinstance(consumer, _Member)
        positions = {TopicPartition(*key): at for key, at in offsets.items()}
        self._run(self._inner.send_offsets_to_transaction(positions, consumer.group))

    def commit(self) -> None:
        self._run(self._inner.commit_transaction())

    def abort(self) -> None:
        self._run(self._inner.abort_transaction())

    def close(self) -> None:
        self._run(self._inner.stop())


async def _start_producer(options: dict[str, Any]) -> Any:
    producer = AIOKafkaProducer(**options)
    await producer.start()
    return producer


async def _send_all(
    producer: Any, topic: str, values: Sequence[bytes], partitions: int
) -> dict[int, int]:
    sent = [
        await producer.send(topic, value, partition=number % partitions)
        for number, value in enumerate(values)
    ]
    ends: dict[int, int] = {}
    for each in await asyncio.gather(*sent):
        ends[each.partition] = max(each.offset, ends.get(each.partition, -1))
    return ends


class AioKafkaClient(Client):
    name = "aiokafka"
    can: ClassVar[frozenset[str]] = frozenset({"static", "transactions"})
    compressions = ("none", "gzip", "snappy", "lz4", "zstd")

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._admin: Any = self._run(self._start_admin())

    async def _start_admin(self) -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        return admin

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_WAIT_S)

    def close(self) -> None:
        try:
            self._run(self._admin.close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _create_topic(self, topic: str, partitions: int) -> str:
        answer = self._run(self._admin.create_topics([NewTopic(topic, partitions, 1)]))
        ((_, code, *_),) = answer.topic_errors
        return error_name(code)

    def produce(
        self,
        topic: str,
        values: Sequence[bytes],
        partitions: int,
        *,
        compression: str = "none",
        idempotent: bool = False,
    ) -> dict[int, int]:
        async def work() -> dict[int, int]:
            producer = await _start_producer(
                {
                    "bootstrap_servers": self.bootstrap,
                    "compression_type": None if compression == "none" else compression,
                    "enable_idempotence": idempotent,
                    "linger_ms": 5,
                }
            )
            try:
                return await _send_all(producer, topic, values, partitions)
            finally:
                await producer.stop()

        return self._run(work())

    def consumer(
        self,
        group: str,
        *topics: str,
        instance: str | None = None,
        cooperative: bool = False,
        committed_only: bool = False,
    ) -> GroupConsumer:
        assert not cooperative
        options = {
            "bootstrap_servers": self.bootstrap,
            "group_id": group,
            "group_instance_id": instance,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "session_timeout_ms": SESSION_MS,
            "fetch_max_wait_ms": 50,
            "isolation_level": "read_committed" if committed_only else "read_uncommitted",
            "partition_assignment_strategy": (RangePartitionAssignor,),
        }
        return _Member(self._run, options, topics)

    def list_groups(self, *states: str) -> dict[str, str]:
        assert not states
        return {group: "" for group, *_ in self._run(self._admin.list_consumer_groups())}

    def describe(self, group: str) -> Description:
        (answer,) = self._run(self._admin.describe_consumer_groups([group]))
        ((code, _, state, _, protocol, members, *_),) = answer.groups
        assignments = [
            ConsumerProtocolMemberAssignment.decode(assignment)
            for *_, assignment in members
            if assignment
        ]
        sizes = [sum(len(partitions) for _, partitions in each.assignment) for each in assignments]
        return Description(
            state=state,
            protocol=protocol,
            members=len(members),
            assigned=tuple(sorted(sizes)),
            error=error_name(code),
        )

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        found = self._run(self._admin.list_consumer_group_offsets(group))
        return {(tp.topic, tp.partition): each.offset for tp, each in found.items()}

    def transactions(self, transactional_id: str) -> Transactions:
        options = {"bootstrap_servers": self.bootstrap, "transactional_id": transactional_id}
        return _Transactions(self._run, options)
