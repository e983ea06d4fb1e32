"""What happened to groups, apart from commits: the dataset `group_events`.

One row per record, whatever the protocol: a classic group's whole generation, a KIP-848 group's epoch, the
member that joined, what it shall have and what it has. Records are few beside commits, so they are decoded
one by one by the codecs of their messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow as pa

from coterie.datasets.chunks import Chunk
from coterie.datasets.times import moment
from coterie.protocol.group_records import classic as classic_records
from coterie.protocol.group_records import consumer, decode_record, record_types, share, streams
from coterie.protocol.records.columns import Int64s, gather
from coterie.protocol.schema import RecordKey, RecordValue
from coterie.protocol.types import Uuid
from coterie.protocol.versioned import Undecoded, decode_assignment, decode_subscription

__all__ = ["event_rows", "group_events"]

Row = dict[str, Any]

_FIRST_TYPE: Final = 2  # below it are commits
_CONSUMER: Final = "consumer"
#: Of all topics of a group together: a few bytes can claim more than memory has room for, and no cluster has
#: nearly as many.
_MOST_PARTITIONS: Final = 1_000_000
#: What MemberState of KIP-848 and of streams groups call their numbers.
_STATES: Final = {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}
_STREAMS_STATES: Final = {1: "STABLE", 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS"}


def event_rows(chunk: Chunk, rows: Int64s) -> Int64s:
    """Those of the rows that have a key and are no commits."""
    records = chunk.records
    kinds = gather(records.buffer, ">u2", records.key_start[rows])
    return rows[(kinds >= _FIRST_TYPE) & (records.key_length[rows] >= 2)]


def group_events(chunk: Chunk, rows: Int64s, schema: pa.Schema) -> pa.RecordBatch:
    """The events among the rows; records that cannot be read are not here but in `log`."""
    found: list[Row] = []
    for row in event_rows(chunk, rows).tolist():
        key, value = decode_record(chunk.key(row), chunk.value(row))
        if isinstance(key, Undecoded) or isinstance(value, Undecoded):
            continue
        found.append(
            {
                "partition": chunk.partition,
                "offset": int(chunk.records.offset[row]),
                "timestamp": moment(int(chunk.records.timestamp[row])),
                **_event(key, value),
            }
        )
    return pa.RecordBatch.from_pylist(found, schema=schema)


def _event(key: RecordKey, value: RecordValue | None) -> Row:
    number = type(key).__key__
    name = record_types()[number].name
    row: Row = {
        "group_id": getattr(key, "group_id", None) or getattr(key, "group", None),
        "group_type": _group_type(name),
        "record": name,
        "tombstone": value is None,
        "member_id": getattr(key, "member_id", None),
        "subscription_regex": getattr(key, "regular_expression", None),
    }
    if value is not None:
        row |= _READERS[type(value)](value)
    return row


def _group_type(record: str) -> str:
    kinds = ("Consumer", "Share", "Streams")
    return next((kind.lower() for kind in kinds if record.startswith(kind)), "classic")


def _known(number: int) -> int | None:
    return None if number < 0 else number


# -- classic groups ---------------------------------------------------------------------------------------


def _generation(value: classic_records.GroupMetadataValue) -> Row:
    decodes = value.protocol_type == _CONSUMER
    return {
        "generation": value.generation,
        "protocol_type": value.protocol_type,
        "protocol": value.protocol,
        "leader_id": value.leader,
        "state_timestamp": moment(value.current_state_timestamp),
        "members": [_classic_member(member, decodes=decodes) for member in value.members],
    }


def _classic_member(member: classic_records.MemberMetadata, *, decodes: bool) -> Row:
    row: Row = {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": member.session_timeout,
        "rebalance_timeout_ms": _known(member.rebalance_timeout),
    }
    if not decodes:
        return row
    subscription = decode_subscription(member.subscription)
    if not isinstance(subscription, Undecoded):
        row["subscription"] = list(subscription.topics)
    assignment = decode_assignment(member.assignment)
    if not isinstance(assignment, Undecoded):
        row["assignment"] = [
            {"topic": each.topic, "partitions": list(each.partitions)}
            for each in assignment.assigned_partitions
        ]
    return row


# -- groups whose partitions the broker assigns -----------------------------------------------------------


def _epoch(value: Any) -> Row:
    return {"generation": value.epoch}


def _target_epoch(value: Any) -> Row:
    when = value.assignment_timestamp
    return {
        "generation": value.assignment_epoch,
        "state_timestamp": moment(when) if when > 0 else None,
    }


def _partitions(topics: Iterable[Any]) -> list[Row]:
    return [
        {
            "topic": getattr(each, "topic_name", None) or getattr(each, "subtopology_id", None),
            "topic_id": _topic_id(getattr(each, "topic_id", Uuid.ZERO)),
            "partitions": list(each.partitions),
        }
        for each in topics
    ]


def _topic_id(topic_id: Uuid) -> str | None:
    return None if topic_id == Uuid.ZERO else str(topic_id)


def _topics(value: consumer.ConsumerGroupPartitionMetadataValue) -> Row:
    known = sum(max(topic.num_partitions, 0) for topic in value.topics) <= _MOST_PARTITIONS
    return {
        "subscription": [topic.topic_name for topic in value.topics],
        "assignment": [
            {
                "topic": topic.topic_name,
                "topic_id": _topic_id(topic.topic_id),
                "partitions": list(range(topic.num_partitions)) if known else None,
            }
            for topic in value.topics
        ],
    }


def _member(value: Any) -> Row:
    """A member of any of the three kinds; fields that a kind does not have are null."""
    classic = getattr(value, "classic_member_metadata", None)
    topics = getattr(value, "subscribed_topic_names", None)
    return {
        "instance_id": getattr(value, "instance_id", None),
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "subscription": None if topics is None else list(topics),
        "subscription_regex": getattr(value, "subscribed_topic_regex", None) or None,
        "rebalance_timeout_ms": _known(getattr(value, "rebalance_timeout_ms", -1)),
        "session_timeout_ms": None if classic is None else classic.session_timeout_ms,
        "protocol": getattr(value, "server_assignor", None),
    }


def _target(value: Any) -> Row:
    return {"assignment": _partitions(value.topic_partitions)}


def _tasks(value: Any) -> Row:
    return {"assignment": _partitions(value.active_tasks)}


def _current(value: Any) -> Row:
    is_streams = isinstance(value, streams.StreamsGroupCurrentMemberAssignmentValue)
    states = _STREAMS_STATES if is_streams else _STATES
    return {
        "member_epoch": value.member_epoch,
        "previous_member_epoch": value.previous_member_epoch,
        "member_state": states.get(value.state, "UNKNOWN"),
        "assignment": _partitions(value.active_tasks if is_streams else value.assigned_partitions),
    }


def _pattern(value: consumer.ConsumerGroupRegularExpressionValue) -> Row:
    return {"subscription": list(value.topics), "state_timestamp": moment(value.timestamp)}


def _share_state(value: share.ShareGroupStatePartitionMetadataValue) -> Row:
    return {"assignment": _partitions(value.initialized_topics)}


def _topology(value: streams.StreamsGroupTopologyValue) -> Row:
    topics = dict.fromkeys(topic for each in value.subtopologies for topic in each.source_topics)
    return {"generation": value.epoch, "subscription": list(topics)}


_READERS: Final[dict[type[RecordValue], Callable[[Any], Row]]] = {
    classic_records.GroupMetadataValue: _generation,
    consumer.ConsumerGroupMetadataValue: _epoch,
    consumer.ConsumerGroupPartitionMetadataValue: _topics,
    consumer.ConsumerGroupMemberMetadataValue: _member,
    consumer.ConsumerGroupTargetAssignmentMetadataValue: _target_epoch,
    consumer.ConsumerGroupTargetAssignmentMemberValue: _target,
    consumer.ConsumerGroupCurrentMemberAssignmentValue: _current,
    consumer.ConsumerGroupRegularExpressionValue: _pattern,
    share.ShareGroupMetadataValue: _epoch,
    share.ShareGroupMemberMetadataValue: _member,
    share.ShareGroupTargetAssignmentMetadataValue: _target_epoch,
    share.ShareGroupTargetAssignmentMemberValue: _target,
    share.ShareGroupCurrentMemberAssignmentValue: _current,
    share.ShareGroupStatePartitionMetadataValue: _share_state,
    streams.StreamsGroupMetadataValue: _epoch,
    streams.StreamsGroupMemberMetadataValue: _member,
    streams.StreamsGroupTargetAssignmentMetadataValue: _target_epoch,
    streams.StreamsGroupTargetAssignmentMemberValue: _tasks,
    streams.StreamsGroupCurrentMemberAssignmentValue: _current,
    streams.StreamsGroupTopologyValue: _topology,
}
