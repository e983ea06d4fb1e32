"""Reset plans as CSV: what `--export` writes and `--from-file` reads. Pure.

Quotes are where Kafka's CSV writer (Jackson's) puts them.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Final

from coterie.cli.consumer_groups.java import Throwable, runtime
from coterie.client import TopicPartition

__all__ = ["Plan", "export", "parse_plan"]

#: Offsets by group and partition.
Plan = dict[str, dict[TopicPartition, int]]

#: Jackson quotes longer texts without a look.
_LOOKED_THROUGH: Final = 24
_INVALID: Final = "com.fasterxml.jackson.databind.exc.InvalidFormatException"
_NOTHING: Final = "com.fasterxml.jackson.databind.exc.MismatchedInputException"
_NO_CONTENT: Final = (
    "No content to map due to end-of-input\n"
    " at [Source: (StringReader); line: UNKNOWN, column: UNKNOWN]"
)


def export(plan: Mapping[str, Mapping[TopicPartition, int]], *, with_group: bool) -> str:
    rows: list[str] = []
    for group, offsets in plan.items():
        start = f"{_quoted(group)}," if with_group else ""
        rows += [
            f"{start}{_quoted(each.topic)},{each.partition},{offset}\n"
            for each, offset in offsets.items()
        ]
    return "".join(rows)


def _quoted(text: str) -> str:
    """Kafka's writer does not look through long texts, and is wary of all that sorts before a comma."""
    if len(text) <= _LOOKED_THROUGH and not any(each <= "," or each == "\\" for each in text):
        return text
    return '"' + text.replace('"', '""') + '"'


def parse_plan(text: str, groups: list[str]) -> Plan:
    """The plan in a file: three columns for a single group, else four with the group first.

    Columns that are missing are empty or 0, as Kafka's reader has it.
    """
    lines = text.rstrip("\n").split("\n")
    if not all(lines):
        raise runtime(Throwable(_NOTHING, _NO_CONTENT))
    rows = [next(csv.reader([line]), []) for line in lines]
    plan: Plan = {}
    single = len(groups) == 1 and _fits(rows[0])
    for row in rows:
        group, *cells = [groups[0], *row] if single else (row or [""])
        topic, partition, offset = [*cells, "", "", ""][:3]
        place = TopicPartition(topic, _number(partition, "int"))
        plan.setdefault(group, {})[place] = _number(offset, "long")
    return plan


def _fits(row: list[str]) -> bool:
    """Whether the first line is of the three-column kind."""
    return len(row) <= 3 and all(not each or _is_number(each) for each in row[1:3])  # noqa: PLR2004


def _is_number(text: str) -> bool:
    digits = text.strip().lstrip("+-")
    return digits.isdecimal()


def _number(text: str, kind: str) -> int:
    if not text:
        return 0
    if not _is_number(text):
        raise runtime(
            Throwable(
                _INVALID,
                f'Cannot deserialize value of type `{kind}` from String "{text}": '
                f"not a valid `{kind}` value",
            )
        )
    return int(text)
