"""Transactions of protocol 2, request by request, as one script for Apache Kafka and for our cluster.

Requests depend on earlier answers (producer ids and epochs), so this is a script and not a list of questions.
Kafka ends a transaction after it has answered EndTxn; requests that are refused in the meantime are repeated.
"""

from __future__ import annotations

import time
from typing import Any

from coterie.error_codes import ErrorCode
from coterie.protocol.kafka_json import to_json
from coterie.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.protocol.messages.data import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from coterie.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from coterie.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    TopicRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from coterie.protocol.records import decode_batches
from coterie.protocol.schema import Request, Response
from coterie.protocol.types import Uuid
from tests.integration.server.talk import TRANSACTIONAL, batch_of, fetch, new_topic
from tests.kit.wire_client import WireClient

__all__ = ["TransactionScript"]

Producer = tuple[int, int]
_OFFSETS = "__consumer_offsets"
_NEWEST_INIT = 5
#: Answers of a coordinator that is loading or still writing markers.
_NOT_YET = frozenset({
    ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
})  # fmt: skip
_VOLATILE = frozenset(
    {"throttleTimeMs", "logAppendTimeMs", "nodeEndpoints", "committedLeaderEpoch"}
)
_TIMES = frozenset({"transactionStartTimeMs", "lastTimestamp"})


class TransactionScript:
    """One conversation with one broker, and the answers by title."""

    def __init__(self, client: WireClient) -> None:
        self.answers: dict[str, Any] = {}
        self._client = client
        self._producer_ids: dict[int, str] = {}
        self._topics: dict[str, str] = {}

    def run(self) -> dict[str, Any]:
        self._commit_and_abort()
        self._without_a_transaction()
        self._fenced()
        self._holder()
        self._offsets()
        self._old_protocol()
        self._mixed_protocols()
        self._markers()
        self._markers_of_offsets()
        self._listed()
        return self.answers

    # -- requests -------------------------------------------------------------------------------------

    def _ask(self, title: str, request: Request, version: int) -> Response:
        """Send a request until the coordinator is ready for it, and keep the answer."""
        deadline = time.monotonic() + 60
        while True:
            answer = self._client.ask(request, Response, version)
            told = to_json(answer, version)
            if not _codes(told) & _NOT_YET and not _is_ending(told):
                break
            assert time.monotonic() < deadline, (title, told)
        assert title not in self.answers, title
        self.answers[title] = self._steady(told)
        return answer

    def _steady(self, value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            kept = {key: self._steady(each, key) for key, each in value.items()}
            return {key: each for key, each in kept.items() if key not in _VOLATILE}
        if isinstance(value, list):
            return sorted((self._steady(each, name) for each in value), key=repr)
        if name == "producerId" and value > 0:
            return self._producer_ids.setdefault(value, f"producer {len(self._producer_ids)}")
        if name in _TIMES and value > 0:
            return "a time"
        return self._topics.get(value, value) if isinstance(value, str) else value

    def _topic(self) -> tuple[str, Uuid]:
        topic = new_topic(self._client)
        while fetch(self._client, topic).error_code:
            pass  # Kafka's broker learns of a new topic after its controller
        title = f"topic {len(self._topics) // 2}"
        self._topics |= {topic[0]: title, str(topic[1]): title}
        return topic

    def _begin(self, name: str, title: str = "begins", holds: Producer = (-1, -1)) -> Producer:
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=(name,))
        while self._client.ask(find, FindCoordinatorResponse, 6).coordinators[0].error_code:
            pass
        request = InitProducerIdRequest(name, 60_000, *holds)
        answer = self._ask(f"{name}: {title}", request, _NEWEST_INIT)
        assert isinstance(answer, InitProducerIdResponse)
        return answer.producer_id, answer.producer_epoch

    def _write(
        self,
        title: str,
        producer: Producer,
        topic: tuple[str, Uuid],
        sequence: int,
        version: int = 12,
    ) -> None:
        batch = batch_of(b"x", producer=producer, sequence=sequence, attributes=TRANSACTIONAL)
        data = TopicProduceData(*topic, (PartitionProduceData(0, batch.encode()),))
        request = ProduceRequest(title.partition(":")[0], -1, 30_000, (data,))
        self._ask(title, request, version)

    def _end(self, title: str, producer: Producer, *, commit: bool, version: int = 5) -> None:
        name = title.partition(":")[0]
        self._ask(title, EndTxnRequest(name, *producer, commit), version)

    def _describe(self, title: str) -> None:
        name = title.partition(":")[0]
        self._ask(title, DescribeTransactionsRequest((name,)), 0)

    def _producers(self, title: str, topic: str) -> None:
        self._ask(title, DescribeProducersRequest((TopicRequest(topic, (0, 9)),)), 0)

    def _read(self, title: str, topic: tuple[str, Uuid]) -> None:
        """What a read_committed consumer gets, after all markers are written."""
        found = fetch(self._client, topic, committed=True)
        while found.last_stable_offset != found.high_watermark:
            found = fetch(self._client, topic, committed=True)
        batches = decode_batches(found.records or b"").batches
        self.answers[title] = {
            "end": found.high_watermark,
            "aborted": [each.first_offset for each in found.aborted_transactions or ()],
            "batches": [
                (each.base_offset, each.attributes, each.producer_epoch, each.base_sequence)
                for each in batches
            ],
            "markers": [
                [(record.key, record.value) for record in each.records()]
                for each in batches
                if each.is_control
            ],
        }

    # -- the script -----------------------------------------------------------------------------------

    def _commit_and_abort(self) -> None:
        name, topic = "plain", self._topic()
        producer_id, epoch = self._begin(name)
        for number, commit in enumerate((True, False, True, False)):
            title, producer = f"{name}: {number}", (producer_id, epoch)
            self._write(f"{title} writes", producer, topic, 0)
            self._write(f"{title} writes more", producer, topic, 1)
            self._write(f"{title} repeats what it wrote", producer, topic, 1)
            self._write(f"{title} leaves a gap", producer, topic, 7)
            self._describe(f"{title} is open")
            self._producers(f"{title} has written", topic[0])
            self._end(f"{title} ends", producer, commit=commit)
            self._end(f"{title} ends again", producer, commit=commit)
            self._end(f"{title} ends otherwise", producer, commit=not commit)
            self._end(f"{title} ends in version 4", producer, commit=commit, version=4)
            self._describe(f"{title} is over")
            self._producers(f"{title} is over for the partition", topic[0])
            self._write(f"{title} writes after the end", producer, topic, 2)
            epoch += 1
        self._read(f"{name}: read", topic)
        self._write(f"{name}: to no topic", (producer_id, epoch), ("missing", Uuid(b"m" * 16)), 0)
        self._end(f"{name}: unknown id", (producer_id + 77, epoch), commit=True)
        self._end(f"{name}: future epoch", (producer_id, epoch + 1), commit=True)
        self._end("never: ends", (producer_id, epoch), commit=True)
        self._end(": ends", (producer_id, epoch), commit=True)
        self._describe("never: described")
        self._describe(": described")

    def _without_a_transaction(self) -> None:
        name = "nothing"
        producer_id, epoch = self._begin(name)
        self._end(f"{name}: commits", (producer_id, epoch), commit=True)
        for number in range(3):
            self._end(f"{name}: aborts {number}", (producer_id, epoch), commit=False)
            self._end(f"{name}: aborts again {number}", (producer_id, epoch), commit=False)
            self._end(f"{name}: commits {number}", (producer_id, epoch), commit=True)
            self._describe(f"{name}: aborted {number}")
            epoch += 1
        self._end(f"{name}: commits at last", (producer_id, epoch), commit=True)
        self._end(f"{name}: aborts in version 4", (producer_id, epoch), commit=False, version=4)
        self._begin(name, "begins again")
        self._end(f"{name}: old epoch aborts", (producer_id, epoch), commit=False)
        self._describe(f"{name}: described at last")

    def _fenced(self) -> None:
        name, topic = "fenced", self._topic()
        old = self._begin(name)
        self._write(f"{name}: writes", old, topic, 0)
        new = self._begin(name, "is taken over")
        self._describe(f"{name}: after that")
        self._write(f"{name}: old one writes", old, topic, 1)
        self._end(f"{name}: old one commits", old, commit=True)
        self._end(f"{name}: old one aborts", old, commit=False)
        self._end(f"{name}: old one aborts in version 1", old, commit=False, version=1)
        self._begin(name, "old one asks", holds=old)
        self._write(f"{name}: new one writes", new, topic, 0)
        self._write(f"{name}: a future epoch writes", (new[0], new[1] + 1), topic, 0)
        self._end(f"{name}: epoch before ends", (new[0], new[1] - 1), commit=True)
        self._end(f"{name}: new one commits", new, commit=True)
        self._read(f"{name}: read", topic)
        third = self._begin(name, "third")
        self._begin(name, "third asks for more", holds=third)
        self._begin(name, "third asks again", holds=third)

    def _holder(self) -> None:
        name, topic = "holder", self._topic()
        producer = self._begin(name)
        self._write(f"{name}: writes", producer, topic, 0)
        self._begin(name, "asks for an epoch", holds=producer)
        self._begin(name, "asks again", holds=producer)
        self._describe(f"{name}: described")
        self._write(f"{name}: old epoch writes", producer, topic, 1)
        self._end(f"{name}: old epoch ends", producer, commit=False)
        self._write(f"{name}: new epoch writes", (producer[0], producer[1] + 1), topic, 0)
        self._end(f"{name}: new epoch ends", (producer[0], producer[1] + 1), commit=True)
        self._read(f"{name}: read", topic)

    def _commit_offsets(self, title: str, producer: Producer, offset: int, version: int) -> None:
        name = title.partition(":")[0]
        partitions = (
            TxnOffsetCommitRequestPartition(0, offset, committed_metadata="m"),
            TxnOffsetCommitRequestPartition(9, offset, committed_metadata="m"),
        )
        topics = (TxnOffsetCommitRequestTopic(self._orders, partitions),)
        request = TxnOffsetCommitRequest(name, "group", *producer, topics=topics)
        self._ask(title, request, version)

    def _committed(self, title: str, *, stable: bool) -> None:
        topics = (OffsetFetchRequestTopics(self._orders, partition_indexes=(0,)),)
        request = OffsetFetchRequest(
            groups=(OffsetFetchRequestGroup("group", topics=topics),), require_stable=stable
        )
        self._ask(title, request, 9)

    def _offsets(self) -> None:
        name = "offsets"
        self._orders = self._topic()[0]
        find = FindCoordinatorRequest(coordinator_keys=("group",))
        while self._client.ask(find, FindCoordinatorResponse, 6).coordinators[0].error_code:
            pass
        producer_id, epoch = self._begin(name)
        for number, commit in enumerate((True, False)):
            title, producer = f"{name}: {number}", (producer_id, epoch)
            self._commit_offsets(f"{title} commits offsets", producer, 5 + number, 5)
            self._commit_offsets(f"{title} commits more", producer, 6 + number, 5)
            self._committed(f"{title} before the end", stable=False)
            self._committed(f"{title} before the end, stable", stable=True)
            self._ask(f"{title} listed", ListTransactionsRequest(("Ongoing",)), 2)
            self._end(f"{title} ends", producer, commit=commit)
            self._describe(f"{title} described")
            self._commit_offsets(f"{title} commits after the end", producer, 9, 5)
            epoch += 1
        self._commit_offsets(f"{name}: unknown producer", (producer_id + 77, 0), 9, 5)
        self._commit_offsets(f"{name}: never added", (producer_id, epoch), 9, 4)
        self._commit_offsets(f"{name}: never added v3", (producer_id, epoch), 9, 3)
        self._commit_offsets("never: commits offsets", (producer_id, epoch), 9, 5)

    def _add(self, title: str, producer: Producer, topic: str, version: int) -> None:
        name = title.partition(":")[0]
        topics = (AddPartitionsToTxnTopic(topic, (0,)),)
        if version >= 4:
            each = AddPartitionsToTxnTransaction(
                name, *producer, verify_only=version == 4, topics=topics
            )
            self._ask(title, AddPartitionsToTxnRequest(transactions=(each,)), version)
        else:
            self._ask(
                title,
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=name,
                    v3_and_below_producer_id=producer[0],
                    v3_and_below_producer_epoch=producer[1],
                    v3_and_below_topics=topics,
                ),
                version,
            )

    def _old_protocol(self) -> None:
        """Clients of transaction.version 0 and 1 on a cluster with version 2."""
        name, topic = "old", self._topic()
        producer = self._begin(name)
        self._write(f"{name}: writes without asking", producer, topic, 0, 11)
        for number, commit in enumerate((True, False)):
            self._add(f"{name}: {number} verifies", producer, topic[0], 4)
            self._add(f"{name}: {number} adds", producer, topic[0], 3)
            self._add(f"{name}: {number} verifies more", producer, topic[0], 5)
            self._write(f"{name}: {number} writes", producer, topic, number, 11)
            self._ask(
                f"{name}: {number} adds offsets",
                AddOffsetsToTxnRequest(name, *producer, "group"),
                4,
            )
            self._commit_offsets(f"{name}: {number} commits offsets", producer, 21 + number, 4)
            self._describe(f"{name}: {number} open")
            self._end(f"{name}: {number} ends", producer, commit=commit, version=4)
            self._end(f"{name}: {number} ends again", producer, commit=commit, version=4)
            self._end(f"{name}: {number} ends otherwise", producer, commit=not commit, version=4)
            self._describe(f"{name}: {number} over")
        self._read(f"{name}: read", topic)

    def _mixed_protocols(self) -> None:
        name, topic = "mixed", self._topic()
        producer_id, epoch = self._begin(name)
        self._write(f"{name}: writes", (producer_id, epoch), topic, 0)
        self._end(f"{name}: ends in version 4", (producer_id, epoch), commit=True, version=4)
        self._describe(f"{name}: over")
        self._write(f"{name}: writes again", (producer_id, epoch), topic, 1)
        self._end(f"{name}: ends in version 5", (producer_id, epoch), commit=False)
        self._read(f"{name}: read", topic)

    def _mark(
        self,
        title: str,
        producer: Producer,
        topic: str,
        *,
        level: int = 2,
        version: int = 2,
        coordinator: int = 0,
        partition: int = 0,
        commit: bool = False,
    ) -> None:
        topics = (WritableTxnMarkerTopic(topic, (partition,)),)
        marker = WritableTxnMarker(*producer, commit, topics, coordinator, level)
        self._ask(title, WriteTxnMarkersRequest((marker,)), version)

    def _markers(self) -> None:
        name, topic = "marked", self._topic()
        producer_id, epoch = self._begin(name)
        self._write(f"{name}: writes", (producer_id, epoch), topic, 0)
        self._mark(f"{name}: same epoch", (producer_id, epoch), topic[0])
        self._mark(f"{name}: next epoch", (producer_id, epoch + 1), topic[0], coordinator=3)
        self._producers(f"{name}: ended", topic[0])
        self._mark(f"{name}: again", (producer_id, epoch + 1), topic[0], coordinator=3)
        self._mark(f"{name}: old leader", (producer_id, epoch + 1), topic[0], coordinator=2)
        self._mark(f"{name}: old epoch", (producer_id, epoch), topic[0], level=0, coordinator=3)
        self._mark(f"{name}: version 1", (producer_id, epoch + 1), topic[0], version=1, level=0)
        self._mark(f"{name}: no topic", (producer_id, epoch + 1), "missing")
        self._mark(f"{name}: no partition", (producer_id, epoch + 1), topic[0], partition=9)
        self._mark(f"{name}: new producer", (producer_id + 77, 0), topic[0], commit=True)
        self._ask(f"{name}: nothing", WriteTxnMarkersRequest(()), 2)
        self._read(f"{name}: read", topic)
        self._describe(f"{name}: the coordinator does not know")
        self._write(f"{name}: writes after that", (producer_id, epoch), topic, 1)
        # It stays open: Kafka's own coordinator, of epoch 0, is fenced in the partition.

    def _markers_of_offsets(self) -> None:
        name = "marked-offsets"
        producer_id, epoch = self._begin(name)
        for number, commit in enumerate((True, False)):
            title, at = f"{name}: {number}", (producer_id, epoch + number)
            self._commit_offsets(f"{title} commits offsets", at, 31 + number, 5)
            for partition in range(4):
                self._mark(
                    f"{title} marks partition {partition}",
                    (at[0], at[1] + 1),
                    _OFFSETS,
                    partition=partition,
                    commit=commit,
                )
            self._committed(f"{title} committed", stable=True)
            self._end(f"{title} ends", at, commit=commit)
            self._committed(f"{title} committed after the end", stable=True)
        self._mark(f"{name}: old epoch", (producer_id, epoch), _OFFSETS, level=0)

    def _listed(self) -> None:
        for pattern in (None, "", "plain", "pla", "pl.*", "(?i)PLAIN", ".*mark.*", "[", "(a"):
            request = ListTransactionsRequest(transactional_id_pattern=pattern)
            self._ask(f"list: {pattern}", request, 2)
        for states in (("CompleteCommit",), ("completecommit", "Empty"), ("Nonsense", "Empty")):
            for version in range(3):
                request = ListTransactionsRequest(state_filters=states)
                self._ask(f"list: {states} v{version}", request, version)
        self._ask("list: an hour", ListTransactionsRequest(duration_filter=3_600_000), 2)
        self._ask("list: producers", ListTransactionsRequest(producer_id_filters=(77_777,)), 2)


def _codes(value: Any) -> set[int]:
    """All error codes of an answer."""
    if isinstance(value, dict):
        own = {item for key, item in value.items() if key in ("errorCode", "partitionErrorCode")}
        return own.union(*map(_codes, value.values()))
    return set().union(*map(_codes, value)) if isinstance(value, list) else set()


def _is_ending(answer: dict[str, Any]) -> bool:
    states = answer.get("transactionStates", ())
    return any(each["transactionState"].startswith("Prepare") for each in states)
