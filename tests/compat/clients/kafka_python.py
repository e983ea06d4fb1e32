"""kafka-python."""

from __future__ import annotations

import contextlib
import gc
import logging
import queue
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar

from kafka import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
    errors,
)
from kafka import codec as codecs
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

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

__all__ = ["KafkaPythonClient"]

_WAIT_S = 30.0
_POLL_MS = 100
logging.getLogger("kafka").setLevel(logging.CRITICAL)


class _Member(GroupConsumer):
    """Polls all the time, in a thread of its own, which does all that is done with the consumer.

    A poll that ends while JoinGroup is answered loses the assignment, see FINDINGS.md; so there is nearly
    always a poll under way, and a member that lost its assignment all the same joins again.
    """

    def __init__(self, options: dict[str, Any], topics: Sequence[str]) -> None:
        self.inner = KafkaConsumer(**options)
        self.inner.subscribe(list(topics))
        self._read: queue.SimpleQueue[Read] = queue.SimpleQueue()
        self._asked: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._life = self._thread.submit(self._live)

    def _live(self) -> None:
        while not self._closing.is_set():
            self._join_again_if_lost()
            for tp, records in self.inner.poll(timeout_ms=_POLL_MS).items():
                for record in records:
                    self._read.put(Read(tp.topic, tp.partition, record.offset, record.value))
            while not self._asked.empty():
                question, answer = self._asked.get()
                try:
                    answer.set_result(question())
                except errors.KafkaError as error:
                    answer.set_exception(error)

    def _join_again_if_lost(self) -> None:
        coordinator = self.inner._coordinator
        task = coordinator._join_task
        if task is not None and task.is_done and not coordinator.need_rejoin():
            coordinator.request_rejoin()

    def _ask(self, question: Callable[[], Any]) -> Any:
        answer: Future[Any] = Future()
        self._asked.put((question, answer))
        return answer.result(_WAIT_S)

    def poll(self, seconds: float = 0.05) -> list[Read]:
        if self._life.done():
            self._life.result()
        read = []
        with contextlib.suppress(queue.Empty):
            read.append(self._read.get(timeout=seconds))
            while True:
                read.append(self._read.get_nowait())
        return read

    def assignment(self) -> set[tuple[str, int]]:
        return {(tp.topic, tp.partition) for tp in self._ask(self.inner.assignment)}

    def commit(self) -> None:
        try:
            self._ask(self.inner.commit)
        except errors.KafkaError as error:
            raise Refused(repr(error)) from error

    def close(self) -> None:
        self._closing.set()
        self._thread.shutdown()
        self.inner.close()


class _Transactions(Transactions):
    def __init__(self, options: dict[str, Any]) -> None:
        self.inner = KafkaProducer(**options)
        self.inner.init_transactions()

    def begin(self) -> None:
        self.inner.begin_transaction()

    def send(self, topic: str, values: Iterable[bytes]) -> None:
        for sent in [self.inner.send(topic, value, partition=0) for value in values]:
            sent.get(_WAIT_S)

    def send_offsets(self, consumer: GroupConsumer, offsets: Mapping[tuple[str, int], int]) -> None:
        assert isinstance(consumer, _Member)
        positions = {
            TopicPartition(*key): OffsetAndMetadata(at, "", -1) for key, at in offsets.items()
        }
        self.inner.send_offsets_to_transaction(positions, consumer.inner.group_metadata())

    def commit(self) -> None:
        self.inner.commit_transaction()

    def abort(self) -> None:
        self.inner.abort_transaction()

    def close(self) -> None:
        self.inner.close()


class KafkaPythonClient(Client):
    name = "kafka-python"
    can: ClassVar[frozenset[str]] = frozenset(
        {
            "static", "cooperative", "states", "alter_offsets", "delete_offsets", "delete_groups",
            "transactions",
        }
    )  # fmt: skip
    #: As many as have their own packages installed here.
    compressions = (
        "none",
        *(name for name in ("gzip", "snappy", "lz4", "zstd") if getattr(codecs, f"has_{name}")()),
    )

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._servers = bootstrap.split(",")
        self._admin = KafkaAdminClient(bootstrap_servers=self._servers)

    def close(self) -> None:
        self._admin.close()
        # It forgets sockets that did not connect; they are to be found by the test that had them.
        gc.collect()

    def _create_topic(self, topic: str, partitions: int) -> str:
        options = {topic: {"num_partitions": partitions, "replication_factor": 1}}
        try:
            self._admin.create_topics(options, wait_for_metadata=True)
        except errors.BrokerResponseError as error:
            return error_name(error.errno)
        return "NONE"

    def produce(
        self,
        topic: str,
        values: Sequence[bytes],
        partitions: int,
        *,
        compression: str = "none",
        idempotent: bool = False,
    ) -> dict[int, int]:
        producer = KafkaProducer(
            bootstrap_servers=self._servers,
            compression_type=None if compression == "none" else compression,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        try:
            sent = [
                producer.send(topic, value, partition=number % partitions)
                for number, value in enumerate(values)
            ]
            ends: dict[int, int] = {}
            for each in sent:
                metadata = each.get(_WAIT_S)
                ends[metadata.partition] = max(metadata.offset, ends.get(metadata.partition, -1))
            return ends
        finally:
            producer.close()

    def consumer(
        self,
        group: str,
        *topics: str,
        instance: str | None = None,
        cooperative: bool = False,
        committed_only: bool = False,
    ) -> GroupConsumer:
        assignor = CooperativeStickyAssignor if cooperative else RangePartitionAssignor
        options = {
            "bootstrap_servers": self._servers,
            "group_id": group,
            "group_instance_id": instance,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "session_timeout_ms": SESSION_MS,
            "fetch_max_wait_ms": 50,
            "isolation_level": "read_committed" if committed_only else "read_uncommitted",
            "partition_assignment_strategy": (assignor,),
        }
        return _Member(options, topics)

    def list_groups(self, *states: str) -> dict[str, str]:
        found = self._admin.list_groups(states_filter=states or None)
        return {each["group_id"]: each["group_state"] for each in found}

    def describe(self, group: str) -> Description:
        found = self._admin.describe_groups([group])[group]
        # The error is a text that begins with its number in brackets.
        code = re.match(r"\[Error (-?\d+)\]", found["error"] or "[Error 0]")
        assert code is not None, found
        members = found["members"]
        sizes = []
        for member in members:
            assigned = (member["member_assignment"] or {}).get("assigned_partitions") or ()
            sizes.append(sum(len(each["partitions"]) for each in assigned))
        return Description(
            state=found["group_state"],
            protocol=found["protocol_data"],
            members=len(members),
            assigned=tuple(sorted(sizes)),
            instances=tuple(sorted(filter(None, (each["group_instance_id"] for each in members)))),
            error=error_name(int(code.group(1))),
        )

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        found = self._admin.list_group_offsets({group: None})[group]
        return {(tp.topic, tp.partition): each.offset for tp, each in found.items()}

    def alter_offset(self, group: str, topic: str, partition: int, offset: int) -> str:
        wanted = {TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        return _only_error(self._admin.alter_group_offsets(group, wanted))

    def delete_offset(self, group: str, topic: str, partition: int) -> str:
        asked = [TopicPartition(topic, partition)]
        try:
            return _only_error(self._admin.delete_group_offsets(group, asked))
        except errors.BrokerResponseError as error:
            return error_name(error.errno)

    def delete_group(self, group: str) -> str:
        outcome = self._admin.delete_groups([group])[group]
        return "NONE" if outcome == "OK" else error_name(getattr(errors, outcome).errno)

    def transactions(self, transactional_id: str) -> Transactions:
        options = {"bootstrap_servers": self._servers, "transactional_id": transactional_id}
        return _Transactions(options)


def _only_error(by_partition: dict[TopicPartition, Any]) -> str:
    (error,) = by_partition.values()
    return error_name(error.errno)
