"""Logs of commits in bulk, as production writes them: few records a batch. On disk, or in a Kafka.

Batches are built once and repeated: the base offset is outside of a batch's checksum, so that the copies
are as sound as the first.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from confluent_kafka import Producer

from coterie.protocol.group_records import encode_key, encode_value
from coterie.protocol.group_records.classic import OffsetCommitKey, OffsetCommitValue
from coterie.protocol.records import build_batch
from coterie.protocol.types import Uuid

__all__ = ["TOPIC", "commits", "fill_kafka", "write_disk"]

TOPIC: Final = "__consumer_offsets"
_START: Final = 1_760_000_000_000
_DISTINCT: Final = 2_000
#: offsets.topic.segment.bytes is 100 MiB.
_SEGMENT: Final = 100 << 20
_TOPICS: Final = [
    (f"{word}.{kind}.v1", Uuid(random.Random(word + kind).randbytes(16)))
    for word in ("orders", "payments", "shipments", "clicks", "audit")
    for kind in ("created", "changed", "failed")
]


def commits(per_batch: int, batches: int) -> Iterator[list[tuple[bytes, bytes]]]:
    """Keys and values of some batches, each a group's commit of so many partitions."""
    chance = random.Random(1)
    for number in range(batches):
        topic, topic_id = chance.choice(_TOPICS)
        group = f"{topic.partition('.')[0]}-service-{chance.randrange(1000):04d}"
        first = chance.randrange(24)
        yield [
            (
                encode_key(OffsetCommitKey(group, topic, first + index)),
                encode_value(
                    OffsetCommitValue(
                        offset=chance.randrange(1 << 40),
                        leader_epoch=5,
                        commit_timestamp=_START + number,
                        topic_id=topic_id,
                    ),
                    4,
                ),
            )
            for index in range(per_batch)
        ]


def write_disk(root: Path, records: int, per_batch: int, partitions: int = 4) -> int:
    """Segment files with about so many records; how many there are."""
    built = [
        build_batch([(key, value, _START + number, ()) for key, value in batch]).encode()
        for number, batch in enumerate(commits(per_batch, _DISTINCT))
    ]
    block = b"".join(built)
    starts = np.cumsum([0, *map(len, built[:-1])])
    in_block = _DISTINCT * per_batch
    blocks = max(1, round(records / in_block / partitions))
    in_segment = max(1, min(blocks, _SEGMENT // len(block)))
    for partition in range(partitions):
        directory = root / f"{TOPIC}-{partition}"
        directory.mkdir(parents=True)
        for first in range(0, blocks, in_segment):
            count = min(in_segment, blocks - first)
            offset = first * in_block
            data = _renumbered(block, starts, count, offset, per_batch)
            (directory / f"{offset:020d}.log").write_bytes(data)
    return partitions * blocks * in_block


def _renumbered(block: bytes, starts: np.ndarray, count: int, offset: int, per_batch: int) -> bytes:
    data = np.frombuffer(block * count, np.uint8).copy()
    places = (starts[None, :] + np.arange(count)[:, None] * len(block)).ravel()
    bases = (offset + np.arange(len(places)) * per_batch).astype(">i8")
    data[places[:, None] + np.arange(8)] = bases.view(np.uint8).reshape(-1, 8)
    return data.tobytes()


def fill_kafka(bootstrap: str, records: int, per_batch: int, partitions: int = 50) -> int:
    """Append commits to the offsets topic of a Kafka; how many.

    Brokers let nobody write to it but coordinators and this client id, which Kafka's own tools have.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "__admin_client",
            "batch.num.messages": per_batch,
            "linger.ms": 5,
            "queue.buffering.max.messages": 400_000,
            "log_level": 0,
        }
    )
    prepared = list(commits(per_batch, _DISTINCT))
    made = 0
    while made < records:
        for number, batch in enumerate(prepared):
            for key, value in batch:
                while True:
                    try:
                        producer.produce(TOPIC, value, key, number % partitions)
                        break
                    except BufferError:
                        producer.poll(0.05)
            made += len(batch)
        producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("Kafka did not take all commits")
    return made
