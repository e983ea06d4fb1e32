"""Where a group's offsets are to be moved: a plan, made from what is known, before anything is changed.

Pure: no broker is asked here. The rules are those of Kafka's tool: what lies outside the log is moved to
its nearest end, a time after the last record means the end, and a shift needs something to shift.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from coterie.client.results import PartitionOffset, TopicPartition
from coterie.errors import InvalidArgument

__all__ = ["Known", "PlannedOffset", "ResetPlan", "To", "make_plan"]

Kind = Literal["earliest", "latest", "current", "offset", "shift", "time", "group", "mapping"]


class To(msgspec.Struct, frozen=True):
    """Where to: made by one of the class's methods, such as `To.earliest()` or `To.shift(-10)`."""

    kind: Kind
    number: int = 0
    group_id: str = ""
    offsets: dict[TopicPartition, int] = {}

    @classmethod
    def earliest(cls) -> To:
        """The first record that the log still has."""
        return cls("earliest")

    @classmethod
    def latest(cls) -> To:
        """The end of the log: what comes from now on."""
        return cls("latest")

    @classmethod
    def current(cls) -> To:
        """Where the group is; the end of the log where it is nowhere yet."""
        return cls("current")

    @classmethod
    def offset(cls, offset: int) -> To:
        """An offset, the same in all partitions."""
        return cls("offset", offset)

    @classmethod
    def shift(cls, by: int) -> To:
        """Forwards by so many records, or backwards if it is negative."""
        return cls("shift", by)

    @classmethod
    def time(cls, moment: datetime) -> To:
        """The first record of that moment or later; without a zone the moment is in UTC, as in Kafka."""
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return cls("time", round(moment.timestamp() * 1000))

    @classmethod
    def duration(cls, ago: timedelta, now: datetime | None = None) -> To:
        """The first record that is no older than this."""
        return cls.time((now or datetime.now(UTC)) - ago)

    @classmethod
    def group(cls, group_id: str) -> To:
        """Where another group is."""
        return cls("group", group_id=group_id)

    @classmethod
    def mapping(cls, offsets: Mapping[TopicPartition, int]) -> To:
        """Offsets by partition, from a file or an earlier plan."""
        return cls("mapping", offsets=dict(offsets))


class Known(msgspec.Struct, frozen=True):
    """What a plan is made from."""

    committed: dict[TopicPartition, PartitionOffset]
    log_start: dict[TopicPartition, int]
    log_end: dict[TopicPartition, int]
    #: The first offset at or after the time asked for; -1 where there is none.
    by_time: dict[TopicPartition, int] = {}
    other_group: dict[TopicPartition, PartitionOffset] = {}


class PlannedOffset(msgspec.Struct, frozen=True, gc=False):
    """One partition of a plan: where it is, and where it goes; None and the reason if it cannot."""

    partition: TopicPartition
    current: int | None
    target: int | None
    note: str = ""


class ResetPlan(msgspec.Struct, frozen=True):
    """What would be committed for a group. Nothing has been changed yet."""

    group_id: str
    offsets: tuple[PlannedOffset, ...]

    @property
    def targets(self) -> dict[TopicPartition, int]:
        """The offsets to commit."""
        return {each.partition: each.target for each in self.offsets if each.target is not None}

    @property
    def errors(self) -> dict[TopicPartition, str]:
        """The partitions that stay where they are, and why."""
        return {each.partition: each.note for each in self.offsets if each.target is None}

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def make_plan(group_id: str, partitions: list[TopicPartition], to: To, known: Known) -> ResetPlan:
    """A row for every partition."""
    if not partitions:
        raise InvalidArgument(
            f"there is nothing to reset: group {group_id!r} has committed nothing; name topics"
        )
    return ResetPlan(group_id, tuple(_plan(each, to, known) for each in sorted(set(partitions))))


def _plan(partition: TopicPartition, to: To, known: Known) -> PlannedOffset:
    committed = known.committed.get(partition)
    current = None if committed is None else committed.offset
    if partition not in known.log_start or partition not in known.log_end:
        return PlannedOffset(partition, current, None, "the ends of its log are not known")
    start, end = known.log_start[partition], known.log_end[partition]
    wanted = _wanted(partition, to, known, current)
    if isinstance(wanted, str):
        return PlannedOffset(partition, current, None, wanted)
    target = min(max(wanted, start), end)
    note = "" if target == wanted else f"{wanted} is outside of the log, {start} to {end}"
    return PlannedOffset(partition, current, target, note)


def _wanted(partition: TopicPartition, to: To, known: Known, current: int | None) -> int | str:
    """The offset before it is fitted into the log, or why there is none."""
    end = known.log_end[partition]
    if to.kind in ("offset", "earliest", "latest", "current"):
        here = end if current is None else current
        simple = {"earliest": known.log_start[partition], "latest": end, "current": here}
        return simple.get(to.kind, to.number)
    if to.kind == "shift":
        return "there is no committed offset to shift" if current is None else current + to.number
    if to.kind == "time":
        found = known.by_time.get(partition, -1)
        return end if found < 0 else found
    if to.kind == "group":
        other = known.other_group.get(partition)
        return f"group {to.group_id!r} has no offset here" if other is None else other.offset
    return to.offsets.get(partition, "the mapping has no offset for it")
