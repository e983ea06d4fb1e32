"""Where the floor of decoding is: the work that a decoder in Python cannot leave out.

Two floors, from the same values, each piece done alone. The lower is driven by C loops (`map` over what was
prepared before): make the objects, slice the strings and blobs that are new, read the byte that says how
long each is. The upper is the least that straight-line Python does: make the objects, and go from value to
value in bytecode without a single check. Between it and our decoder are the checks (lengths, nulls, text
that is not ASCII, tags, budgets), less what is saved on strings that repeat. kio, which does all of it in
native code, is shown beside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from kio.schema.describe_groups.v6.response import DescribeGroupsResponse as KioDescribeGroups
from kio.schema.list_groups.v5.response import ListGroupsResponse as KioListGroups
from kio.serial import entity_reader

from bench.harness import timed
from bench.samples import described_groups, listed_groups
from coterie.protocol.codec import decode, encode
from coterie.protocol.schema import Message, Struct, fields_of

__all__ = ["report"]

_LINE = "  {:<46} {:>8} {:>7}"


class _Pieces(NamedTuple):
    """What a message is made of: its objects, and their values; a string is new once, a blob always."""

    objects: list[Struct]
    new: list[str | bytes]
    repeated: list[str | bytes]


def report(rounds: int, *, tiny: bool) -> str:
    """The two decodes, taken apart."""
    listed = listed_groups(50 if tiny else 10_000)
    described = described_groups(20 if tiny else 1_000)
    lines = [f"best of {rounds} rounds each; the shares are of our decoder's time"]
    lines += _take_apart(listed, 5, KioListGroups, rounds)
    lines += _take_apart(described, 6, KioDescribeGroups, rounds)
    return "\n".join(lines)


def _take_apart(message: Message, version: int, kio: Any, rounds: int) -> Iterator[str]:
    data = encode(message, version)
    objects, new, repeated = _pieces(message)
    make, cut, read, walk, ours, native = _best(
        rounds,
        _make(objects),
        _slice(new),
        _read_bytes(data, len(new)),
        _walk(new + repeated),
        partial(decode, type(message), data, version),
        partial(entity_reader(kio), data, 0),
    )
    rows = {
        f"make {len(objects):,} objects": make,
        f"slice {len(new):,} new strings and blobs": cut,
        f"read their {len(new):,} lengths": read,
        "lower floor: these three": make + cut + read,
        f"walk over all {len(new) + len(repeated):,} values, unchecked": walk,
        "upper floor: the walk and the objects": make + walk,
        "our decoder": ours,
        "kio's decoder, native code": native,
    }
    yield f"decode {type(message).__name__} v{version}, {len(data):,} bytes"
    yield _LINE.format("", "ms", "share")
    for title, took in rows.items():
        yield _LINE.format(title, f"{took:.2f}", f"{took / ours:.0%}")


def _best(rounds: int, *work: Callable[[], object]) -> list[float]:
    """The best time of each, taking turns."""
    turns = [timed(each) for each in work]
    taken = [[turn() for turn in turns] for _ in range(rounds)]
    return [min(times) for times in zip(*taken, strict=True)]


def _pieces(message: Message) -> _Pieces:
    pieces = _Pieces([], [], [])
    seen: set[str | bytes] = set()
    waiting: list[Struct] = [message]
    while waiting:
        struct = waiting.pop()
        for field in fields_of(type(struct)):
            value = getattr(struct, field.name)
            if isinstance(value, tuple):
                pieces.objects.extend(value)
                waiting.extend(value)
            elif isinstance(value, str | bytes):
                (pieces.repeated if value in seen else pieces.new).append(value)
                if isinstance(value, str):
                    seen.add(value)
    return pieces


def _make(objects: list[Struct]) -> Callable[[], object]:
    """Call each class with the values that a decoder has read; those of tagged fields are defaults."""
    calls = []
    for cls in dict.fromkeys(type(each) for each in objects):
        names = [field.name for field in fields_of(cls) if field.tag is None]
        mine = [each for each in objects if type(each) is cls]
        calls.append((cls, [[getattr(each, name) for each in mine] for name in names]))
    return lambda: [list(map(cls, *columns)) for cls, columns in calls]


def _slice(values: list[str | bytes]) -> Callable[[], object]:
    """Cut strings out of one long string and blobs out of one long blob."""
    texts = [value for value in values if isinstance(value, str)]
    blobs = [value for value in values if isinstance(value, bytes)]
    text, text_slices = "".join(texts), _slices(texts)
    blob, blob_slices = b"".join(blobs), _slices(blobs)
    return lambda: (
        list(map(text.__getitem__, text_slices)),
        list(map(blob.__getitem__, blob_slices)),
    )


def _slices(values: list[Any]) -> list[slice]:
    slices = []
    start = 0
    for value in values:
        slices.append(slice(start, start + len(value)))
        start += len(value)
    return slices


def _read_bytes(data: bytes, count: int) -> Callable[[], object]:
    step = len(data) // count
    positions = list(range(0, step * count, step))
    return lambda: list(map(data.__getitem__, positions))


def _walk(values: list[str | bytes]) -> Callable[[], object]:
    """Read the values as compact strings and bytes, one behind the other, believing every length."""
    texts = _packed([value.encode() for value in values if isinstance(value, str)])
    blobs = _packed([value for value in values if isinstance(value, bytes)])

    def walk(b: bytes, t: str | bytes) -> int:
        p, end = 0, len(b)
        while p < end:
            q = p + b[p]
            t[p + 1 : q]
            p = q
        return p

    return lambda: (walk(texts, str(texts, "latin-1")), walk(blobs, blobs))


def _packed(values: list[bytes]) -> bytes:
    return b"".join(bytes((len(value) + 1,)) + value for value in values)
