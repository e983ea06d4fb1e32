"""Appending what a producer sent: the checks of one batch, and its way into the log.

What this is: Kafka's UnifiedLog.append and LogValidator, as far as a batch's header tells. Records are stored
as they came; they are only looked into where a compacted topic must know that all of them have keys.
What this is not: the Produce API; coterie.server.handlers.data takes requests apart and answers them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from coterie.error_codes import ErrorCode
from coterie.errors import RecordBatchError
from coterie.protocol.messages.data import BatchIndexAndErrorMessage
from coterie.protocol.records import CompressionType, RecordBatch, decode_batches
from coterie.protocol.records.batch import COMPRESSION_CODEC_MASK, TIMESTAMP_TYPE_MASK
from coterie.protocol.records.record import MIN_RECORD_SIZE
from coterie.server.partitions.committer import CommitRound
from coterie.server.partitions.partition import Partition
from coterie.server.partitions.state import PartitionState, state_of
from coterie.server.services import Services
from coterie.server.transactions.states import EPOCH_BUMP_FROM
from coterie.storage.errors import StorageError

__all__ = ["Appended", "add_to_transaction", "append_records"]

_ZSTD_FROM: Final = 7  # KIP-110
_ABORTABLE_FROM: Final = 11  # TRANSACTION_ABORTABLE, KIP-890
_NO_TIMESTAMP: Final = -1

#: Answers of the transaction coordinator that older producers do not retry. Kafka picks an error that
#: makes them try again without asking for metadata (ReplicaManager).
_TRY_AGAIN: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR})


class Appended(NamedTuple):
    """What became of one partition's records."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    base_offset: int = -1
    log_append_time_ms: int = _NO_TIMESTAMP
    round: CommitRound | None = None
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = ()


class _Refused(Exception):
    def __init__(
        self,
        error: ErrorCode,
        message: str | None = None,
        records: tuple[BatchIndexAndErrorMessage, ...] = (),
    ) -> None:
        super().__init__(error)
        self.answer = Appended(error, message, record_errors=records)


def append_records(
    services: Services,
    partition: Partition,
    data: bytes | None,
    *,
    version: int,
    transactional_id: str | None,
) -> Appended:
    """Check and stage the records of a Produce request for one partition that this broker leads."""
    try:
        _check_topic(partition)
        batch = _the_batch(data or b"", version)
        data = _for_the_log(services, partition, batch, (data or b"")[: batch.size_in_bytes])
        return _append(
            services, partition, batch, data, version=version, transactional_id=transactional_id
        )
    except _Refused as refused:
        return refused.answer
    except RecordBatchError as error:
        return Appended(ErrorCode.CORRUPT_MESSAGE, str(error))
    except StorageError as error:
        return Appended(ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def add_to_transaction(
    services: Services, transactional_id: str, batches: Mapping[Partition, bytes]
) -> CommitRound | None:
    """Add partitions to the transaction of the batches that are about to be appended to them (KIP-890).

    Errors are left to `append_records`, which asks the coordinator again for each partition.
    """
    added: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for partition, data in batches.items():
        try:
            found = decode_batches(data, check_crc=False).batches
        except RecordBatchError:
            continue
        if found and found[0].is_transactional:
            producer = (found[0].producer_id, found[0].producer_epoch)
            added.setdefault(producer, []).append((partition.topic.name, partition.index))
    round_ = None
    for producer, partitions in added.items():
        round_ = services.transactions.add_partitions(
            transactional_id, *producer, partitions, client_version=EPOCH_BUMP_FROM
        ).round
    return round_


def _check_topic(partition: Partition) -> None:
    if partition.topic.is_internal:
        # Kafka lets a client named __admin_client through; here what the coordinators remember would
        # no longer be what their log says.
        raise _Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Cannot append to internal topic {partition.topic.name}",
        )


def _the_batch(data: bytes, version: int) -> RecordBatch:
    """The one batch that a request may have for a partition (ProduceRequest.validateRecords).

    Its checksum is checked when it is staged. Bytes of an incomplete batch after it are cut off.
    """
    try:
        batches = decode_batches(data, check_crc=False).batches
    except RecordBatchError as error:
        if error.field != "magic":
            raise
        raise _invalid(
            f"Produce requests with version {version} are only allowed to contain record batches "
            "with magic version 2"
        ) from None
    if len(batches) != 1:
        wanted = "exactly one record batch" if batches else "at least one record batch"
        raise _invalid(f"Produce requests with version {version} must have {wanted} per partition")
    codec = batches[0].attributes & COMPRESSION_CODEC_MASK
    if codec > CompressionType.ZSTD or (codec == CompressionType.ZSTD and version < _ZSTD_FROM):
        raise _Refused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {version} are not allowed to use compression {codec}",
        )
    return batches[0]


def _for_the_log(
    services: Services, partition: Partition, batch: RecordBatch, data: bytes
) -> bytes:
    """The bytes to store, after the checks of LogValidator."""
    limit = _limit(services, partition, "max.message.bytes")
    if len(data) > limit:
        raise _Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {partition.topic.name}-{partition.index} is "
            f"{len(data)} bytes which exceeds the maximum configured value of {limit}.",
        )
    _check_header(partition, batch)
    if partition.log.config.is_compacted:
        _check_keys(partition, batch)
    if _setting(services, partition, "message.timestamp.type") != "LogAppendTime":
        _check_timestamps(services, partition, batch)
        return data
    decode_batches(data)  # the checksum, before it is computed again
    return msgspec.structs.replace(
        batch,
        attributes=batch.attributes | TIMESTAMP_TYPE_MASK,
        max_timestamp=services.clock.now_ms(),
    ).encode()


def _check_header(partition: Partition, batch: RecordBatch) -> None:
    where = f"{partition.topic.name}-{partition.index}"
    if batch.base_offset != 0:
        raise _invalid(
            f"The baseOffset of the record batch in the append to {where} should be 0, but it is "
            f"{batch.base_offset}"
        )
    plain = batch.compression is CompressionType.NONE
    too_many = plain and batch.records_count * MIN_RECORD_SIZE > len(batch.payload)
    counted = batch.last_offset_delta + 1 == batch.records_count > 0
    if too_many or not counted:
        raise _invalid(
            f"Inconsistency between the offset range and the count of records "
            f"[0, {batch.last_offset_delta}] ({batch.records_count}) in the append to {where}"
        )
    if batch.is_control:
        raise _invalid("Clients are not allowed to write control records")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise _invalid(
            f"Invalid sequence number {batch.base_sequence} in record batch with producerId "
            f"{batch.producer_id}"
        )


def _check_keys(partition: Partition, batch: RecordBatch) -> None:
    message = (
        "Compacted topic cannot accept message without key in topic partition "
        f"{partition.topic.name}-{partition.index}"
    )
    missing = tuple(
        BatchIndexAndErrorMessage(index, message)
        for index, record in enumerate(batch.records())
        if record.key is None
    )
    if missing:
        raise _Refused(
            ErrorCode.INVALID_RECORD,
            f"One or more records have been rejected due to {len(missing)} record errors in total",
            missing,
        )


def _check_timestamps(services: Services, partition: Partition, batch: RecordBatch) -> None:
    """Too far from now; the header's largest and first stand for all records."""
    if batch.is_log_append_time:
        raise _Refused(
            ErrorCode.INVALID_TIMESTAMP,
            "Invalid timestamp type in message. Producer should not set timestamp type to log append time.",
        )
    if batch.max_timestamp == _NO_TIMESTAMP:
        return
    now = services.clock.now_ms()
    if batch.max_timestamp - now > _limit(
        services, partition, "message.timestamp.after.max.ms"
    ) or (
        now - batch.base_timestamp > _limit(services, partition, "message.timestamp.before.max.ms")
    ):
        raise _Refused(ErrorCode.INVALID_TIMESTAMP)


def _limit(services: Services, partition: Partition, name: str) -> int:
    return int(_setting(services, partition, name))


def _setting(services: Services, partition: Partition, name: str) -> str:
    """The topic's own value or that of the broker."""
    return partition.topic.configs.get(name) or services.broker_settings.topic_defaults[name]


def _append(
    services: Services,
    partition: Partition,
    batch: RecordBatch,
    data: bytes,
    *,
    version: int,
    transactional_id: str | None,
) -> Appended:
    state = state_of(partition)
    if batch.producer_id >= 0:
        producer = state.producers.get(batch.producer_id)
        duplicate = producer.duplicate_of(batch) if producer else None
        if duplicate is not None:
            # The first of the two may not be durable yet.
            return Appended(
                base_offset=duplicate.base_offset,
                log_append_time_ms=duplicate.timestamp,
                round=state.last_round,
            )
        if batch.is_transactional:
            _verify(services, state, batch, version, transactional_id)
        error = state.producers.why_refused(batch)
        if error is not ErrorCode.NONE:
            raise _Refused(error)
    base_offset, round_ = state.append(data, batch)
    appended_at = _NO_TIMESTAMP
    if partition.topic.configs.get("message.timestamp.type") == "LogAppendTime":
        appended_at = services.clock.now_ms()
    return Appended(base_offset=base_offset, log_append_time_ms=appended_at, round=round_)


def _verify(
    services: Services,
    state: PartitionState,
    batch: RecordBatch,
    version: int,
    transactional_id: str | None,
) -> None:
    """Refuse a transaction's first batch in a partition that the coordinator does not have: no marker
    would ever end the transaction there (KIP-890)."""
    producer = state.producers.get(batch.producer_id)
    if (
        producer is not None
        and producer.first_offset >= 0
        and producer.epoch == batch.producer_epoch
    ):
        return
    if transactional_id is None:
        raise _Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    partition = state.partition
    error = services.transactions.verify(
        transactional_id,
        batch.producer_id,
        batch.producer_epoch,
        (partition.topic.name, partition.index),
    )
    if error is ErrorCode.PRODUCER_FENCED:
        raise _Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
    if error is ErrorCode.INVALID_TXN_STATE:
        if version >= _ABORTABLE_FROM:
            raise _Refused(ErrorCode.TRANSACTION_ABORTABLE)
        raise _Refused(error, "Partition was not added to the transaction")
    if error in _TRY_AGAIN:
        raise _Refused(ErrorCode.NOT_ENOUGH_REPLICAS, error.message)
    if error is not ErrorCode.NONE:
        raise _Refused(error)


def _invalid(message: str) -> _Refused:
    return _Refused(ErrorCode.INVALID_RECORD, message)
