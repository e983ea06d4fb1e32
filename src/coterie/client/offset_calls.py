"""The calls about offsets: read, lag, alter, delete, reset."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from coterie.client.group_calls import SHARE_OF_THE_GROUPS, GroupCalls
from coterie.client.lag import lag_of, partitions_of
from coterie.client.network import Deadline, Node, together
from coterie.client.reset import Known, ResetPlan, To, make_plan
from coterie.client.results import (
    GroupChange,
    GroupDescription,
    GroupLag,
    GroupOffsets,
    PartitionOffset,
    Result,
    TopicPartition,
)
from coterie.client.routing import Failure
from coterie.client.topic_calls import EARLIEST, LATEST, TopicCalls
from coterie.error_codes import ErrorCode
from coterie.errors import (
    GroupIdNotFound,
    InvalidArgument,
    kafka_error,
)
from coterie.protocol.group_state import GroupState, GroupType

if TYPE_CHECKING:
    from coterie.client.offsets import OffsetChanges, OffsetReader

__all__ = ["OffsetCalls"]

#: A group's offsets can be set from outside only while nobody reads.
_INACTIVE: Final = frozenset({GroupState.EMPTY, GroupState.DEAD})


class OffsetCalls(GroupCalls, TopicCalls):
    """A part of AdminClient."""

    async def list_offsets(
        self,
        groups: Iterable[str],
        *,
        stable: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[str, GroupOffsets]:
        """What groups have committed: one request per coordinator where brokers can (KIP-709).

        With `stable`, offsets that an open transaction may still change are waited for.
        """
        deadline = self._deadline(timeout)
        reader = self._reader(deadline, stable=stable)
        read = await self._per_coordinator(self._checked(groups), deadline, reader.ask)
        return read.of(GroupOffsets)

    async def lag(
        self,
        groups: Iterable[str],
        *,
        log_start: bool = False,
        topics: Iterable[str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[str, GroupLag]:
        """How far groups are behind, partition by partition, and which member has which.

        Commits are read first and the ends of the logs afterwards, each end once, so no lag is negative
        because a group was faster than the reader. `log_start` costs one more request per leader. With
        `topics`, leaders are asked about these alone, and the answer has no others; commits outlive their
        topic, so those of one that was deleted are in it as they are without `topics`.
        """
        names = self._checked(groups)
        chosen = None if topics is None else frozenset(self._checked(topics, "topic"))
        deadline = self._deadline(timeout)
        # Groups that cannot be had must leave time to ask for the logs of those that can.
        most = deadline.within(deadline.left * SHARE_OF_THE_GROUPS)
        # Found once for the two questions that follow; what cannot be found now is tried again there.
        await self._coordinators.find(names, most)
        described, offsets = await self._described_with_offsets(names, most)
        only = None if chosen is None else _of_topics(chosen, described, offsets)
        wanted = partitions_of(described.items, offsets.items, only)
        ends = await self._log_offsets(wanted, LATEST, deadline)
        starts = await self._log_offsets(wanted, EARLIEST, deadline) if log_start else None
        errors = {**offsets.errors, **described.errors}
        items = {
            group: lag_of(described.items[group], offsets.items[group], ends, starts, only)
            for group in names
            if group in described.items and group in offsets.items
        }
        failures = (described, offsets, ends, *((starts,) if starts is not None else ()))
        broker_errors = tuple(dict.fromkeys(each for one in failures for each in one.broker_errors))
        return Result(items, errors, broker_errors, GroupLag)

    async def _described_with_offsets(
        self,
        names: list[str],
        deadline: Deadline,
    ) -> tuple[Result[str, GroupDescription], Result[str, GroupOffsets]]:
        reader = self._reader(deadline)
        types = self._coordinators.types
        asked = [group for group in names if types.get(group) is not GroupType.SHARE]
        try:
            async with asyncio.TaskGroup() as both:
                describing = both.create_task(self._describe(names, deadline, operations=False))
                reading = both.create_task(self._per_coordinator(asked, deadline, reader.ask))
        except ExceptionGroup as trouble:
            raise trouble.exceptions[0] from None
        described, offsets = describing.result(), reading.result()
        share = [each.group_id for each in described if each.type is GroupType.SHARE]
        if share:
            shared = await self._per_coordinator(share, deadline, reader.ask_share)
            errors = {key: each for key, each in offsets.errors.items() if key not in shared}
            offsets = Result(
                offsets.items | shared.items,
                errors | shared.errors,
                offsets.broker_errors + shared.broker_errors,
            )
        return described, offsets

    async def alter_offsets(
        self,
        offsets: Mapping[str, Mapping[TopicPartition, int | PartitionOffset]],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[str, GroupChange]:
        """Commit offsets for groups without members; a group that is not there begins to be."""
        groups = self._checked(offsets)
        wanted = {group: _committable(group, offsets[group]) for group in groups}
        deadline = self._deadline(timeout)
        changes = self._changes(deadline)

        async def ask(node: Node, names: list[str]) -> dict[str, GroupChange | Failure]:
            return await changes.commit(node, names, wanted)

        return (await self._per_coordinator(groups, deadline, ask)).of(GroupChange)

    async def delete_offsets(
        self,
        partitions: Mapping[str, Iterable[TopicPartition]],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[str, GroupChange]:
        """Delete committed offsets of topics that no member of the group subscribes to."""
        groups = self._checked(partitions)
        wanted = {group: tuple(partitions[group]) for group in groups}
        for group, theirs in wanted.items():
            if not theirs:
                raise InvalidArgument(f"group {group!r}: no partition is given")
        deadline = self._deadline(timeout)
        changes = self._changes(deadline)

        async def ask(node: Node, names: list[str]) -> dict[str, GroupChange | Failure]:
            return await changes.delete(node, names, wanted)

        return (await self._per_coordinator(groups, deadline, ask)).of(GroupChange)

    def _reader(self, deadline: Deadline, *, stable: bool = False) -> OffsetReader:
        from coterie.client.offsets import OffsetReader  # noqa: PLC0415 - a list does not pay for it

        return OffsetReader(self._network, deadline, stable=stable)

    def _changes(self, deadline: Deadline) -> OffsetChanges:
        from coterie.client.offsets import OffsetChanges  # noqa: PLC0415 - a list does not pay for it

        return OffsetChanges(self._network, deadline)

    # -- reset ----------------------------------------------------------------------------------------

    async def plan_reset(
        self,
        group: str,
        to: To,
        *,
        topics: Iterable[str | TopicPartition] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> ResetPlan:
        """Where a group's offsets would go; nothing is changed.

        Of topics all partitions are meant; without topics, all that the group has committed.
        """
        names = self._checked([group, to.group_id] if to.kind == "group" else [group])
        deadline = self._deadline(timeout)
        await self._refuse_if_active(group, deadline)
        reader = self._reader(deadline)
        read = (await self._per_coordinator(names, deadline, reader.ask)).unwrap()
        committed = read[group].offsets
        other = read[to.group_id].offsets if to.kind == "group" else {}
        if topics is None:
            partitions = list(to.offsets or other or committed)
        else:
            partitions = await self._select(topics, deadline)
        times = [EARLIEST, LATEST, *([to.number] if to.kind == "time" else [])]
        found = await together(*(self._log_offsets(partitions, each, deadline) for each in times))
        start, end, *by_time = ({tp: at.offset for tp, at in each.items.items()} for each in found)
        known = Known(committed, start, end, by_time[0] if by_time else {}, other)
        return make_plan(group, partitions, to, known)

    async def reset_offsets(
        self,
        plan: ResetPlan,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[str, GroupChange]:
        """Do what a plan says."""
        if not plan.targets:
            raise InvalidArgument(f"the plan for group {plan.group_id!r} moves no partition")
        return await self.alter_offsets({plan.group_id: plan.targets}, timeout=timeout)

    async def _refuse_if_active(self, group: str, deadline: Deadline) -> None:
        described = await self._describe([group], deadline, operations=False)
        try:
            state = described[group].state
        except GroupIdNotFound:
            return
        if state not in _INACTIVE:
            raise kafka_error(
                ErrorCode.NON_EMPTY_GROUP,
                f"group {group!r}",
                f"offsets can be reset only while the group is inactive, and it is {state}",
            )

    async def _select(
        self, topics: Iterable[str | TopicPartition], deadline: Deadline
    ) -> list[TopicPartition]:
        wanted = list(topics)
        found = [each for each in wanted if isinstance(each, TopicPartition)]
        whole = self._checked([each for each in wanted if isinstance(each, str)], "topic")
        if whole:
            described = await self.describe_topics(whole, timeout=deadline.left)
            for topic in described.unwrap().values():
                found += [TopicPartition(topic.name, each.partition) for each in topic.partitions]
        return found


def _of_topics(
    topics: frozenset[str],
    described: Result[str, GroupDescription],
    offsets: Result[str, GroupOffsets],
) -> frozenset[TopicPartition]:
    """The partitions of some topics that groups have something to do with, existing or not."""
    found = [*partitions_of(described.items, offsets.items)]
    found += [partition for group in offsets for partition in group.errors]
    return frozenset(each for each in found if each.topic in topics)


def _committable(
    group: str, offsets: Mapping[TopicPartition, int | PartitionOffset]
) -> dict[TopicPartition, PartitionOffset]:
    if not offsets:
        raise InvalidArgument(f"group {group!r}: no offset is given")
    wanted = {
        partition: each if isinstance(each, PartitionOffset) else PartitionOffset(each)
        for partition, each in offsets.items()
    }
    for partition, each in wanted.items():
        if each.offset < 0:
            raise InvalidArgument(
                f"group {group!r}, {partition}: an offset is 0 or more, not {each.offset}"
            )
    return wanted
