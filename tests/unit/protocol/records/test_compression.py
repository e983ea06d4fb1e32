"""The codecs: formats that Kafka can read, and bounds on what they unpack to."""

from __future__ import annotations

import subprocess
import sys

import cramjam
import pytest

from coterie.errors import RecordBatchError
from coterie.protocol.records import MAX_DECOMPRESSED, CompressionType, RecordBatch, decode_batches
from coterie.protocol.records.compression import compress, decompress
from tests.unit.protocol.records.golden import CODECS, cases

COMPRESSED = [codec for codec in CompressionType if codec is not CompressionType.NONE]
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
TEXT = b"".join(b"%d," % number for number in range(30_000))


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("plain", [b"", b"x", TEXT, bytes(1_000_000)], ids=len)
def test_round_trip(codec: CompressionType, plain: bytes) -> None:
    packed = compress(plain, codec)
    assert decompress(packed, codec) == plain
    assert decompress(memoryview(bytearray(packed)), codec) == plain


@pytest.mark.parametrize("codec", CODECS)
def test_unpacks_what_kafka_packed(codec: str) -> None:
    kind = CompressionType[codec.upper()]
    for name, case in cases(codec).items():
        (batch,) = decode_batches(case["buffer"]).batches
        assert batch.compression is kind
        if name in cases("none"):
            (plain,) = decode_batches(cases("none")[name]["buffer"]).batches
            assert decompress(batch.payload, kind) == plain.payload


@pytest.mark.parametrize("codec", COMPRESSED)
def test_the_limit_is_exact(codec: CompressionType) -> None:
    packed = compress(TEXT, codec)
    assert decompress(packed, codec, limit=len(TEXT)) == TEXT
    with pytest.raises(RecordBatchError, match=f"larger than {len(TEXT) - 1} bytes"):
        decompress(packed, codec, limit=len(TEXT) - 1)
    with pytest.raises(RecordBatchError, match="larger than 0 bytes"):
        decompress(packed, codec, limit=0)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_damage_is_reported(codec: CompressionType) -> None:
    packed = compress(TEXT, codec)
    for damaged in (packed[: len(packed) // 2], b"not compressed at all", packed[:-1]):
        with pytest.raises(RecordBatchError) as caught:
            decompress(damaged, codec)
        assert caught.value.field == "records"


def test_unknown_codecs() -> None:
    assert CompressionType.of(4) is CompressionType.ZSTD
    with pytest.raises(RecordBatchError, match="unknown compression codec 5"):
        CompressionType.of(5)


def test_lz4_frames_have_independent_blocks() -> None:
    flags = compress(TEXT, CompressionType.LZ4)[4]
    assert flags >> 6 == 1  # version 01
    assert flags & 0x20  # Kafka's Lz4BlockInputStream refuses linked blocks


def test_snappy_is_framed_in_blocks_of_32_kib() -> None:
    packed = compress(TEXT, CompressionType.SNAPPY)
    assert packed.startswith(XERIAL)
    position, sizes = len(XERIAL), []
    while position < len(packed):
        length = int.from_bytes(packed[position : position + 4], "big")
        block = packed[position + 4 : position + 4 + length]
        sizes.append(cramjam.snappy.decompress_raw_len(block))
        position += 4 + length
    assert sizes == [32768] * (len(TEXT) // 32768) + [len(TEXT) % 32768]


def test_snappy_without_the_frame_is_one_block() -> None:
    assert decompress(bytes(cramjam.snappy.compress_raw(TEXT)), CompressionType.SNAPPY) == TEXT


@pytest.mark.parametrize("tail", [b"\x00", b"\x00\x00\x00\x05abcd", b"\xff\xff\xff\xff"])
def test_a_snappy_block_that_does_not_fit(tail: bytes) -> None:
    with pytest.raises(RecordBatchError, match=r"snappy block at byte 16 .* does not fit"):
        decompress(XERIAL + tail, CompressionType.SNAPPY)


def test_a_snappy_block_that_claims_four_gigabytes() -> None:
    claim = b"\xff\xff\xff\xff\x0f"
    for packed in (claim, XERIAL + b"\x00\x00\x00\x05" + claim):
        with pytest.raises(RecordBatchError, match="snappy payload damaged"):
            decompress(packed, CompressionType.SNAPPY)


BOMB = """
import resource, sys
from coterie.errors import RecordBatchError
from coterie.protocol.records.compression import CompressionType, compress, decompress
codec = CompressionType[sys.argv[1]]
packed = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(packed, codec, limit=16 << 20)
except RecordBatchError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_costs_no_more_than_the_limit(codec: CompressionType) -> None:
    # The bomb is made here, so that the other process has only the unpacking in its peak.
    packed = compress(bytes(200 << 20), codec)
    done = subprocess.run(
        [sys.executable, "-c", BOMB, codec.name], input=packed, capture_output=True, check=True
    )
    grown = int(done.stdout) * (1 if sys.platform == "darwin" else 1024)
    assert grown < (16 << 20) + 8 * len(packed) + (8 << 20)


def test_a_batch_hands_its_limit_down() -> None:
    packed = compress(bytes(100_000), CompressionType.ZSTD)
    batch = RecordBatch(attributes=CompressionType.ZSTD, records_count=1, payload=packed)
    with pytest.raises(RecordBatchError, match="larger than 5000 bytes"):
        batch.records(limit=5000)
    assert MAX_DECOMPRESSED == 64 << 20
