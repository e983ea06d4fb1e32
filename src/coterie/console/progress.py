"""Progress: a bar on standard error for work that takes longer than a second, on a terminal only."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from types import TracebackType
from typing import Final, Self

from coterie.console.terminal import has_unicode, is_screen, is_terminal, note

__all__ = ["Progress", "StepProgress"]

_PATIENCE_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.25


class Progress:
    """Use as `with`; the work calls `advance`. Without a total the bar only shows that work is under way.

    One bar is shown at a time: inside of another one, that of the inner work. `poll` is called now and then
    and returns what is done and the total, if it is known.
    """

    _open: list[Progress] = []  # noqa: RUF012 - there is one terminal
    _screen_is_used = False

    def __init__(
        self,
        title: str,
        total: int | None = None,
        *,
        poll: Callable[[], tuple[int, int] | None] | None = None,
    ) -> None:
        self._title = title
        self._total = total
        self._done = 0
        self._poll = poll
        self._hidden = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._open:
            self._open[-1].hide()
        self._open.append(self)
        self.show_later()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.hide()
        self._open.remove(self)
        if self._open:
            self._open[-1].show_later()

    def advance(self, count: int = 1) -> None:
        self._done += count

    def expect(self, total: int) -> None:
        """The total became known."""
        self._total = total

    @classmethod
    @contextmanager
    def under_screen(cls) -> Iterator[None]:
        """No bars while a command draws on the whole terminal."""
        cls._screen_is_used = True
        try:
            yield
        finally:
            cls._screen_is_used = False

    def show_later(self) -> None:
        """Show the bar if the work is not done in a second."""
        if is_screen(sys.stderr) and not self._screen_is_used:
            self._hidden = threading.Event()
            self._thread = threading.Thread(target=self._show, args=(self._hidden,), daemon=True)
            self._thread.start()

    def hide(self) -> None:
        """Erase the bar, before anything else is written."""
        self._hidden.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _show(self, hidden: threading.Event) -> None:
        """In a thread: the work may be synchronous, asynchronous, or in other processes."""
        if hidden.wait(_PATIENCE_SECONDS):
            return
        from rich.console import Console
        from rich.progress import Progress as Bar

        if hidden.is_set():
            return
        with Bar(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(self._title, total=None)
            while True:
                if self._poll is not None and (seen := self._poll()) is not None:
                    self._done, self._total = seen
                bar.update(task, completed=self._done, total=self._total or None, refresh=True)
                if hidden.wait(_POLL_SECONDS):
                    return


class StepProgress:
    """The steps of a long command: a bar for each, and on a terminal a line with the time it took.

    `poll` returns what is done and the total of the work inside a step, such as Spark's tasks.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self.poll: Callable[[], tuple[int, int] | None] | None = None

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Show that a step is under way, and how long it took when it is done."""
        if self._quiet or not is_terminal(sys.stderr):
            yield
            return
        began = perf_counter()
        with Progress(what, poll=lambda: self.poll() if self.poll is not None else None):
            yield
        mark = "✓ " if has_unicode(sys.stderr) else ""
        note(f"{mark}{what} ({perf_counter() - began:.1f} s)")
