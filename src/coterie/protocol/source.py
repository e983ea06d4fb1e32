"""Python source of a codec function, which stores for each line the field that it belongs to.

When the function fails, the line it failed on names the field: the function itself keeps no books.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple

__all__ = ["Compiled", "Failure", "Source"]


class Failure(NamedTuple):
    """Where compiled code stopped: the field, and the code's own variables."""

    field: str
    variables: dict[str, Any]


class Compiled(NamedTuple):
    """A function made from source, and the field of each of its lines."""

    call: Callable[..., Any]
    fields: tuple[str, ...]

    def locate(self, traceback: TracebackType | None) -> Failure:
        """Which field was being worked on when this function raised."""
        code = self.call.__code__
        while traceback is not None:
            if traceback.tb_frame.f_code is code:
                return Failure(self.fields[traceback.tb_lineno - 1], traceback.tb_frame.f_locals)
            traceback = traceback.tb_next
        return Failure("", {})


class Source:
    """Lines of code, growing; `names` are the objects that the code refers to."""

    def __init__(self) -> None:
        self.names: dict[str, object] = {}
        self._lines: list[str] = []
        self._fields: list[str] = []
        self._indent = ""
        self._field = ""
        self._count = 0

    def line(self, code: str) -> None:
        self._lines.append(self._indent + code)
        self._fields.append(self._field)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A statement that opens an indented block."""
        self.line(head)
        self._indent += "    "
        yield
        self._indent = self._indent[:-4]

    @contextmanager
    def field(self, name: str) -> Iterator[None]:
        """Lines written inside belong to this field of the current one."""
        outer = self._field
        self._field = f"{outer}.{name}" if outer else name
        yield
        self._field = outer

    def fresh(self, prefix: str) -> str:
        """A variable name not used before in this source."""
        self._count += 1
        return f"{prefix}{self._count}"

    def constant(self, value: object) -> str:
        """A name, or a literal, for an object that the code needs."""
        if value is None or value is True or value is False or type(value) in (int, str):
            return repr(value)
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh("K")
        self.names[name] = value
        return name

    def compile(self, title: str) -> Compiled:
        """The function `codec` that was written."""
        scope = dict(self.names)
        # The text is made from declarations in this package, never from input.
        exec(compile("\n".join(self._lines), f"<{title}>", "exec"), scope)  # noqa: S102
        function: Any = scope["codec"]
        return Compiled(function, tuple(self._fields))
