"""Measure and compare: `python -m bench [PART ...]`.

Prints a table and writes bench/results.json, unless `--only` names some measurements. A goal that is missed
is a line of the table and no error, unless `--strict` is given.
"""

from __future__ import annotations

import argparse
import compileall
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import coterie
from bench import PARTS
from bench.harness import Result, load_part, measure, write_results

RESULTS = Path(__file__).with_name("results.json")
ROUNDS = 30
_LINE = "{:<42} {:>8} {:>8} {:<17} {:<4} {:>7} {:>5}  {}"


def main(arguments: Sequence[str] | None = None, results_path: Path = RESULTS) -> int:
    """Run the parts that are named, or all; the exit code."""
    options = _parser().parse_args(arguments)
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        print(f"no part is called {unknown[0]!r}; there are: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    parts = options.parts or PARTS
    results = run(parts, rounds=options.rounds, tiny=options.tiny, only=options.only or ())
    if not options.only:
        write_results(results, results_path)
    missed = [result.name for result in results if not result.met]
    print(f"{len(results) - len(missed)} of {len(results)} goals met")
    return 1 if missed and options.strict else 0


def run(parts: Sequence[str], *, rounds: int, tiny: bool, only: Sequence[str] = ()) -> list[Result]:
    """Measure, with a line of the table for each result as it comes; `only` has names of measurements."""
    # The peers' modules were compiled by pip when they were installed; ours, being editable, were not.
    compileall.compile_dir(Path(coterie.__file__).parent, quiet=2)
    print(f"ratio: how many times better we are than the peer; best of up to {rounds} rounds each")
    print(_LINE.format("name", "ours", "peer", "", "unit", "ratio", "goal", "met"))
    results: list[Result] = []
    for part in parts:
        for measurement in load_part(part).measurements(tiny=tiny):
            if only and measurement.name not in only:
                continue
            result = measure(measurement, rounds=rounds)
            print(_line(result), flush=True)
            results.append(result)
            if len(results) == len(only):  # what comes behind would only be prepared
                return results
    return results


def _line(result: Result) -> str:
    return _LINE.format(
        result.name,
        f"{result.ours:.2f}",
        f"{result.peer:.2f}",
        f"({result.peer_name})",
        result.unit,
        f"{math.floor(result.ratio * 100) / 100:.2f}",  # 0.499 is not a goal of 0.5 met
        f"{result.goal:g}",
        "yes" if result.met else "NO",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="this measurement, for a look: no results are written",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default {ROUNDS}")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a goal is missed")
    parser.add_argument("--tiny", action="store_true", help="small data: tries the harness only")
    return parser


if __name__ == "__main__":
    sys.exit(main())
