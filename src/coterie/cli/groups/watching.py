"""`coterie groups watch`: groups, or the partitions of one group, again and again."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from coterie.cli import listings
from coterie.cli.selection import GroupRow, Missing, Selection, selected
from coterie.console.durations import duration, in_units
from coterie.console.options import connected, listed
from coterie.console.output import Column, Format, Listing, Need, declared, timestamp
from coterie.console.target import Target
from coterie.console.terminal import flush, is_screen, is_terminal
from coterie.vocabulary import columns

if TYPE_CHECKING:
    from coterie.client.admin import AdminClient

__all__ = ["WATCHED_GROUPS", "WATCHED_PARTITIONS", "Sampler", "watch"]

R = TypeVar("R", bound="Watched")


@dataclass(frozen=True)
class Watched:
    """A group or a partition at a moment, with what changed since the moment before."""

    #: In milliseconds since 1970, as Kafka has it.
    at: int
    group: str
    state: str | None
    members: int | None
    lag: int | None
    committed: int | None
    log_end: int | None
    partition: Any = None
    client_id: str | None = None
    rate: float | None = None
    produced: float | None = None


_AT: Final[Column[Watched]] = Column(
    "at", "time", "When it was so.", lambda each: timestamp(each.at)
)
_RATES: Final[tuple[Column[Watched], ...]] = (
    Column(
        "rate",
        "number",
        "Records per second that were committed since the line before.",
        lambda each: each.rate,
        nullable=True,
    ),
    Column(
        "produced",
        "number",
        "Records per second that were written meanwhile.",
        lambda each: each.produced,
        nullable=True,
    ),
)


def _lag(column: columns.Column) -> Column[Watched]:
    return declared(
        column, lambda each: each.lag, nullable=True, style=listings.lag_style, heading="LAG"
    )


WATCHED_GROUPS: Final[Listing[Watched]] = Listing(
    "watched-groups",
    "Groups as they change, one per row and moment.",
    (
        listings.GROUP,
        listings.STATE,
        declared(columns.MEMBER_COUNT, lambda each: each.members, nullable=True, heading="MEMBERS"),
        _lag(columns.TOTAL_LAG),
        *_RATES,
        _AT,
    ),
    sort=("group_id",),
)
WATCHED_PARTITIONS: Final[Listing[Watched]] = Listing(
    "watched-partitions",
    "Partitions of one group as they change, one per row and moment.",
    (
        listings.GROUP,
        listings.STATE,
        declared(columns.TOPIC, lambda each: each.partition.topic),
        declared(columns.PARTITION, lambda each: each.partition.partition),
        declared(
            columns.COMMITTED_OFFSET,
            lambda each: each.committed,
            nullable=True,
            heading="COMMITTED",
        ),
        declared(columns.LOG_END, lambda each: each.log_end, nullable=True),
        _lag(columns.LAG),
        *_RATES,
        declared(columns.CLIENT_ID, lambda each: each.client_id, nullable=True),
        _AT,
    ),
    sort=("topic", "partition"),
)


class Sampler:
    """Asks, and compares with the time before."""

    def __init__(self, selection: Selection, *, partitions: bool) -> None:
        self._selection = selection
        self._partitions = partitions
        self._before: dict[object, Watched] = {}
        self._then = 0.0

    async def __call__(self, admin: AdminClient) -> tuple[list[Watched], Missing]:
        found = await self._selection.find(admin, {Need.LAG})
        moment, clock = round(time.time() * 1000), time.monotonic()
        make = self._by_partition if self._partitions else self._by_group
        rows = [each for row in found.rows for each in make(row, moment)]
        seconds = clock - self._then
        compared = [self._compared(each, seconds) for each in rows]
        self._before = {_key(each): each for each in rows}
        self._then = clock
        return compared, found.missing

    def _compared(self, row: Watched, seconds: float) -> Watched:
        before = self._before.get(_key(row))
        if before is None or seconds <= 0:
            return row
        return replace(
            row,
            rate=_per_second(before.committed, row.committed, seconds),
            produced=_per_second(before.log_end, row.log_end, seconds),
        )

    def _by_group(self, row: GroupRow, moment: int) -> list[Watched]:
        parts = row.lag.partitions if row.lag is not None else ()
        return [
            Watched(
                moment,
                row.group,
                row.state,
                len(row.description.members) if row.description is not None else None,
                _sum(each.lag for each in parts),
                _sum(each.committed_offset for each in parts),
                _sum(each.log_end for each in parts),
            )
        ]

    def _by_partition(self, row: GroupRow, moment: int) -> list[Watched]:
        return [
            Watched(
                moment,
                row.group,
                row.state,
                None,
                each.each.lag,
                each.each.committed_offset,
                each.each.log_end,
                each.partition,
                each.each.client_id,
            )
            for each in listings.lag_rows(row)
        ]


def _key(row: Watched) -> object:
    return row.group, row.partition


def _sum(values: Any) -> int | None:
    known = [each for each in values if each is not None]
    return sum(known) if known else None


def _per_second(before: int | None, now: int | None, seconds: float) -> float | None:
    return None if before is None or now is None else round((now - before) / seconds, 3)


def _listing(ctx: click.Context) -> Listing[Any]:
    return WATCHED_PARTITIONS if len(ctx.params.get("names") or ()) == 1 else WATCHED_GROUPS


@click.command()
@connected
@selected
@click.option(
    "--interval", type=duration, default="2s", show_default=True, help="Time between two rounds."
)
@click.option("--count", type=click.IntRange(min=1), help="End after N rounds.")
@listed(_listing)
def watch(*, selection: Selection, interval: float, count: int | None, form: Format) -> int:
    """Watch groups; or, if one group is named, its partitions.

    On a terminal the table is redrawn in place: s sorts by the next column, r reverses the order, / filters,
    q quits. Elsewhere every round is written as lines, in any format.
    """
    one = len(selection.names) == 1
    listing = WATCHED_PARTITIONS if one else WATCHED_GROUPS
    sample = Sampler(selection, partitions=one)
    rounds = _Rounds(interval, count)
    if is_screen(sys.stdout) and is_terminal(sys.stdin) and form.name in ("table", "wide"):
        from coterie.cli.live import Screen, draw

        title = f"coterie groups watch {selection.in_words()}".strip()
        screen = Screen(listing, form, f"{title} --interval {in_units(interval)}")
        return Target.current().run(
            lambda admin: draw(screen, lambda: sample(admin), rounds), quiet=True
        )
    return Target.current().run(
        lambda admin: _lines(listing, form, lambda: sample(admin), rounds), quiet=True
    )


@dataclass(frozen=True)
class _Rounds:
    """How often, and how many times."""

    interval: float
    count: int | None


async def _lines(
    listing: Listing[Watched],
    form: Format,
    sample: Callable[[], Awaitable[tuple[list[Watched], Missing]]],
    rounds: _Rounds,
) -> int:
    """Plain lines, round after round; headers once."""
    code, done = 0, 0
    while True:
        rows, missing = await sample()
        listing.write(rows, replace(form, headers=form.headers and done == 0))
        flush()
        code = max(code, missing.report(any_found=bool(rows)))
        done += 1
        if done == rounds.count:
            return code
        await asyncio.sleep(rounds.interval)
