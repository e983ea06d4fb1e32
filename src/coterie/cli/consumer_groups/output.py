"""The output of the tool: two streams that keep their order, and tables in Java's format.

Java's streams ignore output that cannot be written, and the tool continues: a deletion is made although its
report is lost. On a terminal, control characters and marks that change the writing direction are shown as
escapes, because any client can choose a group's name; pipes and files get the names unchanged.
Tables are those of Kafka's tool, to the last space: Java's `%-15s`, and the same widths.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import IO, Final

from coterie.cli.consumer_groups.java import Throwable
from coterie.safe_text import visible

__all__ = [
    "MISSING",
    "Column",
    "Output",
    "java_length",
    "order",
    "table",
]

MISSING: Final = "-"

#: A heading and the least width of its column. None: as wide as its text, nothing is added.
Column = tuple[str, int | None]


def java_length(text: str) -> int:
    """The length of a text in Java, which counts UTF-16 units."""
    if text.isascii():
        return len(text)
    return len(text) + sum(each > "\uffff" for each in text)


def order(text: str) -> str | bytes:
    """The key by which Java sorts texts."""
    return text.encode("utf-16-be", "surrogatepass")


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, fit: Iterable[int]) -> str:
    """A heading and rows, each after a newline as in Kafka's tool.

    The columns in `fit` grow with their longest text; the others have their width and may burst it.
    """
    wide = not "".join(map("".join, rows)).isascii()
    length = java_length if wide else len
    widths = [width for _, width in columns]
    for index in fit:
        longest = max((length(row[index]) for row in rows), default=0)
        widths[index] = max(widths[index] or 0, longest)
    line = "\n" + " ".join("%s" if width is None else f"%-{width}s" for width in widths)
    heading = line % tuple(name for name, _ in columns)
    if wide:
        return heading + "".join([_row(widths, row) for row in rows])
    return heading + "".join([line % tuple(row) for row in rows])


def _row(widths: Sequence[int | None], cells: Sequence[str]) -> str:
    """Python counts a character once that Java counts as two units."""
    return "\n" + " ".join(
        cell if width is None else cell + " " * (width - java_length(cell))
        for cell, width in zip(cells, widths, strict=True)
    )


#: So many characters are worth a write.
_ENOUGH: Final = 65536


class Output:
    """The tool's stdout and stderr."""

    def __init__(self) -> None:
        self._out = _Stream(sys.stdout)
        self._err = _Stream(sys.stderr)
        # In one file or on one terminal, lines have to come in the order in which they were written.
        self._one_place = self._out.place is not None and self._out.place == self._err.place

    @property
    def broken(self) -> bool:
        """Whether stdout cannot be written any more."""
        return self._out.broken

    @property
    def lost(self) -> bool:
        """Whether a part of the output to stdout was lost."""
        return self._out.lost

    @property
    def no_reader(self) -> bool:
        """Whether stdout is a pipe that its reader has closed."""
        return self._out.no_reader

    def name(self, text: str) -> str:
        """A name from a broker, as it may be shown on stdout."""
        return visible(text) if self._out.terminal else text

    def write(self, text: str) -> None:
        self._out.write(text)

    def line(self, text: str) -> None:
        self._out.write(f"{text}\n")

    def error(self, text: str, thrown: Throwable | None = None) -> None:
        """Kafka's tool reports failures on stdout; only the exception goes to stderr."""
        self.line(f"\nError: {self.name(text)}")
        if thrown is not None:
            for line in thrown.lines():
                self.note(line)

    def note(self, text: str) -> None:
        """A line for stderr."""
        if self._one_place:
            self._out.flush()
        self._err.write(f"{text}\n")
        if self._one_place:
            self._err.flush()

    def about(self, text: str, group: str) -> None:
        """A line for stderr with a group's name in it, where {} stands."""
        self.note(text.replace("{}", visible(group) if self._err.terminal else group))

    def log(self, level: str, text: str, logger: str) -> None:
        """A line as Kafka's tools log it."""
        import time

        now = time.time()
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        self.note(f"[{stamp},{int(now * 1000) % 1000:03d}] {level} {text} ({logger})")
        # The next line may take long: this one says why.
        self._err.flush()

    def close(self) -> None:
        self._out.close()
        self._err.close()


class _Stream:
    """A stream with a buffer that ignores output once its reader has gone."""

    def __init__(self, file: IO[str] | None) -> None:
        self._file = file
        self._waiting: list[str] = []
        self._size = 0
        self.broken = file is None
        self.lost = False
        self.no_reader = False
        self.terminal = file is not None and file.isatty()
        self.place = _place(file)
        if file is not None and hasattr(file, "reconfigure"):
            # As Java does: what the terminal's encoding has no place for becomes a question mark.
            file.reconfigure(errors="replace")

    def write(self, text: str) -> None:
        if self.broken:
            self.lost = True
            return
        self._waiting.append(text)
        self._size += len(text)
        if self._size > _ENOUGH:
            self.flush()

    def flush(self) -> None:
        text, self._waiting, self._size = "".join(self._waiting), [], 0
        if self._file is None or self.broken:
            return
        try:
            self._file.write(text)
            self._file.flush()
        except (OSError, ValueError) as error:
            self.broken = self.lost = True
            self.no_reader = isinstance(error, BrokenPipeError)

    def close(self) -> None:
        self.flush()
        if self.broken and self._file is sys.__stdout__ and self._file is not None:
            # What Python would try to write at its own end would be an error message.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._file.fileno())


def _place(file: IO[str] | None) -> tuple[int, int] | None:
    try:
        about = os.fstat(file.fileno()) if file is not None else None
    except (OSError, ValueError, AttributeError):
        # A stream of a test, or of a program that calls us, is no file.
        return None
    return None if about is None else (about.st_dev, about.st_ino)
