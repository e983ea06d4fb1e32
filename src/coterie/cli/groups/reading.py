"""The commands that read: list, describe, members, offsets, lag, export."""

from __future__ import annotations

import dataclasses
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from coterie.cli import listings
from coterie.cli.selection import Found, Missing, Selection, selected
from coterie.console.options import connected, listed
from coterie.console.output import Format, Listing, Need
from coterie.console.target import Target
from coterie.console.terminal import note, write

if TYPE_CHECKING:
    from coterie.client.admin import AdminClient
    from coterie.client.results import TopicPartition

__all__ = ["describe", "export", "lag", "list_groups", "members", "offsets"]


def _find(selection: Selection, needs: set[Need]) -> Found:
    return Target.current().run(lambda admin: selection.find(admin, needs))


def _print(listing: Listing[Any], rows: list[Any], form: Format, found: Found) -> int:
    listing.write(rows, form)
    return found.missing.report(any_found=bool(rows))


@click.command("list")
@connected
@selected
@listed(listings.GROUPS)
def list_groups(selection: Selection, form: Format) -> int:
    """List groups with state, type and coordinator.

    The columns members, lag, topics and last_commit_at take more requests to the cluster. They are shown
    when --columns or --sort names them, or a filter needs them.
    """
    form = _with_asked(selection, form)
    found = _find(selection, listings.GROUPS.needs(form))
    return _print(listings.GROUPS, found.rows, form, found)


def _with_asked(selection: Selection, form: Format) -> Format:
    """What was filtered or sorted by is also shown."""
    if form.columns or form.name == "name":
        return form
    asked = [each.lstrip("-") for each in form.sort]
    asked += ["lag"] if selection.lag_over is not None else []
    asked += ["last_commit_at"] if selection.idle_for is not None else []
    names = [each.name for each in listings.GROUPS.chosen(form)]
    more = [each for each in asked if listings.GROUPS.column(each).name not in names]
    return dataclasses.replace(form, columns=(*names, *more)) if more else form


_deep = click.option(
    "--deep/--no-deep",
    default=None,
    help="Read generation, leader and strategies from __consumer_offsets where brokers do not return them, "
    "as Apache Kafka's do not. Default: for groups that are named.",
)


def _depth(selection: Selection, *, deep: bool | None) -> set[Need]:
    """Reading the log takes numpy."""
    wanted = bool(selection.names) and find_spec("numpy") is not None if deep is None else deep
    return {Need.RECORDS} if wanted else set()


@click.command()
@connected
@selected
@listed(listings.DESCRIPTIONS)
@_deep
def describe(*, selection: Selection, form: Format, deep: bool | None) -> int:
    """Describe groups: generation, leader and assignment strategy; members; partitions and their lag.

    A table has three parts. JSON and YAML have members and partitions inside of each group. CSV, `name` and
    --columns show the groups only.
    """
    needs = {Need.LAG, *listings.DESCRIPTIONS.needs(form), *_depth(selection, deep=deep)}
    if form.name in ("wide", "json", "jsonl", "yaml"):
        needs.add(Need.LOG_START)
    found = _find(selection, needs)
    _narrow(found, selection)
    listings.DESCRIPTIONS.write(found.rows, form)
    if form.name in ("table", "wide") and not form.columns:
        _write_parts(found, selection, form)
    return found.missing.report(any_found=bool(found.rows))


def _narrow(found: Found, selection: Selection) -> None:
    """With topics, only their partitions."""
    if not selection.topics:
        return
    scope = selection.scope()
    for row in found.rows:
        if row.lag is not None:
            inside = tuple(each for each in row.lag.partitions if _inside(each.partition, scope))
            row.lag = type(row.lag)(row.lag.group_id, row.lag.type, row.lag.state, inside)


def _inside(partition: TopicPartition, scope: list[str | TopicPartition]) -> bool:
    return not scope or partition.topic in scope or partition in scope


def _write_parts(found: Found, selection: Selection, form: Format) -> None:
    topics = {each.partition(":")[0] for each in selection.topics}
    plain = dataclasses.replace(form, sort=())
    members = [each for row in found.rows for each in listings.member_rows(row, topics)]
    partitions = [each for row in found.rows for each in listings.lag_rows(row)]
    if members:
        write("\n")
        listings.MEMBERS.write(members, plain)
    if partitions:
        write("\n")
        listings.LAG.write(partitions, plain)


@click.command()
@connected
@selected
@listed(listings.MEMBERS)
@_deep
def members(*, selection: Selection, form: Format, deep: bool | None) -> int:
    """List members with client, host, assignment strategy, subscription and assignment.

    Without a group and a filter, the members of all groups are listed.
    """
    found = _find(selection, {Need.DESCRIPTION, *_depth(selection, deep=deep)})
    topics = {each.partition(":")[0] for each in selection.topics}
    rows = [each for row in found.rows for each in listings.member_rows(row, topics)]
    return _print(listings.MEMBERS, rows, form, found)


@click.command()
@connected
@selected
@listed(listings.OFFSETS)
def offsets(selection: Selection, form: Format) -> int:
    """List committed offsets. The column committed_at reads __consumer_offsets."""
    found = _find(selection, {Need.OFFSETS, *listings.OFFSETS.needs(form)})
    scope = selection.scope()
    rows = [
        listings.OffsetRow(
            row.group,
            partition,
            offset,
            found.commits.at(row.group, partition) if found.commits is not None else None,
        )
        for row in found.rows
        if row.offsets is not None
        for partition, offset in row.offsets.offsets.items()
        if _inside(partition, scope)
    ]
    return _print(listings.OFFSETS, rows, form, found)


_BY: Final[dict[str, Listing[Any]]] = {
    "partition": listings.LAG,
    "topic": listings.TOPIC_LAG,
    "group": listings.GROUP_LAG,
}


def _by(ctx: click.Context) -> Listing[Any]:
    return _BY[ctx.params.get("by") or "partition"]


@click.command()
@connected
@selected
@listed(_by)
@click.option(
    "--by",
    type=click.Choice(list(_BY)),
    default="partition",
    show_default=True,
    is_eager=True,
    help="Aggregate rows by partition, topic or group.",
)
def lag(selection: Selection, form: Format, by: str) -> int:
    """Show the lag of groups, by partition, topic or group."""
    listing = _BY[by]
    found = _find(selection, {Need.LAG, *listing.needs(form)})
    _narrow(found, selection)
    rows: list[Any] = [each for row in found.rows for each in listings.lag_rows(row)]
    if by != "partition":
        rows = list(listings.lag_sums(rows, by_topic=by == "topic"))
    return _print(listing, rows, form, found)


@click.command()
@connected
@selected
@click.option(
    "--as",
    "kind",
    type=click.Choice(["json", "csv"]),
    default="json",
    show_default=True,
    help="json keeps leader epochs and metadata; csv is the format of Kafka's own tool.",
)
@click.option(
    "--file", "path", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file."
)
def export(selection: Selection, kind: str, path: Path | None) -> int:
    """Write committed offsets to a file that `import` reads, or to standard output."""
    from coterie.plans.making import save_offsets_of
    from coterie.plans.offsets_file import to_csv, to_json

    async def ask(admin: AdminClient) -> tuple[Any, Missing]:
        found = await selection.find(admin)
        saved, errors = await save_offsets_of(
            admin, [each.group for each in found.rows], selection.scope(), found.offsets
        )
        found.missing.errors.update({key: str(error) for key, error in errors.items()})
        return saved, found.missing

    saved, missing = Target.current().run(ask)
    if path is None:
        write(to_csv(saved) if kind == "csv" else to_json(saved))
    else:
        (saved.save_csv if kind == "csv" else saved.save)(path)
        count = sum(len(each.offsets) for each in saved.groups)
        note(f"{count} offsets of {len(saved.groups)} groups are in {path}")
    return missing.report(any_found=bool(saved.groups))
