"""No test may leave a secret behind: passwords of tests end with a marker, and what tests leave is searched.

A pytest plugin, named in tests/conftest.py. It looks at what every test of the suite printed and logged, and
in the end at the pages, plans, documents and logs that programs have written to the tests' directories.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

__all__ = ["MARKER", "leaks", "leaky_files"]

#: The end of every password, token and key that a test makes up.
MARKER = "-" + "hush"
_PRIVATE_KEY = "PRIVATE KEY" + "-----"
#: What is written to be read; properties, users and keys that tests make for a program are not among it.
_READABLE = {".html", ".json", ".jsonl", ".log", ".out", ".txt", ".csv", ".yaml", ".md"}
_OUTPUTS = {"stdout", "stderr"}  # so Spark calls what its executors say


def _tells(text: str) -> bool:
    return MARKER in text or _PRIVATE_KEY in text


def leaks(sections: Iterable[tuple[str, str]], when: str) -> list[str]:
    """Which of the captured sections of a phase of a test have a secret in them."""
    return [name for name, text in sections if name.endswith(when) and _tells(text)]


def leaky_files(directory: Path) -> list[str]:
    """Which files below have a secret in them."""
    return [
        str(path)
        for path in directory.rglob("*")
        if (path.suffix in _READABLE or path.name in _OUTPUTS)
        and path.is_file()
        and _tells(path.read_text(encoding="utf-8", errors="replace"))
    ]


@pytest.fixture(scope="session", autouse=True)
def _no_secret_in_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """After all tests and all other fixtures: this one was there first."""
    yield
    shown = leaky_files(tmp_path_factory.getbasetemp())
    assert not shown, f"a secret is in: {', '.join(shown)}"


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
