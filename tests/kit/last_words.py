"""What a test wants to be read at the end of the run, whichever worker it ran in.

A pytest plugin, named in tests/conftest.py. A test says it with record_property(LAST_WORDS, "...").
"""

from __future__ import annotations

from typing import Final

import pytest

__all__ = ["LAST_WORDS"]

LAST_WORDS: Final = "last words"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.stats.get("passed", []):
        for name, text in report.user_properties:
            if name == LAST_WORDS:
                terminalreporter.write_line(text)
