"""Cold start: from a new process to the first row of our source, by our session and by a plain one.

Both read the same segment files on `local[2]`. The archive of classes is made before the first round, as the
first run of a user makes it for all later ones. `python -m bench.spark_cold` shows where the time goes, also
of a cold `coterie pipeline run` on the fleet of the demo, and how long that takes with plain Spark
(COTERIE_PLAIN_SPARK=1) and without each part of coterie.spark.quickstart.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.commit_log import write_disk
from bench.harness import Measurement, Round, must_equal
from coterie.simulation import simulate
from coterie.spark.quickstart.startup import prepare

__all__ = ["measurements"]

#: At most half of plain PySpark's time.
GOAL: Final = 2.0
_ROUNDS: Final = 3
_DUMP_SECONDS: Final = 120.0

_READ: Final = """
def told(spark):
    seen["session"] = time.time() - begin
    row = spark.read.format("coterie").option("segments", sys.argv[2]).load("commits").first()
    seen["first row"] = time.time() - begin
    print(json.dumps({"steps": seen, "row": row.asDict()}, default=str), flush=True)
"""
_HEAD: Final = f"""
import json, sys, time
begin = float(sys.argv[1])
seen = {{"python": time.time() - begin}}
{_READ}
"""
_OURS: Final = f"""{_HEAD}
from coterie.console.progress import StepProgress
from coterie.spark.quickstart.session import Starting, pipeline_session
with pipeline_session(StepProgress(quiet=True), Starting(master="local[2]")) as spark:
    told(spark)
"""
_PLAIN: Final = f"""{_HEAD}
import os
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
told(SparkSession.builder.master("local[2]").getOrCreate())
"""

_OFF: Final = """
import os
from coterie.spark.pipeline import settings
from coterie.spark.quickstart import session
"""
_CHANGED: Final = """
prepare = session.prepare
def changed(**named):
    found = prepare(**named)
    {change}
    return found
session.prepare = changed
"""

#: A whole run, with the time of each step that a person would see on a terminal.
_RUN: Final = """
import json, sys, time
from contextlib import contextmanager
begin = float(sys.argv[1])
from coterie.cli.main import main
from coterie.console.progress import StepProgress
steps = {"python and imports": time.time() - begin}

@contextmanager
def step(self, what):
    start = time.time()
    yield
    steps[what] = time.time() - start

StepProgress.step = step
try:
    main(["pipeline", "run", "--segments", sys.argv[2], "--out", sys.argv[3], "--master", "local[2]"])
except SystemExit as end:
    assert not end.code
steps["all else"] = time.time() - begin - sum(steps.values())
print(json.dumps({"steps": steps}))
"""

#: The parts of the quick start, and what turns each of them off before a run.
_WITHOUT: Final = {
    "any of it": "os.environ['COTERIE_PLAIN_SPARK'] = '1'",
    "the class archive": _CHANGED.format(change="found.java_options = []"),
    "the home of links": _CHANGED.format(change="found.environment = {}"),
    "the first compiler alone": "session._ONE_COMPILER_ROWS = -1",
    "leaving out lines of columns": "session._QUICK.clear()",
    "remembered classes": "session.remember_classes = lambda spark: None",
    "plans for few rows": "settings._FEW_ROWS = -1",
    "tuned workers": "os.environ['COTERIE_PLAIN_SPARK'] = '1'\n"
    "settings.is_plain = session.is_plain = lambda: False",
}


def measurements(*, records: int = 10_000) -> Iterator[Measurement]:
    """Seconds from the start of the process to the first row."""
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as home:
        write_disk(Path(home), records, 6)
        _make_archive(home)
        yield Measurement(
            name="spark.cold_first_row",
            ours=_first_row(_OURS, home),
            peers={"plain pyspark": _first_row(_PLAIN, home)},
            goal=GOAL,
            agree=lambda: must_equal("row", _run(_OURS, home)["row"], _run(_PLAIN, home)["row"]),
            unit="s",
            max_rounds=_ROUNDS,
        )


def _first_row(code: str, segments: str) -> Round:
    def one_round() -> float:
        return float(_run(code, segments)["steps"]["first row"])

    return one_round


def _run(code: str, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", code, str(time.time()), *arguments],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def _make_archive(segments: str) -> None:
    """Run until the archive is there: the JVM writes it after its program has ended."""
    deadline = time.monotonic() + _DUMP_SECONDS
    while not prepare(local=True).archive and time.monotonic() < deadline:
        _run(_OURS, segments)
        time.sleep(5)


def main() -> None:
    """Print the steps of one start of each, and of a whole run."""
    _show_starts()
    _show_run()


def _show_run(groups: int = 60, hours: int = 12) -> None:
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as home:
        simulate(Path(home) / "fleet", groups=groups, hours=hours, seed=7)
        steps = _run(_RUN, f"{home}/fleet", f"{home}/out")["steps"]
        ours = sum(steps.values())
        print(f"\ncoterie pipeline run, {groups} groups, {hours} hours: {ours:.1f} s")
        for step, seconds in steps.items():
            print(f"  {step:<28} {seconds:6.2f} s")
        for number, (part, code) in enumerate(_WITHOUT.items()):
            steps = _run(_OFF + code + _RUN, f"{home}/fleet", f"{home}/out-{number}")["steps"]
            total = sum(steps.values())
            print(f"  without {part:<28} {total:6.2f} s   ({total / ours - 1:+.0%})")


def _show_starts() -> None:
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as home:
        write_disk(Path(home), 10_000, 6)
        _make_archive(home)
        for name, code in (("ours", _OURS), ("plain pyspark", _PLAIN)):
            steps = min(
                (_run(code, home)["steps"] for _ in range(_ROUNDS)), key=lambda s: s["first row"]
            )
            at = 0.0
            for step, until in steps.items():
                print(f"{name:<14} {step:<10} {until - at:6.2f} s   (at {until:.2f} s)")
                at = until


if __name__ == "__main__":
    main()
