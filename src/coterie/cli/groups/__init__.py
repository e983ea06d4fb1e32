"""`coterie groups`: what groups are doing, and changes to them."""

from __future__ import annotations

import click

from coterie.cli.main import LateGroup

__all__ = ["command"]

_READING = "coterie.cli.groups.reading"
_CHANGING = "coterie.cli.groups.changing"

PLACES = {
    "list": f"{_READING}:list_groups",
    "describe": f"{_READING}:describe",
    "members": f"{_READING}:members",
    "offsets": f"{_READING}:offsets",
    "lag": f"{_READING}:lag",
    "export": f"{_READING}:export",
    "watch": "coterie.cli.groups.watching:watch",
    "delete": f"{_CHANGING}:delete",
    "reset": f"{_CHANGING}:reset",
    "delete-offsets": f"{_CHANGING}:delete_offsets",
    "clone": f"{_CHANGING}:clone",
    "import": f"{_CHANGING}:import_offsets",
}


@click.group("groups", cls=LateGroup, places=PLACES)
def command() -> None:
    """Inspect and change consumer groups and groups of every other type.

    All commands select groups by name, --match, --state, --type, --topic, --idle-for and --lag-over; a group
    has to pass all of them. Commands that change something show a plan, and change nothing without --execute
    or a yes at the prompt.
    """
