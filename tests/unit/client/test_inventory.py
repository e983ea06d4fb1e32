"""docs/admin-tests.md, held to its word: every case of Kafka's names a test of ours that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit.named_tests import names_in

REPOSITORY = Path(__file__).parents[3]
PAGE = REPOSITORY / "docs" / "admin-tests.md"
ROW = re.compile(r"\| (?P<case>[^|]+) \| `(?P<path>tests/[\w/]+\.py)::(?P<test>\w+)` \|")
HEADS = ("| Kafka's case | our test |", "|---|---|")


def rows() -> list[str]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("|") and line not in HEADS]


@pytest.mark.parametrize("row", rows())
def test_every_case_has_a_test_that_exists(row: str) -> None:
    match = ROW.fullmatch(row)
    assert match, "a case, and one test's node id in backquotes"
    path = REPOSITORY / match["path"]
    assert match["test"] in names_in(path), f"{match['path']} has no {match['test']}"


def test_no_case_is_written_twice() -> None:
    found = rows()
    assert len(set(found)) == len(found)
