"""What a person sees while long work runs: one line per step on a terminal's stderr, nothing elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.status import Status

__all__ = ["Progress"]

_POLL_SECONDS: Final = 0.5


class Progress:
    """Steps of a command. `watch` gives (done, total) of what runs inside a step, if anybody knows."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._shown = not quiet and sys.stderr.isatty()
        self.watch: Callable[[], tuple[int, int] | None] | None = None

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Show that something is under way, and how long it took when it is done."""
        if not self._shown:
            yield
            return
        from rich.console import Console  # noqa: PLC0415  (rich is slow to import; only terminals want it)

        console = Console(stderr=True)
        start = perf_counter()
        done = threading.Event()
        with console.status(f"{what} ...", spinner="dots") as status:
            watcher = threading.Thread(
                target=self._follow, args=(what, status, done, start), daemon=True
            )
            watcher.start()
            try:
                yield
            finally:
                done.set()
                watcher.join()
        console.print(f"[green]✓[/] {what} [dim]({perf_counter() - start:.1f} s)[/]")

    def _follow(self, what: str, status: Status, done: threading.Event, start: float) -> None:
        while not done.wait(_POLL_SECONDS):
            seen = self.watch() if self.watch is not None else None
            tasks = f" {seen[0]} of {seen[1]} tasks," if seen and seen[1] else ""
            status.update(f"{what} ...{tasks} {perf_counter() - start:.0f} s")
