"""Decodes a list of groups that is requested again and again: equal bytes give the same object.

A program that watches a cluster lists its groups every few seconds, and most answers equal the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from coterie.protocol.codec import decode
from coterie.protocol.schema import Response

__all__ = ["RepeatedList", "recent"]

R = TypeVar("R", bound=Response)
K = TypeVar("K")
V = TypeVar("V")

#: Different lists that are kept: all groups, and those in some states.
_RECENT: Final = 4


def recent(known: dict[K, V], key: K, make: Callable[[], V]) -> V:
    """The cached value of a key, or a new one; only the keys that were used last stay in the cache."""
    found = known[key] = known.pop(key, None) or make()
    if len(known) > _RECENT:
        del known[next(iter(known))]
    return found


class RepeatedList(Generic[R]):
    """The last answer of one class and version."""

    def __init__(self, cls: type[R], version: int) -> None:
        self._cls, self._version = cls, version
        self._data = b""
        self._response: R | None = None

    def decode(self, data: bytes) -> R:
        """The answer in these bytes; the same object as the last time if they are the same bytes."""
        if self._response is None or data != self._data:
            self._response = decode(self._cls, data, self._version)
            self._data = data
        return self._response
