"""The states of groups and members: transitions of classic groups, and what happens in each state.

Everything that moves a classic group from state to state goes through `next_state`, and so through the table;
the diagram in the documentation is drawn from the same table. What it takes for an event to happen is
decided in coterie.coordinator.phases. The state of a consumer group follows from its epochs and members
(coterie.coordinator.consumer.group), and a member's from what it owns and should own
(coterie.coordinator.consumer.reconciliation).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from coterie.coordinator.consumer.assignment import MemberState
from coterie.protocol.group_state import GroupState

__all__ = [
    "ACTIONS",
    "GROUP_STATES",
    "MEMBER_STATES",
    "TRANSITIONS",
    "Event",
    "diagram",
    "next_state",
]


class Event(StrEnum):
    """What happens to a group; the value is the label in the diagram."""

    REBALANCE = "a member joins, changes, leaves or fails"
    ALL_JOINED = "members have joined"
    ALL_LEFT = "no member is left"
    ASSIGNED = "the leader's assignment is stored"
    REMOVED = "deleted, expired or moved away"


#: Kafka's ClassicGroupState.validPreviousStates, read forwards.
TRANSITIONS: Final[dict[GroupState, dict[Event, GroupState]]] = {
    GroupState.EMPTY: {
        Event.REBALANCE: GroupState.PREPARING_REBALANCE,
        Event.REMOVED: GroupState.DEAD,
    },
    GroupState.PREPARING_REBALANCE: {
        Event.ALL_JOINED: GroupState.COMPLETING_REBALANCE,
        Event.ALL_LEFT: GroupState.EMPTY,
        Event.REMOVED: GroupState.DEAD,
    },
    GroupState.COMPLETING_REBALANCE: {
        Event.ASSIGNED: GroupState.STABLE,
        Event.REBALANCE: GroupState.PREPARING_REBALANCE,
        Event.REMOVED: GroupState.DEAD,
    },
    GroupState.STABLE: {
        Event.REBALANCE: GroupState.PREPARING_REBALANCE,
        Event.REMOVED: GroupState.DEAD,
    },
    GroupState.DEAD: {},
}

#: What a group does in each state. Offsets may be fetched in all of them.
ACTIONS: Final[dict[GroupState, tuple[str, ...]]] = {
    GroupState.EMPTY: (
        "answers a new member's JoinGroup as usual",
        "answers SyncGroup, Heartbeat and LeaveGroup with UNKNOWN_MEMBER_ID",
        "takes offset commits without a generation, refuses others with UNKNOWN_MEMBER_ID",
        "lets all offsets expire, counted from when it became empty, and goes with the last one",
    ),
    GroupState.PREPARING_REBALANCE: (
        "parks JoinGroup until all members have joined again or the rebalance timeout is over",
        "answers SyncGroup and Heartbeat with REBALANCE_IN_PROGRESS",
        "takes offset commits of the generation that ends",
        "lets no offset expire",
    ),
    GroupState.COMPLETING_REBALANCE: (
        "parks SyncGroup until the leader's has come",
        "answers Heartbeat as usual: members begin with it as soon as they have joined",
        "answers offset commits with REBALANCE_IN_PROGRESS",
        "lets no offset expire",
    ),
    GroupState.STABLE: (
        "answers Heartbeat as usual, SyncGroup with the assignment",
        "answers JoinGroup of an unchanged follower with the current generation",
        "takes offset commits of the current generation",
        "lets offsets of topics expire that no consumer subscribes to",
    ),
    GroupState.DEAD: ("is gone: every request is answered as for an unknown group",),
}


def next_state(state: GroupState, event: Event) -> GroupState:
    """Where an event leads; an event that cannot happen in a state is a mistake of the coordinator."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise AssertionError(f"a group in state {state} does not expect: {event}") from None


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {GroupState.EMPTY}"]
    for state, events in TRANSITIONS.items():
        lines += [f"    {state} --> {target}: {event}" for event, target in events.items()]
    lines.append(f"    {GroupState.DEAD} --> [*]")
    return "\n".join(lines) + "\n"


#: For each state of a consumer group: when the group is in it, and what requests do.
GROUP_STATES: Final[dict[GroupState, tuple[str, ...]]] = {
    GroupState.EMPTY: (
        "it has no members",
        "any client may commit offsets; offsets expire, and the group is removed with the last one",
        "it can be deleted, and becomes a classic group when a classic member joins",
    ),
    GroupState.ASSIGNING: (
        "its epoch is higher than its target's: members or topics have changed",
        "the next heartbeat computes a new target, at most one in each assignment interval",
    ),
    GroupState.RECONCILING: (
        "the target is computed, and some members do not own their part of it yet",
        "heartbeat responses name the partitions to give up, and then those to take",
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
        "it has to give up partitions, and stays in its epoch until its heartbeat confirms that",
        "it is fenced when its rebalance timeout is over",
    ),
    MemberState.UNRELEASED_PARTITIONS: (
        "it has reached the epoch, and waits for partitions that others still own",
    ),
    MemberState.UNKNOWN: ("a newer broker wrote it: the member has to join again",),
}
