"""`coterie simulate`: days of a fleet's life, as the files a broker would have."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import click

from coterie.console.options import LocalPath
from coterie.console.progress import Progress
from coterie.datasets.times import LAST_MS
from coterie.simulation.chronicle import iso
from coterie.simulation.simulator import START_MS, simulate

__all__ = ["command"]

_COUNT: Final = click.IntRange(min=1)


def _hours(_: click.Context, __: click.Parameter, hours: float) -> float:
    """As long as a simulation can last; a range of click would take a NaN."""
    longest = (LAST_MS - START_MS) // 3_600_000
    if not 1 <= hours <= longest:
        raise click.BadParameter(f"{hours:g} is not in the range 1<=x<={longest}.")
    return hours


@click.command("simulate")
@click.option("--groups", type=_COUNT, default=1_000, show_default=True, help="Number of groups.")
@click.option(
    "--hours",
    default=24.0,
    show_default=True,
    callback=_hours,
    help="Length of the simulation, in hours.",
)
@click.option(
    "--seed", default=1, show_default=True, help="Seed. The same seed gives the same bytes."
)
@click.option(
    "--out",
    required=True,
    type=LocalPath(path_type=Path),
    help="Directory to write, new or empty.",
)
@click.option(
    "--partitions",
    type=_COUNT,
    default=50,
    show_default=True,
    help="Number of partitions of __consumer_offsets.",
)
@click.option(
    "--commit-interval",
    type=_COUNT,
    default=300,
    show_default=True,
    help="Seconds between two commits of a member.",
)
@click.option("--workers", type=_COUNT, help="Number of processes (default: number of cores).")
def command(
    groups: int,
    hours: float,
    seed: int,
    out: Path,
    partitions: int,
    commit_interval: int,
    workers: int | None,
) -> None:
    """Simulate a fleet of consumer groups: deploys, crashes, storms, slow consumers, dead groups.

    Writes segments of __consumer_offsets as a broker stores them, the matching history of end offsets
    (end_offsets/, Parquet) and the ground truth (truth/*.jsonl). The coordinator is that of the server; only
    the clock is simulated.
    """
    began = time.monotonic()
    with Progress("Simulating", groups) as bar:
        done = simulate(
            out,
            groups=groups,
            hours=hours,
            seed=seed,
            partitions=partitions,
            commit_every_ms=commit_interval * 1_000,
            workers=workers or os.cpu_count() or 1,
            progress=bar.advance,
        )
    click.echo(
        f"{done.directory}: {done.groups:,} groups, {iso(done.start_ms)} to {iso(done.end_ms)}, "
        f"{done.records:,} records, {done.end_offsets:,} end offsets; {done.rebalances:,} rebalances, "
        f"{done.stale_groups:,} groups without members, {done.offset_resets:,} offsets set back "
        f"({time.monotonic() - began:.1f} s)"
    )
