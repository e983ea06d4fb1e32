"""`coterie --version`: one line, and a second one where there is no compiled code."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import coterie
from coterie import compiled
from coterie.cli.main import cli


@pytest.mark.usefixtures("native")
def test_the_version_is_one_line() -> None:
    done = CliRunner().invoke(cli, ["--version"])
    assert (done.exit_code, done.output) == (0, f"coterie, version {coterie.__version__}\n")


def test_without_compiled_code_the_version_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "native", None)
    done = CliRunner().invoke(cli, ["--version"])
    assert done.exit_code == 0
    assert "There is no compiled code: decoding is slower." in done.output
