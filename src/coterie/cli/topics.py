"""`coterie topics`: topics as far as group administration needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from coterie.cli import listings
from coterie.cli.selection import Missing, Selection, complete
from coterie.console.options import connected, listed
from coterie.console.output import Column, Format, Listing
from coterie.console.target import Target

if TYPE_CHECKING:
    from coterie.client.admin import AdminClient
    from coterie.client.results import LogOffset, PartitionInfo, Result, TopicDescription

__all__ = ["PARTITIONS", "TOPICS", "command"]


def _whole(topic: TopicDescription) -> bool:
    return all(
        each.leader is not None and len(each.in_sync) == len(each.replicas)
        for each in topic.partitions
    )


TOPICS: Final[Listing[TopicDescription]] = Listing(
    "topics",
    "Topics, one per row.",
    (
        Column("topic", "string", "The topic's name.", lambda each: each.name),
        Column(
            "partitions",
            "integer",
            "How many partitions it has.",
            lambda each: len(each.partitions),
        ),
        Column(
            "replicas",
            "integer",
            "How many replicas the first partition has.",
            lambda each: len(each.partitions[0].replicas) if each.partitions else 0,
        ),
        Column(
            "whole", "boolean", "Whether all partitions have a leader and all replicas.", _whole
        ),
        Column(
            "internal",
            "boolean",
            "Whether it is Kafka's own.",
            lambda each: each.internal,
            show="wide",
        ),
    ),
    sort=("topic",),
)


@dataclass(frozen=True)
class PartitionRow:
    """A partition and the ends of its log."""

    topic: str
    info: PartitionInfo
    start: int | None
    end: int | None


PARTITIONS: Final[Listing[PartitionRow]] = Listing(
    "partitions",
    "Partitions of topics, one per row.",
    (
        Column("topic", "string", "The topic.", lambda each: each.topic),
        Column("partition", "integer", "Its number.", lambda each: each.info.partition),
        Column(
            "leader",
            "integer",
            "The broker that leads it; null if none does.",
            lambda each: each.info.leader,
            nullable=True,
        ),
        Column(
            "replicas",
            "list",
            "The brokers that keep it.",
            lambda each: [str(node) for node in each.info.replicas],
        ),
        Column(
            "in_sync",
            "list",
            "Those that are up to date.",
            lambda each: [str(node) for node in each.info.in_sync],
        ),
        Column("log_start", "integer", "Its first offset.", lambda each: each.start, nullable=True),
        Column("log_end", "integer", "The end of its log.", lambda each: each.end, nullable=True),
    ),
    sort=("topic", "partition"),
)


@click.group("topics")
def command() -> None:
    """Topics, their partitions, and the groups that read them."""


_names = click.argument("names", nargs=-1, metavar="[TOPIC]...", shell_complete=complete("topics"))


async def _described(
    admin: AdminClient, names: tuple[str, ...], missing: Missing, *, internal: bool
) -> list[TopicDescription]:
    found = await admin.describe_topics(names or None)
    missing.add(found)
    return [each for each in found if names or internal or not each.internal]


@command.command("list")
@connected
@_names
@click.option("--internal", is_flag=True, help="Include internal topics.")
@listed(TOPICS)
def list_topics(*, names: tuple[str, ...], internal: bool, form: Format) -> int:
    """List topics with their partitions and replicas."""
    missing = Missing()
    rows = Target.current().run(lambda admin: _described(admin, names, missing, internal=internal))
    TOPICS.write(rows, form)
    return missing.report(any_found=bool(rows))


@command.command("describe")
@connected
@_names
@click.option("--internal", is_flag=True, help="Include internal topics.")
@listed(PARTITIONS)
def describe(*, names: tuple[str, ...], internal: bool, form: Format) -> int:
    """Describe topics: partitions with leaders, replicas and log end offsets."""
    missing = Missing()

    async def ask(admin: AdminClient) -> list[PartitionRow]:
        from coterie.client.results import TopicPartition

        topics = await _described(admin, names, missing, internal=internal)
        keys = [
            TopicPartition(topic.name, each.partition)
            for topic in topics
            for each in topic.partitions
        ]
        starts = await admin.log_offsets(keys, "earliest")
        ends = await admin.log_offsets(keys, "latest")
        missing.add(ends)
        return [
            PartitionRow(topic.name, each, _at(starts, key), _at(ends, key))
            for topic in topics
            for each in topic.partitions
            for key in (TopicPartition(topic.name, each.partition),)
        ]

    rows = Target.current().run(ask)
    PARTITIONS.write(rows, form)
    return missing.report(any_found=bool(rows))


def _at(found: Result[Any, LogOffset], key: Any) -> int | None:
    return found.items[key].offset if key in found.items else None


@command.command("groups")
@connected
@click.argument("topic", shell_complete=complete("topics"))
@listed(listings.GROUPS)
def groups(topic: str, form: Format) -> int:
    """List groups that read TOPIC or have committed in it."""
    selection = Selection(topics=(topic,))
    needs = listings.GROUPS.needs(form)
    found = Target.current().run(lambda admin: selection.find(admin, needs))
    listings.GROUPS.write(found.rows, form)
    return found.missing.report(any_found=bool(found.rows))
