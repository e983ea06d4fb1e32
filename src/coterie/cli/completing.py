"""Completion: names that exist right now, asked for quickly and given up silently.

A shell calls this while somebody holds the Tab key: no answer is better than a late one or an error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from typing import Final

import click

from coterie.console.target import Target
from coterie.console.terminal import is_safe
from coterie.errors import CoterieError

__all__ = ["names"]

_PATIENCE_SECONDS: Final = 1.5
#: More than anyone wants to read.
_MOST: Final = 500


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
    from coterie.protocol import group_state  # noqa: PLC0415 - not for every completion

    enum = group_state.GroupState if kind == "states" else group_state.GroupType
    return [each.value for each in enum if each.value != "Unknown"]


def _live(kind: str, ctx: click.Context) -> list[str]:
    from coterie.client.admin import AdminClient  # noqa: PLC0415 - not for every completion

    logging.disable()
    target = Target(**ctx.meta.get("coterie.target", {}))
    quick = dataclasses.replace(target, timeout=_PATIENCE_SECONDS)

    async def ask(admin: AdminClient) -> list[str]:
        if kind == "topics":
            return sorted((await admin.describe_topics()).items)
        return sorted((await admin.list_groups()).items)

    return quick.run(ask)
