"""Control batches: the markers that end a transaction in a partition, and Kafka's other control records.

A control batch holds one record that no application sees: its key names the type (ControlRecordType),
its value is for that type. Only the transaction markers (EndTransactionMarker) are written here. Called
by readers that filter aborted records and by a broker's transactions.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

import msgspec

from coterie.errors import RecordBatchError
from coterie.protocol.records.batch import (
    CONTROL_FLAG_MASK,
    TRANSACTIONAL_FLAG_MASK,
    RecordBatch,
    build_batch,
)
from coterie.protocol.records.record import Record

__all__ = ["ControlRecord", "ControlRecordType", "control_batch", "decode_control_record"]

_KEY = Struct(">hh")  # version, type
_MARKER = Struct(">hi")  # version, coordinator epoch


class ControlRecordType(IntEnum):
    """What a control record says; types of newer brokers read as UNKNOWN, as in Kafka."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


class ControlRecord(msgspec.Struct, frozen=True, gc=False):
    """A control record; only COMMIT and ABORT have the epoch of the transaction's coordinator."""

    type: ControlRecordType
    coordinator_epoch: int | None = None


def control_batch(
    marker: ControlRecordType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
) -> RecordBatch:
    """The batch that ends a producer's transaction: COMMIT or ABORT."""
    if marker not in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
        raise ValueError(f"a transaction ends with COMMIT or ABORT, not {marker.name}")
    key = _KEY.pack(0, marker)
    value = _MARKER.pack(0, coordinator_epoch)
    like = RecordBatch(
        attributes=CONTROL_FLAG_MASK | TRANSACTIONAL_FLAG_MASK,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    return build_batch([(key, value, timestamp, ())], like)


def decode_control_record(record: Record) -> ControlRecord:
    """What a record of a control batch says. Newer versions may add to key and value, not change them."""
    key, value = record.key or b"", record.value or b""
    if len(key) < _KEY.size:
        raise _damaged(f"{len(key)} bytes, where a control record has {_KEY.size}", "key")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise _damaged(f"version {version}", "key")
    try:
        kind = ControlRecordType(number)
    except ValueError:
        kind = ControlRecordType.UNKNOWN
    if kind not in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
        return ControlRecord(kind)
    if len(value) < _MARKER.size:
        raise _damaged(f"{len(value)} bytes, where a marker has {_MARKER.size}", "value")
    version, epoch = _MARKER.unpack_from(value)
    if version < 0:
        raise _damaged(f"version {version}", "value")
    return ControlRecord(kind, epoch)


def _damaged(reason: str, field: str) -> RecordBatchError:
    return RecordBatchError(reason, message="ControlRecord", field=field)
