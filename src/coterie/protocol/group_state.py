"""States and types of groups in Kafka's spelling, and the partition of `__consumer_offsets` of a group.

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
from functools import lru_cache

__all__ = [
    "GroupState",
    "GroupType",
    "partition_for",
    "utf16_length",
]


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


_INT32_MIN = -(1 << 31)


@lru_cache(maxsize=65_536)
def partition_for(group_id: str, partitions: int) -> int:
    """Kafka's GroupCoordinatorService.partitionFor: Utils.abs of the id's hash, modulo partitions."""
    value = _java_hash(group_id)
    # Utils.abs: the smallest int has no positive counterpart and counts as 0.
    return (0 if value == _INT32_MIN else abs(value)) % partitions


def utf16_length(text: str) -> int:
    """Java's String.length."""
    return len(text) if text.isascii() else len(_utf16(text)) // 2


def _java_hash(text: str) -> int:
    # A lone surrogate has no UTF-8 and cannot come from the wire, but Java's strings may hold one.
    units = text.encode("ascii") if text.isascii() else memoryview(_utf16(text)).cast("H")
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFF_FFFF
    return value - (1 << 32) if value & 0x8000_0000 else value


def _utf16(text: str) -> bytes:
    # In the byte order of this machine, without the byte order mark.
    return text.encode("utf-16", "surrogatepass")[2:]
