"""Clients in other languages: small programs under clients/, built once into a cache outside the repository.

A program takes a bootstrap address, a topic and a group, both new, and tells what it saw as one line of
JSON. Where its language is not installed, or its library cannot be had, its tests are skipped with the
reason, and the run ends with one line that says so.

Environment: COTERIE_CLIENTS_CACHE names the cache directory; without it the cache is coterie/clients below
XDG_CACHE_HOME, or below .cache in the home directory. COTERIE_REQUIRE_CLIENTS=1 makes a client that cannot
be had a failure instead of a skip.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from coterie.console import directories

__all__ = [
    "REASON",
    "Program",
    "built_once",
    "cache_directory",
    "copy_tree",
    "find_built",
    "find_program",
    "on_path",
    "require_built",
    "require_program",
    "run_build",
]

REASON = "needs a client in another language"
T = TypeVar("T")

SOURCES = Path(__file__).parent / "clients"
_BUILD_TIMEOUT_S = 300.0
_RUN_TIMEOUT_S = 120.0


class Unavailable(Exception):
    """The client cannot be had on this machine; the message is one line."""


@dataclass(frozen=True)
class Program:
    """A client that is ready to run."""

    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, bootstrap: str, topic: str, group: str) -> dict[str, Any]:
        run = subprocess.run(
            [*self.command, bootstrap, topic, group],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_RUN_TIMEOUT_S,
            env={**os.environ, **self.environment},
        )
        assert run.returncode == 0, run.stderr
        told = json.loads(run.stdout)
        assert isinstance(told, dict)
        return told


def require_program(name: str) -> None:
    """Skip the test that asks, or fail it under COTERIE_REQUIRE_CLIENTS=1, where there is no such client."""
    require_built(name, find_program(name))


def require_built(name: str, found: object) -> None:
    """Skip the test that asks, or fail it under COTERIE_REQUIRE_CLIENTS=1, if `found` is a reason."""
    if not isinstance(found, str):
        return
    message = f"{REASON}: {name}: {found}"
    if os.environ.get("COTERIE_REQUIRE_CLIENTS") == "1":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@functools.cache
def find_program(name: str) -> Program | str:
    """The client, built if need be, or why there is none; asked once per run."""
    return find_built(lambda: _BUILDERS[name](SOURCES / name))


def find_built(build: Callable[[], T]) -> T | str:
    """What `build` returns, or the reason why it cannot be built here, as one line."""
    try:
        return build()
    except (Unavailable, OSError, subprocess.TimeoutExpired) as error:
        return " ".join(str(error).split())[:300]


def _franz_go(source: Path) -> Program:
    go = on_path("go")
    home = cache_directory("franz_go", source / "main.go", source / "go.mod", source / "go.sum")

    def build(into: Path) -> None:
        run_build([go, "build", "-o", str(into / "program"), "."], source)

    return Program([str(built_once(home, build) / "program")])


def _kafkajs(source: Path) -> Program:
    node, npm = on_path("node"), on_path("npm")
    home = cache_directory("kafkajs", source / "package.json")

    def install(into: Path) -> None:
        shutil.copy(source / "package.json", into)
        run_build([npm, "install", "--no-package-lock", "--no-audit", "--no-fund"], into)

    modules = built_once(home, install) / "node_modules"
    return Program([node, str(source / "main.js")], {"NODE_PATH": str(modules)})


_BUILDERS: dict[str, Callable[[Path], Program]] = {"franz_go": _franz_go, "kafkajs": _kafkajs}


def on_path(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"no {name} on the PATH")
    return found


def cache_directory(name: str, *sources: Path) -> Path:
    """A directory for each state of the sources, so that a change never meets an old build."""
    named = os.environ.get("COTERIE_CLIENTS_CACHE")
    root = Path(named) if named else directories.cache_directory() / "clients"
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()
    return root / f"{name}-{digest[:12]}"


def built_once(home: Path, build: Callable[[Path], None]) -> Path:
    """Build beside the place and move there when whole; a lock lets two runs start at once."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            unfinished = home.with_suffix(".new")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            build(unfinished)
            unfinished.rename(home)
    return home


def copy_tree(source: Path, target: Path) -> None:
    """Copy a file or directory of the module cache, which is read-only, so that the copy can be deleted."""
    for each in [source, *sorted(source.rglob("*"))]:
        if each.is_file():
            copy = target / each.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(each, copy)


def run_build(command: list[str], directory: Path) -> None:
    run = subprocess.run(
        command,
        check=False,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_BUILD_TIMEOUT_S,
    )
    if run.returncode != 0:
        raise Unavailable(f"{' '.join(command[:2])} failed: {run.stdout}")
