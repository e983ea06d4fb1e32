"""The data itself: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

from typing import Final, NamedTuple

from coterie.error_codes import ErrorCode
from coterie.errors import RecordBatchError
from coterie.protocol.messages.data import (
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    NodeEndpoint,
    OffsetForLeaderEpochEpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from coterie.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from coterie.protocol.schema import Response
from coterie.server.data.fetching import Fetch
from coterie.server.data.leading import find_topic, led_partition, present_leaders
from coterie.server.data.producing import Appended, add_to_transaction, append_records
from coterie.server.partitions.committer import CommitRound, when_all_end
from coterie.server.partitions.partition import Partition
from coterie.server.partitions.state import state_of
from coterie.server.requests.calls import Call
from coterie.server.services import Services
from coterie.storage.errors import OffsetOutOfRange, StorageError

__all__ = ["delete_records", "fetch", "list_offsets", "offset_for_leader_epoch", "produce"]

_TOPIC_IDS_FROM: Final = 13  # Produce, KIP-516
_ADDED_FROM: Final = 12  # Produce adds partitions to the transaction, KIP-890
_LEADER_TOLD_FROM: Final = 10  # Produce, KIP-951
_LEADER_EPOCH_FROM: Final = 4  # ListOffsets, KIP-320
_ALL: Final = -1
_ACKS: Final = (_ALL, 0, 1)
_READ_COMMITTED: Final = 1
#: What ListOffsets can be asked for instead of a time, with the version that brought it.
_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL = -1, -2, -3, -4
_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD = -5, -6
_SINCE: Final = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,  # KIP-734
    _EARLIEST_LOCAL: 8,  # KIP-405
    _LATEST_TIERED: 9,  # KIP-1005
    _EARLIEST_PENDING_UPLOAD: 11,  # KIP-1023
}


class _Result(NamedTuple):
    """One partition of a Produce request, and what became of it."""

    topic: TopicProduceData
    partition_index: int
    appended: Appended
    log_start_offset: int = -1
    leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


def produce(services: Services, call: Call, request: ProduceRequest) -> Response | None:
    """Produce 3-13. The answer leaves when all that was appended is durable, for acks 1 as for -1."""
    if request.transactional_id is not None and call.version >= _ADDED_FROM:
        # A batch that is durable before its partition is in the transaction would never be ended. All
        # requests of a producer wait for the same record, so their order stays.
        batches = _led_batches(services, call, request)
        added = add_to_transaction(services, request.transactional_id, batches)
        when_all_end([added], lambda _failed: _produce(services, call, request))
    else:
        _produce(services, call, request)
    return None


def _led_batches(services: Services, call: Call, request: ProduceRequest) -> dict[Partition, bytes]:
    """The records of a Produce request for partitions that this broker leads."""
    batches: dict[Partition, bytes] = {}
    by_id = call.version >= _TOPIC_IDS_FROM
    for asked in request.topic_data:
        topic = find_topic(services, asked.name, asked.topic_id, by_id=by_id)
        for given in asked.partition_data if not isinstance(topic, ErrorCode) else ():
            partition = led_partition(services, topic.name, given.index)
            if not isinstance(partition, ErrorCode):
                batches[partition] = given.records or b""
    return batches


def _produce(services: Services, call: Call, request: ProduceRequest) -> None:
    results = [
        _produce_to(services, call, request, topic, each)
        for topic in request.topic_data
        for each in topic.partition_data
    ]
    if request.acks == 0:
        if any(each.appended.error for each in results):
            # The only way to tell such a producer that something is wrong, as in Kafka.
            call.connection.close("Produce with acks 0 failed")
        else:
            call.no_answer()
        return

    def done(failed: set[CommitRound]) -> None:
        call.answer(_produce_response(services, call, request, results, failed))

    when_all_end([each.appended.round for each in results], done)


def _produce_to(
    services: Services,
    call: Call,
    request: ProduceRequest,
    asked: TopicProduceData,
    given: PartitionProduceData,
) -> _Result:
    index = given.index
    if request.acks not in _ACKS:
        return _Result(asked, index, Appended(ErrorCode.INVALID_REQUIRED_ACKS))
    by_id = call.version >= _TOPIC_IDS_FROM
    topic = find_topic(services, asked.name, asked.topic_id, by_id=by_id)
    if isinstance(topic, ErrorCode):
        return _Result(asked, index, Appended(topic))
    partition = led_partition(services, topic.name, index)
    if isinstance(partition, ErrorCode):
        leader = LeaderIdAndEpoch()
        elsewhere = services.partitions.get(topic.name, index)
        if elsewhere is not None and call.version >= _LEADER_TOLD_FROM:
            leader = LeaderIdAndEpoch(elsewhere.leader, elsewhere.leader_epoch)
        return _Result(asked, index, Appended(partition), leader=leader)
    if request.acks == _ALL and not _enough_in_sync(services, partition):
        refused = Appended(ErrorCode.NOT_ENOUGH_REPLICAS)
        return _Result(asked, index, refused, partition.log.log_start_offset)
    appended = append_records(
        services,
        partition,
        given.records,
        version=call.version,
        transactional_id=request.transactional_id,
    )
    # Kafka returns the log start offset with this error, too.
    known = appended.error in (ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    start = partition.log.log_start_offset if known else -1
    return _Result(asked, index, appended, start)


def _enough_in_sync(services: Services, partition: Partition) -> bool:
    """Whether the ISR has min.insync.replicas members, or all replicas if there are fewer."""
    needed = services.leadership.min_insync_replicas(partition.topic)
    return len(partition.metadata.isr) >= min(needed, len(partition.metadata.replicas))


def _produce_response(
    services: Services,
    call: Call,
    request: ProduceRequest,
    results: list[_Result],
    failed: set[CommitRound],
) -> ProduceResponse:
    by_topic: dict[int, list[PartitionProduceResponse]] = {}
    for each in results:
        lost = each.appended.round in failed
        code = ErrorCode.KAFKA_STORAGE_ERROR if lost else each.appended.error
        by_topic.setdefault(id(each.topic), []).append(
            PartitionProduceResponse(
                index=each.partition_index,
                error_code=code,
                base_offset=-1 if lost else each.appended.base_offset,
                log_append_time_ms=-1 if lost else each.appended.log_append_time_ms,
                log_start_offset=-1 if lost else each.log_start_offset,
                record_errors=each.appended.record_errors,
                error_message=each.appended.message,
                current_leader=each.leader,
            )
        )
    leaders = [each.leader.leader_id for each in results if each.leader.leader_id >= 0]
    return ProduceResponse(
        responses=tuple(
            TopicProduceResponse(each.name, each.topic_id, tuple(by_topic.get(id(each), ())))
            for each in request.topic_data
        ),
        node_endpoints=tuple(
            NodeEndpoint(*node) for node in present_leaders(services, call, leaders)
        ),
    )


def fetch(services: Services, call: Call, request: FetchRequest) -> Response | None:
    """Fetch 4-18, always in full: sessions (KIP-227) are refused, which every client understands."""
    if request.session_epoch > 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    Fetch(services, call, request).start()
    return None


def list_offsets(services: Services, call: Call, request: ListOffsetsRequest) -> Response:
    """ListOffsets 1-11."""
    committed_only = request.isolation_level == _READ_COMMITTED
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsTopicResponse(
                topic.name,
                tuple(
                    _offset(services, call, topic.name, each, committed_only=committed_only)
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _offset(
    services: Services, call: Call, topic: str, asked: ListOffsetsPartition, *, committed_only: bool
) -> ListOffsetsPartitionResponse:
    index, wanted = asked.partition_index, asked.timestamp
    if wanted < 0 and call.version < _SINCE.get(wanted, call.version + 1):
        return ListOffsetsPartitionResponse(index, ErrorCode.UNSUPPORTED_VERSION)
    partition = led_partition(services, topic, index, asked.current_leader_epoch)
    if isinstance(partition, ErrorCode):
        return ListOffsetsPartitionResponse(index, partition)
    try:
        offset, timestamp, epoch = _look_up(partition, wanted, committed_only=committed_only)
    except RecordBatchError:
        return ListOffsetsPartitionResponse(index, ErrorCode.CORRUPT_MESSAGE)
    return ListOffsetsPartitionResponse(
        index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch if call.version >= _LEADER_EPOCH_FROM else -1,
    )


def _look_up(partition: Partition, wanted: int, *, committed_only: bool) -> tuple[int, int, int]:
    """Offset, timestamp and leader epoch of what is wanted; -1 for each that there is not."""
    log, state = partition.log, state_of(partition)
    end = state.last_stable_offset if committed_only else log.high_watermark
    if wanted == _LATEST:
        return end, -1, partition.leader_epoch
    if wanted in (_EARLIEST, _EARLIEST_LOCAL):
        start = log.log_start_offset
        return start, -1, state.epoch_at(start)
    if wanted in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1  # nothing is tiered
    found = log.max_timestamp() if wanted == _MAX_TIMESTAMP else log.offset_for_timestamp(wanted)
    if found is None or found.offset >= end:
        return -1, -1, -1
    return found.offset, found.timestamp, found.leader_epoch


def offset_for_leader_epoch(
    services: Services, call: Call, request: OffsetForLeaderEpochRequest
) -> Response:
    """OffsetForLeaderEpoch 2-4."""
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic.topic,
                tuple(_epoch_end(services, topic.topic, each) for each in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _epoch_end(
    services: Services, topic: str, asked: OffsetForLeaderPartition
) -> OffsetForLeaderEpochEpochEndOffset:
    partition = led_partition(services, topic, asked.partition, asked.current_leader_epoch)
    if isinstance(partition, ErrorCode):
        return OffsetForLeaderEpochEpochEndOffset(partition, asked.partition)
    epoch, end = state_of(partition).epoch_end(asked.leader_epoch)
    return OffsetForLeaderEpochEpochEndOffset(0, asked.partition, epoch, end)


def delete_records(services: Services, call: Call, request: DeleteRecordsRequest) -> Response:
    """DeleteRecords 0-2."""
    return DeleteRecordsResponse(
        topics=tuple(
            DeleteRecordsTopicResult(
                topic.name, tuple(_delete(services, topic.name, each) for each in topic.partitions)
            )
            for topic in request.topics
        )
    )


def _delete(
    services: Services, topic: str, asked: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    index = asked.partition_index
    partition = led_partition(services, topic, index)
    if isinstance(partition, ErrorCode):
        return DeleteRecordsPartitionResult(index, -1, partition)
    if partition.topic.is_internal:
        return DeleteRecordsPartitionResult(index, -1, ErrorCode.INVALID_TOPIC_EXCEPTION)
    log = partition.log
    if not log.config.deletes_old_segments:
        return DeleteRecordsPartitionResult(index, -1, ErrorCode.POLICY_VIOLATION)
    before = log.high_watermark if asked.offset == -1 else asked.offset
    try:
        start = partition.committer.directory.delete_records(log, before)
    except OffsetOutOfRange:
        return DeleteRecordsPartitionResult(index, -1, ErrorCode.OFFSET_OUT_OF_RANGE)
    except StorageError:
        return DeleteRecordsPartitionResult(index, -1, ErrorCode.KAFKA_STORAGE_ERROR)
    return DeleteRecordsPartitionResult(index, start)
