"""Record batches of magic 2 (Kafka's DefaultRecordBatch), with one object per record at most.

`decode_batches` cuts a fetched buffer into `RecordBatch` values without unpacking their records,
`RecordBatch.records` unpacks them, `build_batch` and `RecordBatch.encode` write. Batches of magic 0 and 1
are refused: Kafka 4 writes none. Called by clients and by a broker's storage; readers in bulk use
coterie.protocol.records.columns, which makes no object per record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count as count_from
from struct import Struct
from typing import Any

import msgspec
from crc32c import crc32c

from coterie.errors import RecordBatchError
from coterie.protocol.batch_layout import (
    BATCH_OVERHEAD,
    LENGTH_END,
    MAGIC,
    MIN_LENGTH,
)
from coterie.protocol.records.compression import (
    MAX_DECOMPRESSED,
    Buffer,
    CompressionType,
    compress,
    decompress,
)
from coterie.protocol.records.record import (
    Record,
    RecordParts,
    check_records_count,
    decode_record,
    encode_record,
)
from coterie.protocol.records.varint import VARINTS, encode_varint

__all__ = [
    "COMPRESSION_CODEC_MASK",
    "CONTROL_FLAG_MASK",
    "DELETE_HORIZON_FLAG_MASK",
    "TIMESTAMP_TYPE_MASK",
    "TRANSACTIONAL_FLAG_MASK",
    "Batches",
    "RecordBatch",
    "assign_offsets",
    "batch_end",
    "build_batch",
    "decode_batches",
    "encode_plain_batch",
    "increment_sequence",
]

# The header in two halves, because the checksum covers only what follows it.
_HEAD = Struct(">qiibI")  # base offset, length, partition leader epoch, magic, checksum
_BODY = Struct(">hiqqqhii")  # attributes to records count, in the order of RecordBatch
_LENGTH_AND_MAGIC = Struct(">8xi4xb")
_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")

# The bits of the attributes.
COMPRESSION_CODEC_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08  # set: log append time
TRANSACTIONAL_FLAG_MASK = 0x10
CONTROL_FLAG_MASK = 0x20
DELETE_HORIZON_FLAG_MASK = 0x40  # KIP-534

_NONE = -1  # Kafka's NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
_INT32_MAX = 2**31 - 1
_INT64_SIGN = 1 << 63


class RecordBatch(msgspec.Struct, frozen=True, gc=False):
    """The header of one batch, and its records as they travel: packed, perhaps compressed.

    `crc` is what was read; `encode` computes it anew. The payload of a decoded batch is a view of the
    buffer that it was decoded from.
    """

    base_offset: int = 0
    partition_leader_epoch: int = _NONE
    crc: int = 0
    attributes: int = 0
    last_offset_delta: int = 0
    base_timestamp: int = _NONE
    max_timestamp: int = _NONE
    producer_id: int = _NONE
    producer_epoch: int = _NONE
    base_sequence: int = _NONE
    records_count: int = 0
    payload: Buffer = b""

    @property
    def compression(self) -> CompressionType:
        return CompressionType.of(self.attributes & COMPRESSION_CODEC_MASK)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_MASK)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG_MASK)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG_MASK)

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when compaction may drop tombstones; it takes the place of the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG_MASK else None

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def size_in_bytes(self) -> int:
        return BATCH_OVERHEAD + len(self.payload)

    def encode(self) -> bytes:
        """The bytes of this batch, with the length and the checksum that it should have."""
        body = _BODY.pack(
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.records_count,
        )
        head = _HEAD.pack(
            self.base_offset,
            MIN_LENGTH + len(self.payload),
            self.partition_leader_epoch,
            MAGIC,
            crc32c(self.payload, crc32c(body)),
        )
        return b"".join((head, body, self.payload))

    def records(self, *, limit: int = MAX_DECOMPRESSED) -> list[Record]:
        """All records, or none if one of them is damaged; `limit` bounds the decompressed bytes."""
        count = self.records_count
        if count == 0:
            # Compaction keeps an emptied batch for its producer's sequence. Kafka ignores the payload.
            return []
        data = decompress(self.payload, self.compression, limit=limit)
        check_records_count(count, len(data))
        append_time = self.max_timestamp if self.is_log_append_time else None
        numbered = self.base_sequence >= 0
        records: list[Record] = []
        position = 0
        for _ in range(count):
            time_delta, offset_delta, key, value, headers, position = decode_record(data, position)
            offset = _int64(self.base_offset + offset_delta)
            timestamp = (
                _int64(self.base_timestamp + time_delta) if append_time is None else append_time
            )
            sequence = increment_sequence(self.base_sequence, offset_delta) if numbered else _NONE
            records.append(Record(offset, timestamp, sequence, key, value, headers))
        if position != len(data):
            raise RecordBatchError(
                f"{len(data) - position} bytes are left behind the last of {count} records",
                message="RecordBatch",
                field="records",
                offset=position,
            )
        return records


_BLANK = RecordBatch()


class Batches(msgspec.Struct, frozen=True, gc=False):
    """The whole batches of a buffer, and how many bytes of an incomplete one follow them."""

    batches: tuple[RecordBatch, ...]
    trailing_bytes: int


def decode_batches(buffer: Buffer, *, check_crc: bool = True) -> Batches:
    """The batches of a fetched buffer. A broker may cut the last one short: that is no error."""
    view = memoryview(buffer).toreadonly()
    batches: list[RecordBatch] = []
    position = 0
    while (end := batch_end(view, position)) is not None:
        batches.append(_decode_batch(view[position:end], position, check_crc=check_crc))
        position = end
    return Batches(tuple(batches), len(view) - position)


def batch_end(view: memoryview, position: int) -> int | None:
    """Where the batch at `position` ends, or None if it is not all there; checks magic and length."""
    if len(view) - position < _LENGTH_AND_MAGIC.size:
        return None
    length, magic = _LENGTH_AND_MAGIC.unpack_from(view, position)
    if magic != MAGIC:
        known = "the format before Kafka 0.11" if magic in (0, 1) else "unknown"
        raise _damaged(f"magic {magic}, {known}; only magic 2 is read", "magic", position)
    if length < MIN_LENGTH:
        raise _damaged(f"{length}, where an empty batch has {MIN_LENGTH}", "length", position)
    end = position + LENGTH_END + int(length)
    return end if end <= len(view) else None


def _decode_batch(view: memoryview, position: int, *, check_crc: bool) -> RecordBatch:
    base_offset, _, leader_epoch, _, crc = _HEAD.unpack_from(view)
    if check_crc and (computed := crc32c(view[_HEAD.size :])) != crc:
        raise _damaged(f"stored checksum {crc}, computed {computed}", "crc", position)
    body: tuple[int, ...] = _BODY.unpack_from(view, _HEAD.size)
    fields: tuple[Any, ...] = (base_offset, leader_epoch, crc, *body, view[BATCH_OVERHEAD:])
    return RecordBatch(*fields)


def build_batch(
    records: Iterable[RecordParts],
    like: RecordBatch = _BLANK,
    *,
    offset_deltas: Iterable[int] | None = None,
) -> RecordBatch:
    """A batch of one or more records, with the header of `like` as far as the records do not decide it.

    Its attributes say which: the codec compresses the records; with the log append time bit its max
    timestamp stays, and with the delete horizon bit its base timestamp. Offsets count up from the base
    offset unless `offset_deltas` are given, one for each record: compaction leaves gaps.
    """
    base_timestamp = like.delete_horizon_ms
    timestamps: list[int] = []
    packed: list[bytes] = []
    last_delta = 0
    deltas = count_from() if offset_deltas is None else offset_deltas
    for (key, value, timestamp, headers), delta in zip(
        records, deltas, strict=offset_deltas is not None
    ):
        if base_timestamp is None:
            base_timestamp = timestamp
        packed.append(encode_record(timestamp - base_timestamp, delta, key, value, headers))
        timestamps.append(timestamp)
        last_delta = delta
    if base_timestamp is None or not packed:
        raise ValueError("a batch is built from one or more records")
    return RecordBatch(
        base_offset=like.base_offset,
        partition_leader_epoch=like.partition_leader_epoch,
        attributes=like.attributes,
        last_offset_delta=last_delta,
        base_timestamp=base_timestamp,
        max_timestamp=like.max_timestamp if like.is_log_append_time else max(timestamps),
        producer_id=like.producer_id,
        producer_epoch=like.producer_epoch,
        base_sequence=like.base_sequence,
        records_count=len(packed),
        payload=compress(b"".join(packed), like.compression),
    )


def encode_plain_batch(
    records: Sequence[tuple[bytes, bytes | None]], timestamp: int, like: RecordBatch
) -> tuple[RecordBatch, bytes]:
    """A batch of records of one moment, without headers or compression, and its bytes.

    What a coordinator writes, thousands of times a second: `build_batch` and `encode` in one, a third of
    their cost.
    """
    packed: list[bytes] = []
    ready, most = VARINTS, len(VARINTS)
    for delta, (key, value) in enumerate(records):
        size = len(key)
        head = ready[size] if size < most else encode_varint(size)
        number = ready[delta] if delta < most else encode_varint(delta)
        if value is None:
            body = b"\0\0%b%b%b\1\0" % (number, head, key)
        else:
            size = len(value)
            length = ready[size] if size < most else encode_varint(size)
            body = b"\0\0%b%b%b%b%b\0" % (number, head, key, length, value)
        size = len(body)
        packed.append(ready[size] if size < most else encode_varint(size))
        packed.append(body)
    batch = RecordBatch(
        like.base_offset,
        like.partition_leader_epoch,
        0,
        like.attributes,
        len(records) - 1,
        timestamp,
        timestamp,
        like.producer_id,
        like.producer_epoch,
        like.base_sequence,
        len(records),
        b"".join(packed),
    )
    return batch, batch.encode()


def assign_offsets(
    buffer: bytearray | memoryview, position: int, base_offset: int, partition_leader_epoch: int
) -> None:
    """Give the encoded batch at `position` its place in a log; the checksum covers neither field."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + LENGTH_END, partition_leader_epoch)


def increment_sequence(sequence: int, increment: int) -> int:
    """A producer's sequence, which goes on at 0 after 2^31 - 1; without a producer there is none."""
    if sequence < 0:
        return _NONE
    return (sequence + increment) & _INT32_MAX


def _int64(value: int) -> int:
    # Java's long arithmetic wraps, and numpy's in the columnar reader does too.
    if -_INT64_SIGN <= value < _INT64_SIGN:
        return value
    return (value + _INT64_SIGN) % (2 * _INT64_SIGN) - _INT64_SIGN


def _damaged(reason: str, field: str, position: int) -> RecordBatchError:
    return RecordBatchError(reason, message="RecordBatch", field=field, offset=position)
