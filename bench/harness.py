"""What a measurement is, and how it is taken.

Ours and the peers take turns in one process, round by round, so that a slow moment of the machine falls
on all of them, and the best round of each counts. Before the first round they must agree: a measurement
whose `agree` raises is not taken, so that nobody wins by doing less.

The ratio says how many times better we are: peer / ours for a time, ours / peer for a rate. A goal of
1.5 is met from 1.5 on, and a goal of 0.5 allows us twice the peer's time.
"""

from __future__ import annotations

import gc
import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Protocol, cast

__all__ = [
    "Disagreement",
    "Measurement",
    "Part",
    "Result",
    "Round",
    "fresh_process",
    "load_part",
    "measure",
    "must_equal",
    "timed",
    "write_results",
]

#: One round: does the work once and gives the figure, in the measurement's unit.
Round = Callable[[], float]


class Disagreement(AssertionError):
    """A peer does not give what we give, so that there is nothing to compare."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Ours beside one or more peers; with several, the best of them is the one to compare with."""

    #: Begins with the part: `protocol.decode_list_groups_v5`.
    name: str
    ours: Round
    peers: Mapping[str, Round]
    goal: float
    agree: Callable[[], None]
    unit: str = "ms"
    #: Whether the figure is a rate (the larger the better) instead of a time.
    is_rate: bool = False
    #: More rounds than this are not worth their time; None for as many as are asked for.
    max_rounds: int | None = None


@dataclass(frozen=True)
class Result:
    """A line of the table and of results.json. All but the verdict is rounded."""

    name: str
    ours: float
    peer: float
    peer_name: str
    unit: str
    ratio: float
    goal: float
    met: bool


class Part(Protocol):
    """A module of measurements. `tiny` makes them quick and their figures meaningless, for tests."""

    def measurements(self, *, tiny: bool = False) -> Iterator[Measurement]: ...


def load_part(name: str) -> Part:
    """The module of a part."""
    return cast("Part", importlib.import_module(f"bench.{name}"))


def timed(work: Callable[[], object]) -> Round:
    """Rounds of a call in this process, in milliseconds.

    The collector runs as it does in a program, but finds only what this call makes: everything older
    is frozen away, ours and the peers'. Releasing the result is outside of the time.
    """

    def one_round() -> float:
        gc.collect()
        gc.freeze()
        try:
            start = perf_counter()
            result = work()
            took = perf_counter() - start
            del result
        finally:
            gc.unfreeze()
        return took * 1e3

    return one_round


def fresh_process(code: str) -> Round:
    """Rounds of a new interpreter that runs some code, in milliseconds, its start and end included."""
    command = (sys.executable, "-I", "-c", code)

    def one_round() -> float:
        start = perf_counter()
        subprocess.run(command, check=True)
        return (perf_counter() - start) * 1e3

    return one_round


def must_equal(what: str, ours: object, peer: object) -> None:
    """Raise Disagreement unless both are the same value."""
    if ours != peer:
        raise Disagreement(f"{what}: ours {_start_of(ours)}, theirs {_start_of(peer)}")


def _start_of(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def measure(measurement: Measurement, *, rounds: int) -> Result:
    """Check that all agree, then take turns; the first turn of each warms up and is not counted."""
    measurement.agree()
    rounds = min(rounds, measurement.max_rounds or rounds)
    best = max if measurement.is_rate else min
    everyone = {"": measurement.ours, **measurement.peers}
    figures: dict[str, list[float]] = {name: [] for name in everyone}
    for number in range(rounds + 1):
        for name, one_round in everyone.items():
            figure = one_round()
            if number:
                figures[name].append(figure)
    ours = best(figures.pop(""))
    peer, peer_name = best((best(taken), name) for name, taken in figures.items())
    ratio = ours / peer if measurement.is_rate else peer / ours
    return Result(
        name=measurement.name,
        ours=round(ours, 4),
        peer=round(peer, 4),
        peer_name=peer_name,
        unit=measurement.unit,
        ratio=round(ratio, 4),
        goal=measurement.goal,
        met=ratio >= measurement.goal,
    )


def write_results(results: Iterable[Result], path: Path) -> None:
    """A JSON list with one object per measurement."""
    path.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n")
