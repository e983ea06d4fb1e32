"""ConsumerGroupDescribe: a group of the consumer protocol, for those who look at it from outside."""

from __future__ import annotations

from typing import Final

from coterie.coordinator.consumer.assignment import described
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.consumer.target import preferred_assignor
from coterie.coordinator.outcome import TopicView
from coterie.error_codes import ErrorCode
from coterie.protocol.messages.consumer_groups import DescribedGroup
from coterie.protocol.messages.consumer_groups import Member as DescribedMember
from coterie.protocol.types import Uuid

__all__ = ["describe", "not_found"]

_CLASSIC: Final = 0
_CONSUMER: Final = 1


def describe(group: ConsumerGroup, topics: TopicView, authorized_operations: int) -> DescribedGroup:
    """All there is to tell, with names for topics."""
    return DescribedGroup(
        0,
        None,
        group.group_id,
        str(group.state),
        group.epoch,
        group.target_epoch,
        preferred_assignor(group),
        tuple([_described(group, each, topics) for each in group.members.values()]),
        authorized_operations,
    )


def not_found(group_id: str, *, exists: bool) -> DescribedGroup:
    """No group, or one of another type."""
    reason = "is not a consumer group" if exists else "not found"
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} {reason}.",
        group_id=group_id,
    )


def _described(group: ConsumerGroup, member: Member, topics: TopicView) -> DescribedMember:
    metadata = member.metadata
    # What it has still to give up is its own until it has.
    owned: dict[Uuid, set[int]] = {}
    for topic_id, partition in member.owns():
        owned.setdefault(topic_id, set()).add(partition)
    return DescribedMember(
        member.member_id,
        metadata.instance_id,
        metadata.rack_id,
        member.epoch,
        metadata.client_id,
        metadata.client_host,
        metadata.subscribed_topic_names,
        metadata.subscribed_topic_regex,
        described(owned, topics),
        described(group.target.get(member.member_id, {}), topics),
        _CONSUMER if member.classic is None else _CLASSIC,
    )
