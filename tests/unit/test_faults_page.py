"""docs/faults.md: every fault has a row, and every row names tests that exist."""

from __future__ import annotations

import re

import pytest

from tests.kit.named_tests import REPOSITORY, must_exist

ROWS = re.findall(
    r"^\| (F\d\d) \| .+ \| (.+) \|$",
    (REPOSITORY / "docs" / "faults.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
#: The web service is not built yet.
NO_PROOF = {"F72"}


def test_all_72_faults_are_listed_in_order() -> None:
    assert [fault for fault, _ in ROWS] == [f"F{number:02}" for number in range(1, 73)]


@pytest.mark.parametrize(
    ("fault", "proof"),
    [(fault, each) for fault, proofs in ROWS for each in proofs.split("<br>")],
)
def test_every_fault_names_tests_that_exist(fault: str, proof: str) -> None:
    if fault in NO_PROOF:
        assert proof == "—"
    else:
        must_exist(proof)
