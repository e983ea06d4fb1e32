"""Runs one suite on a cluster of its own and writes the results as JSON: `python -m tests.compat.suites.run`.

A process of its own, because it runs in a network of its own (network.py).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.compat.suites.catalog import SUITES, Suite, find_suite
from tests.compat.suites.network import bring_up_loopback, isolated
from tests.compat.suites.results import parse_results, unfinished_test
from tests.compat.suites.servers import SERVERS
from tests.kit import processes

__all__ = ["SuiteRun", "run_suite"]

_ALL: Final = "^Test"
_ROOT: Final = Path(__file__).parents[3]
#: A test that hangs ends the suite after this time; the tests after it then have no result.
_TIMEOUT_S: Final = {"short": 300, "whole": 3600}


@dataclass(frozen=True)
class SuiteRun:
    """What a run of a suite returned."""

    #: Outcome by name of the test or subtest.
    results: dict[str, str]
    #: The tests that were to run.
    tests: list[str]
    log: Path


def run_suite(suite: Suite, server: str, form: str, log: Path) -> SuiteRun:
    """Run the suite in a child process, with its output in `log`; form is `short` or `whole`."""
    command = [sys.executable, "-m", "tests.compat.suites.run", suite.name, server, form, str(log)]
    run = subprocess.run(
        processes.tethered(isolated(command)),
        check=False,
        cwd=_ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, f"{suite.name} did not run on {server}: {run.stderr[-3000:]}"
    answer = json.loads(run.stdout)
    return SuiteRun(answer["results"], answer["tests"], log)


def _main() -> None:
    parser = argparse.ArgumentParser(description="Run the tests of another project on a cluster.")
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("server", choices=SERVERS)
    parser.add_argument("form", choices=_TIMEOUT_S)
    parser.add_argument("log", type=Path)
    parser.add_argument("--run", help="tests to run, a regular expression of Go")
    asked = parser.parse_args()
    bring_up_loopback()
    suite = SUITES[asked.suite]
    with (
        tempfile.TemporaryDirectory(prefix=f"coterie-suite-{suite.name}-") as home,
        SERVERS[asked.server](suite, Path(home)),
    ):
        print(json.dumps(_run_tests(suite, asked.form, asked.log, asked.run)))


def _run_tests(suite: Suite, form: str, log: Path, pattern: str | None) -> dict[str, object]:
    home = find_suite(suite)
    assert isinstance(home, Path), home
    short = form == "short"
    environment = {**os.environ, **suite.environment, **(suite.short_environment if short else {})}
    if pattern is None:
        pattern = f"^({'|'.join(suite.short)})$" if short else _ALL
    program = [str(home / "program"), f"-test.timeout={_TIMEOUT_S[form]}s"]
    listed = subprocess.run(
        [*program, f"-test.list={pattern}"],
        check=True,
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
    )
    tests = [line for line in listed.stdout.splitlines() if line.startswith("Test")]
    results: dict[str, str] = {}
    missing = tests
    log.write_text("", encoding="utf-8")
    while missing:
        # A panic ends the program: that test has failed, and the tests after it are started again.
        with log.open("ab") as output:
            subprocess.run(
                [*program, "-test.v", f"-test.run=^({'|'.join(missing)})$"],
                check=False,
                cwd=home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        text = log.read_text(encoding="utf-8", errors="replace")
        results |= parse_results(text)
        panicked = unfinished_test(text)
        if panicked is not None:
            results[panicked] = "failed"
        before, missing = missing, [name for name in tests if name not in results]
        if len(missing) == len(before):
            break
    return {"results": results, "tests": tests}


if __name__ == "__main__":
    _main()
