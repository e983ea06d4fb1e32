"""Text that must not be seen: it has no readable repr, and has to be asked for by name."""

from __future__ import annotations

from typing import Final

__all__ = ["Secret"]

_HIDDEN: Final = "[hidden]"


class Secret:
    """A password, a token or a key. Printing, formatting and logging it shows `[hidden]`, as in Kafka."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the one place that needs it."""
        return self._text

    def __repr__(self) -> str:
        return _HIDDEN

    def __str__(self) -> str:
        return _HIDDEN

    def __format__(self, spec: str) -> str:
        return format(_HIDDEN, spec)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        import hmac  # noqa: PLC0415 - settings are read at each start, and seldom compared

        return hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)
