"""Spark's own Kafka connector, which a user would take today: resolved by Maven into a cache."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from bench.servers import Unavailable
from coterie.console.directories import cache_directory

__all__ = ["connector_jars"]

POM: Final = Path(__file__).with_name("spark_connector") / "pom.xml"
#: The connector and its token provider: of our Spark, and of those before it, which run on it too.
_VERSIONS: Final = (("4.3.0", "4.3.0"), ("4.2.0", "4.2.0"), ("4.2.0", "4.0.0"))
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_SECONDS: Final = 300.0


def connector_jars() -> list[Path]:
    """The connector and what it needs beside Spark; Unavailable, with the reason, if it cannot be had."""
    cache = cache_directory() / "bench"
    reasons = []
    for version, provider in _VERSIONS:
        directory = cache / f"spark-connector-{version}-{provider}"
        done = directory / ".complete"
        if not done.exists():
            reason = _copy(version, provider, directory)
            if reason:
                reasons.append(reason)
                continue
            done.touch()
        return sorted(directory.glob("*.jar"))
    raise Unavailable("; ".join(reasons))


def _copy(version: str, provider: str, directory: Path) -> str:
    """Have Maven copy the jars; why not, if it cannot."""
    mvn = shutil.which("mvn")
    if mvn is None:
        return "no mvn on the PATH"
    shutil.rmtree(directory, ignore_errors=True)
    command = [mvn, "--batch-mode", "--quiet", "-Dstyle.color=never", "--file", str(POM)]
    command += [f"-Dspark.version={version}", f"-Dprovider.version={provider}"]
    command += [f"{_PLUGIN}:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={directory}", "--update-snapshots"]
    try:
        run = subprocess.run(
            command, check=False, capture_output=True, text=True, errors="replace", timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"Maven was not done with {version} in {_SECONDS:.0f} s"
    if run.returncode == 0:
        return ""
    errors = [line for line in run.stdout.splitlines() if "Could not" in line]
    said = errors[0][errors[0].index("Could not") :] if errors else "Maven failed"
    return f"{version}: {said.partition(' -> ')[0][:200]}"
