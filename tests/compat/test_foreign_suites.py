"""The test suites of franz-go, sarama and kafka-go pass on our cluster, but for the differences listed.

The lists are tests/compat/suites/expected/*.toml. `make test` runs a short form of each suite; `make suites`
runs all of it, and `make suites ON=kafka` runs it on Apache Kafka 4.3.0 to verify the lists.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.compat.programs import require_built
from tests.compat.suites.catalog import EXPECTED, SUITES, find_suite, find_toxiproxy
from tests.compat.suites.results import (
    differences,
    expected_outcomes,
    parse_results,
    unfinished_test,
)
from tests.compat.suites.run import run_suite
from tests.compat.suites.servers import COTERIE, KAFKA
from tests.kit.plugin import require_kafka

#: `short` inside `make test`, `whole` in `make suites`.
FORM = os.environ.get("COTERIE_SUITES", "short")
SERVER = os.environ.get("COTERIE_SUITES_ON") or COTERIE


@pytest.mark.parametrize("name", SUITES)
def test_suite_differs_only_as_listed(name: str, tmp_path: Path) -> None:
    suite = SUITES[name]
    require_built(name, find_suite(suite))
    if suite.proxied:
        require_built("toxiproxy", find_toxiproxy())
    if SERVER == KAFKA:
        require_kafka()
    run = run_suite(suite, SERVER, FORM, tmp_path / f"{name}.log")
    expected = expected_outcomes(EXPECTED / f"{name}.toml", SERVER)
    found = differences(run.results, expected, run.tests, whole=FORM == "whole")
    assert run.tests, f"no test of {name} was selected"
    assert not found, f"{len(found)} differences, see {run.log}:\n" + "\n".join(found)


OUTPUT = """
=== RUN   TestA
--- PASS: TestA (0.01s)
--- FAIL: TestB (0.20s)
    --- PASS: TestB/good (0.00s)
    --- FAIL: TestB/bad (0.20s)
--- SKIP: TestC (0.00s)
"""


def _differences(expected: dict[str, str], *tests: str, whole: bool = True) -> list[str]:
    return differences(parse_results(OUTPUT), expected, tests, whole=whole)


def test_the_test_that_panicked() -> None:
    assert unfinished_test(OUTPUT) is None
    assert unfinished_test(f"{OUTPUT}=== RUN   TestD\n=== RUN   TestD/a\npanic: x") == "TestD"


def test_a_list_that_agrees() -> None:
    assert (
        _differences({"TestB/bad": "failed", "TestC": "skipped"}, "TestA", "TestB", "TestC") == []
    )


def test_a_failure_that_is_not_listed() -> None:
    assert _differences({"TestC": "skipped"}) == ["TestB/bad: failed, expected: passed"]


def test_a_skip_that_is_not_listed() -> None:
    assert _differences({"TestB/bad": "failed"}) == ["TestC: skipped, expected: passed"]


def test_a_listed_failure_that_passes() -> None:
    listed = {"TestA": "failed", "TestB/bad": "failed", "TestC": "skipped"}
    assert _differences(listed) == ["TestA: passed, expected: failed"]


def test_an_unstable_test_may_have_any_outcome() -> None:
    listed = {"TestA": "unstable", "TestB/bad": "unstable", "TestC": "skipped", "TestD": "unstable"}
    assert _differences(listed) == []


def test_a_test_without_a_result() -> None:
    listed = {"TestB/bad": "failed", "TestC": "skipped"}
    assert _differences(listed, "TestA", "TestD") == ["TestD: no result"]


def test_a_listed_test_that_is_gone() -> None:
    listed = {"TestB/bad": "failed", "TestC": "skipped", "TestD": "failed"}
    assert _differences(listed) == ["TestD: in the list, and has no result"]
    assert _differences(listed, whole=False) == []
