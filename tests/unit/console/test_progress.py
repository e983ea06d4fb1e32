"""Bars and steps on a terminal, and silence everywhere else."""

from __future__ import annotations

import io
import threading
from contextlib import redirect_stderr

import pytest

from coterie.console import progress
from coterie.console.progress import Progress, StepProgress


class Terminal(io.StringIO):
    """A terminal, as far as Python can tell."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal on which bars are shown at once."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0)
    monkeypatch.setattr(progress, "_POLL_SECONDS", 0.001)
    return Terminal()


class Polled:
    """What is done of some work; `wait` returns when it was asked for often enough to be shown."""

    def __init__(self) -> None:
        self._calls = 0
        self._enough = threading.Event()

    def __call__(self) -> tuple[int, int]:
        self._calls += 1
        if self._calls > 2:
            self._enough.set()
        return (3, 12)

    def wait(self) -> None:
        assert self._enough.wait(30)


def test_a_bar_is_shown_and_erased(terminal: Terminal) -> None:
    polled = Polled()
    with redirect_stderr(terminal), Progress("Counting sheep", poll=polled):
        polled.wait()
    assert "Counting sheep" in terminal.getvalue()
    assert "25%" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")  # the line is empty again


def test_inside_of_another_a_bar_is_alone(terminal: Terminal) -> None:
    outer, inner = Polled(), Polled()
    with redirect_stderr(terminal), Progress("Outer", poll=outer) as bar:
        outer.wait()
        with Progress("Inner", poll=inner):
            shown = len(terminal.getvalue())
            inner.wait()
            assert "Outer" not in terminal.getvalue()[shown:]
            assert "Inner" in terminal.getvalue()[shown:]
        shown = len(terminal.getvalue())
        bar.expect(5)
        bar.advance(2)
    assert "Inner" not in terminal.getvalue()[shown:]
    assert not Progress._open


def test_a_step_leaves_a_line_when_it_is_done(terminal: Terminal) -> None:
    steps = StepProgress()
    steps.poll = polled = Polled()
    with redirect_stderr(terminal), steps.step("Making marts"):
        polled.wait()
    assert "25%" in terminal.getvalue()
    last = terminal.getvalue().rpartition("✓")[2]
    assert last.startswith(" Making marts (")
    assert last.endswith(" s)\n")


def test_a_step_that_fails_leaves_none(terminal: Terminal) -> None:
    step = StepProgress().step("Making marts")
    with pytest.raises(ValueError, match="trouble"), redirect_stderr(terminal), step:
        raise ValueError("trouble")
    assert "✓" not in terminal.getvalue()


def test_quiet_steps_show_nothing(terminal: Terminal) -> None:
    with redirect_stderr(terminal), StepProgress(quiet=True).step("Making marts"):
        pass
    assert terminal.getvalue() == ""


def test_nothing_is_shown_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0)
    with StepProgress().step("Making marts"), Progress("Counting", 3) as bar:
        bar.advance()
    assert capsys.readouterr().err == ""
