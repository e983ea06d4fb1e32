"""The commands that change something: delete, reset, delete-offsets, clone, import."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from coterie.cli.changes import Change, changing
from coterie.cli.selection import GroupRow, Missing, Selection, complete, parse_topics, selected
from coterie.console.durations import duration
from coterie.console.options import connected
from coterie.console.progress import Progress
from coterie.errors import CoterieError

if TYPE_CHECKING:
    from coterie.client.admin import AdminClient
    from coterie.client.reset import To
    from coterie.plans.model import Plan, PlannedGroup

__all__ = ["clone", "delete", "delete_offsets", "import_offsets", "reset"]

_OFFSET: Final = re.compile(r"\d+")
_only_topics: Final = click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:0,1]",
    callback=parse_topics,
    shell_complete=complete("topics"),
    help="Only this topic, or these partitions of it.",
)


def _planned(rows: list[GroupRow]) -> list[PlannedGroup]:
    from coterie.plans.model import PlannedGroup

    return [
        PlannedGroup(
            group=row.group,
            state=row.state,
            type=row.type,
            last_commit_at=None
            if row.last_commit is None
            else datetime.fromtimestamp(row.last_commit / 1000, UTC),
            lag=None if row.lag is None else row.lag.total,
        )
        for row in sorted(rows, key=lambda row: row.group)
    ]


def _check(selection: Selection, change: Change) -> None:
    """Refuse an empty selection."""
    if change.plan_in is not None:
        if not selection.everything:
            raise click.UsageError("--plan names the groups; leave out names and filters")
    elif selection.everything:
        raise click.UsageError("name groups, or choose them: --match, --state, --idle-for ...")


@click.command()
@connected
@selected
@changing("delete_groups")
def delete(selection: Selection, change: Change) -> int:
    """Delete groups that have no members, with their offsets.

    For example, groups that have not committed for a month:

        coterie groups delete --state Empty --idle-for 30d --plan-out plan.json

        coterie groups delete --plan plan.json --execute
    """
    _check(selection, change)

    async def make(admin: AdminClient) -> tuple[Plan, Missing]:
        from coterie.plans.making import plan_delete

        found = await selection.find(admin)
        reason = f"coterie groups delete {selection.in_words()}"
        planned, known = _planned(found.rows), found.offsets
        plan = await plan_delete(admin, planned, reason=reason, known=known)
        return plan, found.missing

    return change.run(make)


@click.command("delete-offsets")
@connected
@selected
@changing("delete_offsets")
def delete_offsets(selection: Selection, change: Change) -> int:
    """Delete committed offsets of topics (--topic orders) or of partitions (--topic orders:0,1)."""
    _check(selection, change)
    if not selection.topics and change.plan_in is None:
        raise click.UsageError("missing --topic: give --topic TOPIC, or --topic TOPIC:0,1")

    async def make(admin: AdminClient) -> tuple[Plan, Missing]:
        from coterie.plans.making import plan_delete_offsets

        found = await selection.find(admin, topics_choose=selection.topics_choose)
        reason = f"coterie groups delete-offsets {selection.in_words()}"
        planned = _planned(found.rows)
        plan = await plan_delete_offsets(
            admin, planned, selection.scope(), reason=reason, known=found.offsets
        )
        return plan, found.missing

    return change.run(make)


@click.command()
@connected
@selected
@click.option(
    "--to",
    "place",
    metavar="WHERE",
    help="Reset to earliest, latest, current, an offset, or a time such as 2026-01-31T12:00:00Z.",
)
@click.option(
    "--shift-by", type=int, metavar="N", help="Move by N records, backwards if N is negative."
)
@click.option(
    "--ago",
    type=duration,
    metavar="DURATION",
    help="Reset to the first record newer than DURATION.",
)
@click.option(
    "--like",
    metavar="GROUP",
    shell_complete=complete("groups"),
    help="Use the committed offsets of that group.",
)
@changing("set_offsets")
def reset(
    *,
    selection: Selection,
    change: Change,
    place: str | None,
    shift_by: int | None,
    ago: float | None,
    like: str | None,
) -> int:
    """Reset the offsets of groups without members, in all committed partitions or in --topic.

    Named groups that do not exist are created when --topic is given.
    """
    _check(selection, change)
    given = [each for each in (place, shift_by, ago, like) if each is not None]
    if change.plan_in is None and len(given) != 1:
        raise click.UsageError("missing target: give one of --to, --shift-by, --ago and --like")

    async def make(admin: AdminClient) -> tuple[Plan, Missing]:
        from coterie.plans.making import plan_reset

        found = await selection.find(admin, topics_choose=selection.topics_choose)
        rows = found.rows + _not_there_yet(selection, found.missing)
        reason = f"coterie groups reset {selection.in_words()}"
        to = _destination(place, shift_by, ago, like)
        with Progress("Planning", len(rows)) as bar:
            plan = await plan_reset(
                admin, _planned(rows), to, selection.scope(), reason=reason, step=bar.advance
            )
        return plan, found.missing

    return change.run(make)


def _not_there_yet(selection: Selection, missing: Missing) -> list[GroupRow]:
    """Groups that are named and do not exist begin to be, if topics say what they get."""
    if not selection.topics or selection.narrowed:
        return []
    new = [each for each in selection.names if "GROUP_ID_NOT_FOUND" in missing.errors.get(each, "")]
    for each in new:
        del missing.errors[each]
    return [GroupRow(each) for each in new]


def _destination(
    place: str | None, shift_by: int | None, ago: float | None, like: str | None
) -> To:
    from coterie.client.reset import To

    if shift_by is not None:
        return To.shift(shift_by)
    if ago is not None:
        return To.duration(timedelta(seconds=ago))
    if like is not None:
        return To.group(like)
    text = place or ""
    simple = {"earliest": To.earliest, "latest": To.latest, "current": To.current}
    if text.lower() in simple:
        return simple[text.lower()]()
    if _OFFSET.fullmatch(text):
        return To.offset(int(text))
    try:
        return To.time(datetime.fromisoformat(text))
    except ValueError:
        raise click.UsageError(
            f"--to takes earliest, latest, current, an offset or a time in ISO 8601, not {text!r}"
        ) from None


@click.command()
@connected
@click.argument("source", required=False, shell_complete=complete("groups"))
@click.argument("target", required=False)
@_only_topics
@changing("set_offsets")
def clone(source: str | None, target: str | None, topics: tuple[str, ...], change: Change) -> int:
    """Copy the offsets of group SOURCE to group TARGET, which may be new and must have no members."""
    if change.plan_in is None and (source is None or target is None):
        raise click.UsageError("name two groups: SOURCE and TARGET")

    async def make(admin: AdminClient) -> tuple[Plan, Missing]:
        from coterie.plans.making import plan_import, save_offsets_of

        missing = Missing()
        # One look-up for both groups; what it does not find is an error of the calls that need it.
        await admin.find_coordinators({source or "", target or ""})
        described = await admin.describe_groups([source or ""])
        described.unwrap()
        scope = Selection(topics=topics).scope()
        saved, errors = await save_offsets_of(admin, [source or ""], scope)
        missing.errors.update({key: str(error) for key, error in errors.items()})
        if not any(each.offsets for each in saved.groups):
            raise CoterieError(f"group {source!r} has committed nothing that could be cloned")
        renamed = saved.renamed(target or "")
        reason = f"coterie groups clone {source} {target}"
        return await plan_import(admin, renamed, (), reason=reason), missing

    return change.run(make)


@click.command("import")
@connected
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--group", "only", multiple=True, metavar="GROUP", help="Import only this group of the file."
)
@click.option("--into", metavar="GROUP", help="The group, for a CSV file without group names.")
@click.option(
    "--any-cluster", is_flag=True, help="Accept offsets that were saved from another cluster."
)
@_only_topics
@changing("set_offsets")
def import_offsets(
    *,
    file: Path | None,
    only: tuple[str, ...],
    into: str | None,
    any_cluster: bool,
    topics: tuple[str, ...],
    change: Change,
) -> int:
    """Commit the offsets of FILE: of an export, of an undo file, or of Kafka's own tool (CSV).

    Deleted groups are created again. Groups with members are not changed.
    """
    if change.plan_in is None and file is None:
        raise click.UsageError("name the file")

    async def make(admin: AdminClient) -> tuple[Plan, Missing]:
        from coterie.plans.making import plan_import
        from coterie.plans.offsets_file import load_offsets

        saved = load_offsets(file or Path(), into)
        if only:
            saved = saved.only(only)
        reason = f"coterie groups import {file}"
        scope = Selection(topics=topics).scope()
        plan = await plan_import(admin, saved, scope, reason=reason, any_cluster=any_cluster)
        return plan, Missing()

    return change.run(make)
