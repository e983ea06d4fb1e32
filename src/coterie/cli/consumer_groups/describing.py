"""`--describe`: offsets and lag, members, or states of groups, each group a table of its own.

Groups are asked about together: one request per coordinator for their descriptions, one for their offsets,
and one per leader for the ends of the logs, where Kafka's tool sends seven requests for every group.
"""

from __future__ import annotations

from typing import Final

from coterie.cli.consumer_groups import views
from coterie.cli.consumer_groups.java import Throwable, api_exception, execution, runtime
from coterie.cli.consumer_groups.options import Options
from coterie.cli.consumer_groups.output import order
from coterie.cli.consumer_groups.session import NotCreated, Session
from coterie.client import (
    GroupDescription,
    GroupOffsets,
    GroupState,
    GroupType,
    Result,
    TopicPartition,
)
from coterie.error_codes import ErrorCode
from coterie.errors import CoterieError, KafkaError

__all__ = ["describe", "descriptions"]

_CALL: Final = "describeConsumerGroups(api=FIND_COORDINATOR)"
_DEAD: Final = ErrorCode.GROUP_ID_NOT_FOUND.message
_REBALANCING: Final = frozenset(
    {
        GroupState.PREPARING_REBALANCE,
        GroupState.COMPLETING_REBALANCE,
        GroupState.ASSIGNING,
        GroupState.RECONCILING,
    }
)


async def describe(session: Session, options: Options) -> bool:
    """Print what is asked for; False if a group is not there."""
    named = not options.has("all-groups")
    if named:
        await _open(session)
    names = await session.selected(options)
    if options.has("state", "members"):
        described, offsets = (
            await session.admin.describe_groups(names, timeout=session.seconds),
            None,
        )
    else:
        described, offsets = await session.admin.describe_with_offsets(
            names, timeout=session.seconds
        )
    groups, trouble = await _sorted(session, described)
    if trouble is not None:
        raise execution(trouble)
    if offsets is not None:
        return await _offsets(session, options, groups, offsets)
    if options.has("members"):
        return _members(session, options, groups)
    return await _states(session, options, groups)


async def _open(session: Session) -> None:
    try:
        await session.open(_CALL)
    except NotCreated:
        raise
    except Throwable as error:
        raise execution(error) from None


async def descriptions(
    session: Session, names: list[str]
) -> tuple[dict[str, GroupDescription], dict[str, Throwable]]:
    """Groups that are there, and why the others are not; a dead group of an old broker is there."""
    described = await session.admin.describe_groups(names, timeout=session.seconds)
    return await _known(session, described)


async def _sorted(
    session: Session, described: Result[str, GroupDescription]
) -> tuple[list[GroupDescription], Throwable | None]:
    """The groups in Java's order, and what ends the command: one bad group does (as in Kafka)."""
    known, errors = await _known(session, described)
    groups = [known[name] for name in sorted(known, key=order)]
    return groups, next(iter(errors.values()), None)


async def _known(
    session: Session, described: Result[str, GroupDescription]
) -> tuple[dict[str, GroupDescription], dict[str, Throwable]]:
    known: dict[str, GroupDescription] = {}
    errors: dict[str, Throwable] = {}
    for name, error in described.errors.items():
        if isinstance(error, KafkaError) and error.text == _DEAD:
            known[name] = GroupDescription(name, GroupType.CLASSIC, GroupState.DEAD, "", -1)
        else:
            errors[name] = await session.failure(name, error)
    for name, group in described.items.items():
        refusal = _refusal(group)
        if refusal is None:
            known[name] = group
        else:
            errors[name] = refusal
    return known, errors


def _refusal(group: GroupDescription) -> Throwable | None:
    """What Kafka's client says of a group that is not a consumer's."""
    name = group.group_id
    if group.type in {GroupType.SHARE, GroupType.STREAMS}:
        return api_exception("GROUP_ID_NOT_FOUND", f"Group {name} is not a consumer group.")
    if group.protocol_type not in {"", "consumer"} and group.type is GroupType.CLASSIC:
        text = f"GroupId {name} is not a consumer group ({group.protocol_type})."
        return Throwable("java.lang.IllegalArgumentException", text)
    return None


def _say_state(session: Session, group: GroupDescription) -> bool:
    """The line about a group's state; False if the group is not there."""
    if group.state is GroupState.DEAD:
        session.out.error(f"Consumer group '{group.group_id}' does not exist.")
        return False
    if group.state is GroupState.EMPTY:
        session.out.about("\nConsumer group '{}' has no active members.", group.group_id)
    elif group.state in _REBALANCING:
        session.out.about("\nWarning: Consumer group '{}' is rebalancing.", group.group_id)
    return True


async def _offsets(
    session: Session,
    options: Options,
    groups: list[GroupDescription],
    offsets: Result[str, GroupOffsets],
) -> bool:
    for name, error in offsets.errors.items():
        raise runtime(execution(await session.failure(name, error)))
    topics = views.topics_of(options)
    wanted: dict[TopicPartition, None] = {}
    for group in groups:
        wanted.update(dict.fromkeys(views.partitions(group, offsets, topics)))
    ends = await _ends(session, list(wanted))
    out, all_there = session.out, True
    for group in groups:
        there = _say_state(session, group)
        all_there = all_there and there
        rows = views.offset_rows(group, offsets, ends, topics, out.name)
        if there and rows:
            out.write(views.offset_table(rows, verbose=options.has("verbose")))
        if out.broken:
            break
    return all_there


async def _ends(session: Session, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """The ends of logs. Partitions without a leader have none; a topic that is not there is an error."""
    if not partitions:
        return {}
    topics = dict.fromkeys(each.topic for each in partitions)
    try:
        described = await session.admin.describe_topics(list(topics), timeout=session.seconds)
    except CoterieError as error:
        raise runtime(execution(session.translate(error))) from None
    for trouble in described.errors.values():
        raise runtime(execution(session.translate(trouble)))
    led = {
        TopicPartition(topic.name, each.partition)
        for topic in described
        for each in topic.partitions
        if each.leader is not None
    }
    asked = [each for each in partitions if each in led]
    found = await session.admin.log_offsets(asked, "latest", timeout=session.seconds)
    for trouble in found.errors.values():
        raise runtime(execution(session.translate(trouble)))
    return {partition: at.offset for partition, at in found.items.items()}


def _members(session: Session, options: Options, groups: list[GroupDescription]) -> bool:
    out, all_there = session.out, True
    topics = views.topics_of(options)
    for group in groups:
        all_there = _say_state(session, group) and all_there
        out.write(
            views.member_table(
                group,
                topics,
                out.name,
                verbose=options.has("verbose"),
                kip_181=options.has("kip-181"),
            )
        )
    return all_there


async def _states(session: Session, options: Options, groups: list[GroupDescription]) -> bool:
    out, all_there = session.out, True
    for group in groups:
        there = _say_state(session, group)
        all_there = all_there and there
        if there:
            node = await session.node(group.coordinator_id)
            out.write(
                views.state_table(
                    group,
                    f"{node.address}  ({node.node_id})",
                    out.name,
                    verbose=options.has("verbose"),
                    kip_181=options.has("kip-181"),
                )
            )
    return all_there
