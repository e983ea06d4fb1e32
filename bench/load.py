"""The load generator: the same bytes in the same way to every server.

Requests are encoded beforehand and sent over one connection with so many in flight: as many as were
answered are sent after them. Answers are only cut apart and counted; which different ones there were is
kept, and each of those is decoded and checked when the clock has stopped.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from struct import unpack_from
from time import perf_counter
from typing import Any

import msgspec

from bench.harness import must_equal
from coterie.protocol.api import ApiKey
from coterie.protocol.frames import decode_response, encode_request
from coterie.protocol.schema import Request

__all__ = ["Load", "Verdict", "one_answer", "run", "verdict_of"]

#: The error codes of an answer, each once, and how many elements it has.
Verdict = tuple[tuple[int, ...], int]

_SECONDS_FOR_AN_ANSWER = 60.0
_READ = 1 << 18


@dataclass(frozen=True)
class Load:
    """Requests of one kind, to be repeated, and what every answer to them has to be like."""

    api: ApiKey
    version: int
    frames: Sequence[bytes]
    expected: Verdict

    @classmethod
    def of(cls, requests: Sequence[Request], version: int, *, elements: int) -> Load:
        """All answers without an error and with so many elements, the answer itself included."""
        frames = [
            encode_request(request, version, correlation_id=number, client_id="bench")
            for number, request in enumerate(requests)
        ]
        return cls(ApiKey(type(requests[0]).__key__), version, frames, ((0,), elements))

    def verdict(self, body: bytes) -> Verdict:
        """Of an answer without its correlation id."""
        _, response = decode_response(self.api, self.version, bytes(4) + body)
        return verdict_of(response)


def verdict_of(response: Any) -> Verdict:
    """The error codes anywhere in an answer, and the number of its elements."""
    parts = list(_parts(response))
    codes = {each.error_code for each in parts if hasattr(each, "error_code")}
    return tuple(sorted(codes)) or (0,), len(parts)


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, msgspec.Struct):
        yield value
        for name in value.__struct_fields__:
            yield from _parts(getattr(value, name))
    elif isinstance(value, tuple):
        for each in value:
            yield from _parts(each)


def run(address: tuple[str, int], load: Load, *, in_flight: int, seconds: float) -> float:
    """Answers per second. Disagreement if any of them is not as the load expects."""
    with socket.create_connection(address, timeout=_SECONDS_FOR_AN_ANSWER) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        rate, bodies = _exchange(link, cycle(load.frames), in_flight, seconds)
    for body in bodies:
        must_equal(f"an answer to {load.api.api_name}", load.expected, load.verdict(body))
    return rate


def _exchange(
    link: socket.socket, frames: Iterator[bytes], in_flight: int, seconds: float
) -> tuple[float, set[bytes]]:
    bodies: set[bytes] = set()
    rest = b""
    answered, sent = 0, in_flight
    begin = now = perf_counter()
    link.sendall(b"".join(islice(frames, in_flight)))
    while answered < sent:
        data = link.recv(_READ)
        if not data:
            raise ConnectionError("the server closed the connection")
        if rest:
            data = rest + data
        at, end, count = 0, len(data), 0
        while end - at >= 4:
            stop = at + 4 + unpack_from(">i", data, at)[0]
            if stop > end:
                break
            bodies.add(data[at + 8 : stop])
            at = stop
            count += 1
        rest = data[at:]
        answered += count
        now = perf_counter()
        if count and now - begin < seconds:
            link.sendall(b"".join(islice(frames, count)))
            sent += count
    return answered / (now - begin), bodies


def one_answer(address: tuple[str, int], load: Load) -> Verdict:
    """The verdict on the answer to the first request."""
    with socket.create_connection(address, timeout=_SECONDS_FOR_AN_ANSWER) as link:
        _, bodies = _exchange(link, iter(load.frames[:1]), 1, 0)
    (body,) = bodies
    return load.verdict(body)
