"""A transactional id as its coordinator knows it, and its record in `__transaction_state`.

What this is: Kafka's TransactionState, TransactionMetadata and TransactionLog, without what they do.
Used by coterie.server.transaction_coordinator and the APIs that tell about transactions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from coterie.protocol.records import RecordBatch, build_batch
from coterie.protocol.transaction_records import (
    TransactionLogKey,
    TransactionLogPartitions,
    TransactionLogValue,
)
from coterie.protocol.versioned import Undecoded, decode_versioned, encode_versioned

if TYPE_CHECKING:
    from coterie.server.committer import CommitRound

__all__ = ["State", "Transaction", "by_topic", "encode_transaction", "replay_batch"]

#: The last epoch that is handed out; then a new producer id is (TransactionMetadata.isEpochExhausted).
_EXHAUSTED: Final = 2**15 - 2
_RECORD_VERSION: Final = 0


class State(IntEnum):
    """Where a transactional id stands; the numbers are in the log, the titles in DescribeTransactions."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        return self.name.title().replace("_", "")

    @property
    def is_ending(self) -> bool:
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)


@dataclass(slots=True)
class Transaction:
    """One transactional id, with the transaction that is open or was last."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = -1
    #: The epoch before the last InitProducerId, which may be sent twice (KIP-360); -1 if not known.
    last_producer_epoch: int = -1
    timeout_ms: int = 0
    state: State = State.EMPTY
    partitions: set[tuple[str, int]] = field(default_factory=set)
    started_ms: int = -1
    updated_ms: int = -1
    #: The round of its newest record.
    round: CommitRound | None = None

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= _EXHAUSTED


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    """Partitions as messages list them."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return {topic: tuple(indexes) for topic, indexes in topics.items()}


def encode_transaction(transaction: Transaction) -> bytes:
    """The batch with the record of a transactional id."""
    key = TransactionLogKey(transaction.transactional_id)
    partitions = tuple(
        TransactionLogPartitions(topic, indexes)
        for topic, indexes in by_topic(transaction.partitions).items()
    )
    value = TransactionLogValue(
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        transaction.state,
        None if transaction.state is State.EMPTY else partitions,
        transaction.updated_ms,
        transaction.started_ms,
    )
    record = (
        encode_versioned(key, _RECORD_VERSION),
        encode_versioned(value, _RECORD_VERSION),
        transaction.updated_ms,
        (),
    )
    return build_batch([record]).encode()


def replay_batch(batch: RecordBatch, transactions: dict[str, Transaction]) -> None:
    """One batch of the log into what is known; what cannot be read is passed over."""
    if batch.is_control:
        return
    for record in batch.records():
        key = decode_versioned(TransactionLogKey, record.key or b"")
        if isinstance(key, Undecoded):
            continue
        if record.value is None:
            transactions.pop(key.transactional_id, None)
            continue
        value = decode_versioned(TransactionLogValue, record.value)
        if not isinstance(value, Undecoded):
            transactions[key.transactional_id] = _transaction(key.transactional_id, value)


def _transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=State(value.transaction_status),
        partitions={
            (each.topic, index)
            for each in value.transaction_partitions or ()
            for index in each.partition_ids
        },
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
    )
