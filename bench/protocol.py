"""The protocol beside its peers: group answers both ways, records in bulk, and the time to import.

Decoding is compared with the fastest decoder in Python and with kio, whose decoder is native code.
kafka-python is alone among the former: aiokafka ends at ListGroups v2 and DescribeGroups v3, and
confluent-kafka keeps its codec to itself. The encoders of kafka-python and kio are both in Python.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from typing import Any

from kafka.protocol.admin import DescribeGroupsResponse as KafkaPythonDescribeGroups
from kafka.protocol.admin import ListGroupsResponse as KafkaPythonListGroups
from kafka.record import MemoryRecords
from kio.schema.describe_groups.v6.response import DescribeGroupsResponse as KioDescribeGroups
from kio.schema.list_groups.v5.response import ListGroupsResponse as KioListGroups
from kio.serial import entity_reader, entity_writer

from bench.harness import Disagreement, Measurement, fresh_process, must_equal, timed
from bench.samples import described_groups, listed_groups, offsets_log
from coterie.protocol.codec import decode, encode
from coterie.protocol.messages.groups import DescribeGroupsResponse, ListGroupsResponse
from coterie.protocol.records.columns import RecordColumns, read_columns

__all__ = ["measurements"]

#: Beside the fastest decoder or encoder in Python.
DECODE_GOAL = 1.5
ENCODE_GOAL = 3.0
#: Beside kio's native decoder: at most twice its time.
NATIVE_GOAL = 0.5
RECORDS_GOAL = 10.0
IMPORT_GOAL = 1.0

GroupsResponse = ListGroupsResponse | DescribeGroupsResponse

_LISTED = ("group_id", "protocol_type", "group_state", "group_type")
_DESCRIBED = ("error_message", "group_id", "group_state", "protocol_type", "protocol_data")
_MEMBER = (
    "member_id",
    "group_instance_id",
    "client_id",
    "client_host",
    "member_metadata",
    "member_assignment",
)


def measurements(*, tiny: bool = False) -> Iterator[Measurement]:
    """All of this part; the data of each is made when its turn comes."""
    yield from list_groups(50 if tiny else 10_000)
    yield from describe_groups(20 if tiny else 1_000)
    for per_batch in (1, 6, 50):
        # About what fits the buffer with which a broker loads its groups (offsets.load.buffer.size).
        yield read_records(200 if tiny else 30_000, per_batch)
    yield import_time("coterie")
    yield import_time("coterie.protocol")


def list_groups(count: int) -> Iterator[Measurement]:
    """ListGroups v5, the answer of a broker with so many groups."""
    message = listed_groups(count)
    peer = KafkaPythonListGroups
    theirs = peer(
        version=5,
        throttle_time_ms=0,
        error_code=0,
        groups=[peer.ListedGroup(version=5, **_fields(group, _LISTED)) for group in message.groups],
    )
    yield from _both_ways("list_groups_v5", message, 5, theirs, KioListGroups)


def describe_groups(count: int) -> Iterator[Measurement]:
    """DescribeGroups v6, so many groups of three members."""
    message = described_groups(count)
    peer = KafkaPythonDescribeGroups
    theirs = peer(
        version=6,
        throttle_time_ms=0,
        groups=[
            peer.DescribedGroup(
                version=6,
                error_code=0,
                **_fields(group, _DESCRIBED),
                members=[
                    peer.DescribedGroup.DescribedGroupMember(version=6, **_fields(member, _MEMBER))
                    for member in group.members
                ],
            )
            for group in message.groups
        ],
    )
    yield from _both_ways("describe_groups_v6", message, 6, theirs, KioDescribeGroups)


def _both_ways(
    name: str, message: GroupsResponse, version: int, kafka_python: Any, kio: Any
) -> Iterator[Measurement]:
    """Decode and encode one message, which `kafka_python` is as that peer's object."""
    data = encode(message, version)
    ours = partial(decode, type(message), data, version)
    their_class = type(kafka_python)
    kafka_python_decode = partial(their_class.decode, data, version=version, header=False)
    kio_decode = partial(entity_reader(kio), data, 0)
    kio_message, _ = kio_decode()
    kio_write = entity_writer(kio)

    def kafka_python_encode() -> Any:
        return kafka_python.encode(version=version, header=False)

    def kio_encode() -> bytes:
        buffer = io.BytesIO()
        kio_write(buffer, kio_message)
        return buffer.getvalue()

    # A peer that decodes to the message it encodes to these same bytes has read every field of it.
    def agree_with_kafka_python() -> None:
        theirs = kafka_python_decode()
        must_equal("kafka-python's values", _rows(ours()), _rows(theirs))
        must_equal("kafka-python's message", kafka_python.to_dict(), theirs.to_dict())
        must_equal("kafka-python's bytes", data, bytes(kafka_python_encode()))

    def agree_with_kio() -> None:
        theirs, _ = kio_decode()
        must_equal("kio's values", _rows(ours()), _rows(theirs))
        must_equal("kio's message", kio_message, theirs)
        must_equal("kio's bytes", data, kio_encode())

    def agree_on_bytes() -> None:
        must_equal("our own values", message, ours())
        must_equal("kafka-python's bytes", data, bytes(kafka_python_encode()))
        must_equal("kio's bytes", data, kio_encode())

    yield Measurement(
        name=f"protocol.decode_{name}",
        ours=timed(ours),
        peers={"kafka-python": timed(kafka_python_decode)},
        goal=DECODE_GOAL,
        agree=agree_with_kafka_python,
    )
    yield Measurement(
        name=f"protocol.decode_{name}_native",
        ours=timed(ours),
        peers={"kio": timed(kio_decode)},
        goal=NATIVE_GOAL,
        agree=agree_with_kio,
    )
    yield Measurement(
        name=f"protocol.encode_{name}",
        ours=timed(partial(encode, message, version)),
        peers={"kafka-python": timed(kafka_python_encode), "kio": timed(kio_encode)},
        goal=ENCODE_GOAL,
        agree=agree_on_bytes,
    )


def _fields(item: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(item, name) for name in names}


def _rows(message: Any) -> list[Any]:
    """The values of an answer by whichever library, as plain data."""
    if not hasattr(message.groups[0], "members"):
        return [_fields(group, _LISTED) for group in message.groups]
    return [
        (_fields(group, _DESCRIBED), [_fields(member, _MEMBER) for member in group.members])
        for group in message.groups
    ]


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
