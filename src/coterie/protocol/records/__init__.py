"""Kafka's record batches, magic 2: what a log, a Produce request and a Fetch response are made of.

Everything but the columnar reader, which needs numpy: for that, import coterie.protocol.records.columns.
"""

from __future__ import annotations

from coterie.protocol.records.batch import (
    Batches,
    RecordBatch,
    assign_offsets,
    build_batch,
    decode_batches,
    encode_plain_batch,
    increment_sequence,
)
from coterie.protocol.records.compression import MAX_DECOMPRESSED, CompressionType
from coterie.protocol.records.control import (
    ControlRecord,
    ControlRecordType,
    control_batch,
    decode_control_record,
)
from coterie.protocol.records.record import Header, Record, RecordParts

__all__ = [
    "MAX_DECOMPRESSED",
    "Batches",
    "CompressionType",
    "ControlRecord",
    "ControlRecordType",
    "Header",
    "Record",
    "RecordBatch",
    "RecordParts",
    "assign_offsets",
    "build_batch",
    "control_batch",
    "decode_batches",
    "decode_control_record",
    "encode_plain_batch",
    "increment_sequence",
]
