"""Listings of plans, and of what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from coterie.cli.listings.common import GROUP, STATE, TYPE
from coterie.console.output import Column, Listing, declared, timestamp
from coterie.vocabulary.columns import LAST_COMMIT, PARTITION, TOPIC, TOTAL_LAG

if TYPE_CHECKING:
    from coterie.plans.execution import Outcome
    from coterie.plans.model import PlannedGroup, PlannedOffset

__all__ = [
    "PLANNED_GROUPS",
    "PLANNED_OFFSETS",
    "RESULTS",
    "PlannedOffsetRow",
    "planned_offset_rows",
]


def _result_style(result: Any) -> str | None:
    return {"done": "green", "unchanged": "dim", "refused": "yellow"}.get(result, "red")


PLANNED_GROUPS: Final[Listing[PlannedGroup]] = Listing(
    "planned-groups",
    "A plan to delete groups, one per row.",
    (
        GROUP,
        STATE,
        TYPE,
        Column(
            "offsets",
            "integer",
            "How many committed offsets would go with it.",
            lambda each: None if each.offsets is None else len(each.offsets),
            nullable=True,
        ),
        declared(TOTAL_LAG, lambda each: each.lag, show="wide", nullable=True, heading="LAG"),
        declared(
            LAST_COMMIT.here("When it last committed, if that was asked for."),
            lambda each: (
                None
                if each.last_commit_at is None
                else timestamp(round(each.last_commit_at.timestamp() * 1000))
            ),
            nullable=True,
            heading="LAST-COMMIT-AT",
        ),
        Column(
            "note",
            "string",
            "What stands in the way.",
            lambda each: each.note or None,
            nullable=True,
            sparse=True,
        ),
    ),
)


@dataclass(frozen=True)
class PlannedOffsetRow:
    """A partition of a plan; none at all if the group cannot be planned for."""

    group: str
    state: str | None
    offset: PlannedOffset | None
    note: str


def planned_offset_rows(groups: Iterable[PlannedGroup]) -> Iterator[PlannedOffsetRow]:
    for group in groups:
        for each in group.offsets or ():
            yield PlannedOffsetRow(group.group, group.state, each, each.note)
        if not group.offsets:
            yield PlannedOffsetRow(group.group, group.state, None, group.note)


def _planned(name: str) -> Any:
    return lambda row: getattr(row.offset, name, None)


PLANNED_OFFSETS: Final[Listing[PlannedOffsetRow]] = Listing(
    "planned-offsets",
    "A plan to change offsets, one partition per row.",
    (
        GROUP,
        declared(TOPIC, _planned("topic"), nullable=True),
        declared(PARTITION, _planned("partition"), nullable=True),
        Column("current", "integer", "What is committed now.", _planned("current"), nullable=True),
        Column(
            "target",
            "integer",
            "What would be committed.",
            _planned("target"),
            nullable=True,
            sparse=True,
        ),
        Column(
            "note",
            "string",
            "What is odd about it.",
            lambda row: row.note or None,
            nullable=True,
            sparse=True,
        ),
    ),
)

RESULTS: Final[Listing[Outcome]] = Listing(
    "results",
    "What became of each item of a plan.",
    (
        GROUP,
        declared(TOPIC, lambda each: each.topic, nullable=True, sparse=True),
        declared(PARTITION, lambda each: each.partition, nullable=True, sparse=True),
        Column(
            "before",
            "integer",
            "The offset before.",
            lambda each: each.before,
            nullable=True,
            sparse=True,
        ),
        Column(
            "after",
            "integer",
            "The offset now.",
            lambda each: each.after,
            nullable=True,
            sparse=True,
        ),
        Column(
            "result",
            "string",
            "done, unchanged, refused (it is not as the plan has it), or failed.",
            lambda each: each.result,
            style=_result_style,
        ),
        Column(
            "detail",
            "string",
            "Why, or what.",
            lambda each: each.detail or None,
            nullable=True,
            sparse=True,
        ),
    ),
)
