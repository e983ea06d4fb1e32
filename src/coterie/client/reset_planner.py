"""Plans of offset resets: asks the cluster for what `coterie.client.reset` makes them from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from coterie.client.arguments import EARLIEST, LATEST, check_names
from coterie.client.committed_offsets import CommittedOffsets
from coterie.client.coordinators import Coordinators
from coterie.client.groups import Groups
from coterie.client.logs import Logs
from coterie.client.network import Deadline
from coterie.client.reset import Known, ResetPlan, To, make_plan
from coterie.client.results import Result, TopicPartition
from coterie.client.topics import Topics
from coterie.error_codes import ErrorCode
from coterie.errors import CoterieError, GroupIdNotFound, InvalidArgument, kafka_error
from coterie.protocol.group_state import GroupState

__all__ = ["ResetPlanner"]

#: Offsets can be set from outside only while the group has no members.
_INACTIVE: Final = frozenset({GroupState.EMPTY, GroupState.DEAD})


class ResetPlanner:
    """Plans for many groups, for which each broker is asked once."""

    def __init__(
        self,
        coordinators: Coordinators,
        groups: Groups,
        offsets: CommittedOffsets,
        logs: Logs,
        topics: Topics,
    ) -> None:
        self._coordinators = coordinators
        self._groups = groups
        self._offsets = offsets
        self._logs = logs
        self._topics = topics

    async def plan(
        self,
        groups: list[str],
        to: To,
        topics: Iterable[str | TopicPartition] | None,
        states: Mapping[str, GroupState],
        deadline: Deadline,
    ) -> Result[str, ResetPlan]:
        """A plan for each group that has no members. Groups in `states` are not described."""
        others = [to.group_id] if to.kind == "group" and to.group_id not in groups else []
        await self._coordinators.find([*groups, *others], deadline)
        errors = await self._active(groups, states, deadline)
        asked = [group for group in groups if group not in errors]
        if to.kind == "group" and to.group_id not in asked:
            asked.append(to.group_id)
        read = await self._offsets.read(asked, deadline)
        other = read[to.group_id].offsets if to.kind == "group" else {}
        errors |= read.errors
        chosen = None if topics is None else await self._partitions_of(topics, deadline)
        partitions = {
            group: list(to.offsets or other or found.offsets) if chosen is None else chosen
            for group, found in read.items.items()
            if group in groups and group not in errors
        }
        timestamps = [EARLIEST, LATEST, *([to.number] if to.kind == "time" else [])]
        union = [each for theirs in partitions.values() for each in theirs]
        logs = await self._logs.offsets_at(union, timestamps, deadline)
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

    async def _active(
        self, groups: Sequence[str], known: Mapping[str, GroupState], deadline: Deadline
    ) -> dict[str, CoterieError]:
        """Errors of groups whose offsets cannot be set now; a group that does not exist has none."""
        unknown = [group for group in groups if group not in known]
        described = await self._groups.describe(unknown, deadline)
        states = {**known, **{each.group_id: each.state for each in described}}
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

    async def _partitions_of(
        self, topics: Iterable[str | TopicPartition], deadline: Deadline
    ) -> list[TopicPartition]:
        """The partitions that are named, and all those of topics that are named."""
        wanted = list(topics)
        found = [each for each in wanted if isinstance(each, TopicPartition)]
        names = check_names([each for each in wanted if isinstance(each, str)], "topic")
        if names:
            described = await self._topics.describe(names, deadline)
            for topic in described.unwrap().values():
                found += [TopicPartition(topic.name, each.partition) for each in topic.partitions]
        return found
