"""`coterie pipeline`, also under spark-submit: what is refused, and how it ends. No Spark is started."""

from __future__ import annotations

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
from coterie.testing import EmbeddedCluster
from tests.unit.cli.conftest import Tool


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
        ("1h30m", timedelta(minutes=90)),
        ("36500d", timedelta(days=36_500)),
    ],
)
def test_durations(text: str, length: timedelta, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = played(monkeypatch)
    for arguments in (["compact", "--retention", text], ["plan", "--to", "p", "--idle", text]):
        done = CliRunner().invoke(command, [*arguments, "--out", "x"])
        assert done.exit_code == 0, done.output
        assert steps.asked[-1] == length


@pytest.mark.parametrize("arguments", ["compact --retention", "plan --to p --idle"])
def test_wrong_durations(arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch)
    assert "'90' is not a duration" in said(*arguments.split(), "90", "--out", "x")
    assert "is too long; the longest" in said(*arguments.split(), "36501d", "--out", "x")


WRITING = [
    *(
        f"pipeline {step} --out"
        for step in ("snapshot", "ingest", "build", "report", "run", "compact")
    ),
    "pipeline sql q --out",
    "pipeline report --out x --to",
    "pipeline plan --to p --out",
    "pipeline plan --out x --to",
    "simulate --groups 1 --hours 1 --out",
    "demo --no-spark --out",
]


@pytest.mark.parametrize("arguments", WRITING)
@pytest.mark.parametrize(
    "uri", ["s3a://bucket/x", "S3://bucket", "hdfs:/x", "dbfs:/x", "file://host/x", "file://"]
)
def test_a_uri_that_is_not_a_local_file_is_refused(
    arguments: str,
    uri: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It used to be created as a local directory of that name, with success."""
    played(monkeypatch)
    monkeypatch.chdir(tmp_path)
    assert run([*arguments.split(), uri]) == 2
    text = " ".join(capsys.readouterr().err.split())
    assert f"{uri} is not a local path" in text
    assert "Pass a path on this machine" in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:///data/my%20groups", "/data/my groups"),
        ("file:/data", "/data"),
        ("file://localhost/data", "/data"),
        ("a:b/c%20d", "a:b/c%20d"),
        ("./s3:/x", "s3:/x"),
    ],
)
def test_a_file_uri_is_a_path(text: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = played(monkeypatch)
    done = CliRunner().invoke(command, ["plan", "--out", text, "--to", text])
    assert done.exit_code == 0, done.output
    assert steps.asked[0] == Path(path)


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


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("table", "N\n1\n"),
        ("json", '[\n  {\n    "n": 1\n  }\n]\n'),
        ("jsonl", '{"n": 1}\n'),
        ("yaml", "- n: 1\n"),
        ("csv", "n\n1\n"),
        ("name", "1\n"),
    ],
)
def test_rows_have_every_format(form: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch)
    done = CliRunner().invoke(command, ["sql", "SELECT 1 AS n", "--out", "x", "-o", form])
    assert done.output == text


def test_columns_of_one_name_are_refused_where_one_would_be_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = played(monkeypatch)
    monkeypatch.setattr(steps, "sql", lambda *_: (["a", "b", "a"], [(1, 2, 3)]))
    query = ["pipeline", "sql", "SELECT a, b, a", "--out", "x", "-o"]
    assert run([*query, "table"]) == 0
    assert capsys.readouterr().out.split() == ["A", "B", "A", "1", "2", "3"]
    assert run([*query, "json"]) == 1
    said = capsys.readouterr().err
    assert "two columns are called 'a'" in said
    assert "name one of them with AS" in said


def test_the_columns_of_a_query_have_no_schema() -> None:
    assert "the columns depend on what is asked" in said("sql", "SELECT 1", "--format", "schema")


def test_a_snapshot_of_the_cluster_that_the_environment_or_an_option_names(
    world: EmbeddedCluster, tool: Tool, nowhere: Tool
) -> None:
    """Tables are written without Spark, so this connects and keeps what it finds."""
    step = ("pipeline", "snapshot", "--out")
    assert " groups" in tool(*step, "environment").stdout
    assert " groups" in nowhere("-b", world.bootstrap_servers, *step, "option").stdout
    refused = nowhere("-b", "localhost:1", "--timeout", "300ms", *step, "nothing")
    assert refused.returncode == 1
    assert "localhost:1" in refused.stderr
