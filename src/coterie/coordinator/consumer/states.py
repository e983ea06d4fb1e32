"""The states of a consumer group and of its members, for those who read of them; the documentation has them.

Unlike a classic group's, they are not moved from one to the next: the group's follows from its epochs and
members (coterie.coordinator.consumer.group), a member's from what it owns and should own
(coterie.coordinator.consumer.reconciliation).
"""

from __future__ import annotations

from typing import Final

from coterie.coordinator.consumer.assignment import MemberState
from coterie.protocol.group_state import GroupState

__all__ = ["GROUP_STATES", "MEMBER_STATES"]

#: When a group is in a state, and what that means for those who ask.
GROUP_STATES: Final[dict[GroupState, tuple[str, ...]]] = {
    GroupState.EMPTY: (
        "it has no members",
        "anyone may commit offsets; those of no use expire, and the group goes with the last one",
        "it can be deleted, and becomes a classic group when a classic member joins",
    ),
    GroupState.ASSIGNING: (
        "its epoch is higher than its target's: members or topics have changed",
        "the next heartbeat makes a new target, at most one each assignment interval",
    ),
    GroupState.RECONCILING: (
        "the target is there, and some members are on their way to it",
        "heartbeats tell members what to give up, and then what is theirs",
    ),
    GroupState.STABLE: (
        "every member owns its target",
        "heartbeats are answered without an assignment, and write nothing",
    ),
}

#: The same for a member.
MEMBER_STATES: Final[dict[MemberState, tuple[str, ...]]] = {
    MemberState.STABLE: ("it owns its target of its epoch",),
    MemberState.UNREVOKED_PARTITIONS: (
        "it has been told to give up partitions, and stays in its epoch until it says that it did",
        "it is fenced when its rebalance timeout is over",
    ),
    MemberState.UNRELEASED_PARTITIONS: (
        "it has reached the epoch, and waits for partitions that others still own",
    ),
    MemberState.UNKNOWN: ("a newer broker wrote it: the member is asked to begin anew",),
}
