"""The calls about offsets: read, lag, alter, delete, reset."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from coterie.client.group_calls import SHARE_OF_THE_GROUPS, GroupCalls
from coterie.client.lag import lag_result, partitions_of, partitions_of_topics
from coterie.client.network import Deadline, Node
from coterie.client.reset import Known, ResetPlan, To, make_plan
from coterie.client.results import (
    GroupChange,
    GroupDescription,
    GroupOffsets,
    LagResult,
    PartitionOffset,
    Result,
    TopicPartition,
)
from coterie.client.routing import Failure
from coterie.client.topic_calls import EARLIEST, LATEST, TopicCalls
from coterie.error_codes import ErrorCode
from coterie.errors import (
    CoterieError,
    GroupIdNotFound,
    InvalidArgument,
    kafka_error,
)
from coterie.protocol.group_state import GroupState, GroupType

if TYPE_CHECKING:
    from coterie.client.committed_offsets import OffsetChanges, OffsetReader

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
        authorized_operations: bool = False,
        deep: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> LagResult:
        """How far groups are behind, partition by partition, and which member has which.

        Commits are read first and the ends of the logs afterwards, each end once, so no lag is negative
        because a group was faster than the reader. `log_start` costs one more request per leader. With
        `topics`, leaders are asked about these alone, and the answer has no others; commits outlive their
        topic, so those of one that was deleted are in it as they are without `topics`.

        The descriptions and the offsets that lag is computed from are part of the result, those of all
        topics, so that no second call has to ask for them; `authorized_operations` and `deep` are those of
        `describe_groups`.
        """
        names = self._checked(groups)
        chosen = None if topics is None else frozenset(self._checked(topics, "topic"))
        deadline = self._deadline(timeout)
        # Groups that cannot be had must leave time to ask for the logs of those that can.
        most = deadline.within(deadline.left * SHARE_OF_THE_GROUPS)
        described, offsets = await self._described_with_offsets(
            names, most, operations=authorized_operations
        )
        only = None
        if chosen is not None:
            only = partitions_of_topics(chosen, described.items, offsets.items)
        wanted = partitions_of(described.items, offsets.items, only)
        times = (LATEST, EARLIEST) if log_start else (LATEST,)
        ends, *starts = await self._log_offsets_at(wanted, times, deadline)
        result = lag_result(described, offsets, ends, starts[0] if starts else None, only)
        return await self._with_records(result, deadline) if deep else result

    async def _with_records(self, result: LagResult, deadline: Deadline) -> LagResult:
        """The same, with what `deep` adds to the descriptions."""
        described = await self._deepened(result.descriptions, deadline)
        return msgspec.structs.replace(result, descriptions=described)

    async def describe_with_offsets(
        self,
        groups: Iterable[str],
        *,
        authorized_operations: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> tuple[Result[str, GroupDescription], Result[str, GroupOffsets]]:
        """Descriptions and committed offsets of groups, asked for at the same time.

        `coterie.client.lag` computes lag from them, for those who have ends of logs already.
        """
        return await self._described_with_offsets(
            self._checked(groups), self._deadline(timeout), operations=authorized_operations
        )

    async def _described_with_offsets(
        self, names: list[str], deadline: Deadline, *, operations: bool
    ) -> tuple[Result[str, GroupDescription], Result[str, GroupOffsets]]:
        # Found once for both questions; what cannot be found now is tried again by each.
        await self._coordinators.find(names, deadline)
        reader = self._reader(deadline)
        types = self._coordinators.types
        asked = [group for group in names if types.get(group) is not GroupType.SHARE]
        try:
            async with asyncio.TaskGroup() as both:
                describing = both.create_task(
                    self._describe(names, deadline, operations=operations)
                )
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
        return described.of(GroupDescription), offsets.of(GroupOffsets)

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
        from coterie.client.committed_offsets import OffsetReader  # noqa: PLC0415 - a list does not pay for it

        return OffsetReader(self._network, deadline, stable=stable)

    def _changes(self, deadline: Deadline) -> OffsetChanges:
        from coterie.client.committed_offsets import OffsetChanges  # noqa: PLC0415 - a list does not pay for it

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
        plans = await self.plan_resets([group], to, topics=topics, timeout=timeout)
        return plans[group]

    async def plan_resets(
        self,
        groups: Iterable[str],
        to: To,
        *,
        topics: Iterable[str | TopicPartition] | None = None,
        states: Mapping[str, GroupState] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - one deadline for the whole call
    ) -> Result[str, ResetPlan]:
        """What `plan_reset` answers, for many groups: each broker is asked once about all of them.

        A group with members is an error. Those whose state the caller knows, from a list or a description,
        are not described again.
        """
        names = self._checked(groups)
        like = [to.group_id] if to.kind == "group" and to.group_id not in names else []
        self._checked([*names, *like])
        deadline = self._deadline(timeout)
        await self._coordinators.find([*names, *like], deadline)
        errors = await self._active(names, dict(states or {}), deadline)
        reader = self._reader(deadline)
        asked = [group for group in names if group not in errors]
        if to.kind == "group" and to.group_id not in asked:
            asked.append(to.group_id)
        read = await self._per_coordinator(asked, deadline, reader.ask)
        other = read[to.group_id].offsets if to.kind == "group" else {}
        errors |= read.errors
        chosen = None if topics is None else await self._select(topics, deadline)
        partitions = {
            group: list(to.offsets or other or found.offsets) if chosen is None else chosen
            for group, found in read.items.items()
            if group in names and group not in errors
        }
        times = [EARLIEST, LATEST, *([to.number] if to.kind == "time" else [])]
        union = [each for theirs in partitions.values() for each in theirs]
        logs = await self._log_offsets_at(union, times, deadline)
        start, end, *by_time = ({tp: at.offset for tp, at in log.items.items()} for log in logs)
        plans: dict[str, ResetPlan] = {}
        for group, theirs in partitions.items():
            committed = read.items[group].offsets
            known = Known(committed, start, end, by_time[0] if by_time else {}, other)
            try:
                plans[group] = make_plan(group, theirs, to, known)
            except InvalidArgument as error:
                errors[group] = error
        return Result(plans, errors, read.broker_errors, ResetPlan)

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

    async def _active(
        self, groups: list[str], states: dict[str, GroupState], deadline: Deadline
    ) -> dict[str, CoterieError]:
        """Errors of groups whose offsets cannot be set now; one that does not exist yet is fine."""
        unknown = [group for group in groups if group not in states]
        described = await self._describe(unknown, deadline, operations=False)
        states |= {each.group_id: each.state for each in described}
        errors: dict[str, CoterieError] = {
            group: error
            for group, error in described.errors.items()
            if not isinstance(error, GroupIdNotFound)
        }
        for group in groups:
            if (state := states.get(group)) is not None and state not in _INACTIVE:
                errors[group] = kafka_error(
                    ErrorCode.NON_EMPTY_GROUP,
                    f"group {group!r}",
                    f"offsets can be reset only while the group is inactive, and it is {state}",
                )
        return errors

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
