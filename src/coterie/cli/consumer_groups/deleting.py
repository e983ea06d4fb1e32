"""`--delete`: groups, each with its own outcome (KIP-229); `--delete-offsets`: offsets of one group."""

from __future__ import annotations

from typing import Final

from coterie.cli.consumer_groups.checks import parse_partitions
from coterie.cli.consumer_groups.java import Throwable, execution, timeout
from coterie.cli.consumer_groups.options import Options
from coterie.cli.consumer_groups.output import Column, order, table
from coterie.cli.consumer_groups.session import NO_NODE, NotCreated, Session, code_in
from coterie.client import TopicPartition
from coterie.error_codes import ErrorCode
from coterie.errors import CoterieError, InvalidArgument, KafkaError

__all__ = ["delete_groups", "delete_offsets"]

#: Errors of a group as a whole, which the tool tells in Kafka's own words.
_OF_THE_GROUP: Final = frozenset(
    {
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.NON_EMPTY_GROUP,
    }
)
_OF_PARTITIONS: Final = frozenset(
    {
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_TABLE: Final[tuple[Column, ...]] = (("TOPIC", 15), ("PARTITION", 10), ("STATUS", 15))


async def delete_groups(session: Session, options: Options) -> tuple[int, int]:
    """Delete and report; returns how many were deleted and how many were not."""
    failed: dict[str, Throwable] = {}
    deleted: list[str] = []
    names: list[str] = []
    try:
        names = await session.selected(options)
        if not options.has("all-groups"):
            await session.open("deleteConsumerGroups(api=FIND_COORDINATOR)")
        result = await session.admin.delete_groups(names, timeout=session.seconds)
        deleted = list(result.items)
        for name, error in result.errors.items():
            failed[name] = await session.failure(name, error)
    except InvalidArgument as error:
        failed = dict.fromkeys(names, session.translate(error))
    except Throwable as error:
        # Without a client, or without the list of groups, there is nothing to report about.
        if options.has("all-groups") or isinstance(error, NotCreated):
            raise
        failed = dict.fromkeys(names, error)
    out = session.out
    done = ", ".join(f"'{out.name(name)}'" for name in deleted)
    if not failed:
        out.line(f"Deletion of requested consumer groups ({done}) was successful.")
        return len(deleted), 0
    out.error("Deletion of some consumer groups failed:")
    for name, thrown in failed.items():
        text = out.name(f"* Group '{name}' could not be deleted due to: {thrown}")
        out.line(text)
    if deleted:
        out.line(f"\nThese consumer groups were deleted successfully: {done}")
    return len(deleted), len(failed)


async def delete_offsets(session: Session, options: Options) -> tuple[int, int]:
    """Delete a group's offsets; returns for how many partitions it was done, and for how many not."""
    group = options.value("group") or ""
    arguments = options.values("topic")
    partitions = [each for one in arguments if ":" in one for each in parse_partitions(one)]
    topics = list(dict.fromkeys(each for each in arguments if ":" not in each))
    rows: Rows = {}
    try:
        await session.open("listNodes")
    except NotCreated:
        raise
    except Throwable as error:
        code = ErrorCode.REQUEST_TIMED_OUT
        rows |= {TopicPartition(topic, -1): execution(error) for topic in topics}
        late = execution(timeout(NO_NODE + "offsetDelete(api=FIND_COORDINATOR)"))
        rows |= dict.fromkeys(partitions, late)
    else:
        partitions += await _partitions_of(session, topics, rows)
        code = await _delete(session, group, list(dict.fromkeys(partitions)), rows)
    out = session.out
    if code is ErrorCode.NONE:
        out.line(f"Request succeeded for deleting offsets from group {out.name(group)}.")
    elif code in _OF_THE_GROUP:
        out.error(code.message)
    elif code in _OF_PARTITIONS:
        out.error("Encountered some partition-level error, see the follow-up details.")
    else:
        out.error(f"Encountered some unknown error: {code.name}")
    cells = [
        (
            out.name(partition.topic),
            str(partition.partition) if partition.partition >= 0 else "-",
            "Successful" if thrown is None else f"Error: {out.name(thrown.message or '')}",
        )
        for partition, thrown in sorted(
            rows.items(), key=lambda each: order(f"{each[0].topic}{each[0].partition}")
        )
    ]
    out.write(table(_TABLE, cells, fit=(0,)) + "\n")
    bad = sum(thrown is not None for thrown in rows.values())
    return len(rows) - bad, max(bad, int(code is not ErrorCode.NONE))


Rows = dict[TopicPartition, Throwable | None]


async def _partitions_of(session: Session, topics: list[str], rows: Rows) -> list[TopicPartition]:
    """The partitions of topics; a topic that is not known has a row with its error instead."""
    if not topics:
        return []
    described = await session.admin.describe_topics(topics, timeout=session.seconds)
    for name, error in described.errors.items():
        rows[TopicPartition(name, -1)] = execution(session.translate(error))
    return [
        TopicPartition(topic.name, each.partition)
        for topic in described
        for each in topic.partitions
    ]


async def _delete(
    session: Session, group: str, partitions: list[TopicPartition], rows: Rows
) -> ErrorCode:
    """Delete, fill in the rows, and give the error of the whole."""
    if not partitions:
        return await _ask_without_partitions(session, group)
    result = await session.admin.delete_offsets({group: partitions}, timeout=session.seconds)
    for error in result.errors.values():
        failure = execution(await session.failure(group, error))
        rows.update(dict.fromkeys(partitions, failure))
        return _code(error)
    change = result[group]
    rows.update(dict.fromkeys(change.done))
    worst = ErrorCode.NONE
    for partition, text in change.errors.items():
        worst = code_in(text)
        rows[partition] = execution(session.translate(KafkaError(worst)))
    return worst


async def _ask_without_partitions(session: Session, group: str) -> ErrorCode:
    """Kafka's tool sends the request even if no partition is left, and reports the group's error."""
    described = await session.admin.describe_groups([group], timeout=session.seconds)
    for error in described.errors.values():
        return _code(error)
    return ErrorCode.NONE


def _code(error: CoterieError) -> ErrorCode:
    return error.code if isinstance(error, KafkaError) else ErrorCode.REQUEST_TIMED_OUT
