"""The records of `__transaction_state`: what a coordinator remembers of its transactional ids.

Kafka's TransactionLogKey and TransactionLogValue, so that Kafka's own tools can read the log.
A null value is a tombstone. Called by the server's transaction coordinator.
"""

from __future__ import annotations

from coterie.protocol.schema import RecordKey, RecordValue, Struct, field
from coterie.protocol.types import Int8, Int16, Int32, Int64

__all__ = ["TransactionLogKey", "TransactionLogPartitions", "TransactionLogValue"]


class TransactionLogKey(RecordKey, key=0, versions="0"):
    """Key of the record holding a transactional id."""

    transactional_id: str = field("0", "Transactional id of the producer.", default="")


class TransactionLogPartitions(Struct):
    """Partitions of one topic in the transaction."""

    topic: str = field("0+", "Name of the topic.", default="")
    partition_ids: tuple[Int32, ...] = field("0+", "Partitions in the transaction.", default=())


class TransactionLogValue(RecordValue, key=0, versions="0-1", flexible="1+"):
    """A transactional id: its producer, and its latest transaction."""

    producer_id: Int64 = field("0+", "Id of the producer.", default=0)
    previous_producer_id: Int64 = field(
        "1+",
        "Id of the producer in the transaction before; -1 if none.",
        default=-1,
        tag=0,
        ignorable=True,
    )
    next_producer_id: Int64 = field(
        "1+",
        "Id that the producer has for its next transaction; -1 if the same.",
        default=-1,
        tag=1,
        ignorable=True,
    )
    producer_epoch: Int16 = field("0+", "Epoch of the producer.", default=0)
    next_producer_epoch: Int16 = field(
        "1+",
        "Epoch of the next producer id; -1 if there is none.",
        default=-1,
        tag=3,
        ignorable=True,
    )
    transaction_timeout_ms: Int32 = field(
        "0+", "Milliseconds before the coordinator aborts the transaction.", default=0
    )
    transaction_status: Int8 = field("0+", "Number of the state.", default=0)
    transaction_partitions: tuple[TransactionLogPartitions, ...] | None = field(
        "0+", "Partitions in the transaction; null in state Empty.", default=(), nullable="0+"
    )
    transaction_last_update_timestamp_ms: Int64 = field(
        "0+", "When the record was written, in epoch ms.", default=0
    )
    transaction_start_timestamp_ms: Int64 = field(
        "0+", "When the transaction began, in epoch ms; -1 if none is open.", default=0
    )
    client_transaction_version: Int16 = field(
        "1+",
        "Version of the transaction protocol that the client uses.",
        default=0,
        tag=2,
        ignorable=True,
    )
