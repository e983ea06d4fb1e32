"""No test may leave a secret in its output: passwords of tests end with a marker, and reports are searched.

A pytest plugin, named in tests/conftest.py. It looks at what every test of the suite printed and logged.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

import pytest

__all__ = ["MARKER", "leaks"]

#: The end of every password, token and key that a test makes up.
MARKER = "-" + "hush"


def leaks(sections: Iterable[tuple[str, str]], when: str) -> list[str]:
    """Which of the captured sections of a phase of a test have a secret in them."""
    return [name for name, text in sections if name.endswith(when) and MARKER in text]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
    call: pytest.CallInfo[Any],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    shown = leaks(report.sections, call.when)
    if shown and report.outcome == "passed":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} left a secret in: {', '.join(shown)}"
    return report
