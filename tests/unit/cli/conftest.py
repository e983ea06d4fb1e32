"""What tests of `coterie` share: a cluster with groups in every state, and a way to run the command."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest import mock

import pytest

from coterie.cli.main import main
from coterie.testing import EmbeddedCluster

COTERIE = str(Path(sys.executable).parent / "coterie")
#: Tabs, newlines, an escape sequence, marks of direction, a backslash, markup.
HOSTILE = "a\tb\nc\x1b[31md\u202e\u200fe\\x1b[red]=cmd()"

Tool = Callable[..., subprocess.CompletedProcess[str]]


def environment(home: Path, **more: str) -> dict[str, str]:
    """Nobody's configuration, and no terminal's."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    return kept | {
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_STATE_HOME": str(home / "state"),
        "LANG": "C.UTF-8",
        **more,
    }


def runner(home: Path, servers: str) -> Tool:
    """Runs `coterie` in this process, which is quicker; or, with `process=True`, as people do."""

    def run(
        *arguments: str, env: dict[str, str] | None = None, process: bool = False
    ) -> subprocess.CompletedProcess[str]:
        chosen = {"COTERIE_BOOTSTRAP_SERVERS": servers} if servers else {}
        given = environment(home, **chosen) | (env or {})
        if not process:
            return _inside(arguments, given, home)
        return subprocess.run(
            [COTERIE, *arguments],
            env=given,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=60,
            cwd=home,
        )

    return run


def _inside(
    arguments: Sequence[str], env: dict[str, str], home: Path
) -> subprocess.CompletedProcess[str]:
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, env, clear=True),
        contextlib.chdir(home),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main(list(arguments))
    code = ended.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="package")
def world() -> Iterator[EmbeddedCluster]:
    """Groups to look at. Tests that change something change groups of their own."""
    with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("orders", partitions=2)
        cluster.create_topic("payments", partitions=1)
        cluster.scene("lagging_group", "world-reports", lag=50)
        cluster.scene("empty_group", "world-audit", topic="payments", offset=0)
        cluster.scene("stale_group", "world-forgotten", days=90)
        cluster.scene("stale_group", HOSTILE, days=40)
        cluster.scene("stable_group", "world-billing", members=2)
        yield cluster


@pytest.fixture
def tool(world: EmbeddedCluster, tmp_path: Path) -> Tool:
    return runner(tmp_path, world.bootstrap_servers)


@pytest.fixture
def nowhere(tmp_path: Path) -> Tool:
    """The command, and no cluster named."""
    return runner(tmp_path, "")
