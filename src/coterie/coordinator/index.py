"""Group ids by type and state, so that a filtered list costs what it returns.

Kafka scans every group of a shard for each ListGroups. Kept up to date wherever a group appears, goes or
changes its state; derived from the groups and never written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

from coterie.protocol.group_state import GroupState, GroupType

__all__ = ["GroupIndex", "Indexed"]


class Indexed(Protocol):
    """What the index needs to know of a group, and the one thing that it keeps there."""

    group_id: str
    #: The ids that this group is listed among, or None.
    bucket: dict[str, None] | None

    @property
    def type(self) -> GroupType: ...

    @property
    def state(self) -> GroupState: ...


class GroupIndex:
    """Every group of a shard is in the bucket of its type and state."""

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        # Dictionaries for their order: a list of groups comes out oldest first, and the same each time.
        self._buckets: dict[tuple[GroupType, GroupState], dict[str, None]] = {}

    def place(self, group: Indexed) -> None:
        """Put a group where it now belongs."""
        where = (group.type, group.state)
        bucket = self._buckets.get(where)
        if bucket is None:
            bucket = self._buckets[where] = {}
        if group.bucket is not bucket:
            if group.bucket is not None:
                del group.bucket[group.group_id]
            bucket[group.group_id] = None
            group.bucket = bucket

    def remove(self, group: Indexed) -> None:
        """Take a group out."""
        if group.bucket is not None:
            del group.bucket[group.group_id]
            group.bucket = None

    def find(
        self, states: Collection[GroupState], types: Collection[GroupType]
    ) -> Iterator[tuple[GroupType, GroupState, dict[str, None]]]:
        """The buckets of these states and types; an empty filter lets all pass."""
        for (kind, state), bucket in self._buckets.items():
            if bucket and (not states or state in states) and (not types or kind in types):
                yield kind, state, bucket
