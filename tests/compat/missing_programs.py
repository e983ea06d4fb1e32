"""Says at the end of a run which clients could not be had, as the kit does for Apache Kafka.

A pytest plugin, named in tests/conftest.py: a run with workers looks at no other conftest.py than that.
"""

from __future__ import annotations

import re

import pytest

from tests.compat.programs import REASON


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    line = not_run_line(terminalreporter.stats.get("skipped", []))
    if line is not None:
        terminalreporter.write_line("")
        terminalreporter.write_line(line, red=True, bold=True)


def not_run_line(skipped: list[pytest.TestReport]) -> str | None:
    """The one line about tests that did not run for want of a client, or None if there are none."""
    reasons: dict[str, None] = {}
    tests = 0
    for report in skipped:
        said = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        if found := re.search(f"{REASON}: (.*)", said, re.DOTALL):
            reasons[found.group(1).strip()] = None
            tests += 1
    if not tests:
        return None
    count = "1 test needs" if tests == 1 else f"{tests} tests need"
    return (
        f"NOT RUN: {count} a client in another language: {'; '.join(reasons)}"
        " (COTERIE_REQUIRE_CLIENTS=1 makes this a failure)"
    )
