"""`coterie pipeline`: from a cluster, or from its segment files, to tables and a report.

Nothing heavy is imported before it is used: `coterie --help` reads this module, too.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

__all__ = ["command"]

_out = click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The directory of the tables.",
)


@click.group("pipeline")
def command() -> None:
    """Group history as tables: snapshots, the log of commits and rebalances, marts, a report.

    `coterie pipeline run --bootstrap-server HOST:PORT --out DIR` does all of it.
    """


@command.command("compact")
@_out
@click.option("--retention", metavar="TIME", help="Drop days older than this, such as 30d.")
def compact_command(out: Path, retention: str | None) -> None:
    """Join small files, and drop days that are too old."""
    from coterie.spark.pipeline.compaction import compact  # noqa: PLC0415
    from coterie.spark.pipeline.store import TableStore  # noqa: PLC0415

    store = TableStore(out)
    store.must_exist()
    done = compact(store, retention=None if retention is None else _time(retention))
    for each in done:
        dropped = f", {each.rows_dropped:,} rows of {each.days_dropped} days dropped"
        click.echo(
            f"{each.table}: {each.files_before} files are {each.files_after} now"
            f"{dropped if each.days_dropped else ''}"
        )
    if not done:
        click.echo("nothing to do")


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def _time(text: str) -> timedelta:
    unit = _SECONDS.get(text[-1:])
    if unit is None or not text[:-1].isdigit():
        raise click.UsageError(f"--retention: {text!r} is no time; write 90d, 12w or 36h")
    return timedelta(seconds=int(text[:-1]) * unit)
