"""Executing plans: looks again, saves what would be lost, then changes, group by group.

A plan says what its author saw. Right before a group is changed, its state and its offsets are read again;
a group that is no longer as the plan has it stays as it is. Deleted data is in the undo file,
on disk, before the first change is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Literal

import msgspec

from coterie.client.admin import AdminClient
from coterie.client.results import Done, GroupChange, PartitionOffset, Result, TopicPartition
from coterie.errors import BrokerUnreachable, CoterieError, DeadlineExceeded, GroupIdNotFound
from coterie.plans.making import NO_UNDO_FOR_SHARE, WITHOUT_MEMBERS, saved_offsets
from coterie.plans.model import Plan, PlannedGroup
from coterie.plans.offsets_file import SavedGroup, SavedOffsets
from coterie.protocol.group_state import GroupState, GroupType

__all__ = ["Execution", "Outcome"]

#: So many groups are looked at again together, and then changed together.
_TOGETHER: Final = 100

_Offsets = dict[TopicPartition, PartitionOffset]


class Outcome(msgspec.Struct, frozen=True):
    """What became of one group, or of one partition of it."""

    group: str
    result: Literal["done", "unchanged", "refused", "failed"]
    detail: str = ""
    topic: str | None = None
    partition: int | None = None
    before: int | None = None
    after: int | None = None


class _Seen(msgspec.Struct, frozen=True):
    """A group as it is now."""

    state: GroupState | None = None
    offsets: _Offsets = {}
    trouble: str = ""
    #: Whether no broker answered for it.
    silent: bool = False


class _ClusterGone(CoterieError):
    """No broker answers any more: asking again for the next groups would only take its time again."""


class Execution:
    """One run of one plan. `undo` is where the offsets go; None gives them up."""

    def __init__(self, admin: AdminClient, plan: Plan, undo: Path | None) -> None:
        self._admin = admin
        self._plan = plan
        self._undo = undo
        #: Whether the undo file was written; there may be nothing to write.
        self.saved = False

    async def run(self, step: Callable[[int], None] = lambda _: None) -> list[Outcome]:
        """Make the changes; every group has outcomes. `step` is called with the number that is done."""
        await self._check_cluster()
        wanted = list(self._plan.groups)
        seen = await self._look(wanted)
        ready, outcomes = self._sort_out(wanted, seen)
        self._save_undo(ready, seen)
        step(len(wanted) - len(ready))
        for start in range(0, len(ready), _TOGETHER):
            chunk = ready[start : start + _TOGETHER]
            try:
                outcomes += await self._change(chunk, seen)
            except _ClusterGone as gone:
                rest = ready[start:]
                outcomes += [Outcome(each.group, "failed", str(gone)) for each in rest]
                step(len(rest))
                break
            step(len(chunk))
        order = {each.group: number for number, each in enumerate(wanted)}
        return sorted(
            outcomes, key=lambda each: (order[each.group], each.topic or "", each.partition or 0)
        )

    async def _check_cluster(self) -> None:
        await self._admin.brokers()
        here, meant = self._admin.cluster_id, self._plan.cluster_id
        if meant is not None and here is not None and here != meant:
            raise CoterieError(
                f"the plan was made for cluster {meant} and this is {here}; make a plan here"
            )

    # -- looking again --------------------------------------------------------------------------------

    async def _look(self, groups: list[PlannedGroup]) -> dict[str, _Seen]:
        names = [each.group for each in groups]
        described = await self._admin.describe_groups(names)
        read = await self._admin.list_offsets(names)
        found = {}
        for name in names:
            unread = None if self._undo is None else read.errors.get(name)
            errors = (described.errors.get(name), unread)
            gone = any(isinstance(each, GroupIdNotFound) for each in errors)
            if gone and self._plan.action == "set_offsets":
                found[name] = _Seen()
                continue
            trouble = next((str(each) for each in errors if each is not None), "")
            seen = described.items.get(name)
            if self._undo is not None and seen is not None and seen.type is GroupType.SHARE:
                trouble = NO_UNDO_FOR_SHARE
            state = None if seen is None else seen.state
            offsets = read.items[name].offsets if name in read.items else {}
            silent = isinstance(described.errors.get(name), BrokerUnreachable | DeadlineExceeded)
            found[name] = _Seen(state, offsets, trouble, silent)
        return found

    def _sort_out(
        self, groups: Iterable[PlannedGroup], seen: dict[str, _Seen]
    ) -> tuple[list[PlannedGroup], list[Outcome]]:
        """Those that may be changed, and what to say of the others."""
        ready, others = [], []
        for group in groups:
            now = seen[group.group]
            if not self._work(group) and self._plan.action != "delete_groups":
                others += self._nothing_to_do(group)
            elif obstacle := self._obstacle(group, now):
                result: Literal["failed", "refused"] = "failed" if now.trouble else "refused"
                others.append(Outcome(group.group, result, obstacle))
            else:
                ready.append(group)
        return ready, others

    def _work(self, group: PlannedGroup) -> dict[TopicPartition, PartitionOffset]:
        """The partitions to change, with what they get."""
        offsets = group.offsets or ()
        if self._plan.action == "set_offsets":
            return {
                TopicPartition(each.topic, each.partition): PartitionOffset(
                    each.target, each.leader_epoch, each.metadata
                )
                for each in offsets
                if each.target is not None and each.target != each.current
            }
        return {
            TopicPartition(each.topic, each.partition): PartitionOffset(each.current)
            for each in offsets
            if each.current is not None
        }

    def _nothing_to_do(self, group: PlannedGroup) -> list[Outcome]:
        """One line for the group, unless its partitions stay for different reasons."""
        lines = self._left_alone(group)
        results = {each.result for each in lines}
        if len(results) > 1:
            return lines
        if "unchanged" in results:
            return [Outcome(group.group, "unchanged", lines[0].detail)]
        reasons = "; ".join(dict.fromkeys(each.detail for each in lines))
        return [Outcome(group.group, "refused", group.note or reasons or "nothing to do")]

    def _left_alone(self, group: PlannedGroup) -> list[Outcome]:
        """Partitions that are in the plan and are not to be changed."""
        work = self._work(group)
        outcomes = []
        for each in group.offsets or ():
            if TopicPartition(each.topic, each.partition) in work:
                continue
            result: Literal["unchanged", "refused"] = "refused"
            if self._plan.action == "delete_offsets":
                detail = "nothing is committed there"
            elif each.target is None:
                detail = each.note or "the plan has no offset for it"
            else:
                result, detail = "unchanged", "it is where the plan wants it"
            place = (each.topic, each.partition, each.current, each.current)
            outcomes.append(Outcome(group.group, result, detail, *place))
        return outcomes

    def _obstacle(self, group: PlannedGroup, now: _Seen) -> str:
        if now.trouble:
            return now.trouble
        may_have_members = self._plan.action == "delete_offsets"
        if now.state not in {None, *WITHOUT_MEMBERS} and not may_have_members:
            return f"it has members: its state is {now.state}; stop them first"
        for each in group.offsets or ():
            key = TopicPartition(each.topic, each.partition)
            found = now.offsets.get(key)
            if (None if found is None else found.offset) != each.current:
                said = "nothing" if each.current is None else each.current
                here = "nothing" if found is None else found.offset
                return f"{key} was {said} in the plan and is {here} now; make a new plan"
        if self._plan.action == "delete_groups" and group.offsets is not None:
            planned = {TopicPartition(each.topic, each.partition) for each in group.offsets}
            for key in now.offsets:
                if key not in planned:
                    return f"{key} was committed since the plan was made; make a new plan"
        return ""

    # -- changing -------------------------------------------------------------------------------------

    def _save_undo(self, groups: list[PlannedGroup], seen: dict[str, _Seen]) -> None:
        if self._undo is None:
            return
        saved = []
        for group in groups:
            now = seen[group.group].offsets
            lost = now if self._plan.action == "delete_groups" else self._work(group)
            offsets = saved_offsets((key, now[key]) for key in lost if key in now)
            if offsets:
                saved.append(SavedGroup(group.group, offsets))
        if saved:
            reason = f"before {self._plan.action}"
            cluster = self._admin.cluster_id
            self._undo.parent.mkdir(parents=True, exist_ok=True)
            SavedOffsets.of(tuple(saved), cluster_id=cluster, reason=reason).save(self._undo)
            self.saved = True

    async def _change(self, chunk: list[PlannedGroup], before: dict[str, _Seen]) -> list[Outcome]:
        seen = await self._look(chunk)
        if all(each.silent for each in seen.values()):
            await self._check_any_broker()
        ready, outcomes = self._sort_out(chunk, seen)
        for group in list(ready):
            if seen[group.group].offsets != before[group.group].offsets:
                ready.remove(group)
                outcomes.append(Outcome(group.group, "refused", "it committed just now"))
        if not ready:
            return outcomes
        if self._plan.action == "delete_groups":
            done = await self._admin.delete_groups([each.group for each in ready])
            return outcomes + [_deleted(each, done) for each in ready]
        work = {each.group: self._work(each) for each in ready}
        if self._plan.action == "set_offsets":
            changed = await self._admin.alter_offsets(work)
        else:
            changed = await self._admin.delete_offsets(work)
        keeps = self._plan.action == "set_offsets"
        for group in ready:
            now = seen[group.group].offsets
            outcomes += _partitions(group.group, work[group.group], now, changed, keeps=keeps)
            outcomes += self._left_alone(group)
        return outcomes

    async def _check_any_broker(self) -> None:
        """One coordinator may be away, and others have the next groups; or the cluster is."""
        try:
            await self._admin.brokers()
        except CoterieError as error:
            raise _ClusterGone(str(error)) from None


def _deleted(group: PlannedGroup, done: Result[str, Done]) -> Outcome:
    if group.group in done.items:
        return Outcome(group.group, "done", "deleted")
    error = done.errors.get(group.group)
    return Outcome(group.group, "failed", str(error or "its coordinator did not answer"))


def _partitions(
    group: str, work: _Offsets, now: _Offsets, changed: Result[str, GroupChange], *, keeps: bool
) -> list[Outcome]:
    """An outcome per partition."""
    change = changed.items.get(group)
    whole = str(changed.errors.get(group) or "its coordinator did not answer")
    outcomes = []
    for key in sorted(work):
        before = now[key].offset if key in now else None
        after = work[key].offset if keeps else None
        trouble = whole if change is None else change.errors.get(key, "")
        outcomes.append(
            Outcome(
                group,
                "failed" if trouble else "done",
                trouble,
                key.topic,
                key.partition,
                before,
                before if trouble else after,
            )
        )
    return outcomes
