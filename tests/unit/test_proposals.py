"""docs/proposals.md, held to its word: well-formed rows, ids used once, modules and proofs that exist.

What this is: a reader of the document's tables, and of the test files they name.
What this is not: a run of those tests, nor a judgement of whether they prove their row.
Who calls it: pytest.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter

import pytest

from tests.kit.named_tests import REPOSITORY, must_exist

DOCUMENT = REPOSITORY / "docs" / "proposals.md"
PROPOSALS = ("KIP-40", "KIP-181", "KIP-229", "KIP-518", "KIP-699")
COLUMNS = ("id", "requirement", "where", "proof", "Apache Kafka today")
NO_PROOF = "—"
ROW_ID = re.compile(r"(KIP-\d+)\.(\d+)")
MODULE = re.compile(r"`(coterie(?:\.\w+)+)`")


def table_lines() -> list[tuple[str, ...]]:
    """The cells of every line of a table, headings and the dashes below them included."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    return [
        tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
        for line in lines
        if line.lstrip().startswith("|")
    ]


def rows() -> list[dict[str, str]]:
    """The rows that have the right number of cells, by the names of their columns."""
    return [
        dict(zip(COLUMNS, cells, strict=True))
        for cells in table_lines()
        if len(cells) == len(COLUMNS) and cells != COLUMNS and set(cells[0]) != {"-"}
    ]


def named_tests() -> list[str]:
    proofs = {proof for row in rows() for proof in row["proof"].split("<br>")}
    return sorted(proofs - {NO_PROOF})


def test_every_line_of_a_table_has_all_cells() -> None:
    wrong = [cells for cells in table_lines() if len(cells) != len(COLUMNS) or not all(cells)]
    assert wrong == []


def test_every_proposal_has_its_table() -> None:
    assert table_lines().count(COLUMNS) == len(PROPOSALS)
    assert {row["id"].partition(".")[0] for row in rows()} == set(PROPOSALS)


def test_every_row_has_an_id_of_its_own() -> None:
    ids = Counter(row["id"] for row in rows())
    assert [name for name in ids if not ROW_ID.fullmatch(name)] == []
    assert [name for name, times in ids.items() if times > 1] == []


@pytest.mark.parametrize("proof", named_tests())
def test_every_named_test_exists(proof: str) -> None:
    must_exist(proof)


def named_modules() -> list[str]:
    return sorted({where for row in rows() for where in row["where"].split("<br>")})


@pytest.mark.parametrize("where", named_modules())
def test_every_named_module_exists(where: str) -> None:
    match = MODULE.fullmatch(where)
    assert match, f"{where} is not a module's name in backquotes"
    importlib.import_module(match[1])


def test_no_row_names_a_module_twice() -> None:
    wheres = {row["id"]: row["where"].split("<br>") for row in rows()}
    assert [name for name, where in wheres.items() if len(set(where)) < len(where)] == []
