"""`coterie pipeline`, also under spark-submit: what is refused, and how it ends. No Spark is started."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import pytest
from click.testing import CliRunner

from coterie.cli import pipeline as commands
from coterie.cli.main import run
from coterie.cli.pipeline import command
from coterie.spark import submit


class Played:
    """Steps that keep what they are asked for, or fail."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.asked: list[Any] = []
        self._error = error

    def __call__(self, out: Path, **_: object) -> Self:
        self.asked.append(out)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _keep(self, *given: Any) -> None:
        if self._error is not None:
            raise self._error
        self.asked.append(given[-1])

    build = compact = ingest = plan = snapshot = _keep

    def sql(self, *_: object) -> tuple[list[str], list[tuple[int]]]:
        return ["n"], [(1,)]


def played(monkeypatch: pytest.MonkeyPatch, error: BaseException | None = None) -> Played:
    steps = Played(error)
    monkeypatch.setattr(commands, "_steps", steps)
    return steps


def said(*arguments: str) -> str:
    """What is told of arguments that are wrong."""
    done = CliRunner().invoke(command, list(arguments))
    assert done.exit_code == 2, done.output
    return done.output


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("0s", timedelta()),
        ("36h", timedelta(hours=36)),
        ("007d", timedelta(days=7)),
        ("36500d", timedelta(days=36_500)),
    ],
)
def test_times(text: str, length: timedelta, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = played(monkeypatch)
    for arguments in (["compact", "--retention", text], ["plan", "--to", "p", "--idle", text]):
        done = CliRunner().invoke(command, [*arguments, "--out", "x"])
        assert done.exit_code == 0, done.output
        assert steps.asked[-1] == length


@pytest.mark.parametrize("text", ["", "d", "90", "²d", "٣d", "-1d", "1.5d", "90 d"])
def test_what_is_no_time(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch)
    assert "is no time; write 90d, 12w or 36h" in said("compact", "--out", "x", "--retention", text)


@pytest.mark.parametrize("text", ["36501d", "999999d", "9999999999999d", "9" * 5_000 + "s"])
def test_times_that_are_too_long(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch)
    for arguments in (["compact", "--retention", text], ["plan", "--to", "p", "--idle", text]):
        assert "is too long; a hundred years" in said(*arguments, "--out", "x")


@pytest.mark.parametrize("step", ["ingest", "run"])
def test_segments_have_no_client_to_set(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch)
    where = ("--segments", "disk", "--command-config", "client.properties", "--out", "x")
    assert "--command-config is for a cluster, and --segments needs none" in said(step, *where)


def test_without_a_cluster_the_options_that_there_are_get_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played(monkeypatch)
    assert "--segments" not in said("snapshot", "--out", "x")
    assert "say where: --bootstrap-server HOST:PORT, or --segments DIR" in said(
        "ingest", "--out", "x"
    )


def test_memory_of_a_driver_that_runs_already(monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    text = said("build", "--out", "x", "--driver-memory", "4g")
    assert "spark-submit has started the driver: give it --driver-memory instead" in text


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (OverflowError("date value out of range"), 1, "Error: OverflowError: date value out of"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
    ],
)
def test_spark_submit_ends_as_coterie_does(
    error: BaseException,
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    played(monkeypatch, error)
    arguments = ["build", "--out", "x"]
    ends = [(submit.main(arguments), capsys.readouterr().err)]
    ends.append((run(["pipeline", *arguments]), capsys.readouterr().err))
    assert ends[0] == ends[1]
    assert ends[0][0] == code
    assert ends[0][1].startswith(text)
    assert "Traceback" not in ends[0][1]


def test_spark_submit_gives_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = played(monkeypatch)
    monkeypatch.setattr("sys.argv", ["submit.py", "ingest", "--segments", "disk", "--out", "x"])
    assert submit.main() == 0
    assert steps.asked == [Path("x"), Path("disk")]
    assert submit.main(["ingest"]) == 2


@pytest.mark.parametrize("arguments", [["pipeline", "sql", "SELECT 1", "--out", "x"], ["--help"]])
def test_nobody_reads(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        assert run(arguments) == 141


def test_rows_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch)
    done = CliRunner().invoke(command, ["sql", "SELECT 1 AS n", "--out", "x", "-o", "json"])
    assert json.loads(done.output) == [{"n": 1}]
