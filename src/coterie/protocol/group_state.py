"""States and types of groups, in Kafka's spelling, and what KIP-40 called them.

KIP-40 named four states; Kafka serves more, and finer ones. The table, once and for all:

| KIP-40       | Kafka                                     | what it means                          |
|--------------|-------------------------------------------|----------------------------------------|
| Dead         | Dead, Empty                               | no members (Empty still has offsets)   |
| Initializing | none: error COORDINATOR_LOAD_IN_PROGRESS  | the coordinator is loading its log     |
| Rebalancing  | PreparingRebalance, CompletingRebalance,  | members are changing or being assigned |
|              | Assigning, Reconciling, NotReady          |                                        |
| Stable       | Stable                                    | every member has its assignment        |
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["GroupState", "GroupType"]


class GroupState(StrEnum):
    """Where a group is in its life. The value is what travels in ListGroups and DescribeGroups."""

    #: The broker did not say, because it is older than KIP-518.
    UNKNOWN = "Unknown"
    #: Classic: members are asked to join again.
    PREPARING_REBALANCE = "PreparingRebalance"
    #: Classic: all joined; the leader's assignment is awaited.
    COMPLETING_REBALANCE = "CompletingRebalance"
    #: Every member has its assignment.
    STABLE = "Stable"
    #: The group is gone, or never was.
    DEAD = "Dead"
    #: No members; committed offsets keep the group alive until they expire.
    EMPTY = "Empty"
    #: KIP-848: a new target assignment is being computed.
    ASSIGNING = "Assigning"
    #: KIP-848: members are moving towards the target assignment.
    RECONCILING = "Reconciling"
    #: Streams: the topology's internal topics are not there yet.
    NOT_READY = "NotReady"

    @classmethod
    def parse(cls, text: str) -> GroupState:
        """A state by its name in any case; a name that is not known is UNKNOWN, as in Kafka."""
        return _STATES.get(text.strip().lower(), cls.UNKNOWN)

    @property
    def kip40(self) -> str:
        """The word of KIP-40 for this state; empty if there is none."""
        return _KIP_40.get(self, "Rebalancing")


class GroupType(StrEnum):
    """Which protocol a group runs. The value is what travels in ListGroups."""

    UNKNOWN = "Unknown"
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"

    @classmethod
    def parse(cls, text: str) -> GroupType:
        """A type by its name in any case; a name that is not known is UNKNOWN, as in Kafka."""
        return _TYPES.get(text.lower(), cls.UNKNOWN)


_STATES = {state.value.lower(): state for state in GroupState}
_TYPES = {kind.value.lower(): kind for kind in GroupType}
_KIP_40 = {
    GroupState.DEAD: "Dead",
    GroupState.EMPTY: "Dead",
    GroupState.STABLE: "Stable",
    GroupState.UNKNOWN: "",
}
