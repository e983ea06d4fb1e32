"""`make spark-versions`: the pipeline and the source on older PySpark, compared with the installed one.

Each version has an environment of its own below the user's cache directory (0.7 GB), created once, with the
locked versions of all other packages. Each runs `version_job.py` on one simulated fleet.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from coterie.console.directories import cache_directory
from tests.spark.pipeline_kit import everything

VERSIONS: Final = ("4.0.5", "4.1.4", "4.2.1")
_ROOT: Final = Path(__file__).parents[2]
_UV: Final = Path(sys.executable).with_name("uv")
_COTERIE: Final = ("-c", "from coterie.cli.main import main; main()")
_FLEET: Final = ("--groups", "60", "--hours", "6", "--seed", "1", "--partitions", "10")


def main() -> int:
    different = []
    with tempfile.TemporaryDirectory(prefix="coterie-spark-versions-") as directory:
        work = Path(directory)
        segments = work / "fleet"
        _run(sys.executable, *_COTERIE, "simulate", *_FLEET, "--out", segments)
        expected = _results(Path(sys.executable), segments, work / "installed")
        for version in VERSIONS:
            found = _results(_python(version), segments, work / version)
            names = [each for each in expected | found if found.get(each) != expected.get(each)]
            different += [f"{version}: {name}" for name in names]
            print(
                f"{version}: {len(found)} results, {len(names)} different {names or ''}", flush=True
            )
    return 1 if different else 0


def _python(version: str) -> Path:
    """The interpreter of an environment with this PySpark; made if it is not complete."""
    venv = cache_directory() / "spark-versions" / version
    python, stamp = venv / "bin" / "python", venv / ".ready"
    lock = (_ROOT / "requirements" / "dev.lock").read_text()
    locked = re.findall(r"^(?!pyspark=|py4j=)[a-z0-9_.-]+==[^\\\n]+", lock, re.MULTILINE)
    if stamp.exists() and stamp.read_text() == lock:
        return python
    if not python.exists():
        _run(_UV, "venv", "--quiet", "--python", sys.executable, venv)
    constraints = venv / "constraints.txt"
    constraints.write_text("\n".join(locked))
    install = (_UV, "pip", "install", "--quiet", "--python", python, "--constraint", constraints)
    packages = ("--extra", "spark", "--requirement", "pyproject.toml")
    _run(*install, *packages, f"pyspark=={version}")
    stamp.write_text(lock)
    return python


def _results(python: Path, segments: Path, out: Path) -> dict[str, list[str]]:
    """All rows of all tables, and of the source, with this interpreter's PySpark."""
    began = time.monotonic()
    environment = os.environ | {"PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{_ROOT}"}
    pipeline = (*_COTERIE, "pipeline", "run", "--segments", segments, "--out", out / "tables")
    _run(python, *pipeline, env=environment)
    _run(python, "-m", "tests.spark.jobs.version_job", segments, out, env=environment)
    rows = {each: _rows(out / each) for each in ("batch", "stream")}
    if not rows["batch"] or rows["batch"] != rows["stream"]:
        raise SystemExit(f"{python}: batch and stream of the source have different rows")
    print(f"{python}: {time.monotonic() - began:.0f} s", flush=True)
    return everything(out / "tables") | rows


def _rows(directory: Path) -> list[str]:
    return sorted(map(repr, pq.read_table(directory).to_pylist()))


def _run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    subprocess.run([str(each) for each in command], check=True, cwd=_ROOT, env=env)


if __name__ == "__main__":
    sys.exit(main())
