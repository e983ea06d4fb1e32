"""What several listings share: columns of groups, and colours."""

from __future__ import annotations

from typing import Any, Final

from coterie.cli.selection import GroupRow
from coterie.console.output import Column, declared
from coterie.vocabulary import columns

__all__ = [
    "COORDINATOR",
    "GROUP",
    "PROTOCOL_TYPE",
    "STATE",
    "TYPE",
    "lag_of",
    "lag_style",
    "state_style",
]

_STATES: Final = {"Stable": "green", "Empty": "dim", "Dead": "red"}


def state_style(state: Any) -> str | None:
    return _STATES.get(state, "yellow") if state is not None else None


def lag_style(lag: Any) -> str | None:
    return "yellow" if lag else None


GROUP: Final[Column[Any]] = declared(columns.GROUP_ID, lambda each: each.group, heading="GROUP")
STATE: Final[Column[Any]] = declared(
    columns.STATE, lambda each: each.state, nullable=True, style=state_style
)
TYPE: Final[Column[Any]] = declared(columns.TYPE, lambda each: each.type, nullable=True)
COORDINATOR: Final[Column[GroupRow]] = declared(
    columns.COORDINATOR_ID, lambda each: each.coordinator, nullable=True, heading="COORDINATOR"
)
PROTOCOL_TYPE: Final[Column[GroupRow]] = declared(
    columns.PROTOCOL_TYPE, lambda each: each.protocol_type, show="wide", nullable=True
)


def lag_of(row: GroupRow) -> int | None:
    """The sum of what is known; a group that has committed nothing anywhere has no lag to tell."""
    partitions = row.lag.partitions if row.lag is not None else ()
    known = [each.lag for each in partitions if each.lag is not None]
    return sum(known) if known else None
