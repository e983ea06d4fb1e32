"""The codecs of record batches: one payload in, one payload out, with a bound on what comes out.

The compression itself is cramjam's. Ours is the choice of format that Kafka's Java classes can read,
the xerial framing around raw snappy blocks, and the bound. Called by coterie.protocol.records.batch and
.columns; knows nothing of batches.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from enum import IntEnum
from struct import Struct

import cramjam

from coterie.errors import RecordBatchError

__all__ = ["MAX_DECOMPRESSED", "Buffer", "CompressionType", "compress", "decompress"]

Buffer = bytes | bytearray | memoryview

# Kafka sets no bound here. Its producer keeps a batch under max.request.size before compression
# (1 MiB unless set otherwise), and a whole fetch response is fetch.max.bytes (50 MiB): one batch that
# grows beyond 64 MiB is a bomb, or a cluster whose owner should say so with `limit`.
MAX_DECOMPRESSED = 64 * 1024 * 1024

# SnappyOutputStream of snappy-java, which Kafka writes with: magic, version 1, oldest compatible
# version 1, then blocks of up to 32 KiB of plain data, each with its compressed length before it.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 * 1024
_BLOCK_LENGTH = Struct(">i")

# What a first try allocates; see `decompress`.
_USUAL_RATIO = 8
_USUAL_EXTRA = 4096


class CompressionType(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of(cls, codec: int) -> CompressionType:
        """The member for three bits from the wire; 5, 6 and 7 mean nothing."""
        if codec > cls.ZSTD:
            raise RecordBatchError(
                f"unknown compression codec {codec}", message="RecordBatch", field="attributes"
            )
        return _CODECS[codec]


_CODECS = tuple(CompressionType)


def compress(data: bytes, codec: CompressionType) -> bytes:
    """`data` as Kafka's own producer would pack it, at the codec's default level."""
    return _COMPRESSORS[codec](data)


def decompress(data: Buffer, codec: CompressionType, *, limit: int = MAX_DECOMPRESSED) -> bytes:
    """The plain bytes, at most `limit` of them; RecordBatchError if damaged or larger.

    No size that the payload claims is believed. The first try goes into a small buffer; if that fails,
    the second goes into an anonymous mapping of `limit` bytes, of which the system hands out only the
    pages that are written, so that a payload costs what it truly unpacks to and a bomb costs `limit`.
    """
    if codec is CompressionType.NONE:
        return bytes(data)
    unpack = _DECOMPRESSORS[codec]
    payload = memoryview(data)
    usual = _USUAL_RATIO * payload.nbytes + _USUAL_EXTRA
    if usual < limit:
        scratch = bytearray(usual)
        try:
            return bytes(memoryview(scratch)[: unpack(payload, scratch)])
        except cramjam.DecompressionError:
            pass  # too small a buffer and damaged data look the same; the second try tells
    try:
        with mmap.mmap(-1, max(limit, 1)) as room, memoryview(room) as view, view[:limit] as target:
            return bytes(target[: unpack(payload, target)])
    except cramjam.DecompressionError as error:
        raise RecordBatchError(
            f"{codec.name.lower()} payload damaged, or larger than {limit} bytes: {error}",
            message="RecordBatch",
            field="records",
        ) from error


def _compress_snappy(data: bytes) -> bytes:
    plain = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(plain), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(plain[start : start + _XERIAL_BLOCK]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, target: Buffer) -> int:
    # Bytes without the magic are one raw block: SnappyInputStream reads them so, and some clients
    # write them so.
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return int(cramjam.snappy.decompress_raw_into(data, target))
    position = len(_XERIAL_HEADER)
    written = 0
    with memoryview(target) as room:
        while position < len(data):
            block = data[position + 4 : _block_end(data, position)]
            with room[written:] as rest:
                written += cramjam.snappy.decompress_raw_into(block, rest)
            position += 4 + len(block)
    return written


def _block_end(data: memoryview, position: int) -> int:
    """Where the xerial block at `position` ends."""
    if len(data) - position >= _BLOCK_LENGTH.size:
        end: int = position + 4 + _BLOCK_LENGTH.unpack_from(data, position)[0]
        if position + 4 <= end <= len(data):
            return end
    raise RecordBatchError(
        f"snappy block at byte {position} of the payload does not fit in its {len(data)} bytes",
        message="RecordBatch",
        field="records",
    )


def _compress_lz4(data: bytes) -> bytes:
    # Kafka's Lz4BlockInputStream refuses linked blocks, which are what cramjam.lz4.compress makes,
    # and skips the content's checksum, so the writer saves it as Kafka's does.
    compressor = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
    compressor.compress(data)
    return bytes(compressor.finish())


_COMPRESSORS: dict[CompressionType, Callable[[bytes], bytes]] = {
    CompressionType.NONE: bytes,
    CompressionType.GZIP: lambda data: bytes(cramjam.gzip.compress(data)),
    CompressionType.SNAPPY: _compress_snappy,
    CompressionType.LZ4: _compress_lz4,
    CompressionType.ZSTD: lambda data: bytes(cramjam.zstd.compress(data, level=3)),
}

_DECOMPRESSORS: dict[CompressionType, Callable[[memoryview, Buffer], int]] = {
    CompressionType.GZIP: cramjam.gzip.decompress_into,
    CompressionType.SNAPPY: _decompress_snappy,
    CompressionType.LZ4: cramjam.lz4.decompress_into,
    CompressionType.ZSTD: cramjam.zstd.decompress_into,
}
