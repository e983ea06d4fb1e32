"""The life of consumer groups, read from the log in which their coordinator kept it.

    python examples/group_log.py DIRECTORY

reads all segments of `__consumer_offsets-N` below a directory, of Apache Kafka or of `coterie server`: no
broker is needed.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

from coterie.protocol.group_records import decode_record
from coterie.protocol.group_records.classic import (
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.protocol.group_records.consumer import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
)
from coterie.protocol.records import decode_batches
from coterie.protocol.schema import RecordKey, RecordValue
from coterie.protocol.versioned import Undecoded


def tell_lives(directory: Path) -> None:
    """Print what happened to each group."""
    lives: dict[str, list[tuple[int, str]]] = defaultdict(list)
    count = 0
    for segment in sorted(directory.rglob("__consumer_offsets-*/*.log")):
        for batch in decode_batches(segment.read_bytes()).batches:
            if batch.is_control:
                continue
            for record in batch.records():
                key, value = decode_record(record.key, record.value)
                count += 1
                if isinstance(key, RecordKey):
                    lives[group_of(key)].append((record.timestamp, tell(key, value)))
    print(f"{count} records of __consumer_offsets, {len(lives)} groups\n")
    for group, life in sorted(lives.items()):
        print(group)
        for timestamp, event in life:
            moment = datetime.fromtimestamp(timestamp / 1000, UTC)
            print(f"  {moment:%H:%M:%S.%f}"[:-3] + f"  {event}")
        print()


def group_of(key: RecordKey) -> str:
    group: str = getattr(key, "group", "") or getattr(key, "group_id", "")
    return group


def tell(key: RecordKey, value: RecordValue | Undecoded | None) -> str:
    """A record as a sentence."""
    name = type(key).__name__.removesuffix("Key")
    if isinstance(value, Undecoded):
        return f"{name} is not readable: {value.reason}"
    if isinstance(key, OffsetCommitKey):
        place = f"{key.topic}-{key.partition}"
        return (
            f"committed {place} at {value.offset}"
            if isinstance(value, OffsetCommitValue)
            else (f"offset of {place} deleted")
        )
    member: str = getattr(key, "member_id", "")[:8]
    if value is None:
        return f"{name} deleted" + (f" for member {member}" if member else "")
    return tell_value(value, member) or name


def tell_value(value: RecordValue, member: str) -> str:
    match value:
        case GroupMetadataValue(members=()):
            return f"empty, generation {value.generation}"
        case GroupMetadataValue():
            names = ", ".join(each.client_id for each in value.members)
            return f"generation {value.generation}, {value.protocol}: {names}"
        case ConsumerGroupMetadataValue():
            return f"group epoch {value.epoch}"
        case ConsumerGroupMemberMetadataValue():
            wanted = value.subscribed_topic_regex or ", ".join(value.subscribed_topic_names)
            return f"member {member} subscribes to {wanted}"
        case ConsumerGroupCurrentMemberAssignmentValue():
            owned = sum(len(topic.partitions) for topic in value.assigned_partitions)
            return f"member {member} at epoch {value.member_epoch} owns {owned} partitions"
    return ""


if __name__ == "__main__":
    tell_lives(Path(sys.argv[1]))
