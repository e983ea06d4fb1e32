"""Making plans: asks a cluster what a change would do, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from coterie.client.admin import AdminClient
from coterie.client.reset import ResetPlan, To
from coterie.client.results import GroupOffsets, PartitionOffset, Result, TopicPartition
from coterie.errors import CoterieError, GroupIdNotFound
from coterie.plans.model import Plan, PlannedGroup, PlannedOffset
from coterie.plans.offsets_file import SavedGroup, SavedOffset, SavedOffsets
from coterie.protocol.group_state import GroupState, GroupType

__all__ = [
    "NO_UNDO_FOR_SHARE",
    "WITHOUT_MEMBERS",
    "Scope",
    "plan_delete",
    "plan_delete_offsets",
    "plan_import",
    "plan_reset",
    "save_offsets_of",
]

#: Partitions that a change is about: topics as a whole, and single partitions; none means all.
Scope = Sequence[str | TopicPartition]

#: What has no members can be deleted, and its offsets set.
WITHOUT_MEMBERS: Final = frozenset({GroupState.EMPTY, GroupState.DEAD})

#: Its start offsets are not committed offsets; `import` could not restore them.
NO_UNDO_FOR_SHARE: Final = "a share group's offsets cannot be saved; --no-undo does without"

#: Groups that are planned for together: each broker is asked once about them.
_TOGETHER: Final = 1000
#: States that show whether a group has members.
_STATES: Final = frozenset(each.value for each in GroupState if each is not GroupState.UNKNOWN)


async def plan_delete(
    admin: AdminClient,
    groups: Sequence[PlannedGroup],
    *,
    reason: str = "",
    known: Mapping[str, GroupOffsets] | None = None,
) -> Plan:
    """Delete groups as a selection found them; what they have committed becomes part of the plan.

    Offsets that are `known` are not asked for.
    """
    read = await _offsets(admin, [each.group for each in groups], known or {})
    planned = tuple(
        PlannedGroup(
            group=each.group,
            state=each.state,
            type=each.type,
            last_commit_at=each.last_commit_at,
            lag=each.lag,
            offsets=_committed(read.items.get(each.group)),
            note=_delete_note(each, read.errors.get(each.group)),
        )
        for each in groups
    )
    return Plan.of("delete_groups", planned, cluster_id=await _cluster_id(admin), reason=reason)


def _delete_note(group: PlannedGroup, unread: CoterieError | None) -> str:
    if group.type == GroupType.SHARE:
        return NO_UNDO_FOR_SHARE
    if unread is not None:
        return str(unread)
    if group.state not in (None, *WITHOUT_MEMBERS):
        return "it has members, and will be refused while it has"
    return ""


async def plan_delete_offsets(
    admin: AdminClient,
    groups: Sequence[PlannedGroup],
    scope: Scope,
    *,
    reason: str = "",
    known: Mapping[str, GroupOffsets] | None = None,
) -> Plan:
    """Delete what groups have committed in some topics or partitions."""
    read = await _offsets(admin, [each.group for each in groups], known or {})
    planned = []
    for each in groups:
        found = read.items.get(each.group)
        offsets = _committed(found, lambda partition: in_scope(partition, scope))
        note = str(read.errors[each.group]) if each.group in read.errors else ""
        if found is not None and not offsets:
            note = "it has committed nothing there"
        planned.append(_with(each, offsets or (), note))
    return Plan.of(
        "delete_offsets", tuple(planned), cluster_id=await _cluster_id(admin), reason=reason
    )


async def plan_reset(
    admin: AdminClient,
    groups: Sequence[PlannedGroup],
    to: To,
    scope: Scope,
    *,
    reason: str = "",
    step: Callable[[], None] = lambda: None,
) -> Plan:
    """Move offsets of groups. A group that cannot be moved is in the plan with the reason."""
    planned: list[PlannedGroup] = []
    for first in range(0, len(groups), _TOGETHER):
        part = groups[first : first + _TOGETHER]
        planned += await _plan_part(admin, part, to, scope)
        for _ in part:
            step()
    return Plan.of(
        "set_offsets", tuple(planned), cluster_id=await _cluster_id(admin), reason=reason
    )


async def _plan_part(
    admin: AdminClient, groups: Sequence[PlannedGroup], to: To, scope: Scope
) -> list[PlannedGroup]:
    states = {each.group: GroupState(each.state) for each in groups if each.state in _STATES}
    names = [each.group for each in groups]
    try:
        found = await admin.plan_resets(names, to, topics=scope or None, states=states)
    except CoterieError as error:
        return [_with(each, (), str(error)) for each in groups]
    return [
        _with(each, _moves(found.items[each.group]), "")
        if each.group in found
        else _with(each, (), str(found.errors.get(each.group, "its coordinator did not answer")))
        for each in groups
    ]


async def _offsets(
    admin: AdminClient, groups: Iterable[str], known: Mapping[str, GroupOffsets]
) -> Result[str, GroupOffsets]:
    """What groups have committed: as it is known, and asked for otherwise."""
    unknown = [each for each in groups if each not in known]
    read = await admin.list_offsets(unknown)
    return Result({**known, **read.items}, read.errors, read.broker_errors, GroupOffsets)


async def plan_import(
    admin: AdminClient,
    saved: SavedOffsets,
    scope: Scope,
    *,
    reason: str = "",
    any_cluster: bool = False,
) -> Plan:
    """Put saved offsets back, exactly as they were: also those that the log no longer reaches.

    Those of another cluster are refused unless `any_cluster`: the same offset is another record there.
    """
    if not any_cluster:
        await _check_cluster(admin, saved.cluster_id)
    names = [each.group for each in saved.groups]
    described = await admin.describe_groups(names)
    read = await admin.list_offsets(names)
    planned = []
    for group in saved.groups:
        seen = described.items.get(group.group)
        now = read.items[group.group].offsets if group.group in read.items else {}
        trouble = read.errors.get(group.group)
        note = "" if trouble is None or isinstance(trouble, GroupIdNotFound) else str(trouble)
        offsets = tuple(
            _restored(each, now.get(TopicPartition(each.topic, each.partition)))
            for each in group.offsets
            if in_scope(TopicPartition(each.topic, each.partition), scope)
        )
        state, kind = (seen.state, seen.type) if seen is not None else (None, None)
        planned.append(PlannedGroup(group.group, state, kind, offsets=offsets, note=note))
    return Plan.of(
        "set_offsets", tuple(planned), cluster_id=await _cluster_id(admin), reason=reason
    )


async def _cluster_id(admin: AdminClient) -> str | None:
    """A client that was asked for named groups only may not know it yet."""
    if admin.cluster_id is None:
        await admin.brokers()
    return admin.cluster_id


async def _check_cluster(admin: AdminClient, meant: str | None) -> None:
    here = await _cluster_id(admin)
    if meant is not None and here is not None and here != meant:
        raise CoterieError(
            f"the offsets are those of cluster {meant} and this is {here}; "
            "--any-cluster takes them all the same"
        )


async def save_offsets_of(
    admin: AdminClient,
    groups: Collection[str],
    scope: Scope,
    known: Mapping[str, GroupOffsets] | None = None,
) -> tuple[SavedOffsets, dict[str, CoterieError]]:
    """What groups have committed, for a file; and the groups of which that could not be read."""
    read = await _offsets(admin, groups, known or {})
    saved = tuple(
        SavedGroup(each.group_id, saved_offsets(_within(each.offsets, scope)))
        for each in sorted(read, key=lambda each: each.group_id)
    )
    return SavedOffsets.of(saved, cluster_id=await _cluster_id(admin)), read.errors


def saved_offsets(
    offsets: Iterable[tuple[TopicPartition, PartitionOffset]],
) -> tuple[SavedOffset, ...]:
    """Committed offsets as a file keeps them, in order."""
    return tuple(
        SavedOffset(key.topic, key.partition, each.offset, each.leader_epoch, each.metadata)
        for key, each in sorted(offsets, key=lambda item: item[0])
    )


def in_scope(partition: TopicPartition, scope: Scope) -> bool:
    return not scope or partition.topic in scope or partition in scope


def _within(
    offsets: dict[TopicPartition, PartitionOffset], scope: Scope
) -> Iterable[tuple[TopicPartition, PartitionOffset]]:
    return ((key, each) for key, each in offsets.items() if in_scope(key, scope))


def _committed(
    found: GroupOffsets | None, wanted: Callable[[TopicPartition], bool] = lambda _: True
) -> tuple[PlannedOffset, ...] | None:
    if found is None:
        return None
    return tuple(
        PlannedOffset(key.topic, key.partition, each.offset)
        for key, each in sorted(found.offsets.items())
        if wanted(key)
    )


def _moves(plan: ResetPlan) -> tuple[PlannedOffset, ...]:
    return tuple(
        PlannedOffset(
            each.partition.topic,
            each.partition.partition,
            each.current,
            each.target,
            note=each.note,
        )
        for each in plan.offsets
    )


def _restored(saved: SavedOffset, now: PartitionOffset | None) -> PlannedOffset:
    current = None if now is None else now.offset
    return PlannedOffset(
        saved.topic, saved.partition, current, saved.offset, saved.leader_epoch, saved.metadata
    )


def _with(group: PlannedGroup, offsets: tuple[PlannedOffset, ...], note: str) -> PlannedGroup:
    return PlannedGroup(
        group.group, group.state, group.type, group.last_commit_at, group.lag, offsets, note
    )
