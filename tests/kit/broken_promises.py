"""Where promises that were broken while a test ran are put down, to be told at its end.

What this is: the list that the watches of this kit write into (see tests.kit.invariants) and that
tests.kit.invariant_watch reads after every test. A server must not be ended by being watched, so what is
found inside of one is put down here; what is found in the test's own step is raised there and then.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["BROKEN", "BrokenPromises"]


class BrokenPromises:
    """Broken promises by their text, which begins with their numbers: `I1, I3: ...`."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._expected: frozenset[str] = frozenset()

    def expect(self, numbers: Iterable[str]) -> None:
        """A test breaks these on purpose, such as I9."""
        self._expected = frozenset(numbers)

    def add(self, error: AssertionError | str, *, at_once: bool = False) -> None:
        numbers = str(error).partition(":")[0].split(", ")
        if self._expected.intersection(numbers):
            return
        if at_once:
            raise error if isinstance(error, AssertionError) else AssertionError(error)
        if str(error) not in self._found:
            self._found.append(str(error))

    def take(self) -> list[str]:
        """What was found since this was last asked."""
        found, self._found = self._found, []
        return found


#: The one of this process.
BROKEN = BrokenPromises()
