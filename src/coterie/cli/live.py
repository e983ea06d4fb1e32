"""A table that is redrawn in place, and the keys that sort, filter and end it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from coterie.cli.selection import Missing
from coterie.console.output import Format, Listing
from coterie.console.progress import Progress
from coterie.console.rendering import cell
from coterie.console.terminal import has_colour, has_unicode
from coterie.errors import CoterieError
from coterie.safe_text import shown

__all__ = ["Screen", "draw"]

_HELP: Final = "q quit  s sort  r reverse  / filter  space pause"
_ENTER: Final = ("\r", "\n")
_ERASE: Final = ("\x7f", "\b")
_ESCAPE: Final = "\x1b"
#: After these, too, the terminal has to be as it was.
_ENDINGS: Final = (signal.SIGTERM, signal.SIGHUP)
#: Lines that are not rows: title, gap, header, gap, help.
_AROUND: Final = 6
#: Spaces between two columns.
_GAP: Final = 2
#: Columns that may be long; the others are numbers and words of ours.
_NAMES: Final = frozenset({"group_id", "topic", "client_id"})


class Rounds(Protocol):
    """How often, and how many times; None is without an end."""

    @property
    def interval(self) -> float: ...

    @property
    def count(self) -> int | None: ...


Sample = Callable[[], Awaitable[tuple[list[Any], Missing]]]


class Screen:
    """What is on the screen, and what keys make of it."""

    def __init__(self, listing: Listing[Any], form: Format, title: str) -> None:
        self._listing = listing
        self._columns = [each for each in listing.chosen(form) if each.name != "at"]
        self._title = title
        first = (form.sort or listing.sort)[0]
        self._sort = first.lstrip("-")
        self._down = first.startswith("-")
        self._chosen = bool(form.sort)
        self.filter = ""
        self.editing = False
        self.paused = False
        self.ended = False
        self.exit_code = 0
        self.rows: list[Any] = []
        self.trouble = ""

    # -- keys -----------------------------------------------------------------------------------------

    def press(self, key: str) -> None:
        """One key."""
        if self.editing:
            self._edit(key)
        elif key in ("q", "Q", "\x03"):
            self.ended = True
        elif key == "s":
            names = [each.name for each in self._columns]
            at = names.index(self._sort) if self._sort in names else -1
            self._sort, self._chosen = names[(at + 1) % len(names)], True
        elif key == "r":
            self._down, self._chosen = not self._down, True
        elif key == "/":
            self.editing = True
        elif key == " ":
            self.paused = not self.paused
        elif key == _ESCAPE:
            self.filter = ""

    def _edit(self, key: str) -> None:
        if key in _ENTER:
            self.editing = False
        elif key == _ESCAPE:
            self.editing, self.filter = False, ""
        elif key == "\x03":
            self.ended = True
        elif key in _ERASE:
            self.filter = self.filter[:-1]
        elif key.isprintable():
            self.filter += key

    # -- drawing --------------------------------------------------------------------------------------

    def visible(self) -> list[Any]:
        """The rows that pass the filter, in order."""
        wanted = self.filter.lower()
        passing = [
            row
            for row in self.rows
            if not wanted or any(wanted in cell(c.get(row)).lower() for c in self._columns)
        ]
        order = (("-" if self._down else "") + self._sort,) if self._chosen else ()
        return self._listing.sorted(passing, Format(sort=order))

    def render(self, height: int, width: int, *, unicode: bool) -> Group:
        """All that is on the screen."""
        rows = self.visible()
        room = max(1, height - _AROUND)
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        arrow = ("↓" if self._down else "↑") if unicode else ("v" if self._down else "^")
        marks = [arrow if self._chosen and c.name == self._sort else "" for c in self._columns]
        headers = [Text(c.header + mark) for c, mark in zip(self._columns, marks, strict=True)]
        cells = [[self._text(c, c.get(row)) for c in self._columns] for row in rows[:room]]
        most = self._name_widths([headers, *cells], width)
        for column, header in zip(self._columns, headers, strict=True):
            numeric = column.kind in ("integer", "number")
            table.add_column(
                header,
                justify="right" if numeric else "left",
                no_wrap=True,
                overflow="ellipsis" if unicode else "crop",
                min_width=header.cell_len,
                max_width=most.get(column.name),
            )
        for line in cells:
            table.add_row(*line)
        more = f"and {len(rows) - room} more" if len(rows) > room else ""
        title = Text(shown(self._title), style="dim", no_wrap=True)
        status = Text(self._status(), style="dim", no_wrap=True)
        return Group(title, Text(""), table, Text(more), status)

    def _name_widths(self, lines: list[list[Text]], width: int) -> dict[str, int]:
        """How wide names may be: they share what the others leave. A number that is cut is another one."""
        widths = {
            column.name: max(line[at].cell_len for line in lines)
            for at, column in enumerate(self._columns)
        }
        names = sorted((each for each in widths if each in _NAMES), key=widths.__getitem__)
        others = sum(widths[each] for each in widths if each not in _NAMES)
        left = width - others - _GAP * (len(widths) - 1)
        least = {column.name: lines[0][at].cell_len for at, column in enumerate(self._columns)}
        found = {}
        for number, name in enumerate(names):
            share = left // (len(names) - number)
            found[name] = max(least[name], min(widths[name], share))
            left -= found[name]
        return found

    def _text(self, column: Any, value: Any) -> Text:
        return Text(cell(value), style=(column.style(value) if column.style else None) or "")

    def _status(self) -> str:
        if self.editing:
            return f"filter: {self.filter}_"
        parts = [_HELP]
        parts += [f"filter: {self.filter} (Esc clears)"] if self.filter else []
        parts += ["PAUSED"] if self.paused else []
        parts += [shown(self.trouble)] if self.trouble else []
        return "   ".join(parts)


async def draw(screen: Screen, sample: Sample, rounds: Rounds) -> int:
    """Draw until q, Ctrl-C or the count. What cannot be had now is said on the screen, and asked again."""
    console = Console(no_color=not has_colour(sys.stdout), highlight=False)
    unicode = has_unicode(sys.stdout)
    pressed = asyncio.Event()
    with (
        Progress.under_screen(),
        Live(console=console, screen=True, auto_refresh=False) as live,
        _keys(screen, pressed) as _,
    ):

        def show() -> None:
            size = console.size
            live.update(screen.render(size.height, size.width, unicode=unicode), refresh=True)

        done = 0
        while not screen.ended and done != rounds.count:
            if not screen.paused:
                work = asyncio.ensure_future(_take(screen, sample))
                await _until(work, screen, pressed, show)
                done += 1
            show()
            pause = asyncio.ensure_future(asyncio.sleep(rounds.interval))
            await _until(pause, screen, pressed, show)
    return screen.exit_code


async def _take(screen: Screen, sample: Sample) -> None:
    try:
        screen.rows, missing = await sample()
    except CoterieError as error:
        screen.trouble = str(error)
        return
    troubles = [str(each) for each in missing.brokers.values()] + list(missing.errors.values())
    screen.trouble = "; ".join(troubles)


async def _until(
    work: asyncio.Future[Any], screen: Screen, pressed: asyncio.Event, show: Callable[[], None]
) -> None:
    """Until the work is done or the screen ended; keys are answered at once."""
    while not work.done() and not screen.ended:
        key: asyncio.Future[Any] = asyncio.ensure_future(pressed.wait())
        await asyncio.wait((work, key), return_when=asyncio.FIRST_COMPLETED)
        key.cancel()
        if pressed.is_set():
            pressed.clear()
            show()
    if not work.done():
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
    elif not work.cancelled():
        work.result()


@contextlib.contextmanager
def _keys(screen: Screen, pressed: asyncio.Event) -> Iterator[None]:
    """Keys as they are pressed, without Enter and without an echo, while this is open."""
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        data = os.read(descriptor, 64)
        if not data:
            screen.ended = True  # the terminal is gone
        keys = data.decode(errors="ignore")
        # Arrow keys and the like come as an escape with more behind it; they mean nothing here.
        for key in keys if not (keys.startswith(_ESCAPE) and len(keys) > 1) else "":
            screen.press(key)
        pressed.set()

    def end(number: int) -> None:
        screen.ended, screen.exit_code = True, 128 + number  # as a shell reports signals
        pressed.set()

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    for each in _ENDINGS:
        loop.add_signal_handler(each, end, each)
    try:
        yield
    finally:
        for each in _ENDINGS:
            loop.remove_signal_handler(each)
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
