"""What `--describe` shows of a group: its rows and tables, with KIP-181's columns where they are asked for.

Pure: descriptions in, text out. KIP-181's columns come last, so that the others stay where scripts look
for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from coterie.cli.consumer_groups.options import Options
from coterie.cli.consumer_groups.output import MISSING, Column, order, table
from coterie.client import GroupDescription, GroupOffsets, Member, Result, TopicPartition

__all__ = [
    "member_table",
    "offset_rows",
    "offset_table",
    "partitions",
    "state_table",
    "topics_of",
]

#: Makes a name fit to be shown.
Name = Callable[[str], str]
Row = tuple[str, ...]


def topics_of(options: Options) -> frozenset[str] | None:
    """The topics that KIP-181 narrows a description to; None for all."""
    if not options.has("topic"):
        return None
    return frozenset(topic for each in options.values("topic") for topic in each.split(","))


def _text(value: object) -> str:
    return MISSING if value is None or value == "" else str(value)


# -- offsets ----------------------------------------------------------------------------------------------


def partitions(
    group: GroupDescription, offsets: Result[str, GroupOffsets], topics: frozenset[str] | None
) -> list[TopicPartition]:
    """The partitions that a group has a row for."""
    found = dict.fromkeys(_committed(group, offsets).offsets)
    for member in group.members:
        found.update(dict.fromkeys(member.assignment or ()))
    return [each for each in found if topics is None or each.topic in topics]


def _committed(group: GroupDescription, offsets: Result[str, GroupOffsets]) -> GroupOffsets:
    return offsets.items.get(group.group_id) or GroupOffsets(group.group_id, {})


def offset_rows(
    group: GroupDescription,
    offsets: Result[str, GroupOffsets],
    ends: Mapping[TopicPartition, int],
    topics: frozenset[str] | None,
    name: Name,
) -> list[Row]:
    """A row for each partition: those of members first, most partitions first, then those of nobody."""
    committed = _committed(group, offsets).offsets
    rows: list[Row] = []
    shown_group = name(group.group_id)

    def add(wanted: Iterable[TopicPartition], consumer: Row) -> None:
        for partition in sorted(wanted, key=_by_topic):
            if topics is not None and partition.topic not in topics:
                continue
            at, end = committed.get(partition), ends.get(partition)
            lag = None if at is None or end is None else end - at.offset
            rows.append(
                (
                    shown_group,
                    name(partition.topic),
                    str(partition.partition),
                    _text(None if at is None else at.leader_epoch),
                    _text(None if at is None else at.offset),
                    _text(end),
                    _text(lag),
                    *consumer,
                )
            )

    assigned: set[TopicPartition] = set()
    active = [member for member in group.members if member.assignment]
    for member in sorted(active, key=lambda each: -len(set(each.assignment or ()))):
        theirs = set(member.assignment or ())
        assigned |= theirs
        add(theirs, (name(member.member_id), name(member.host), name(member.client_id)))
    add([each for each in committed if each not in assigned], (MISSING, MISSING, MISSING))
    return rows


def _by_topic(partition: TopicPartition) -> tuple[str | bytes, int]:
    return order(partition.topic), partition.partition


def offset_table(rows: list[Row], *, verbose: bool) -> str:
    columns: list[Column] = [
        ("GROUP", 15), ("TOPIC", 15), ("PARTITION", 10), ("LEADER-EPOCH", 15),
        ("CURRENT-OFFSET", 15), ("LOG-END-OFFSET", 15), ("LAG", 15), ("CONSUMER-ID", 15),
        ("HOST", 15), ("CLIENT-ID", None),
    ]  # fmt: skip
    if verbose:
        return table(columns, rows, fit=(0, 1, 7, 8)) + "\n"
    del columns[3]
    return table(columns, [row[:3] + row[4:] for row in rows], fit=(0, 1, 6, 7)) + "\n"


# -- members ----------------------------------------------------------------------------------------------


def member_table(
    group: GroupDescription,
    topics: frozenset[str] | None,
    name: Name,
    *,
    verbose: bool,
    kip_181: bool,
) -> str:
    """The members of a group; the heading is there even if they are not."""
    members = [
        each
        for each in group.members
        if topics is None or any(one.topic in topics for one in each.assignment or ())
    ]
    static = any(member.instance_id for member in members)
    kinds = {member.upgraded for member in members}
    mixed = {True, False} <= kinds
    columns: list[Column] = [("GROUP", 15), ("CONSUMER-ID", 15)]
    columns += [("GROUP-INSTANCE-ID", 17)] if static else []
    columns += [("HOST", 15), ("CLIENT-ID", 15)]
    fit = range(len(columns))
    # Kafka's tool writes a blank behind the last column.
    columns += [("#PARTITIONS", 15 if verbose or kip_181 else 16)]
    wide: list[int] = list(fit)
    if verbose:
        wide += [len(columns) + 1, len(columns) + 3]
        columns += [
            ("CURRENT-EPOCH", 15), ("CURRENT-ASSIGNMENT", 20), ("TARGET-EPOCH", 15),
            ("TARGET-ASSIGNMENT", 20),
        ]  # fmt: skip
        columns += [("UPGRADED", 10 if kip_181 else None)] if mixed else []
    if kip_181:
        columns += [("ASSIGNMENT-STRATEGY", 20 if verbose else None)]
        columns += [("SUBSCRIPTION", None)] if verbose else []
    rows: list[Row] = []
    for member in members:
        row: Row = (name(group.group_id), name(member.member_id))
        row += (name(member.instance_id or ""),) if static else ()
        row += (name(member.host), name(member.client_id))
        row += (str(len(set(member.assignment or ()))),)
        row += _verbose(group, member, name, mixed=mixed) if verbose else ()
        row += _kip_181(group, member, name, verbose=verbose) if kip_181 else ()
        rows.append(row)
    return table(columns, rows, fit=wide) + "\n"


def _verbose(group: GroupDescription, member: Member, name: Name, *, mixed: bool) -> Row:
    cells = (
        _text(member.member_epoch),
        name(_assignment(member.assignment)),
        _text(group.assignment_epoch),
        name(_assignment(member.target_assignment)),
    )
    return (*cells, str(member.upgraded).lower()) if mixed else cells


def _kip_181(group: GroupDescription, member: Member, name: Name, *, verbose: bool) -> Row:
    strategies = member.supported_protocols or (() if group.assignor is None else (group.assignor,))
    subscription = member.subscription_regex or ",".join(
        sorted(member.subscription or (), key=order)
    )
    strategy = name(_text(",".join(strategies)))
    return (strategy, name(_text(subscription))) if verbose else (strategy,)


def _assignment(assigned: tuple[TopicPartition, ...] | None) -> str:
    """topic1:0,1;topic2:0"""
    by_topic: dict[str, set[int]] = {}
    for each in assigned or ():
        by_topic.setdefault(each.topic, set()).add(each.partition)
    texts = (f"{topic}:{','.join(map(str, sorted(of)))}" for topic, of in by_topic.items())
    return ";".join(sorted(texts, key=order)) or MISSING


# -- states -----------------------------------------------------------------------------------------------


def state_table(
    group: GroupDescription, coordinator: str, name: Name, *, verbose: bool, kip_181: bool
) -> str:
    """One row."""
    columns: list[Column] = [
        ("GROUP", 15), ("COORDINATOR (ID)", 25), ("ASSIGNMENT-STRATEGY", 20), ("STATE", 20),
    ]  # fmt: skip
    row: Row = (
        name(group.group_id), coordinator, name(_text(group.assignor)), str(group.state),
    )  # fmt: skip
    if verbose:
        columns += [("GROUP-EPOCH", 15), ("TARGET-ASSIGNMENT-EPOCH", 25)]
        row += (_text(group.epoch), _text(group.assignment_epoch))
    columns += [("#MEMBERS", 10 if kip_181 else None)]
    row += (str(len(group.members)),)
    if kip_181:
        columns += [("GENERATION-ID", 15), ("LEADER-ID", None)]
        row += (_text(group.generation), name(_text(group.leader_id)))
    return table(columns, [row], fit=(0, 1)) + "\n"
