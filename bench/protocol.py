"""The protocol compared with its peers: large responses both ways, records in bulk, and the time to import.

Decoding is compared with the fastest decoder in Python and with kio, whose decoder is native code.
kafka-python is alone among the former: aiokafka ends at ListGroups v2 and DescribeGroups v3, and
confluent-kafka has no public codec. The encoders of kafka-python and kio are both in Python.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from typing import Any

from kafka.protocol.admin import DescribeGroupsResponse as KafkaPythonDescribeGroups
from kafka.protocol.admin import ListGroupsResponse as KafkaPythonListGroups
from kafka.protocol.consumer import ListOffsetsResponse as KafkaPythonListOffsets
from kafka.protocol.consumer import OffsetFetchResponse as KafkaPythonOffsetFetch
from kafka.protocol.metadata import MetadataResponse as KafkaPythonMetadata
from kafka.record import MemoryRecords
from kio.schema.describe_groups.v6.response import DescribeGroupsResponse as KioDescribeGroups
from kio.schema.list_groups.v5.response import ListGroupsResponse as KioListGroups
from kio.schema.list_offsets.v8.response import ListOffsetsResponse as KioListOffsets
from kio.schema.metadata.v12.response import MetadataResponse as KioMetadata
from kio.schema.offset_fetch.v9.response import OffsetFetchResponse as KioOffsetFetch
from kio.serial import entity_reader, entity_writer

from bench.harness import Disagreement, Measurement, fresh_process, must_equal, timed
from bench.samples import (
    cluster_metadata,
    described_groups,
    fetched_offsets,
    listed_groups,
    listed_offsets,
    offsets_log,
)
from coterie.protocol.codec import decode, encode
from coterie.protocol.records.columns import RecordColumns, read_columns
from coterie.protocol.schema import Response, fields_of

__all__ = ["measurements"]

#: Compared with kafka-python, and encoding with kio, too: both are in Python.
PYTHON_GOAL = 4.0
#: Compared with kio's native decoder.
NATIVE_GOAL = 3.0
RECORDS_GOAL = 10.0
IMPORT_GOAL = 1.0


def measurements(*, tiny: bool = False) -> Iterator[Measurement]:
    """All of this part; the data of each is made when its turn comes."""
    large, small = (50, 5) if tiny else (10_000, 1_000)
    yield from both_ways(
        "list_groups_v5", listed_groups(large), 5, KafkaPythonListGroups, KioListGroups
    )
    yield from both_ways(
        "describe_groups_v6",
        described_groups(small),
        6,
        KafkaPythonDescribeGroups,
        KioDescribeGroups,
    )
    yield from both_ways(
        "offset_fetch_v9", fetched_offsets(small), 9, KafkaPythonOffsetFetch, KioOffsetFetch
    )
    yield from both_ways(
        "list_offsets_v8", listed_offsets(large), 8, KafkaPythonListOffsets, KioListOffsets
    )
    yield from both_ways(
        "metadata_v12", cluster_metadata(small), 12, KafkaPythonMetadata, KioMetadata
    )
    for per_batch in (1, 6, 50):
        # About what fits the buffer with which a broker loads its groups (offsets.load.buffer.size).
        yield read_records(200 if tiny else 30_000, per_batch)
    yield import_time("coterie")
    yield import_time("coterie.protocol")


def both_ways(
    name: str, message: Response, version: int, kafka_python: Any, kio: Any
) -> Iterator[Measurement]:
    """Decode and encode one message; the peers are their classes of it."""
    data = encode(message, version)
    ours = partial(decode, type(message), data, version)
    kafka_python_decode = partial(kafka_python.decode, data, version=version, header=False)
    kio_decode = partial(entity_reader(kio), data, 0)
    # Its decoded messages cannot be encoded, so this one is made of what was decoded.
    decoded = kafka_python_decode()
    present = [field.name for field in fields_of(type(message)) if version in field.versions]
    kafka_python_message = kafka_python(
        version=version, **{each: getattr(decoded, each) for each in present}
    )
    kio_message, _ = kio_decode()
    kio_write = entity_writer(kio)

    def kafka_python_encode() -> Any:
        return kafka_python_message.encode(version=version, header=False)

    def kio_encode() -> bytes:
        buffer = io.BytesIO()
        kio_write(buffer, kio_message)
        return buffer.getvalue()

    # A peer that encodes what it has decoded to the same bytes has read every field of it.
    def agree() -> None:
        must_equal("our own values", message, ours())
        must_equal("kafka-python's bytes", data, bytes(kafka_python_encode()))
        must_equal("kio's bytes", data, kio_encode())

    yield Measurement(
        name=f"protocol.decode_{name}",
        ours=timed(ours),
        peers={"kafka-python": timed(kafka_python_decode)},
        goal=PYTHON_GOAL,
        agree=agree,
    )
    yield Measurement(
        name=f"protocol.decode_{name}_native",
        ours=timed(ours),
        peers={"kio": timed(kio_decode)},
        goal=NATIVE_GOAL,
        agree=agree,
    )
    yield Measurement(
        name=f"protocol.encode_{name}",
        ours=timed(partial(encode, message, version)),
        peers={"kafka-python": timed(kafka_python_encode), "kio": timed(kio_encode)},
        goal=PYTHON_GOAL,
        agree=agree,
    )


def read_records(count: int, per_batch: int) -> Measurement:
    """So many records of `__consumer_offsets`: ours to columns, theirs to one object per record.

    Both check every checksum, as both do by default in use, and with the same library. Columns say where
    keys and values lie and do not copy them: that is their point, and a part of the difference.
    """
    buffer = offsets_log(count, per_batch)

    def agree() -> None:
        theirs = [(r.offset, r.timestamp, r.key, r.value) for r in _each_record(buffer)]
        must_equal("the number of records", count, len(theirs))
        must_equal("the records", _as_records(read_columns(buffer)), theirs)

    return Measurement(
        name=f"protocol.read_records_{per_batch}_per_batch",
        ours=timed(partial(read_columns, buffer)),
        peers={"kafka-python": timed(partial(_read_all, buffer))},
        goal=RECORDS_GOAL,
        agree=agree,
    )


def _each_record(buffer: bytes) -> Iterator[Any]:
    for batch in MemoryRecords(buffer):
        if not batch.validate_crc():
            raise Disagreement(f"kafka-python refuses the checksum of {batch}")
        yield from batch


def _read_all(buffer: bytes) -> None:
    # Nothing is kept, which is kind to the peer: keeping 30,000 records costs it more.
    for record in _each_record(buffer):
        _ = record.offset, record.timestamp, record.key, record.value


def _as_records(columns: RecordColumns) -> list[tuple[int, int, bytes | None, bytes | None]]:
    def contents(starts: Any, lengths: Any) -> list[bytes | None]:
        return [
            None if length < 0 else bytes(columns.buffer[start : start + length])
            for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
        ]

    return list(
        zip(
            columns.offset.tolist(),
            columns.timestamp.tolist(),
            contents(columns.key_start, columns.key_length),
            contents(columns.value_start, columns.value_length),
            strict=True,
        )
    )


def import_time(module: str) -> Measurement:
    """A new interpreter that imports a module and ends."""
    return Measurement(
        name=f"protocol.import_{module.replace('.', '_')}",
        ours=fresh_process(f"import {module}"),
        peers={"confluent-kafka": fresh_process("import confluent_kafka")},
        goal=IMPORT_GOAL,
        agree=lambda: None,
    )
