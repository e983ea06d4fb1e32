"""What the groups of one reset have in common: each broker is asked once for all of them.

A group's error is kept until that group is reset: the groups before it are reset first, as Kafka's tool does.
"""

from __future__ import annotations

from collections.abc import Iterable

from coterie.cli.consumer_groups.session import Session
from coterie.client import GroupOffsets, LogOffset, Result, TopicDescription, TopicPartition
from coterie.errors import CoterieError

__all__ = ["Lookups"]


class Lookups:
    """Offsets, topics and logs that were looked up for the groups of one reset."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._groups: list[str] = []
        self._committed: Result[str, GroupOffsets] | None = None
        self._topics: dict[str, TopicDescription] = {}
        self._topic_errors: dict[str, CoterieError] = {}
        self._logs: dict[str | int, Result[TopicPartition, LogOffset]] = {}

    def expect(self, groups: Iterable[str]) -> None:
        """The groups whose offsets may be looked up."""
        self._groups = list(groups)

    async def committed(self, group: str) -> GroupOffsets:
        """What a group has committed; raises the error of that group."""
        if self._committed is None:
            session = self._session
            self._committed = await session.admin.list_offsets(
                self._groups, timeout=session.seconds
            )
        return self._committed[group]

    def _partitions(self) -> list[TopicPartition]:
        """All partitions that the groups have committed, as far as is known."""
        return [key for each in self._committed or () for key in each.offsets]

    async def topics(self, names: list[str]) -> Result[str, TopicDescription]:
        """Topics with their partitions."""
        known = self._topics.keys() | self._topic_errors.keys()
        if not known.issuperset(names):
            wanted = {*names, *(each.topic for each in self._partitions())} - known
            session = self._session
            described = await session.admin.describe_topics(wanted, timeout=session.seconds)
            self._topics.update(described.items)
            self._topic_errors.update(described.errors)
        return Result(
            {name: self._topics[name] for name in names if name in self._topics},
            {name: self._topic_errors[name] for name in names if name in self._topic_errors},
        )

    async def logs(
        self, partitions: list[TopicPartition], at: str | int
    ) -> Result[TopicPartition, LogOffset]:
        """Offsets of logs at a moment, of these partitions and maybe of more."""
        known = self._logs.get(at, Result({}))
        if not (known.items.keys() | known.errors.keys()).issuperset(partitions):
            wanted = {
                *partitions,
                *(each for each in self._partitions() if each.topic in self._topics),
            }
            session = self._session
            found = await session.admin.log_offsets(wanted, at, timeout=session.seconds)
            known = self._logs[at] = Result(known.items | found.items, known.errors | found.errors)
        return known
