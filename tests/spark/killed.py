"""`coterie pipeline` in a process of its own that ends as by kill -9 in the middle, and what it leaves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from coterie.spark.pipeline.store import TableStore
from coterie.spark.quickstart.startup import prepare
from tests.spark import quick_start
from tests.spark.engines import environment

__all__ = ["Killed", "cache_with_archive", "run_killed"]

#: Ends at the n-th call of a function, after a step has begun.
_CODE = """
import os, signal, sys
from coterie.spark.pipeline import build, ingest, store

left = [{number}]
real, step = {function}, {step}.{step}

def killing(*arguments, **named):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments, **named)

def armed(*arguments, **named):
    {function} = killing
    return step(*arguments, **named)

{step}.{step} = armed
from coterie.cli.main import main
main(["pipeline", *sys.argv[1:], "--master", "local[2]"])
"""


class Killed(NamedTuple):
    """How it ended, what it had said by then, and what was in its directory."""

    code: int
    said: str
    complaint: str
    tables: set[str]
    #: Tables of which there are data files, whether they are tables yet or not.
    written: set[str]


def run_killed(
    cache: Path, out: Path, step: str, function: str, number: int, *arguments: str | Path
) -> Killed:
    """Run a command on `out` that is killed when `step` calls `function` for the n-th time."""
    code = _CODE.format(step=step, function=function, number=number)
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments), "--out", str(out)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(XDG_CACHE_HOME=str(cache)),
    )
    return Killed(
        done.returncode,
        done.stdout,
        done.stderr,
        set(TableStore(out).tables),
        {path.relative_to(out).parts[0] for path in out.rglob("*.parquet")},
    )


def cache_with_archive(home: Path) -> Path:
    """A cache with the archive of the tests, or one that a JVM looks at and leaves alone."""
    cache = home / "cache"
    dump = prepare(local=True, cache=cache / "coterie").dump
    assert dump is not None
    if found := quick_start.archive():
        dump.with_suffix(".jsa").symlink_to(found)
    else:
        dump.with_suffix(".jsa").touch()
    return cache
