"""Reset plans as CSV: what `--export` writes and `--from-file` reads. Pure.

Written by Kafka's CSV writer, so a name with a comma, a quote or a line break stands in quotes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from coterie.cli.consumer_groups.java import Throwable, runtime
from coterie.client import TopicPartition

__all__ = ["Plan", "export", "parse_plan"]

#: Offsets by group and partition.
Plan = dict[str, dict[TopicPartition, int]]

_INVALID = "com.fasterxml.jackson.databind.exc.InvalidFormatException"


def export(plan: Mapping[str, Mapping[TopicPartition, int]], *, with_group: bool) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group, offsets in plan.items():
        for partition, offset in offsets.items():
            row = [partition.topic, partition.partition, offset]
            writer.writerow([group, *row] if with_group else row)
    return text.getvalue()


def parse_plan(text: str, groups: list[str]) -> Plan:
    """The plan in a file: three columns for a single group, else four with the group first.

    Columns that are missing are empty or 0, as Kafka's reader has it.
    """
    rows = [next(csv.reader([line]), []) for line in text.rstrip("\n").split("\n")]
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
