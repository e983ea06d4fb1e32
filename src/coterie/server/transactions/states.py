"""A transactional id as its coordinator knows it, and its record in `__transaction_state`.

What this is: Kafka's TransactionState, TransactionMetadata and TransactionLog, without what they do.
Used by coterie.server.transactions.coordinator and the APIs that tell about transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from coterie.error_codes import ErrorCode
from coterie.protocol.records import RecordBatch, build_batch
from coterie.protocol.transaction_records import (
    TransactionLogKey,
    TransactionLogPartitions,
    TransactionLogValue,
)
from coterie.protocol.versioned import Undecoded, decode_versioned, encode_versioned
from coterie.server.partitions.committer import CommitRound

__all__ = [
    "EPOCH_BUMP_FROM",
    "State",
    "Transaction",
    "by_topic",
    "encode_transaction",
    "replay_batch",
    "why_not_ended",
]

#: The last epoch that is handed out; then a new producer id is (TransactionMetadata.isEpochExhausted).
_EXHAUSTED: Final = 2**15 - 2
_LAST_EPOCH: Final = 2**15 - 1
#: The level of transaction.version from which EndTxn raises the epoch (KIP-890).
EPOCH_BUMP_FROM: Final = 2


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
    #: The producer id of the transaction before, for an EndTxn that is repeated after a new id.
    previous_producer_id: int = -1
    #: The id that the producer gets when its epoch is exhausted and its transaction has ended.
    next_producer_id: int = -1
    #: The protocol of the client: 2 if EndTxn raises the epoch (KIP-890), else 0.
    client_version: int = 0
    #: The round of its newest record.
    round: CommitRound | None = None

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= _EXHAUSTED

    def raise_epoch(self, take_producer_id: Callable[[], int]) -> None:
        """Take the epoch under which a transaction ends, and a new producer id if it is the last one."""
        if self.is_epoch_exhausted:
            self.next_producer_id = take_producer_id()
        self.last_producer_epoch = self.producer_epoch
        self.producer_epoch = min(self.producer_epoch + 1, _LAST_EPOCH)

    def complete(self) -> None:
        """The markers are written: the outcome is final, and a new producer id takes effect."""
        committed = self.state is State.PREPARE_COMMIT
        self.state = State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT
        self.partitions = set()
        self.previous_producer_id = self.producer_id
        if self.next_producer_id >= 0:
            self.producer_id, self.producer_epoch = self.next_producer_id, 0
            self.next_producer_id = -1

    def is_repeated_end(self, producer_id: int, epoch: int) -> bool:
        """Whether an EndTxn of protocol 2 is one that was carried out before."""
        if self.client_version < EPOCH_BUMP_FROM:
            return False
        if producer_id == self.producer_id:
            return epoch + 1 == self.producer_epoch
        return (
            producer_id == self.previous_producer_id
            and epoch >= _EXHAUSTED
            and self.producer_epoch == 0
        )


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    """Partitions as messages list them."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return {topic: tuple(indexes) for topic, indexes in topics.items()}


def encode_transaction(transaction: Transaction, version: int) -> bytes:
    """The batch with the record of a transactional id, its value in a version."""
    key = TransactionLogKey(transaction.transactional_id)
    partitions = tuple(
        TransactionLogPartitions(topic, indexes)
        for topic, indexes in by_topic(transaction.partitions).items()
    )
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        next_producer_epoch=0 if transaction.next_producer_id >= 0 else -1,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None if transaction.state is State.EMPTY else partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
    )
    record = (
        encode_versioned(key, 0),
        encode_versioned(value, version),
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
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )


def why_not_ended(state: State, *, commit: bool, bumps: bool, repeated: bool) -> ErrorCode | None:
    """The answer to an EndTxn that ends nothing; None if there is something to end.

    The end that is asked for may be reached already. With protocol 2 (`bumps`) the epoch says whether the
    request is repeated, and an abort without a transaction raises the epoch.
    """
    if state is State.ONGOING:
        return ErrorCode.PRODUCER_FENCED if repeated else None
    if state is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    reached = state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    if reached and (repeated or not bumps):
        return ErrorCode.NONE
    if repeated and not commit and state is State.EMPTY:
        return ErrorCode.PRODUCER_FENCED  # InitProducerId raised the epoch, not an EndTxn
    if bumps and not commit and not repeated and not state.is_ending:
        return None
    return ErrorCode.INVALID_TXN_STATE
