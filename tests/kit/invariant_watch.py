"""Holds the twelve promises of tests.kit.invariants after every test, whatever the test is about.

A pytest plugin, named in tests/conftest.py. It puts the watches of this kit in place and, when a test and its
fixtures have ended, fails the test for every promise that was broken meanwhile. A test that breaks one on
purpose says which and why:

    @pytest.mark.breaks("I9", reason="a handler raises, to see that the server lives")
"""

from __future__ import annotations

import resource
from collections.abc import Generator
from typing import Any, Final

import pytest

from tests.kit import client_watch, coordinator_watch, log_watch, server_watch
from tests.kit.broken_promises import BROKEN, BrokenPromises
from tests.kit.coordinator_watch import COORDINATORS
from tests.kit.server_watch import SERVERS

#: I10: what a test with a coordinator in it may add to the memory of the process, in KiB.
_MEMORY: Final = 512 * 1024

coordinator_watch.install()
server_watch.install()
client_watch.install()
log_watch.install()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "breaks(*numbers, reason): breaks promises on purpose, such as I9"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    expected: set[str] = set()
    for mark in item.iter_markers("breaks"):
        assert mark.kwargs.get("reason"), f"{item.nodeid} does not say why it breaks {mark.args}"
        expected.update(mark.args)
    BROKEN.expect(expected)
    before = _peak()
    COORDINATORS.steps = 0
    item.stash[_BEFORE] = before
    return (yield)


_BEFORE = pytest.StashKey[int]()


def _peak() -> int:
    """The most memory that the process has had, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def check_memory(before: int, now: int, broken: BrokenPromises) -> None:
    """I10: whatever one client sends, memory stays within its budget."""
    if now - before > _MEMORY:
        broken.add(f"I10: the test took {(now - before) // 1024} MiB of memory")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    yield
    SERVERS.check()
    COORDINATORS.check()
    if COORDINATORS.steps:
        check_memory(item.stash[_BEFORE], _peak(), BROKEN)
    broken = BROKEN.take()
    if broken:
        pytest.fail("promises were broken:\n  " + "\n  ".join(broken), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[Any],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    shown = log_watch.tracebacks(report.sections, call.when)
    if shown and report.outcome == "passed":
        BROKEN.add(f"I9: there is a traceback in {', '.join(shown)}")
        for text in BROKEN.take():
            report.outcome = "failed"
            report.longrepr = text
    return report
