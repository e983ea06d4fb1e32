"""WriteTxnMarkers: how tools abort a transaction that hangs in a partition."""

from __future__ import annotations

from coterie.error_codes import ErrorCode
from coterie.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from coterie.server.data.leading import led_partition
from coterie.server.partitions.committer import CommitRound, when_all_end
from coterie.server.partitions.partition import Partition
from coterie.server.partitions.state import state_of
from coterie.server.requests.calls import Call
from coterie.server.services import Services
from coterie.server.transactions.markers import TransactionMarker
from coterie.server.transactions.states import EPOCH_BUMP_FROM
from coterie.storage.errors import StorageError

__all__ = ["write_txn_markers"]

_Outcome = tuple[ErrorCode, CommitRound | None]


def write_txn_markers(services: Services, call: Call, request: WriteTxnMarkersRequest) -> None:
    """WriteTxnMarkers 1-2. The answer leaves when all markers are durable."""
    services.tasks.run(_write(services, call, request), call)


async def _write(services: Services, call: Call, request: WriteTxnMarkersRequest) -> None:
    named = {
        (topic.name, index)
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    }
    found = {each: led_partition(services, *each) for each in named}
    await services.markers.settled(each for each in found.values() if isinstance(each, Partition))
    written = [
        {
            (topic.name, index): _write_one(services, marker, found[topic.name, index])
            for topic in marker.topics
            for index in topic.partition_indexes
        }
        for marker in request.markers
    ]

    def done(failed: set[CommitRound]) -> None:
        call.answer(
            WriteTxnMarkersResponse(
                markers=tuple(
                    _result(marker, outcomes, failed)
                    for marker, outcomes in zip(request.markers, written, strict=True)
                )
            )
        )

    when_all_end([round_ for each in written for _, round_ in each.values()], done)


def _write_one(
    services: Services, asked: WritableTxnMarker, partition: Partition | ErrorCode
) -> _Outcome:
    if isinstance(partition, ErrorCode):
        return partition, None
    error = _why_refused(asked, partition)
    if error is not ErrorCode.NONE:
        return error, None
    marker = TransactionMarker(
        asked.producer_id,
        asked.producer_epoch,
        commit=asked.transaction_result,
        coordinator_epoch=asked.coordinator_epoch,
    )
    try:
        return ErrorCode.NONE, services.markers.write(marker, partition)
    except StorageError:
        return ErrorCode.KAFKA_STORAGE_ERROR, None


def _why_refused(asked: WritableTxnMarker, partition: Partition) -> ErrorCode:
    """Markers of a fenced producer or coordinator; with protocol 2 an open transaction ends under a
    higher epoch than its own."""
    producer = state_of(partition).producers.get(asked.producer_id)
    if producer is None:
        return ErrorCode.NONE
    strict = asked.transaction_version >= EPOCH_BUMP_FROM and producer.first_offset >= 0
    if asked.producer_epoch < producer.epoch + strict:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if asked.coordinator_epoch < producer.coordinator_epoch:
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    return ErrorCode.NONE


def _result(
    marker: WritableTxnMarker,
    outcomes: dict[tuple[str, int], _Outcome],
    failed: set[CommitRound],
) -> WritableTxnMarkerResult:
    def code(topic: str, index: int) -> ErrorCode:
        error, round_ = outcomes[topic, index]
        return ErrorCode.KAFKA_STORAGE_ERROR if round_ in failed else error

    return WritableTxnMarkerResult(
        marker.producer_id,
        tuple(
            WritableTxnMarkerTopicResult(
                topic.name,
                tuple(
                    WritableTxnMarkerPartitionResult(index, code(topic.name, index))
                    for index in topic.partition_indexes
                ),
            )
            for topic in marker.topics
        ),
    )
