"""Selection: which groups a command is about. The same options everywhere, put together with `and`.

Brokers filter by state and type. The rest is asked for only as far as it is needed: what members subscribe to
for `--topic`, ends of logs for `--lag-over`, the log of commits for `--idle-for`.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coterie.console.durations import duration, in_units
from coterie.console.output import Need
from coterie.console.progress import Progress
from coterie.console.terminal import ExitCode, note
from coterie.safe_text import shown

if TYPE_CHECKING:
    from coterie.cli.commit_times import CommitTimes
    from coterie.client.admin import AdminClient
    from coterie.client.results import (
        BrokerFailure,
        GroupDescription,
        GroupLag,
        GroupListing,
        GroupOffsets,
        Result,
        TopicPartition,
    )

__all__ = [
    "Found",
    "GroupRow",
    "Missing",
    "Selection",
    "complete",
    "parse_topics",
    "selected",
]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class GroupRow:
    """A group and what is known of it so far."""

    group: str
    listing: GroupListing | None = None
    description: GroupDescription | None = None
    offsets: GroupOffsets | None = None
    lag: GroupLag | None = None
    last_commit: int | None = None

    @property
    def _known(self) -> GroupDescription | GroupListing | None:
        """The newer of the two; lag comes with the description that it was computed from."""
        return self.description or self.listing

    @property
    def state(self) -> str | None:
        return None if self._known is None else self._known.state

    @property
    def type(self) -> str | None:
        return None if self._known is None else self._known.type

    @property
    def coordinator(self) -> int | None:
        return None if self._known is None else self._known.coordinator_id

    @property
    def protocol_type(self) -> str | None:
        return None if self._known is None else self._known.protocol_type

    @property
    def topics(self) -> list[str]:
        """What it has committed in, subscribes to or is assigned."""
        found = {key.topic for key in self.offsets.offsets} if self.offsets is not None else set()
        if self.lag is not None:
            found |= {each.partition.topic for each in self.lag.partitions}
        for member in self.description.members if self.description is not None else ():
            found |= set(member.subscription or ())
            found |= {each.topic for each in member.assignment or ()}
        return sorted(found)


@dataclass
class Missing:
    """What could not be had, and why; told at the end, on standard error."""

    brokers: dict[str, BrokerFailure] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def add(self, result: Result[Any, Any]) -> None:
        for broker in result.broker_errors:
            self.brokers[str(broker.node_id)] = broker
        for key, error in result.errors.items():
            self.errors[str(key)] = str(error)

    def report(self, *, any_found: bool) -> int:
        """Say it; the exit code."""
        for broker in self.brokers.values():
            note(shown(f"Incomplete: {broker}"))
        for error in self.errors.values():
            note(shown(f"Incomplete: {error}"))
        if not self.brokers and not self.errors:
            return ExitCode.DONE
        return ExitCode.PARTIAL if any_found else ExitCode.FAILED


@dataclass
class Found:
    """The groups that a selection means."""

    rows: list[GroupRow]
    missing: Missing
    commits: CommitTimes | None = None

    @property
    def offsets(self) -> dict[str, GroupOffsets]:
        """What had to be fetched already to select the groups."""
        return {row.group: row.offsets for row in self.rows if row.offsets is not None}


@dataclass(frozen=True)
class Selection:
    """What the options said."""

    names: tuple[str, ...] = ()
    match: re.Pattern[str] | None = None
    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    idle_for: float | None = None
    lag_over: int | None = None

    @property
    def everything(self) -> bool:
        """Whether nothing was said, and so all groups are meant."""
        return self == Selection()

    @property
    def narrowed(self) -> bool:
        """Whether groups are chosen by more than their names."""
        return self != Selection(names=self.names, topics=self.topics)

    @property
    def topics_choose(self) -> bool:
        """Whether `--topic` chooses groups for a change, too; groups that are named are chosen already."""
        return self.narrowed or not self.names

    def scope(self) -> list[str | TopicPartition]:
        """The topics and partitions that `--topic` names."""
        from coterie.client.results import TopicPartition

        found: list[str | TopicPartition] = []
        for each in self.topics:
            topic, colon, numbers = each.partition(":")
            if not colon:
                found.append(topic)
                continue
            for number in numbers.split(","):
                if not number.strip().isdigit():
                    raise click.UsageError(f"--topic takes TOPIC or TOPIC:0,1, not {each!r}")
                found.append(TopicPartition(topic, int(number)))
        return found

    def in_words(self) -> str:
        """As the options would be written, for plans."""
        parts = list(self.names)
        parts += [f"--match {self.match.pattern}"] if self.match else []
        parts += [f"--state {','.join(self.states)}"] if self.states else []
        parts += [f"--type {','.join(self.types)}"] if self.types else []
        parts += [f"--topic {each}" for each in self.topics]
        parts += [f"--idle-for {in_units(self.idle_for)}"] if self.idle_for is not None else []
        parts += [f"--lag-over {self.lag_over}"] if self.lag_over is not None else []
        return " ".join(parts)

    # -- asking ---------------------------------------------------------------------------------------

    async def find(
        self,
        admin: AdminClient,
        needs: Iterable[Need] = (),
        *,
        topics_choose: bool = True,
    ) -> Found:
        """Ask the cluster.

        `needs` is what the caller wants to know besides the groups' names. `topics_choose` is False where
        topics narrow the change, and not the groups.
        """
        wanted = set(needs)
        choose_by_topic = bool(self.topics) and topics_choose
        if choose_by_topic:
            wanted.add(Need.TOPICS)
        if self.lag_over is not None:
            wanted.add(Need.LAG)
        if self.idle_for is not None:
            wanted.add(Need.COMMITS)
        missing = Missing()
        rows = await self._candidates(admin, wanted, missing)
        await _learn(admin, rows, wanted, missing)
        found = Found([x for x in rows if self._chosen(x, by_topic=choose_by_topic)], missing)
        if Need.COMMITS in wanted:
            await _add_commits(admin, found)
        if self.idle_for is not None:
            # A group that never committed is not idle for long; nothing tells how long.
            before = (time.time() - self.idle_for) * 1000
            found.rows = [
                x for x in found.rows if x.last_commit is not None and x.last_commit < before
            ]
        return found

    async def _candidates(
        self, admin: AdminClient, wanted: set[Need], missing: Missing
    ) -> list[GroupRow]:
        if self.names and Need.LAG in wanted:
            rows = [GroupRow(each) for each in self.names]
            await _add_lag(admin, rows, wanted, missing)
            rows = [each for each in rows if each.description is not None]
        elif self.names:
            described = await admin.describe_groups(self.names, deep=Need.RECORDS in wanted)
            missing.add(described)
            rows = [GroupRow(each.group_id, description=each) for each in described]
        else:
            listed = await admin.list_groups(
                states=self.states or None, types=self.types or None, client_side=True
            )
            missing.add(listed)
            rows = [GroupRow(each.group_id, listing=each) for each in listed]
        return [each for each in rows if self._passes_names(each)]

    def _passes_names(self, row: GroupRow) -> bool:
        if self.match is not None and self.match.search(row.group) is None:
            return False
        states = {each.lower() for each in self.states}
        types = {each.lower() for each in self.types}
        return (not states or (row.state or "").lower() in states) and (
            not types or (row.type or "").lower() in types
        )

    def _chosen(self, row: GroupRow, *, by_topic: bool) -> bool:
        if by_topic and not {each.partition(":")[0] for each in self.topics} & set(row.topics):
            return False
        return self.lag_over is None or (row.lag is not None and row.lag.total > self.lag_over)


async def _learn(
    admin: AdminClient, rows: list[GroupRow], wanted: set[Need], missing: Missing
) -> None:
    """Ask for what rows do not have yet."""
    if Need.LAG in wanted:
        unknown = [each for each in rows if each.lag is None and each.description is None]
        await _add_lag(admin, unknown, wanted, missing)
        return  # with it came description and offsets
    by_name = {each.group: each for each in rows}
    names = [each.group for each in rows if each.description is None]
    if names and wanted & {Need.DESCRIPTION, Need.RECORDS, Need.TOPICS}:
        described = await admin.describe_groups(names, deep=Need.RECORDS in wanted)
        missing.add(described)
        for group in described:
            by_name[group.group_id].description = group
    # A share group commits nothing; where it is, its lag tells.
    names = [each.group for each in rows if each.type != "share"]
    if names and wanted & {Need.OFFSETS, Need.TOPICS}:
        offsets = await admin.list_offsets(names)
        missing.add(offsets)
        for one in offsets:
            by_name[one.group_id].offsets = one


async def _add_lag(
    admin: AdminClient, rows: list[GroupRow], wanted: set[Need], missing: Missing
) -> None:
    """Lag, and what it is computed from."""
    if not rows:
        return
    lag = await admin.lag(
        [each.group for each in rows],
        log_start=Need.LOG_START in wanted,
        deep=Need.RECORDS in wanted,
    )
    missing.add(lag)
    for row in rows:
        row.lag = lag.items.get(row.group)
        row.description = lag.descriptions.items.get(row.group)
        # Where a share group starts to read is no committed offset.
        if row.type != "share":
            row.offsets = lag.offsets.items.get(row.group)


async def _add_commits(admin: AdminClient, found: Found) -> None:
    from coterie.cli.commit_times import read_commit_times

    with Progress("Reading __consumer_offsets") as bar:
        names = [row.group for row in found.rows]
        found.commits = await read_commit_times(admin, names, bar.expect, bar.advance)
    found.missing.errors |= {str(key): str(each) for key, each in found.commits.errors.items()}
    for row in found.rows:
        row.last_commit = found.commits.last(row.group)


# -- the options ------------------------------------------------------------------------------------------


def _regex(_: click.Context, __: click.Parameter, value: str | None) -> re.Pattern[str] | None:
    if value is None:
        return None
    try:
        return re.compile(value)
    except re.error as error:
        raise click.BadParameter(f"{value!r} is not a regular expression: {error}") from None


def _choice(kind: str) -> Callable[[click.Context, click.Parameter, Any], tuple[str, ...]]:
    def check(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            return ()
        from coterie.protocol import group_state

        enum = group_state.GroupState if kind == "state" else group_state.GroupType
        known = {each.value.lower(): each.value for each in enum if each.value != "Unknown"}
        found = []
        for each in ",".join(value).split(","):
            if each.strip().lower() not in known:
                names = ", ".join(known.values())
                raise click.BadParameter(f"there is no {kind} {each!r}; there are: {names}")
            found.append(known[each.strip().lower()])
        return tuple(dict.fromkeys(found))

    return check


def parse_topics(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Repeated, or with commas (KIP-181); behind a colon commas are between partitions."""
    found: list[str] = []
    for each in value:
        found += [each] if ":" in each else [one.strip() for one in each.split(",") if one.strip()]
    return tuple(dict.fromkeys(found))


def complete(kind: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Completion with what there is of this kind."""

    def live(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        from coterie.cli.completion import names

        return names(kind, ctx, incomplete)

    return live


def selected(command: F) -> F:
    """Adds names and the options of selection; the command gets them together, as `selection`."""

    @functools.wraps(command)
    def with_selection(*args: Any, **given: Any) -> Any:
        names = ("names", "match", "states", "types", "topics", "idle_for", "lag_over")
        chosen = Selection(**{name: given.pop(name) for name in names})
        doubled = next((each for each in chosen.names if chosen.names.count(each) > 1), None)
        if doubled is not None:
            raise click.UsageError(f"group {doubled!r} is given twice; give it once")
        return command(*args, selection=chosen, **given)

    parameters = (
        click.argument(
            "names",
            nargs=-1,
            metavar="[GROUP]...",
            is_eager=True,
            shell_complete=complete("groups"),
        ),
        click.option(
            "--match", metavar="REGEX", callback=_regex, help="Groups whose name contains a match."
        ),
        click.option(
            "--state",
            "states",
            multiple=True,
            metavar="STATE,...",
            callback=_choice("state"),
            shell_complete=complete("states"),
            help="Groups in one of these states.",
        ),
        click.option(
            "--type",
            "types",
            multiple=True,
            metavar="TYPE,...",
            callback=_choice("type"),
            shell_complete=complete("types"),
            help="Groups of one of these types: classic, consumer, share, streams.",
        ),
        click.option(
            "--topic",
            "topics",
            multiple=True,
            metavar="TOPIC[:0,1]",
            callback=parse_topics,
            shell_complete=complete("topics"),
            help="Groups that read this topic or have committed in it.",
        ),
        click.option(
            "--idle-for",
            type=duration,
            metavar="DURATION",
            help="Groups whose last commit is older than this, such as 30d. Reads __consumer_offsets.",
        ),
        click.option(
            "--lag-over", type=int, metavar="N", help="Groups whose total lag is more than N."
        ),
    )
    result: Any = with_selection
    for parameter in reversed(parameters):
        result = parameter(result)
    return result  # type: ignore[no-any-return]
