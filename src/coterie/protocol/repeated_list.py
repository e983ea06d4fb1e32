"""Decodes a list that is asked for again and again, and of which little changes from time to time.

Who watches a cluster lists its groups every few seconds, and of thousands some have changed. Equal bytes
decode to equal values, and messages cannot be changed: so the elements of the last answer are kept in
blocks, each with its bytes, and where a block's bytes stand in a new answer its elements are taken as they
are. Only at the end of an element can another one begin: a block is looked for there and nowhere else, so
that no group's name can be made to look like a block.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cache
from typing import Final, Generic, NamedTuple, TypeVar, cast

from coterie.protocol.codec import BROKEN, MAX_RESPONSE_ELEMENTS, decode
from coterie.protocol.decoder import compile_decoder_around_elements, compile_element_reader
from coterie.protocol.schema import Response, Struct
from coterie.protocol.source import Compiled

__all__ = ["RepeatedList", "blocks_of", "recent"]

R = TypeVar("R", bound=Response)
S = TypeVar("S", bound=Struct)
K = TypeVar("K")
V = TypeVar("V")

#: Different lists that are remembered: all groups, and those in some states.
_RECENT: Final = 4

#: Elements in a block: few enough that half of the blocks stay as they are when one group in twenty has
#: changed, enough that to find a block takes a tenth of the time in which it is read.
_BLOCK: Final = 16
#: Elements that are read one by one, in the hope that a known block follows, before the rest is read at
#: once: so many, and one more for so many that were found in blocks.
_PATIENCE: Final = 64
_FOUND_FOR_ONE: Final = 4
#: The first bytes of a block, by which it is looked for: about two groups.
_KEY: Final = 64

_Reader = Generator[tuple[list[Struct], int], tuple[int, int], None]


class _Block(NamedTuple):
    """Elements that follow each other, and their bytes."""

    data: bytes
    elements: tuple[Struct, ...]


class _InBlocks(tuple[Struct, ...]):  # noqa: SLOT001 - tuples have no slots for more
    """A list that knows its blocks."""

    blocks: tuple[tuple[Struct, ...], ...]


def blocks_of(elements: tuple[S, ...]) -> tuple[tuple[S, ...], ...]:
    """The elements of an answer, block by block.

    A block is the same object as long as its elements stay as they are: who makes something out of them need
    not make it again.
    """
    if isinstance(elements, _InBlocks):
        return cast("tuple[tuple[S, ...], ...]", elements.blocks)
    return (elements,)


def recent(known: dict[K, V], key: K, make: Callable[[], V]) -> V:
    """What is remembered of a list, or made for it; of the others, only the last asked for stay."""
    found = known[key] = known.pop(key, None) or make()
    if len(known) > _RECENT:
        del known[next(iter(known))]
    return found


class RepeatedList(Generic[R]):
    """The last answer of one kind and version, whose only array is its list."""

    def __init__(self, cls: type[R], version: int) -> None:
        self._cls, self._version = cls, version
        self._data = b""
        self._response: R | None = None
        self._blocks: list[_Block] = []

    def decode(self, data: bytes) -> R:
        """The answer in these bytes: of the same as the last time, the same object."""
        if self._response is not None and data == self._data:
            return self._response
        if self._response is None:
            # Most ask once; blocks are made when there was a second answer, for a third one.
            self._response = decode(self._cls, data, self._version)
        else:
            self._response = self._decode_changed(data)
        self._data = data
        return self._response

    def _decode_changed(self, data: bytes) -> R:
        decoder, reader = _compiled(self._cls, self._version)
        reading = _Reading(data, self._blocks, reader.call(data))
        try:
            response: R = decoder.call(data, 0, MAX_RESPONSE_ELEMENTS, reading.read)[0]
        except BROKEN:
            # The usual decoder says what is wrong, or that all is well.
            self._blocks = []
            return decode(self._cls, data, self._version)
        self._blocks = reading.blocks
        return response


class _Reading:
    """The way through one answer along the blocks of the last one."""

    def __init__(self, data: bytes, known: list[_Block], reader: _Reader) -> None:
        self.blocks: list[_Block] = []
        self._data = data
        self._known = known
        self._places = {block.data[:_KEY]: number for number, block in enumerate(known)}
        self._expected = 0
        self._patience = _PATIENCE
        self._reader = reader
        next(reader)

    def read(self, at: int, count: int) -> tuple[tuple[Struct, ...], int]:
        """So many elements, and where they end."""
        known = self._known
        found: list[Struct] = []
        while left := count - len(found):
            number = self._known_at(at)
            if number is not None and len(known[number].elements) <= left:
                block = known[number]
                self._expected = number + 1
                self._patience += len(block.elements) // _FOUND_FOR_ONE
            elif self._patience:
                block = self._changed(at, left)
            else:
                elements, at = self._reader.send((at, left))
                self.blocks.clear()
                return (*found, *elements), at
            found += block.elements
            at += len(block.data)
            self.blocks.append(block)
        made = _InBlocks(found)
        made.blocks = tuple([block.elements for block in self.blocks])
        return made, at

    def _known_at(self, at: int) -> int | None:
        """Which block stands here: the one behind the last found, or one that begins like this."""
        known, data = self._known, self._data
        for number in self._expected, self._places.get(data[at : at + _KEY], len(known)):
            if number < len(known) and data.startswith(known[number].data, at):
                return number
        return None

    def _changed(self, at: int, left: int) -> _Block:
        """A block of its own, up to one that is known if that is near.

        Most changes leave as many elements as there were; then a known block follows at once.
        """
        elements, end = self._reader.send((at, min(left, _BLOCK)))
        most = min(left, 2 * _BLOCK) if self._known else 0
        while len(elements) < most and self._patience and self._known_at(end) is None:
            more, end = self._reader.send((end, 1))
            elements += more
            self._patience -= 1
        return _Block(self._data[at:end], tuple(elements))


@cache
def _compiled(cls: type[Response], version: int) -> tuple[Compiled, Compiled]:
    return compile_decoder_around_elements(cls, version), compile_element_reader(cls, version)
