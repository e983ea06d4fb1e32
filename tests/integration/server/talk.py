"""Short forms of the requests that tests of the data plane send, over a WireClient."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    PartitionData,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from coterie.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from coterie.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from coterie.protocol.records import RecordBatch, build_batch, decode_batches
from coterie.protocol.types import Uuid
from coterie.testing import EmbeddedCluster
from tests.kit.wire_client import WireClient

__all__ = [
    "TRANSACTIONAL",
    "add_partitions",
    "batch_of",
    "end",
    "fetch",
    "init",
    "list_offset",
    "new_topic",
    "produce",
    "values",
]

TRANSACTIONAL = 0x10
_numbers = itertools.count()


def new_topic(
    client: WireClient, partitions: int = 1, *, replicas: int = 1, **configs: str
) -> tuple[str, Uuid]:
    """A topic that no other test has; underscores in setting names stand for dots."""
    name = f"topic-{next(_numbers)}"
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=tuple(
            CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()
        ),
    )
    answer = client.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    assert answer.topics[0].error_code == 0
    return name, answer.topics[0].topic_id


def batch_of(
    *contents: bytes | None,
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    attributes: int = 0,
    timestamp: int | None = None,
    key: bytes | None = b"k",
) -> RecordBatch:
    """A batch of records, in the attributes' compression."""
    now = time.time_ns() // 1_000_000 if timestamp is None else timestamp
    like = RecordBatch(
        attributes=attributes,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
    )
    return build_batch([(key, content, now, ()) for content in contents], like)


def produce(
    client: WireClient,
    topic: tuple[str, Uuid],
    records: RecordBatch | bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    version: int | None = None,
    transactional_id: str | None = None,
) -> PartitionProduceResponse:
    """One partition's answer to one batch."""
    data = records.encode() if isinstance(records, RecordBatch) else records
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=30_000,
        topic_data=(TopicProduceData(*topic, (PartitionProduceData(partition, data),)),),
    )
    answer = client.ask(request, ProduceResponse, version)
    return answer.responses[0].partition_responses[0]


def fetch(
    client: WireClient,
    topic: tuple[str, Uuid],
    offset: int = 0,
    *,
    version: int | None = None,
    partition_max_bytes: int = 1 << 20,
    committed: bool = False,
    leader_epoch: int = -1,
    partition: int = 0,
    max_wait_ms: int = 0,
) -> PartitionData:
    """One partition, without waiting unless told."""
    asked = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        current_leader_epoch=leader_epoch,
        partition_max_bytes=partition_max_bytes,
    )
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        isolation_level=int(committed),
        topics=(FetchTopic(*topic, (asked,)),),
    )
    answer = client.ask(request, FetchResponse, version)
    assert answer.error_code == 0
    return answer.responses[0].partitions[0]


def values(found: PartitionData) -> list[bytes | None]:
    """The records' values, markers left out."""
    return [
        record.value
        for batch in decode_batches(found.records or b"").batches
        if not batch.is_control
        for record in batch.records()
    ]


def list_offset(
    client: WireClient,
    topic: tuple[str, Uuid],
    timestamp: int,
    *,
    version: int | None = None,
    committed: bool = False,
) -> ListOffsetsPartitionResponse:
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed),
        topics=(ListOffsetsTopic(topic[0], (ListOffsetsPartition(timestamp=timestamp),)),),
    )
    return client.ask(request, ListOffsetsResponse, version).topics[0].partitions[0]


def init(
    client: WireClient,
    transactional_id: str | None,
    *,
    timeout_ms: int = 60_000,
    holds: tuple[int, int] = (-1, -1),
    version: int | None = None,
) -> InitProducerIdResponse:
    request = InitProducerIdRequest(transactional_id, timeout_ms, *holds)
    return client.ask(request, InitProducerIdResponse, version)


def add_partitions(
    client: WireClient,
    transactional_id: str,
    producer: tuple[int, int],
    topic: str,
    partitions: Iterable[int] = (0,),
    *,
    version: int = 3,
) -> list[int]:
    """The error codes of the partitions."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=(AddPartitionsToTxnTopic(topic, tuple(partitions)),),
    )
    answer = client.ask(request, AddPartitionsToTxnResponse, version)
    results = answer.results_by_topic_v3_and_below[0].results_by_partition
    return [each.partition_error_code for each in results]


def end(
    client: WireClient,
    transactional_id: str,
    producer: tuple[int, int],
    *,
    commit: bool,
    version: int = 4,
) -> ErrorCode:
    request = EndTxnRequest(transactional_id, *producer, commit)
    return ErrorCode.of(client.ask(request, EndTxnResponse, version).error_code)


def connect(cluster: EmbeddedCluster, node_id: int) -> WireClient:
    host, port = cluster.bootstrap_servers.split(",")[node_id - 1].split(":")
    return WireClient(host, int(port))


def place(client: WireClient, name: str, *replicas: Sequence[int], **configs: str) -> None:
    """A topic whose partitions have these replicas."""
    wanted = tuple(CreatableReplicaAssignment(i, tuple(each)) for i, each in enumerate(replicas))
    settings = tuple(
        CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()
    )
    topic = CreatableTopic(name, -1, -1, wanted, settings)
    (result,) = client.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse).topics
    assert (result.error_code, result.replication_factor) == (0, len(replicas[0]))


def metadata(
    client: WireClient, name: str | None, version: int = 13, topic_id: Uuid = Uuid.ZERO
) -> MetadataResponseTopic:
    asked = MetadataRequestTopic(topic_id=topic_id, name=name)
    (topic,) = client.ask(MetadataRequest(topics=(asked,)), MetadataResponse, version).topics
    return topic


def partitions(client: WireClient, name: str) -> tuple[MetadataResponsePartition, ...]:
    return metadata(client, name).partitions
