"""Where offsets go: one method per scenario of `--reset-offsets`, by the rules of Kafka's tool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from coterie.cli.consumer_groups.checks import Usage
from coterie.cli.consumer_groups.java import (
    Throwable,
    api_exception,
    execution,
    parse_datetime,
    parse_duration,
    runtime,
)
from coterie.cli.consumer_groups.options import Options
from coterie.cli.consumer_groups.plans import parse_plan
from coterie.cli.consumer_groups.session import Session
from coterie.client import GroupOffsets, LogOffset, Result, TopicDescription, TopicPartition
from coterie.errors import CoterieError, KafkaError

__all__ = [
    "Lookups",
    "Scenarios",
]


class Lookups:
    """Offsets, topics and logs for the groups of one reset: each broker is asked once for all groups.

    A group's error is kept until that group is reset: the groups before it are reset first, as Kafka's tool
    does.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._groups: list[str] = []
        self._committed: Result[str, GroupOffsets] | None = None
        self._topics: dict[str, TopicDescription] = {}
        self._topic_errors: dict[str, CoterieError] = {}
        self._logs: dict[str | int, Result[TopicPartition, LogOffset]] = {}

    def expect(self, groups: Iterable[str]) -> None:
        """The groups whose offsets may be looked up."""
        self._groups = list(groups)

    async def committed(self, group: str) -> GroupOffsets:
        """What a group has committed; raises the error of that group."""
        if self._committed is None:
            session = self._session
            self._committed = await session.admin.list_offsets(
                self._groups, timeout=session.seconds
            )
        return self._committed[group]

    def _partitions(self) -> list[TopicPartition]:
        """All partitions that the groups have committed, as far as is known."""
        return [key for each in self._committed or () for key in each.offsets]

    async def topics(self, names: list[str]) -> Result[str, TopicDescription]:
        """Topics with their partitions."""
        known = self._topics.keys() | self._topic_errors.keys()
        if not known.issuperset(names):
            wanted = {*names, *(each.topic for each in self._partitions())} - known
            session = self._session
            described = await session.admin.describe_topics(wanted, timeout=session.seconds)
            self._topics.update(described.items)
            self._topic_errors.update(described.errors)
        return Result(
            {name: self._topics[name] for name in names if name in self._topics},
            {name: self._topic_errors[name] for name in names if name in self._topic_errors},
        )

    async def logs(
        self, partitions: list[TopicPartition], at: str | int
    ) -> Result[TopicPartition, LogOffset]:
        """Offsets of logs at a moment, of these partitions and maybe of more."""
        known = self._logs.get(at, Result({}))
        if not (known.items.keys() | known.errors.keys()).issuperset(partitions):
            wanted = {
                *partitions,
                *(each for each in self._partitions() if each.topic in self._topics),
            }
            session = self._session
            found = await session.admin.log_offsets(wanted, at, timeout=session.seconds)
            known = self._logs[at] = Result(known.items | found.items, known.errors | found.errors)
        return known


Offsets = dict[TopicPartition, int]


class Scenarios:
    """The scenario that the command line names, for one group after the other."""

    def __init__(self, session: Session, options: Options, lookups: Lookups) -> None:
        self._session = session
        self._options = options
        self._lookups = lookups
        #: Groups that a plan from a file leaves out.
        self.without_plan = 0

    async def targets(self, group: str, partitions: list[TopicPartition]) -> Offsets | None:
        """The new offsets; None if the command line names no scenario."""
        ways: dict[str, Callable[[str, list[TopicPartition]], Awaitable[Offsets]]] = {
            "to-offset": self._to_offset,
            "to-earliest": lambda _, them: self._log(them, "earliest"),
            "to-latest": lambda _, them: self._log(them, "latest"),
            "shift-by": self._shift,
            "to-datetime": self._to_datetime,
            "by-duration": self._by_duration,
            "from-file": self._from_file,
            "to-current": self._current,
        }
        for name, way in ways.items():
            if self._options.has(name):
                return await way(group, partitions)
        return None

    async def _to_offset(self, _: str, partitions: list[TopicPartition]) -> Offsets:
        return await self._fit(dict.fromkeys(partitions, self._options.numbers("to-offset")[0]))

    async def _to_datetime(self, _: str, partitions: list[TopicPartition]) -> Offsets:
        return await self._at(partitions, parse_datetime(self._options.values("to-datetime")[0]))

    async def _by_duration(self, _: str, partitions: list[TopicPartition]) -> Offsets:
        ago = parse_duration(self._options.value("by-duration") or "")
        return await self._at(partitions, int((datetime.now(UTC) - ago).timestamp() * 1000))

    async def committed(self, group: str) -> Offsets:
        """What a group has committed, sorted by topic and partition."""
        try:
            offsets = (await self._lookups.committed(group)).offsets
        except CoterieError as error:
            raise runtime(execution(await self._session.failure(group, error))) from None
        return {each: offsets[each].offset for each in sorted(offsets)}

    async def _log(self, partitions: list[TopicPartition], at: str | int) -> Offsets:
        if not partitions:
            return {}
        result = await self._lookups.logs(partitions, at)
        for partition in partitions:
            if (error := result.errors.get(partition)) is not None:
                raise runtime(execution(self._log_failure(partition, error)))
        return {each: result.items[each].offset for each in partitions}

    def _log_failure(self, partition: TopicPartition, error: CoterieError) -> Throwable:
        if isinstance(error, KafkaError) and error.code.name == "UNKNOWN_TOPIC_OR_PARTITION":
            return api_exception(
                error.code.name,
                f"Failed to fetch metadata for partition {partition} because metadata for topic "
                f"`{partition.topic}` could not be found",
            )
        return self._session.translate(error)

    async def _fit(self, wanted: Offsets) -> Offsets:
        """Offsets outside of the log go to its nearest end, with a line in the log of the tool."""
        names = list(wanted)
        starts, ends = await asyncio.gather(
            self._log(names, "earliest"), self._log(names, "latest")
        )
        fitted: Offsets = {}
        for partition, offset in wanted.items():
            fitted[partition] = min(max(offset, starts[partition]), ends[partition])
            if fitted[partition] != offset:
                than = "higher than latest" if offset > ends[partition] else "lower than earliest"
                self._session.out.log(
                    "WARN",
                    f"New offset ({offset}) is {than} offset for topic partition {partition}. "
                    f"Value will be set to {fitted[partition]}",
                    "org.apache.kafka.tools.OffsetsUtils",
                )
        return fitted

    async def _shift(self, group: str, partitions: list[TopicPartition]) -> Offsets:
        by = self._options.number("shift-by") or 0
        committed = await self.committed(group)
        for partition in partitions:
            if partition not in committed:
                raise Usage(
                    f"Cannot shift offset for partition {partition} since there is no current "
                    "committed offset"
                )
        return await self._fit({each: committed[each] + by for each in partitions})

    async def _at(self, partitions: list[TopicPartition], millis: int) -> Offsets:
        """The first record of that time or later; where there is none, the end of the log."""
        found = await self._log(partitions, max(millis, 0))
        late = [each for each, offset in found.items() if offset < 0]
        for each in late:
            self._session.out.line(
                f"\nWarn: Partition {each.partition} from topic {self._session.out.name(each.topic)} "
                "is empty. Falling back to latest known offset."
            )
        return found | await self._log(late, "latest")

    async def _current(self, group: str, partitions: list[TopicPartition]) -> Offsets:
        committed = await self.committed(group)
        found = {each: committed[each] for each in partitions if each in committed}
        rest = await self._log([each for each in partitions if each not in committed], "latest")
        return found | rest

    async def _from_file(self, group: str, _: list[TopicPartition]) -> Offsets:
        text = _read(self._options.values("from-file")[0])
        plan = parse_plan(text, self._options.values("group")).get(group)
        if plan is None:
            self._session.out.error(f"No reset plan for group {group} found")
            self.without_plan += 1
            return {}
        return await self._fit(plan)


def _read(path: str) -> str:
    try:
        return Path(path).read_bytes().decode("utf-8", "replace")
    except OSError as error:
        kind = "NoSuchFile" if isinstance(error, FileNotFoundError) else "FileSystem"
        cause = Throwable(f"java.nio.file.{kind}Exception", path)
        unread = Throwable("java.io.IOException", f"Unable to read file {path}", cause)
        raise runtime(unread) from None
