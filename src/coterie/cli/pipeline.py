"""`coterie pipeline`: from a cluster, or from its segment files, to tables and a report.

Nothing heavy is imported before it is used: `coterie --help` reads this module, too. What the commands do is
in coterie.spark.pipeline; here are their options and their last words.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from coterie.console.durations import duration
from coterie.console.options import LocalPath, connected, listed
from coterie.console.output import Format, listing_of
from coterie.console.target import Target
from coterie.errors import CoterieError, InvalidArgument
from coterie.spark.quickstart.master import check_master, check_memory

if TYPE_CHECKING:
    from coterie.spark.pipeline.steps import Steps

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])

_DIRECTORY: Final = LocalPath(path_type=Path, file_okay=False)
_FILE: Final = LocalPath(path_type=Path, dir_okay=False)

_out = click.option(
    "--out", required=True, type=_DIRECTORY, metavar="DIR", help="Directory of the tables."
)
_verbose = click.option("-v", "--verbose", is_flag=True, help="Show the log of Spark.")
_strict = click.option(
    "--strict", is_flag=True, help="Fail if a broker, a group or a partition did not answer."
)


def _options(*each: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(each):
            function = option(function)
        return function

    return decorate


def _checked(check: Callable[[str], str]) -> Callable[..., str | None]:
    """What is wrong with an option as click tells it."""

    def checked(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
        try:
            return None if value is None else check(value)
        except InvalidArgument as error:
            raise click.BadParameter(str(error)) from None

    return checked


def _own_memory(text: str) -> str:
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # the driver runs already
        raise InvalidArgument(
            "spark-submit has started the driver: give it --driver-memory instead"
        )
    return check_memory(text)


_spark_options = _options(
    click.option(
        "--master",
        metavar="M",
        callback=_checked(check_master),
        help="Where Spark runs: local[*] (default), spark://HOST:PORT, ...",
    ),
    click.option(
        "--driver-memory",
        metavar="SIZE",
        callback=_checked(_own_memory),
        help="Memory of Spark's driver, such as 4g.",
    ),
    _verbose,
)
_segments = click.option(
    "--segments", type=_DIRECTORY, metavar="DIR", help="Read segment files instead of a cluster."
)


@click.group("pipeline")
def command() -> None:
    """Group history as tables: snapshots, the log of commits and rebalances, marts, a report.

    `coterie pipeline run --bootstrap-server HOST:PORT --out DIR` runs all steps. Every step can be repeated
    at any time: it continues where the last run ended.
    """


@command.command("snapshot")
@connected
@_out
@click.option("--snapshot-id", metavar="ID", help="Id of the snapshot. An existing id is skipped.")
@_strict
def snapshot_command(
    out: Path,
    snapshot_id: str | None,
    *,
    strict: bool,
) -> None:
    """Save the current state of all groups of a cluster."""
    _steps(out, strict=strict).snapshot(_properties(), snapshot_id)


@command.command("ingest")
@connected
@_segments
@_out
@_strict
@_spark_options
def ingest_command(
    segments: Path | None,
    out: Path,
    *,
    strict: bool,
    **spark: Any,
) -> None:
    """Read new records of __consumer_offsets: commits and group changes."""
    with _steps(out, strict=strict, **spark) as steps:
        steps.ingest(_source(segments))


@command.command("build")
@_out
@_spark_options
def build_command(out: Path, **spark: Any) -> None:
    """Build the marts from the tables of snapshot and ingest."""
    with _steps(out, **spark) as steps:
        steps.build()


@command.command("report")
@_out
@click.option(
    "--to",
    "to",
    type=_DIRECTORY,
    metavar="DIR",
    help="Directory of the report (default: DIR/report).",
)
@_spark_options
def report_command(out: Path, to: Path | None, **spark: Any) -> None:
    """Write report.html, one file that opens offline, and report.json with the same figures."""
    with _steps(out, **spark) as steps:
        steps.report(to)


@command.command("sql")
@click.argument("query")
@_out
@listed()
@click.option(
    "--param",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value of :NAME in the query.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of rows.")
@_spark_options
def sql_command(
    query: str,
    out: Path,
    form: Format,
    parameters: tuple[str, ...],
    limit: int | None,
    **spark: Any,
) -> None:
    """Query the tables in SQL: `coterie pipeline sql "SELECT * FROM group_summary" --out DIR`."""
    bound = _bound(parameters)
    try:
        with _steps(out, **spark) as steps:
            names, rows = steps.sql(query, bound, limit)
    except InvalidArgument as error:
        raise click.UsageError(str(error)) from None
    _check_names(names, form)
    listing_of(names, rows).write(rows, form)


def _check_names(names: list[str], form: Format) -> None:
    """An object of JSON has a name once: the other column would be lost."""
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None and form.name in ("json", "jsonl", "yaml"):
        raise CoterieError(
            f"two columns are called {twice!r}, which {form.name} cannot show: name one of them with AS"
        )


@command.command("plan")
@_out
@click.option(
    "--to", "to", required=True, type=_FILE, metavar="FILE", help="Write the plan to this file."
)
@click.option(
    "--idle",
    type=duration,
    metavar="DURATION",
    default="0s",
    show_default=True,
    help="Only groups that have been idle for at least this long.",
)
@_spark_options
def plan_command(out: Path, to: Path, idle: float, **spark: Any) -> None:
    """Write stale groups as a plan for `coterie groups delete --plan FILE`."""
    with _steps(out, **spark) as steps:
        steps.plan(to, timedelta(seconds=idle))


@command.command("run")
@connected
@_segments
@_out
@_strict
@_spark_options
def run_command(
    segments: Path | None,
    out: Path,
    *,
    strict: bool,
    **spark: Any,
) -> None:
    """Run all steps: snapshot (of a cluster), ingest, build, report."""
    source = _source(segments)
    with _steps(out, strict=strict, **spark) as steps:
        if not isinstance(source, Path):
            steps.start_spark(source)
            steps.snapshot(source, None)
        steps.ingest(source)
        steps.build()
        steps.report(None)


@command.command("compact")
@_out
@click.option(
    "--retention", type=duration, metavar="DURATION", help="Drop days older than this, such as 30d."
)
def compact_command(out: Path, retention: float | None) -> None:
    """Merge small files, and drop days older than --retention."""
    _steps(out).compact(None if retention is None else timedelta(seconds=retention))


def _steps(out: Path, **options: Any) -> Steps:
    """The steps, imported when a command runs."""
    try:
        from coterie.spark.pipeline.steps import Steps
    except ImportError as error:
        raise CoterieError(
            f"the pipeline needs more packages ({error.name}): pip install 'coterie[spark]'"
        ) from None
    return Steps(out, **options)


def _source(segments: Path | None) -> Path | dict[str, str]:
    """A directory of segment files, or the settings of a client."""
    if segments is None:
        return _properties(" or --segments DIR")
    given = Target.current().options
    if given:
        raise click.UsageError(
            f"{given[0]} is for a cluster, and --segments needs none: leave one of them out"
        )
    return segments


def _properties(otherwise: str = "") -> dict[str, str]:
    found = Target.current().properties(otherwise=otherwise)
    return {name: str(value) for name, value in found.items()}


def _bound(parameters: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for each in parameters:
        name, equals, value = each.partition("=")
        if not equals or not name.isidentifier():
            raise click.UsageError(f"--param: {each!r} is not NAME=VALUE")
        found[name] = value
    return found
