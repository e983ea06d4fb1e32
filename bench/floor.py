"""Where the floor of decoding is: the parts of the work that no decoder in Python can leave out.

Each part is done alone, on the values of the same message, by a loop in C (`map` over lists that were
made before): making the objects, slicing the strings and bytes that they hold, reading the length before
each. The bytecode that goes from one to the next (lengths to positions, checks, the loop itself) is not in
them, so that their sum is a floor that cannot be reached, only approached. kio does the whole in native
code, and is shown for that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kio.schema.describe_groups.v6.response import DescribeGroupsResponse as KioDescribeGroups
from kio.schema.list_groups.v5.response import ListGroupsResponse as KioListGroups
from kio.serial import entity_reader

from bench.harness import timed
from bench.samples import described_groups, listed_groups
from coterie.protocol.codec import decode, encode
from coterie.protocol.schema import Message, Struct, fields_of

__all__ = ["report"]

_LINE = "  {:<44} {:>7} {:>9} {:>6}"


def report(rounds: int, *, tiny: bool) -> str:
    """The two decodes, taken apart."""
    listed = listed_groups(50 if tiny else 10_000)
    described = described_groups(20 if tiny else 1_000)
    lines = [
        *_take_apart(listed, 5, KioListGroups, rounds),
        *_take_apart(described, 6, KioDescribeGroups, rounds),
    ]
    return "\n".join(lines)


def _take_apart(message: Message, version: int, kio: type, rounds: int) -> Iterator[str]:
    data = encode(message, version)
    whole = _best(partial(decode, type(message), data, version), rounds)
    structs = [struct for struct in _structs(message) if struct is not message]
    values = list(_contents(structs, version))
    repeated = _repeated(structs, version)
    own = [value for value, again in zip(values, repeated, strict=True) if not again]
    parts = {
        f"make {len(structs):,} objects": (len(structs), _make(structs)),
        "slice what differs from the object before": (len(own), _slice(own)),
        "read the length of that": (len(own), _index(len(own))),
        "see that the rest is as before": (0, _nothing),
    }
    yield f"decode {type(message).__name__} v{version}, {len(data):,} bytes"
    yield _LINE.format("", "times", "ms", "share")
    floor = 0.0
    for title, (times, work) in parts.items():
        took = _best(work, rounds)
        floor += took
        yield _LINE.format(title, times, f"{took:.2f}", f"{took / whole:.0%}")
    native = _best(partial(entity_reader(kio), data, 0), rounds)
    yield _LINE.format("the floor: all of these", "", f"{floor:.2f}", f"{floor / whole:.0%}")
    yield _LINE.format("our decoder", "", f"{whole:.2f}", "100%")
    yield _LINE.format("kio's decoder, native code", "", f"{native:.2f}", f"{native / whole:.0%}")
