"""Fuzzes for a while and says what came of it: `python -m fuzz.run --seconds 60`.

The last line has the executions and the edges of code that they reached. The exit code is 0 if nothing
was found, 1 if an input broke something (its path is printed) or if so little was executed that the
search means nothing, 2 if there is no atheris on this platform.

Inputs that reach new code are kept in the corpus and are where the next run begins.
"""

from __future__ import annotations

import argparse
import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from fuzz.seeds import MAX_SEED, write_seeds

__all__ = ["main"]

ROOT: Final = Path(__file__).parent.parent
CORPUS: Final = Path(__file__).parent / "corpus"

MEMORY_MIB: Final = 2048
SECONDS_PER_INPUT: Final = 10
#: Time for the engine to start and to end, on a machine that has other things to do.
GRACE_SECONDS: Final = 180
#: From this time on it pays to instrument the codecs of every version.
LONG_SECONDS: Final = 120

#: Below these the engine has not fuzzed: the seeds alone reach more edges, and each second has
#: thousands of executions on an ordinary machine.
LEAST_EDGES: Final = 5000
LEAST_PER_SECOND: Final = 50
#: A machine with other things to do gets so many times the time, once.
LONGER: Final = 5


class Outcome(NamedTuple):
    """What the engine's output says."""

    executions: int
    edges: int
    crash: str


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.run", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="how long to search (60)")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="where inputs are kept")
    options = parser.parse_args(arguments)
    try:
        importlib.import_module("atheris")
    except ImportError as error:
        print(f"fuzz: atheris cannot be imported here ({error}), so that nothing was fuzzed")
        return 2
    seeds = write_seeds(options.corpus / "seeds")
    seconds = options.seconds
    least = seeds + LEAST_PER_SECOND * seconds
    code, output = _search(options.corpus, seconds)
    if code == 0 and _read(output).executions < least:
        seconds *= LONGER
        code, output = _search(options.corpus, seconds)
    (options.corpus / "engine.log").write_text(output, encoding="utf-8")
    summary = f"{seeds} seeds, {seconds} seconds"
    return _judge(_read(output), code, least, summary, output)


def _search(corpus: Path, seconds: int) -> tuple[int, str]:
    """Run the engine; its exit code and all that it said."""
    folders = [corpus / name for name in ("found", "seeds", "crashes")]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    found, seeds, crashes = (str(folder.resolve()) for folder in folders)
    command = [
        sys.executable,
        *("-m", "fuzz.engine", found, seeds),
        *(["--every-version"] if seconds >= LONG_SECONDS else []),
        f"-max_total_time={seconds}",
        f"-max_len={MAX_SEED}",
        f"-rss_limit_mb={MEMORY_MIB}",
        f"-timeout={SECONDS_PER_INPUT}",
        f"-artifact_prefix={crashes}/",
    ]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds + GRACE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return -1, (error.output or b"").decode(errors="replace")
    return done.returncode, done.stdout.decode(errors="replace")


def _read(output: str) -> Outcome:
    executions = re.findall(r"^Done (\d+) runs", output, re.MULTILINE)
    executions = executions or re.findall(r"^#(\d+)\s", output, re.MULTILINE) or ["0"]
    edges = re.findall(r"^#\d+\s.*\bcov: (\d+)", output, re.MULTILINE) or ["0"]
    crash = re.findall(r"Test unit written to (.+)", output) or [""]
    return Outcome(int(executions[-1]), int(edges[-1]), crash[-1].strip())


def _judge(outcome: Outcome, code: int, least: int, summary: str, output: str) -> int:
    """Print the verdict; the exit code."""
    summary = f"{outcome.executions} executions, {outcome.edges} edges of code, {summary}"
    if outcome.crash or code != 0:
        start = max(output.find("=== Uncaught Python exception"), 0)
        print(output[start : start + 6000] if start else output[-6000:])
        what = f"the input is {outcome.crash}" if outcome.crash else f"the engine ended with {code}"
        print(f"fuzz: FAILED, {what}; {summary}")
        return 1
    if outcome.executions < least or outcome.edges < LEAST_EDGES:
        print(
            f"fuzz: FAILED, too little to mean anything (least: {least}, {LEAST_EDGES}); {summary}"
        )
        return 1
    print(f"fuzz: nothing found; {summary}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
