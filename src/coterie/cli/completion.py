"""Completion: `coterie completion`, the script for a shell, and the names that the shell then asks for.

A shell asks while a user holds the Tab key: no answer is better than a late one or an error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from typing import Final

import click

from coterie.console.target import Target
from coterie.console.terminal import write
from coterie.errors import CoterieError
from coterie.safe_text import is_safe

__all__ = ["command", "names"]

_PATIENCE_SECONDS: Final = 1.5
#: More names are no help.
_MOST: Final = 500

_HOW: Final = {
    "bash": 'eval "$(coterie completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(coterie completion zsh)"   # in ~/.zshrc',
    "fish": "coterie completion fish > ~/.config/fish/completions/coterie.fish",
}


@click.command(
    "completion",
    help="Print the completion script of a shell: bash, zsh or fish.\n\n\b\n"
    + "\n".join(_HOW.values()),
)
@click.argument("shell", type=click.Choice(list(_HOW)))
def command(shell: str) -> None:
    from click.shell_completion import get_completion_class

    from coterie.cli.main import cli

    kind = get_completion_class(shell)
    if kind is not None:
        write(kind(cli, {}, "coterie", "_COTERIE_COMPLETE").source() + "\n")


def names(kind: str, ctx: click.Context, incomplete: str) -> list[str]:
    """Groups, topics, states or types that begin like this."""
    found: list[str] = []
    with contextlib.suppress(CoterieError, click.ClickException, OSError):
        found = _static(kind) or _live(kind, ctx)
    taken = set(ctx.params.get("names") or ())
    # A name with control characters cannot be typed by a shell anyway.
    fitting = (each for each in found if each not in taken and is_safe(each))
    any_case = kind in ("states", "types")
    begin = incomplete.lower() if any_case else incomplete
    return [each for each in fitting if (each.lower() if any_case else each).startswith(begin)][
        :_MOST
    ]


def _static(kind: str) -> list[str]:
    if kind not in ("states", "types"):
        return []
    from coterie.protocol import group_state

    enum = group_state.GroupState if kind == "states" else group_state.GroupType
    return [each.value for each in enum if each.value != "Unknown"]


def _live(kind: str, ctx: click.Context) -> list[str]:
    from coterie.client.admin import AdminClient

    logging.disable()
    target = Target(**ctx.meta.get("coterie.target", {}))
    quick = dataclasses.replace(target, timeout=_PATIENCE_SECONDS)

    async def ask(admin: AdminClient) -> list[str]:
        if kind == "topics":
            return sorted((await admin.describe_topics()).items)
        return sorted((await admin.list_groups()).items)

    return quick.run(ask)
