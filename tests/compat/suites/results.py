"""Results of a Go test binary, and their comparison with the list of expected differences.

A list is a TOML file for each suite with the tables `failed`, `skipped` and `unstable` for `coterie` and for
`kafka`: name of the test to the reason. A list is exact. A test that fails and is not in it, a test in it
that passes, and a test without a result are all errors. Only an unstable test, whose outcome depends on a
race in the test itself, may have any outcome.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["differences", "expected_outcomes", "parse_results", "unfinished_test"]

_RESULT = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \(", re.MULTILINE)
_STARTED = re.compile(r"^=== (?:RUN|CONT|NAME) +(Test[^/\s]+)", re.MULTILINE)
_UNSTABLE = "unstable"
_OUTCOMES = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


def parse_results(output: str) -> dict[str, str]:
    """Each test and subtest with its outcome: passed, failed or skipped."""
    return {name: _OUTCOMES[word] for word, name in _RESULT.findall(output)}


def unfinished_test(output: str) -> str | None:
    """The test that ran when the program ended, if it has no result: the one that panicked."""
    started = _STARTED.findall(output)
    return started[-1] if started and started[-1] not in parse_results(output) else None


def expected_outcomes(path: Path, server: str) -> dict[str, str]:
    """The tests of a list, with `failed`, `skipped` or `unstable`."""
    listed = tomllib.loads(path.read_text(encoding="utf-8")).get(server, {})
    outcomes = ("failed", "skipped", _UNSTABLE)
    return {name: outcome for outcome in outcomes for name in listed.get(outcome, {})}


def differences(
    results: Mapping[str, str], expected: Mapping[str, str], tests: Iterable[str], *, whole: bool
) -> list[str]:
    """One line for each disagreement between the results and the list.

    `tests` are the names that have to have a result. With `whole`, every entry of the list has to appear.
    """
    found = [f"{name}: no result" for name in tests if name not in results]
    leaves = _leaves(results)
    for name, outcome in sorted(leaves.items()):
        if expected.get(name, "passed") not in (outcome, _UNSTABLE):
            found.append(f"{name}: {outcome}, expected: {expected.get(name, 'passed')}")
    if whole:
        found += [
            f"{name}: in the list, and has no result"
            for name, outcome in expected.items()
            if name not in leaves and outcome != _UNSTABLE
        ]
    return found


def _leaves(results: Mapping[str, str]) -> dict[str, str]:
    """Without tests that fail only because one of their subtests does."""
    failed = [name for name, outcome in results.items() if outcome == "failed"]
    parents = {parent for name in failed for parent in _parents(name)}
    return {name: outcome for name, outcome in results.items() if name not in parents}


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]
