"""What is assigned, in the forms that the parts of this package hand to each other.

A target names partitions; what a member owns has an epoch for each partition too: the one in which it got
it, since when it may commit (KIP-1251). Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum

import msgspec

from coterie.coordinator.outcome import TopicView
from coterie.protocol.group_records.consumer import TopicPartition, TopicPartitions
from coterie.protocol.messages import consumer_groups as wire
from coterie.protocol.types import Uuid

__all__ = [
    "Assignor",
    "GroupSpec",
    "MemberSpec",
    "MemberState",
    "Owned",
    "Partitions",
    "described",
    "from_target_record",
    "owned_from_record",
    "owned_to_record",
    "to_target_record",
    "told",
]

#: Topic to partitions.
Partitions = dict[Uuid, frozenset[int]]
#: Topic to partition to the epoch in which the member got it.
Owned = dict[Uuid, dict[int, int]]


class Assignor(StrEnum):
    """Assignors by the names that members ask for."""

    UNIFORM = "uniform"
    RANGE = "range"


class MemberState(IntEnum):
    """How far a member is on its way to its target, as records have it."""

    STABLE = 0
    #: It has been told to give up partitions and has not said yet that it did.
    UNREVOKED_PARTITIONS = 1
    #: It waits for partitions that others have not given up yet.
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class MemberSpec(msgspec.Struct, frozen=True, gc=False):
    """A member as an assignor sees it."""

    instance_id: str | None
    #: The topics that it subscribes to and that exist.
    topics: tuple[Uuid, ...]
    #: Its target so far.
    assigned: Partitions


class GroupSpec(msgspec.Struct, frozen=True, gc=False):
    """A group as an assignor sees it."""

    members: dict[str, MemberSpec]
    #: How many partitions each subscribed topic has.
    partitions: dict[Uuid, int]
    #: Whether all members subscribe to the same topics.
    homogeneous: bool


def owned_from_record(topics: Iterable[TopicPartitions]) -> Owned:
    """Epochs that a record does not have, for it is older than KIP-1251, are 0: any commit may pass."""
    return {
        each.topic_id: dict(
            zip(each.partitions, each.assignment_epochs, strict=True)
            if each.assignment_epochs and len(each.assignment_epochs) == len(each.partitions)
            else ((partition, 0) for partition in each.partitions)
        )
        for each in topics
    }


def owned_to_record(owned: Owned) -> tuple[TopicPartitions, ...]:
    found = []
    for topic_id, epochs in owned.items():
        partitions = tuple(sorted(epochs))
        found.append(
            TopicPartitions(topic_id, partitions, tuple([epochs[each] for each in partitions]))
        )
    return tuple(found)


def from_target_record(topics: Iterable[TopicPartition]) -> Partitions:
    return {each.topic_id: frozenset(each.partitions) for each in topics}


def to_target_record(target: Partitions) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic_id, tuple(sorted(partitions)))
        for topic_id, partitions in target.items()
    )


def told(owned: Owned) -> wire.Assignment:
    """An assignment as a heartbeat's answer has it."""
    return wire.Assignment(
        tuple(
            wire.TopicPartitions(topic_id, tuple(sorted(partitions)))
            for topic_id, partitions in owned.items()
        )
    )


def described(
    partitions: Mapping[Uuid, Iterable[int]], topics: TopicView
) -> wire.ConsumerGroupDescribeAssignment:
    """An assignment as a description has it; topics that are gone are left out."""
    named = ((topics.by_id(topic_id), each) for topic_id, each in partitions.items())
    return wire.ConsumerGroupDescribeAssignment(
        tuple(
            wire.ConsumerGroupDescribeTopicPartitions(
                topic.topic_id, topic.name, tuple(sorted(each))
            )
            for topic, each in named
            if topic is not None
        )
    )
