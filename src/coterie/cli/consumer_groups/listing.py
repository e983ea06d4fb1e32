"""`--list`: the groups of the cluster, with their types and states if asked for (KIP-518)."""

from __future__ import annotations

from typing import Final

from coterie.cli.consumer_groups.checks import Usage
from coterie.cli.consumer_groups.options import Options
from coterie.cli.consumer_groups.output import Column, table
from coterie.cli.consumer_groups.session import Session

__all__ = ["list_groups", "states_of", "types_of"]

#: In the order of Kafka's hash sets.
_STATES: Final = (
    "Reconciling", "PreparingRebalance", "Empty", "Stable", "Assigning", "CompletingRebalance", "Dead",
)  # fmt: skip
_TYPES: Final = ("Consumer", "Classic")


def states_of(text: str | None) -> list[str]:
    return _chosen(text, _STATES, "Invalid state list '{}'. Valid states are: ")


def types_of(text: str | None) -> list[str]:
    return _chosen(text, _TYPES, "Invalid types list '{}'. Valid types are: ")


def _chosen(text: str | None, known: tuple[str, ...], complaint: str) -> list[str]:
    """The names in a list with commas, however they are spelled; empty places at its end do not count."""
    if not text:
        return []
    # Java's split drops empty parts at the end.
    stripped = text.rstrip(",")
    parts = stripped.split(",") if stripped else []
    by_lower = {each.lower(): each for each in known}
    found = [by_lower.get(part.strip().lower()) for part in parts]
    if None in found:
        raise Usage(complaint.replace("{}", text) + ", ".join(known))
    return [each for each in dict.fromkeys(found) if each is not None]


async def list_groups(session: Session, options: Options) -> None:
    """Print the list. The filters are read first: a wrong one is wrong without any broker."""
    types, states = types_of(options.value("type")), states_of(options.value("state"))
    out = session.out
    if not options.has("type", "state"):
        groups = await session.list_all()
        out.write("".join([f"{out.name(each.group_id)}\n" for each in groups]))
        return
    groups = await session.list_groups(states, types)
    columns: list[Column] = [("GROUP", 25)]
    columns += [(name.upper(), 20) for name in ("type", "state") if options.has(name)]
    rows = [
        (
            # The column is ten wider than its longest name.
            out.name(group.group_id) + " " * 10,
            *([str(group.type or "unknown").capitalize()] if options.has("type") else ()),
            *([str(group.state or "Unknown")] if options.has("state") else ()),
        )
        for group in groups
    ]
    out.write(table(columns, rows, fit=[0])[1:] + "\n")
