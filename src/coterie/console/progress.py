"""Progress: a bar on standard error for what takes longer than a second, on a terminal only."""

from __future__ import annotations

import asyncio
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from coterie.console.terminal import is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

__all__ = ["Progress"]

_PATIENCE_SECONDS: Final = 1.0


class Progress:
    """Use as `async with`; whoever works calls `advance`. Without a total it only shows that work goes on.

    One bar is shown at a time: inside of another one, that of the inner work.
    """

    _open: list[Progress] = []  # noqa: RUF012 - there is one terminal

    def __init__(self, title: str, total: int | None = None) -> None:
        self._title = title
        self._total = total
        self._done = 0
        self._shown: tuple[Bar, TaskID] | None = None
        self._waiting: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        if self._open:
            self._open[-1].hide()
        self._open.append(self)
        self.wait()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.hide()
        self._open.remove(self)
        if self._open:
            self._open[-1].wait()

    def advance(self, count: int = 1) -> None:
        self._done += count
        if self._shown is not None:
            self._shown[0].update(self._shown[1], completed=self._done)

    def expect(self, total: int) -> None:
        """The total became known."""
        self._total = total
        if self._shown is not None:
            self._shown[0].update(self._shown[1], total=total)

    def wait(self) -> None:
        if is_terminal(sys.stderr):
            loop = asyncio.get_running_loop()
            self._waiting = loop.call_later(_PATIENCE_SECONDS, self._show)

    def _show(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - what is quick needs no bar
        from rich.progress import Progress as Bar  # noqa: PLC0415

        bar = Bar(console=Console(stderr=True), transient=True)
        task = bar.add_task(self._title, total=self._total, completed=self._done)
        bar.start()
        self._shown = (bar, task)

    def hide(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        if self._shown is not None:
            self._shown[0].stop()
            self._shown = None
