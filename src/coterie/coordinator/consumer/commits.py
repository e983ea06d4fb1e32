"""Who may commit and fetch offsets of a consumer group: members, by their epoch.

A member whose epoch has grown since it was told may still commit for partitions that it has had since then
(KIP-1251): the commit was under way when the group moved on. Called by coterie.coordinator.offsets and
coterie.coordinator.offset_fetch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import Member
from coterie.error_codes import ErrorCode
from coterie.protocol.types import Uuid

__all__ = ["PartitionCheck", "commit_check", "fetch_error", "in_transaction"]

#: Says of a partition what is wrong with a commit to it, or 0.
PartitionCheck = Callable[[Uuid, int], int]

_EPOCHS_FROM: Final = 9  # OffsetCommit, KIP-848


def commit_check(
    group: ConsumerGroup, member_id: str, epoch: int, *, version: int | None = None
) -> tuple[int, PartitionCheck | None]:
    """An error for the whole commit, or what is to be asked of each partition (validateOffsetCommit).

    Without a version the commit is part of a transaction.
    """
    if epoch < 0 and not group.members:
        return 0, None  # an administrator, or a consumer that does without membership
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID, None
    if version is not None and version < _EPOCHS_FROM and member.classic is None:
        return ErrorCode.UNSUPPORTED_VERSION, None
    if epoch == member.epoch:
        return 0, None
    if epoch > member.epoch:
        return _stale(member), None

    def check(topic_id: Uuid, partition: int) -> int:
        since = member.assignment_epoch(topic_id, partition)
        return 0 if since is not None and epoch >= since else _stale(member)

    return 0, check


def in_transaction(error: int) -> int:
    """The same error as a producer is told it: it knows nothing of epochs."""
    return ErrorCode.ILLEGAL_GENERATION if error == ErrorCode.STALE_MEMBER_EPOCH else error


def fetch_error(group: object, member_id: str | None, epoch: int) -> int:
    """Whether a fetch that names a member may be answered; groups of other types do not mind."""
    if not isinstance(group, ConsumerGroup):
        return 0
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return 0 if epoch == member.epoch else _stale(member)


def _stale(member: Member) -> int:
    if member.classic is not None:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH
